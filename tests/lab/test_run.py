"""One new file is a new row or a new column; whatever it does stops nothing else."""

import json
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from cachax.lab import (
    Matrix,
    Measured,
    Verdict,
    known_probes,
    known_strategies,
    probes,
    run,
    strategies,
)

Add = Callable[[str, str], None]


def adder(package: object, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Add:
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(folder)])

    def add(name: str, text: str) -> None:
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.py").write_text(textwrap.dedent(text))

    return add


@pytest.fixture
def add_strategy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Add:
    return adder(strategies, tmp_path / "strategies", monkeypatch)


@pytest.fixture
def add_probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Add:
    return adder(probes, tmp_path / "probes", monkeypatch)


NO_CACHE = '''\
    """No cache at all

    Computed at every read.
    """

    import dataclasses

    import jax

    from cachax.lab import Way, derive


    @dataclasses.dataclass
    class Foo:
        a: jax.Array
        c: jax.Array | None = None

        @property
        def b(self):
            return derive(self.a)


    jax.tree_util.register_dataclass(Foo, ["a", "c"], [])

    way = Way(Foo)
    '''
TEN_READS = '''\
    """Read ten times

    One computation is enough.
    """

    from cachax.lab import Measured, computations, numbers

    RANK = 5


    def measure(way):
        foo = way.new(numbers())
        with computations() as counted:
            for _ in range(10):
                got, foo = way.read(foo)
        return Measured(got, way.exact(numbers()), work=counted.total())
    '''


def test_a_strategy_and_a_probe_are_one_new_file_each(
    add_strategy: Add, add_probe: Add
) -> None:
    add_strategy("no_cache", NO_CACHE)
    add_probe("ten_reads", TEN_READS)
    assert known_strategies()["no_cache"].title == "No cache at all"
    order = list(known_probes())
    assert order.index("ten_reads") == order.index("order_use_read") + 1

    matrix = run(["no_cache", "functools_dataclass"], ["ten_reads", "replace"])
    found = {key: (cell.verdict, cell.work) for key, cell in matrix.cells.items()}
    assert found == {
        ("no_cache", "ten_reads"): (Verdict.RECOMPUTED, 10),
        ("no_cache", "replace"): (Verdict.RIGHT, None),
        ("functools_dataclass", "ten_reads"): (Verdict.RIGHT, 1),
        ("functools_dataclass", "replace"): (Verdict.RIGHT, None),
    }


def test_an_approach_without_its_own_has_plain_methods_and_functions(
    add_strategy: Add,
) -> None:
    add_strategy("no_cache", NO_CACHE)
    counts = {"method": 3, "function": 3, "checkpoint": 3, "replace_other": 3}
    counts["vmap_twice"] = 2  # each for the whole batch
    matrix = run(["no_cache"], counts)
    for probe, count in counts.items():
        cell = matrix.cells["no_cache", probe]
        assert (cell.verdict, cell.work) == (Verdict.RECOMPUTED, count), probe


def test_the_code_in_the_docs_is_the_code_under_test() -> None:
    page = (Path(__file__).parents[2] / "docs" / "lab.md").read_text()
    for text in (NO_CACHE, TEN_READS):
        assert textwrap.dedent(text) in page


def test_a_crash_fills_its_cell_and_stops_nothing(
    add_strategy: Add, add_probe: Add
) -> None:
    add_strategy("crashing", "this is no Python")
    add_strategy("missing", "import no_such_library")
    add_probe("killing", "import os\ndef measure(way): os.abort()")
    add_probe("leaving", "import os\ndef measure(way): os._exit(7)")
    add_probe("raising", "def measure(way): raise ValueError('line 1\\nline 2')")
    asked = ["killing", "leaving", "raising", "replace"]
    matrix = run(["crashing", "missing", "functools_dataclass"], asked)
    assert [
        matrix.cells["functools_dataclass", probe].what_happened for probe in asked
    ] == [
        "the process died: SIGABRT",
        "the process died: exit status 7",
        "ValueError: line 1",
        "the same as without a cache",
    ]
    assert matrix.cells["functools_dataclass", "raising"].details == "line 1\nline 2"
    for probe in asked:
        crashing, missing = (matrix.cells[s, probe] for s in ("crashing", "missing"))
        assert crashing.verdict is Verdict.ERROR
        assert crashing.what_happened.startswith("SyntaxError: invalid syntax")
        assert missing.verdict is Verdict.ABSENT
        assert missing.what_happened == "No module named 'no_such_library'"
    assert [s.name for s in matrix.ranked][-1] == "missing"


