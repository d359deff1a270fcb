"""What a report adds up to, how it is shown, and how two are compared."""

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cachax
from cachax._report.text import as_text

from models import Process


def process(shift: float = 0.0) -> Process:
    return Process(jnp.arange(4.0) + shift, jnp.ones(4))


def recorded(times: int = 3, title: str = "") -> cachax.Report:
    """A report of so many computations of one value."""
    with cachax.record(title=title) as report:
        for _ in range(times):
            process().factor  # noqa: B018
    return report


# How it is shown


def test_the_repr_of_a_report_is_one_line() -> None:
    use = cachax.jit(lambda p: p.weights)
    with cachax.record(title="a loop") as report:
        for _ in range(50):
            use(process())
    assert len(report.events) > 100
    shown = repr(report)
    assert shown.startswith("<Report 'a loop': 100 values computed")
    assert shown.endswith(" events; print it for the tables>")
    assert len(shown.splitlines()) == 1


def test_the_repr_of_an_explanation_is_its_text() -> None:
    explanation = cachax.explain(cachax.jit(lambda p: p.weights), process())
    assert repr(explanation) == str(explanation)
    assert len(str(explanation).splitlines()) < 20


def test_a_title_is_above_the_text_and_on_the_page() -> None:
    report = recorded(title="my <loop>")
    assert str(report).splitlines()[0] == "my <loop>"
    page = page_of(report)
    assert "<title>cachax: my &lt;loop&gt;</title>" in page
    assert "<h1>my &lt;loop&gt;</h1>" in page
    assert "<summary>my &lt;loop&gt;: 3 values" in report._repr_html_()


def test_without_a_title() -> None:
    report = recorded()
    assert str(report).startswith("3 values computed")
    assert "<h1>Report on cached values</h1>" in page_of(report)
    assert "<summary>3 values computed" in report._repr_html_()


def test_an_explanation_is_titled_by_its_function(tmp_path: Path) -> None:
    def predict(p: Any) -> Any:
        return p.weights

    explanation = cachax.explain(cachax.jit(predict), process())
    explanation.save(tmp_path / "page.html")
    assert "<h1>predict</h1>" in (tmp_path / "page.html").read_text()


def test_code_in_backticks_is_code_on_the_page() -> None:
    page = page_of(recorded())
    assert "<code>replace</code>" in page
    assert "`" not in re.sub(r"<(style|script).*?</\1>", "", page, flags=re.DOTALL)


def test_colours_are_those_of_the_stream() -> None:
    report = recorded()
    assert "\x1b[" in as_text(report, colour=True)
    assert "\x1b[" not in as_text(report, colour=False)


def page_of(report: cachax.Report) -> str:
    from cachax._report.page import page_of

    return page_of(report)


# Counts


def test_values_computed_inside_a_program_are_counted() -> None:
    """For objects that are new in every call, cachax computes inside the program."""
    use = cachax.jit(lambda p: p.weights)
    use(process())
    with cachax.record() as report:
        for i in range(30):
            use(process(i))
    (value, factor) = sorted(report.values, key=lambda v: v.name, reverse=True)
    assert (value.name, value.computed, value.reused) == ("Process.weights", 30, 0)
    assert 0 < value.inside < 30
    assert value.computed - value.inside == report.count("computed") / 2
    assert value.inline == 0
    assert factor.computed == value.computed
    assert report.fixes == []
    assert f"60 values computed ({2 * value.inside} inside a program)" in str(report)
    with cachax.record() as report:
        for i in range(5):
            use(process(i))
    assert {v.name: v.computed for v in report.values} == {
        "Process.weights": 5,
        "Process.factor": 5,
    }


# Advice


def test_a_step_under_jax_jit_is_to_be_put_under_cachax_jit() -> None:
    @jax.jit
    def step(p: Process, change: Any) -> Process:
        return dataclasses.replace(p, y=p.y + change)

    p = process()
    with cachax.record() as report:
        for _ in range(5):
            p = step(p, p.factor[0, 0])
    (fix,) = report.fixes
    assert fix.kind == "recomputed"
    assert fix.what == "Process.factor was computed 5 times from equal arrays"
    assert "If a `jax.jit` function returned them" in fix.instead
    assert "use `cachax.jit`" in fix.instead


def test_the_same_under_cachax_jit_has_nothing_to_fix() -> None:
    @cachax.jit
    def step(p: Process, change: Any) -> Process:
        return dataclasses.replace(p, y=p.y + change)

    p = process()
    with cachax.record() as report:
        for _ in range(5):
            p = step(p, p.factor[0, 0])
    assert report.fixes == []
    assert {v.name: v.computed for v in report.values} == {"Process.factor": 1}


