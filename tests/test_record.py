"""What a recording tells, by its words and numbers."""

import contextlib
import dataclasses
import json
import subprocess
import sys
import threading
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cachax
from cachax._core.computed import Computed
from cachax._core.property import cached_property
from cachax._jit.call import Function

from cases import fresh, over
from families import FAMILIES, Family
from models import Process


@dataclass
class Loose:
    x: Any
    y: Any

    @cachax.cached_property
    def total(self) -> Any:
        return jnp.sum(self.x)


jax.tree_util.register_dataclass(Loose, data_fields=["x", "y"], meta_fields=[])


def process() -> Process:
    return Process(jnp.arange(4.0), jnp.ones(4))


def what_happened(report: cachax.Report) -> list[tuple[str, str]]:
    return [(event.name, event.what.value) for event in report.events]


def whys(report: cachax.Report, what: str) -> list[str]:
    return [event.why for event in report.events if event.what.value == what]


# Events


def test_made_inside_of_arrays_alone() -> None:
    @cachax.jit
    def made(x: Any) -> Any:
        return Loose(x, x).total

    with cachax.record() as report:
        made(jnp.ones(3))
    assert whys(report, "inline") == ["the object is made inside the trace"]


def test_computed_and_hit() -> None:
    one = process()
    with cachax.record() as report:
        one.weights, one.weights, one.power(2), one.power(2)
    events = [pair for pair in what_happened(report) if pair[1] != "compiled"]
    assert events == [
        ("Process.factor", "computed"),
        ("Process.weights", "computed"),
        ("Process.weights", "hit"),
        ("Process.power(2)", "computed"),
        ("Process.power(2)", "hit"),
    ]
    factor, weights, hit, *_ = [e for e in report.events if e.what.value != "compiled"]
    assert factor.bytes == 64
    assert weights.bytes == hit.bytes == 16
    assert (factor.depth, weights.depth) == (1, 0)
    assert weights.seconds >= factor.seconds > 0
    assert weights.own_seconds < weights.wall_seconds
    assert weights.object == 1
    assert weights.thread == threading.current_thread().name


def test_the_line_is_the_users() -> None:
    one = process()
    with cachax.record() as report:
        one.weights  # noqa: B018
    factor, weights = (e for e in report.events if e.what.value == "computed")
    assert weights.where.function == "test_the_line_is_the_users"
    assert factor.where.function == "weights"
    assert str(weights.where).startswith("test_record.py:")


def test_a_line_of_a_notebook_is_that_of_its_cell() -> None:
    """The file of a cell has a number for a name, which is of no use to a reader."""
    pytest.importorskip("IPython")
    cells = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_cell("import cachax, types")