def test_what_a_strategy_prints_or_warns_of_does_not_matter(add_strategy: Add) -> None:
    add_strategy(
        "noisy",
        f"""\
        import os, sys, warnings
        print("to stdout"), os.write(1, b"straight to it"), print(sys.stderr)
        warnings.warn("loudly\\nand long")
        {textwrap.dedent(NO_CACHE).replace(chr(10), chr(10) + " " * 8)}
        """,
    )
    matrix = run(["noisy"], ["replace", "tree_map"])
    for cell in matrix.cells.values():
        assert (cell.verdict, cell.warned) == (Verdict.RIGHT, ("loudly",))


def test_every_cell_loads_its_strategy_again(add_strategy: Add, tmp_path: Path) -> None:
    loaded = tmp_path / "loaded"
    add_strategy(
        "remembering",
        textwrap.dedent(NO_CACHE)
        + f"""
assert "loaded" not in globals()
loaded = open({str(loaded)!r}, "a").write("loaded ")
""",
    )
    run(["remembering"], ["replace", "tree_map", "vmap"])
    assert loaded.read_text() == "loaded loaded loaded "


def test_a_probe_that_never_ends_fills_its_cell(
    add_probe: Add, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cachax.lab._apart.TOO_LONG", 10)
    add_probe("endless", "import time\ndef measure(way): time.sleep(1000)")
    matrix = run(["functools_dataclass"], ["endless"])
    found = [cell.what_happened for cell in matrix.cells.values()]
    assert found == ["the process died: SIGKILL (perhaps after 10 seconds)"]


def test_a_mistake_in_a_file_is_not_a_missing_library(add_strategy: Add) -> None:
    add_strategy("mistaken", "from cachax.lab import Wya")
    (cell,) = run(["mistaken"], ["replace"]).cells.values()
    assert cell.verdict is Verdict.ERROR
    assert cell.what_happened.startswith("ImportError: cannot import name 'Wya'")


def test_a_library_that_only_a_probe_needs_is_the_probes(
    add_probe: Add, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("rich")
    from cachax.lab._table import show

    add_probe("needy", "import no_such_library")
    show(run(["functools_dataclass"], ["needy", "order_use_use"]))
    assert "No module named 'no_such_library': needy\n" in capsys.readouterr().out


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(ValueError, match=r"nothing is named 'nope'\. Known: "):
        run(["nope"])


def test_an_impossible_count_is_not_a_success() -> None:
    with pytest.raises(ValueError, match="fewer than 1 is impossible"):
        Measured(1.0, 1.0, work=0).verdict  # noqa: B018 (the read is the test)
    assert Measured(1.0, [1.0, 1.0]).verdict is Verdict.WRONG


Told = list[tuple[str, str]]


@pytest.fixture(scope="module")
def measured() -> tuple[Matrix, Told]:
    told: Told = []
    matrix = run(
        ["functools_dataclass"],
        ["order_use_use", "tree_map"],
        lambda strategy, probe: told.append((strategy, probe)),
    )
    return matrix, told


def test_progress_is_reported_for_every_cell(measured: tuple[Matrix, Told]) -> None:
    matrix, told = measured
    assert len(told) == 2
    assert sorted(told) == sorted(matrix.cells)


def test_all_of_it_goes_into_json(measured: tuple[Matrix, Told]) -> None:
    matrix, _ = measured
    read = json.loads(json.dumps(matrix.to_dict()))
    assert read["versions"]["jax"]
    assert read["strategies"][0]["name"] == "functools_dataclass"
    assert "@functools.cached_property" in read["strategies"][0]["code"]
    assert read["probes"][0]["title"] == "Used in jit twice"
    cell, other = read["cells"]
    assert cell == {
        "strategy": "functools_dataclass",
        "probe": "order_use_use",
        "verdict": "recomputed",
        "what_happened": "2 computations; 1 is enough",
        "work": 2,
        "published": None,
        "disagrees": False,
        "warned": [],
        "details": "",
    }
    assert other["probe"] == "tree_map"


def test_titles_fit_where_they_are_shown() -> None:
    for entry in [*known_strategies().values(), *known_probes().values()]:
        assert 0 < len(entry.title) <= 60, entry.name
        assert entry.explanation, entry.name
    for entry in known_probes().values():
        assert len(entry.title) <= 40, entry.name