def test_equal_results_from_different_arrays_are_not_to_be_fixed() -> None:
    class Sign(eqx.Module):
        x: jax.Array

        @cachax.cached_property
        def positive(self) -> jax.Array:
            return self.x > 0

    with cachax.record() as report:
        for i in range(5):
            Sign(jnp.float32(i + 1)).positive  # noqa: B018
    assert report.values[0].computed == 5
    assert report.fixes == []


# Memory


class Held(eqx.Module):
    x: jax.Array

    @cachax.cached_property
    def doubled(self) -> jax.Array:
        return 2 * self.x

    @cachax.cached_property
    def itself(self) -> tuple[jax.Array, jax.Array]:
        return self.x, self.x + 1

    @cachax.cached_method
    def times(self, n: int) -> jax.Array:
        return n * self.x


class OnTheHost:
    def __init__(self) -> None:
        self.x = np.ones(10)

    @cachax.cached_property
    def tripled(self) -> Any:
        return 3 * self.x


@cachax.cache
def squares_of_held(x: jax.Array) -> jax.Array:
    return x**2


def held(name: str) -> tuple[int, int]:
    """How many values there are of this name, and their bytes."""
    found = [(h.values, h.bytes) for h in cachax.memory().held if h.name == name]
    return found[0] if found else (0, 0)


def test_memory_by_class_and_property() -> None:
    one, other = Held(jnp.ones(100)), Held(jnp.ones(50))
    host = OnTheHost()
    assert held("Held.doubled") == (0, 0)
    one.doubled, other.doubled, one.itself, one.times(2), one.times(3), host.tripled
    squares_of_held(one.x)
    assert held("Held.doubled") == (2, 600)
    assert held("Held.itself") == (1, 400)  # without the array of its object
    assert held("Held.times") == (2, 800)
    assert held("OnTheHost.tripled") == (1, 80)
    assert held("squares_of_held") == (1, 400)
    cachax.clear(one, "times")
    del other, host
    assert held("Held.doubled") == (1, 400)
    assert held("Held.times") == (0, 0)
    assert held("OnTheHost.tripled") == (0, 0)
    text = str(cachax.memory())
    assert text == repr(cachax.memory())
    assert re.search(r"^Held\.doubled +1 +400 B$", text, re.MULTILINE)


def test_values_that_follow_arrays_are_counted_once() -> None:
    @cachax.jit
    def step(h: Held) -> Held:
        return dataclasses.replace(h, x=h.x)

    one = Held(jnp.ones(100))
    one.doubled  # noqa: B018
    objects = [one := step(one) for _ in range(5)]
    assert len(objects) == 5
    assert held("Held.doubled") == (1, 400)


def test_the_total_and_the_largest_first() -> None:
    one = Held(jnp.ones(100_000))
    one.doubled, one.times(2), one.times(3)
    memory = cachax.memory()
    assert memory.bytes == sum(h.bytes for h in memory.held)
    assert [h.name for h in memory.held][:2] == ["Held.times", "Held.doubled"]
    assert str(memory).splitlines()[-1].startswith("total")


def test_an_empty_cache_says_so() -> None:
    from cachax._report.memory import Memory

    assert str(Memory(())) == "The cache is empty."


def test_a_report_has_the_memory_at_its_end() -> None:
    one = Held(jnp.ones(100))
    with cachax.record() as report:
        one.doubled  # noqa: B018
        assert report.memory is None
    assert report.memory is not None
    assert ("Held.doubled", 400) in [(h.name, h.bytes) for h in report.memory.held]
    assert "In the cache at the end" in page_of(report)
    assert report.to_dict()["memory"]


# Two reports


def test_two_reports_compared() -> None:
    with cachax.record() as before:
        for _ in range(3):
            process().weights  # noqa: B018
    one = process()
    with cachax.record() as after:
        for _ in range(3):
            one.weights  # noqa: B018
        one.power(2)
    comparison = after.compare(before)
    rows = {c.name: (c.before.computed, c.after.computed) for c in comparison.changes}
    assert rows == {
        "Process.factor": (3, 1),
        "Process.weights": (3, 1),
        "Process.power(2)": (0, 1),
    }
    assert [c.name for c in comparison.more] == ["Process.power(2)"]
    more = {c.name for c in before.compare(after).more}
    assert more == {"Process.factor", "Process.weights"}
    lines = str(comparison).splitlines()
    assert lines[0].split() == ["value", "computed", "time", "reused", "inline"]
    weights = next(line for line in lines if line.startswith("Process.weights"))
    assert re.search(r"3 → 1 .*- → 2 +- → -$", weights)
    assert repr(comparison) == str(comparison)
    assert "<td>Process.weights</td>" in comparison._repr_html_()


