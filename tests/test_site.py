"""What the site is made of is up to date, and its dead links are found."""

from pathlib import Path

import pytest

import figures
import links
from pages import ROOT
from played import EXAMPLES

SCRIPTS = sorted(EXAMPLES.glob("*.py"))


def test_the_picture_is_the_one_that_the_script_draws() -> None:
    assert (ROOT / "docs" / "why.svg").read_text() == figures.why()


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_the_notebook_is_made_from_the_script(script: Path) -> None:
    """Its cells are those of the script, and each that prints or draws has done so."""
    notebooks = pytest.importorskip("notebooks", exc_type=ImportError)
    nbformat = pytest.importorskip("nbformat")
    path = notebooks.NOTEBOOKS / f"{script.stem}.ipynb"
    shown = nbformat.read(path, as_version=4)
    made = notebooks.notebook(script)
    assert [cell.source for cell in shown.cells] == [cell.source for cell in made.cells]
    outputs = [output for cell in shown.cells for output in cell.get("outputs", [])]
    assert {output.output_type for output in outputs} == {"stream", "display_data"}
    for cell in shown.cells:
        if cell.cell_type == "code" and "print(" in cell.source:
            assert cell.outputs, cell.source


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_an_example_is_short(script: Path) -> None:
    lines = script.read_text().splitlines()
    assert sum(not line.startswith("#") for line in lines) <= 115


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_an_example_begins_with_its_picture(script: Path) -> None:
    first = script.read_text().partition("# %%\n")[0]
    assert f"]({script.stem}.png)" in first
    assert f'savefig("{script.stem}.png"' in script.read_text()
    assert (ROOT / "docs" / "examples" / f"{script.stem}.png").exists()


def site(tmp_path: Path, **pages: str) -> Path:
    for name, page in pages.items():
        (tmp_path / f"{name}.html").write_text(page)
    return tmp_path


def test_links_that_lead_somewhere_are_fine(tmp_path: Path) -> None:
    one = '<a href="two.html#b">x</a><a href="#a">x</a><p id="a"><a href="https://x.y">'
    assert links.broken(site(tmp_path, one=one, two='<h1 id="b">')) == []


@pytest.mark.parametrize("dead", ["three.html", "two.html#c", "#c", "no.svg"])
def test_a_dead_link_is_found(tmp_path: Path, dead: str) -> None:
    one = f'<a href="{dead}">x</a>'
    assert links.broken(site(tmp_path, one=one, two="")) == [f"one.html: {dead}"]