shell.run_cell('''
class Two:
    @cachax.cached_property
    def value(self):
        return 2
''', store_history=True)
shell.run_cell("with cachax.record() as report:\\n    Two().value", store_history=True)
shell.run_cell("print(report.events[0].where)")
"""
    told = subprocess.check_output([sys.executable, "-c", cells], text=True)
    assert told.strip() == "In[2]:2"


def test_passed_in_warm_and_cold() -> None:
    use, one = cachax.jit(lambda p: p.weights + p.y), process()
    with cachax.record() as report:
        for _ in range(5):  # the last ones on the shortest path
            use(one)
    assert report.count("passed in") == 5
    assert report.count("called") == 5
    assert report.count("computed") == 2
    assert whys(report, "traced") == ["to determine which values it uses", "first call"]
    assert [
        e.why
        for e in report.events
        if e.name.endswith("<lambda>") and e.what.value == "compiled"
    ] == ["first call"]


@pytest.mark.parametrize("path", ["list", "dict", "rebuilt", "new"])
def test_passed_in_on_every_path(path: str) -> None:
    def ask(p: Any) -> Any:
        (one,) = jax.tree.leaves(p, is_leaf=lambda x: isinstance(x, Process))
        return one.weights

    use, one = cachax.jit(ask), process()
    arguments = {
        "list": lambda: [one],
        "dict": lambda: {"p": one},
        "rebuilt": lambda: dataclasses.replace(one, y=one.y),
        "new": process,
    }[path]
    with cachax.record() as report:
        for _ in range(20):
            use(arguments())
    carried = [e for e in report.events if e.name == "Process.weights"]
    there = [e for e in carried if e.what.value in ("passed in", "computed inside")]
    assert len(there) == 20
    if path == "new":
        assert "a new object: computed inside" in there[-1].why
        assert whys(report, "inline") == []
        assert {fix.kind for fix in report.fixes} == {"recomputed"}


def test_a_value_taken_over_and_passed_in_is_reused_once() -> None:
    use, one = cachax.jit(lambda p: p.factor), process()
    with cachax.record() as report:
        use(one)
        use(dataclasses.replace(one, y=one.y + 1))
    (factor,) = report.values
    assert (factor.computed, factor.reused) == (1, 1)


def test_returned() -> None:
    grown = cachax.jit(lambda p: cachax.warm(Process(p.x + 1, p.y), "weights"))
    with cachax.record() as report:
        grown(process())
    assert report.count("returned") == 2
    assert "returned its object" in whys(report, "returned")[0]
    assert set(whys(report, "inline")) == {"the object is made inside the trace"}


def test_known_from_a_different_object() -> None:
    one = process()
    one.factor  # noqa: B018
    with cachax.record() as report:
        dataclasses.replace(one, y=2 * one.y).weights  # noqa: B018
    assert ("Process.factor", "known") in what_happened(report)
    assert whys(report, "known") == ["the arrays it came from are the same"]


def test_a_field_that_changed_is_named() -> None:
    one = Loose(jnp.ones(3), jnp.ones(3))
    with cachax.record() as report:
        one.total  # noqa: B018
        one.x = jnp.zeros(3)
        one.total  # noqa: B018
    assert whys(report, "dropped") == ["x was assigned"]
    assert whys(report, "computed")[1] == "a field was assigned: x"


def test_cleared() -> None:
    one = process()
    with cachax.record() as report:
        one.factor  # noqa: B018
        cachax.clear(one)
        one.factor  # noqa: B018
    assert whys(report, "dropped") == ["cleared"]
    assert whys(report, "computed")[1] == "it was cleared, or can't be cached"


# Why inside


def test_why_inline() -> None:
    one = process()
    batch = jax.tree.map(lambda x: jnp.stack([x, x]), one)

    def sum_of(p: Any) -> Any:
        return jnp.sum(p.factor)

    cases = {
        "`jax.jit` of sum_of drops cached values: use `cachax.jit`": (
            jax.jit(sum_of),
            one,
        ),
        "a property of one example under `vmap`; `cachax.vmap` computes it once for "
        "the batch": (
            jax.vmap(sum_of),
            batch,
        ),
        "differentiated with respect to its object": (jax.grad(sum_of), one),
        "`jax.checkpoint` drops cached values: use `cachax.lift(jax.checkpoint)`": (
            jax.checkpoint(sum_of),
            one,
        ),
        "the object is made inside the body of a scan. If it doesn't change, use it "
        "from outside the body instead of passing it in.": (
            lambda p: jax.lax.scan(
                lambda c, x: (c, sum_of(Process(c, x))), p.x, jnp.ones((2, 4))
            ),
            one,
        ),
    }
    for why, (fun, argument) in cases.items():
        with cachax.record() as report:
            fun(argument)
        assert whys(report, "inline") == [why]


def test_a_value_that_cannot_be_passed_in() -> None:
    @jax.tree_util.register_dataclass
    @dataclass(frozen=True)
    class Closing:
        x: Any

        @cachax.cached_property
        def shift(self) -> Any:
            x = self.x
            return lambda q: q + x

    with cachax.record() as report:
        cachax.jit(lambda c: c.shift(1.0))(Closing(jnp.ones(2)))
    assert any("can't pass this value" in why for why in whys(report, "inline"))


# Why traced again


def test_what_caused_a_trace() -> None:
    one = process()
    use = cachax.jit(lambda ps, q: sum(p.weights.sum() for p in ps) * q)
    calls = [
        ([one] * 3, jnp.ones(2)),
        ([one] * 4, jnp.ones(2)),
        ([one] * 4, jnp.ones(3)),
        ([one] * 4, jnp.ones(3, int)),
        ([one] * 4, {"q": jnp.ones(3)}["q"]),
        ([one] * 2, jnp.ones(3)),
    ]
    with cachax.record() as report:
        for ps, q in calls:
            use(ps, q)
    causes = [
        w for w in whys(report, "traced") if w != "to determine which values it uses"
    ]
    assert causes == [
        "first call",
        "structure changed: the list ps grew from 3 to 4",
        "q changed from float32[2] to float32[3]",
        "q changed from float32[3] to int32[3]",
        "structure changed: the list ps shrank from 4 to 2",
    ]


# Sums


def test_what_it_adds_up_to() -> None:
    one = process()
    use = cachax.jit(lambda p: p.weights)
    with cachax.record() as report:
        for _ in range(4):
            use(one)
        one.weights  # noqa: B018
    values = {value.name: value for value in report.values}
    weights = values["Process.weights"]
    assert (weights.computed, weights.reused, weights.inline, weights.bytes) == (
        1,
        4,  # the first call is the one it was computed for
        0,
        16,
    )
    once = next(
        e.seconds
        for e in report.events
        if e.what.value == "computed" and e.name == "Process.weights"
    )
    assert weights.saved == pytest.approx(4 * once)
    (function,) = report.functions
    assert (function.calls, function.traces, function.compilations) == (4, 2, 1)
    assert "2 values computed" in str(report)
    assert "Process.weights" in str(report)


def test_what_to_fix() -> None:
    plain = jax.jit(lambda p: p.factor)
    use = cachax.jit(lambda ps: sum(p.weights.sum() for p in ps))
    one = process()
    with cachax.record() as report:
        plain(one)
        for _ in range(3):
            process().weights  # noqa: B018
        for n in (1, 2, 3):
            use([one] * n)
    said = {fix.what: fix.instead for fix in report.fixes}
    assert said["Process.factor is computed inside the program, each time it runs"] == (
        "`jax.jit` of <lambda> drops cached values: use `cachax.jit`"
    )
    repeated = "Process.weights was computed 4 times from equal arrays"
    assert "make the object once" in said[repeated]
    assert any("was compiled 3 times: structure changed" in what for what in said)
    costs = [fix.seconds for fix in report.fixes]
    assert costs == sorted(costs, reverse=True)
    text = str(report)
    assert "what to fix" in text
    assert all(len(line) <= 100 for line in text.splitlines())


def test_nothing_to_fix() -> None:
    use, one = cachax.jit(lambda p: p.weights), process()
    with cachax.record() as report:
        use(one), use(one)
    assert report.fixes == []
    assert "what to fix" not in str(report)


def test_what_depends_on_what() -> None:
    one = process()
    with cachax.record() as report:
        one.weights  # noqa: B018
    assert report.dependencies() == {
        "Process": {"factor": ["x"], "weights": ["x", "y", "factor"]}
    }


def test_as_json() -> None:
    one = process()
    with cachax.record() as report:
        cachax.jit(lambda p: p.weights)(one)
    read = json.loads(json.dumps(report.to_dict()))
    assert {e["what"] for e in read["events"]} >= {"computed", "passed in", "called"}
    assert read["values"][0]["name"].startswith("Process.")
    assert read["dependencies"]["Process"]["factor"] == ["x"]


def test_in_a_notebook_and_as_a_page(tmp_path: Any) -> None:
    one = process()
    with cachax.record() as report:
        cachax.jit(lambda p: p.weights)(one)
    assert "<details>" in report._repr_html_()
    report.save(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "<svg" in page
    assert "What Process is computed from" in page
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")


# Nothing is left switched on, nothing is lost


ORIGINALS = {
    (cls, name): vars(cls)[name]
    for cls, name in [
        (cached_property, "__get__"),
        (Computed, "evaluate"),
        (Function, "call"),
    ]
}


def is_off() -> bool:
    return all(vars(cls)[name] is fun for (cls, name), fun in ORIGINALS.items())


def test_off_it_is_not_there() -> None:
    assert is_off()
    with cachax.record():
        assert not is_off()
    assert is_off()


def test_after_an_error_the_report_has_the_earlier_events() -> None:
    one = process()
    with contextlib.suppress(ZeroDivisionError), cachax.record() as report:
        one.factor  # noqa: B018
        _ = 1 / 0
    assert is_off()
    assert report.count("computed") == 1


def test_a_body_that_raises() -> None:
    class Failing:
        @cachax.cached_property
        def value(self) -> Any:
            raise ValueError("mine")

    failing, one = Failing(), process()
    with cachax.record() as report:
        with pytest.raises(ValueError, match="mine"):
            failing.value  # noqa: B018
        one.factor  # noqa: B018
    assert [e.depth for e in report.events if e.what.value == "computed"] == [0]


def test_recordings_within_recordings() -> None:
    one = process()
    with cachax.record() as outer:
        one.factor  # noqa: B018
        with cachax.record() as inner:
            one.weights  # noqa: B018
        one.weights  # noqa: B018
    assert is_off()
    assert (inner.count("computed"), inner.count("hit")) == (1, 1)
    assert (outer.count("computed"), outer.count("hit")) == (2, 2)


def test_several_threads() -> None:
    use = cachax.jit(lambda p: p.weights)
    use(process())
    with cachax.record() as report:
        threads = [
            threading.Thread(
                target=lambda: [use(p) for p in [process()] * 3], name=f"t{i}"
            )
            for i in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert is_off()
    assert report.count("called") == 12
    assert {e.thread for e in report.events if e.what.value == "called"} == {
        "t0",
        "t1",
        "t2",
        "t3",
    }


@over(FAMILIES)
def test_every_family(family: Family) -> None:
    obj = fresh(family)
    with cachax.record() as report:
        for _ in range(3):
            obj.scaled  # noqa: B018
    assert (report.count("computed"), report.count("hit")) == (2, 2)
    assert f"{family.name}.scaled" in str(report)


def test_values_are_the_same_as_without_a_recording() -> None:
    one = process()
    expected = np.asarray(cachax.jit(lambda p: p.weights * 2)(one))
    with cachax.record():
        got = cachax.jit(lambda p: p.weights * 2)(process())
    np.testing.assert_array_equal(got, expected)


def test_spans_have_the_names_of_the_properties(tmp_path: Any) -> None:
    with jax.profiler.trace(str(tmp_path)):
        process().weights  # noqa: B018
    (written,) = tmp_path.rglob("*.xplane.pb")
    spans = written.read_bytes()
    assert b"Process.factor" in spans
    assert b"Process.weights" in spans