def test_a_comparison_shows_values_that_plain_jit_computed_inside() -> None:
    def weights(process: Any) -> jax.Array:
        return process.weights  # type: ignore[no-any-return]

    with cachax.record() as before:
        jax.jit(weights)(process())
    with cachax.record() as after:
        cachax.jit(weights)(process())
    line = str(after.compare(before)).splitlines()[-1]
    assert re.search(r"^Process.weights +- → 1 .* 1 → -$", line)


def test_a_report_compared_with_a_saved_one() -> None:
    before = json.loads(json.dumps(recorded(3).to_dict()))
    comparison = recorded(1).compare(before)
    (change,) = comparison.changes
    assert (change.before.computed, change.after.computed) == (3, 1)


def test_equal_reports() -> None:
    assert str(recorded(0).compare(recorded(0))) == "No values in either report."


def test_what_is_not_a_report_is_refused() -> None:
    with pytest.raises(cachax.UsageError, match="a Report, or what `to_dict` returned"):
        recorded().compare({"events": []})


# Found in trials by new users


def test_what_changed_is_named_by_the_parameter() -> None:
    use = cachax.jit(lambda p, scale: p.weights * scale["a"])
    with cachax.record() as report:
        for scale in (1.0, jnp.float32(1), jnp.ones(4)):
            use(process(), scale={"a": scale})
    whys = [e.why for e in report.events if e.what.value == "compiled" and e.depth == 1]
    assert whys[1:] == [
        "scale['a'] changed from float to float32[]",
        "scale['a'] changed from float32[] to float32[4]",
    ]


@pytest.mark.parametrize(
    ("arguments", "instead"),
    [
        ([1, 2.0, jnp.float32(1), jnp.int32(1)], "give it the same dtype in every"),
        (
            [jnp.float32(1), jnp.asarray(1.0), jnp.int32(1), jnp.asarray(1)],
            "`jnp.asarray(x, dtype)` before the loop",
        ),
        ([jnp.ones(n) for n in (1, 2, 3)], "pad the array to one shape"),
        ([[1.0] * n for n in (1, 2, 3)], "keep the structure the same"),
    ],
    ids=["dtype", "weak type", "shape", "structure"],
)
def test_advice_for_a_function_that_is_compiled_again(
    arguments: list[Any], instead: str
) -> None:
    def use(x: Any) -> Any:
        return jax.tree.map(lambda x: x + 1, x)

    with cachax.record() as report:
        for x in arguments:
            cachax.jit(use)(x)
    (fix,) = report.fixes
    assert fix.kind == "recompiled"
    assert instead in fix.instead


def test_values_inside_a_program_are_in_the_headline_with_the_reason() -> None:
    @cachax.jit
    def loss(p: Process) -> Any:
        return jax.grad(lambda x: Process(x, p.y).factor.sum())(p.x)

    with cachax.record() as report:
        loss(process())
    lines = str(report).splitlines()
    assert lines[0] == "0 values computed, none reused, 1 traced into a program"
    (why,) = [line for line in lines if "Process.factor: " in line]
    assert why.endswith("Process.factor: the object is made inside the trace")
    assert lines[lines.index(why) - 1] == "inline"
    assert "<td>the object is made inside the trace</td>" in page_of(report)


def test_an_object_that_a_loop_carries_is_explained() -> None:
    @cachax.jit
    def loop(p: Process) -> Any:
        return jax.lax.scan(lambda p, _: (p, p.factor.sum()), p, None, length=3)

    text = " ".join(str(cachax.explain(loop, process())).split())
    assert "-> the object is made inside the body of a scan" in text
    assert "If it doesn't change, use it from outside the body" in text


def test_a_second_program_for_new_objects_is_not_to_be_fixed() -> None:
    use = cachax.jit(lambda p: p.weights)
    with cachax.record() as report:
        for i in range(12):
            use(process(i))
        use(Process(jnp.arange(5.0), jnp.ones(5)))
    whys = [e.why for e in report.events if e.what.value == "compiled" and e.depth == 1]
    assert whys[:2] == ["first call", "to compute values of new objects inside"]
    assert len(whys) > 2
    assert report.fixes == []


def test_a_function_that_was_compiled_before_the_recording() -> None:
    @cachax.jit
    def slope(p: Process) -> jax.Array:
        return jax.grad(lambda p: p.weights.sum())(p).x

    one = process()
    for words in ("traced into a program", "slope was compiled before the recording"):
        with cachax.record() as report:
            slope(one)
        assert words in str(report)
