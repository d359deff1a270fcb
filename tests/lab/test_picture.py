"""The picture in the README is what the lab draws, with the pinned versions."""

import importlib.util
from pathlib import Path

import pytest

from cachax.lab import known_probes, known_strategies, run
from cachax.lab._picture import picture

ROOT = Path(__file__).parents[2]


def test_the_picture_is_that_of_a_run_now() -> None:
    """If not, look at what has changed and why, then `make picture`."""
    from importlib.metadata import version

    # JAX 0.12 differs in two cells of `jax.new_ref`. One version draws the picture.
    if f"on JAX {version('jax')}<" not in (ROOT / "docs" / "lab.svg").read_text():
        pytest.skip("the picture was drawn with another JAX")
    for peer in ("distrax", "lineax", "netket", "numpyro"):
        if importlib.util.find_spec(peer) is None:  # not imported: netket has effects
            pytest.skip(f"needs {peer}")
    drawn = (ROOT / "docs" / "lab.svg").read_text().splitlines()
    assert picture(run()).splitlines() == drawn


def test_the_readme_counts_right() -> None:
    assert (len(known_strategies()), len(known_probes())) == (26, 25)
    assert sum(name.startswith("cachax") for name in known_strategies()) == 4
    words = (
        "![Twenty-six ways of caching by twenty-five probes. The four rows of cachax"
    )
    assert words in (ROOT / "README.md").read_text()
