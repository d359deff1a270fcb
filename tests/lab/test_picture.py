"""The pictures in the README are what the lab draws, with the pinned versions."""

import importlib.util
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from cachax.lab import Cell, Matrix, Verdict, known_probes, known_strategies, run
from cachax.lab._picture import picture
from cachax.lab._summary import COLUMNS, ROWS, summary

ROOT = Path(__file__).parents[2]


def test_the_picture_is_that_of_a_run_now() -> None:
    """If not, look at what has changed and why, then `make picture`."""
    from importlib.metadata import version

    # JAX 0.12 differs in two cells of `jax.new_ref`. One version draws the picture.
    if f"on JAX {version('jax')}<" not in (ROOT / "docs" / "lab.svg").read_text():
        pytest.skip("the picture was drawn with a different JAX")
    for peer in ("distrax", "lineax", "netket", "numpyro"):
        if importlib.util.find_spec(peer) is None:  # not imported: netket has effects
            pytest.skip(f"needs {peer}")
    matrix = run()
    for name, draw in (("lab.svg", picture), ("lab-small.svg", summary)):
        drawn = (ROOT / "docs" / name).read_text().splitlines()
        assert draw(matrix).splitlines() == drawn


def test_the_counts_in_the_readme_are_correct() -> None:
    assert (len(known_strategies()), len(known_probes())) == (26, 26)
    assert "26 approaches by 26 probes" in (ROOT / "README.md").read_text()
    assert f"{len(ROWS)} approaches to caching by" in (ROOT / "README.md").read_text()


def test_the_summary_has_a_square_for_each_cell_and_the_worst_in_it() -> None:
    cells = {
        (strategy, probe): Cell(Verdict.RIGHT, "fine", work=1)
        for strategy in known_strategies()
        for probe in known_probes()
    }
    cells["field", "tree_map"] = Cell(Verdict.WRONG, "stale")
    cells["field", "assign"] = Cell(Verdict.ERROR, "refused")
    entries = [*known_strategies().values()], [*known_probes().values()]
    drawn = summary(Matrix(*entries, cells))
    assert drawn.count('<rect class="') == len(ROWS) * len(COLUMNS) + 4 + 1
    assert drawn.count('<rect class="silently-wrong"') == 2  # with the legend
    assert drawn.count('<rect class="error"') == 1
    ElementTree.fromstring(drawn)
