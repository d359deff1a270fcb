"""cachax lab, as one types it, and what it writes."""

import dataclasses
import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from cachax.__main__ import main
from cachax.lab import Cell, Matrix, Verdict, known_probes, known_strategies
from cachax.lab._looks import LOOKS, sign
from cachax.lab._page import page
from cachax.lab._picture import picture

pytest.importorskip("rich")
Capture = pytest.CaptureFixture[str]
SVG = "{http://www.w3.org/2000/svg}"


def show(matrix: Matrix, capsys: Capture) -> str:
    from cachax.lab._table import show

    show(matrix)
    return capsys.readouterr().out


def test_it_can_be_run_as_a_module() -> None:
    command = [sys.executable, "-m", "cachax", "lab", "--list"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for entry in [*known_strategies().values(), *known_probes().values()]:
        assert re.search(rf"^  {entry.name} +{re.escape(entry.title)}$", shown, re.M)


@pytest.mark.parametrize(
    ("option", "name", "words"),
    [
        (
            "--strategy",
            "functools_flx",
            "nothing is named 'functools_flx'. Did you",
        ),
        ("--probe", "grad_war", "nothing is named 'grad_war'. Did you mean grad_warm?"),
        ("--probe", "zzz", "nothing is named 'zzz'. Known: "),
    ],
)
def test_an_unknown_name_is_refused_with_the_known_ones(
    option: str, name: str, words: str, capsys: Capture
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["lab", option, name])
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert words in error
    known = known_strategies() if option == "--strategy" else known_probes()
    assert ", ".join(known) in error


def test_a_file_that_cannot_be_written_is_refused_before_the_run(
    tmp_path: Path, capsys: Capture
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["lab", "--json", str(tmp_path / "no" / "file.json")])
    assert stopped.value.code == 2
    assert "No such file or directory" in capsys.readouterr().err


def test_without_rich_it_names_the_package_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setitem(sys.modules, "rich.console", None)
    with pytest.raises(SystemExit) as stopped:
        main(["lab"])
    assert stopped.value.code == 2
    assert "pip install 'cachax[lab]'" in capsys.readouterr().err


def test_chosen_cells_are_measured_reported_and_written(
    tmp_path: Path, capsys: Capture
) -> None:
    files = {kind: tmp_path / f"lab.{kind}" for kind in ("json", "html", "svg")}
    arguments = ["lab", "--strategy", "functools_dataclass", "--probe", "assign"]
    for kind, path in files.items():
        arguments += [f"--{kind}", str(path)]
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    words = "silently wrong: [56., 14.] instead of [56., 56.]"
    assert f"functools_dataclass, assign: {words}" in " ".join(shown.split())
    assert "1 of 1 cells are silently wrong" in shown
    (cell,) = json.loads(files["json"].read_text())["cells"]
    assert cell["verdict"] == "silently wrong"
    assert files["html"].read_text().startswith("<!doctype html>")
    assert ElementTree.parse(files["svg"]).getroot().tag == f"{SVG}svg"


def all_of_it() -> Matrix:
    """As large as the lab is, with the widest of cells."""
    whole = Matrix(list(known_strategies().values()), list(known_probes().values()))
    cell = Cell(Verdict.RIGHT, "100 computations", work=100)
    whole.cells = {
        (strategy.name, probe.name): cell
        for strategy in whole.strategies
        for probe in whole.probes
    }
    return whole


def test_the_table_fits_100_columns(capsys: Capture) -> None:
    lines = show(all_of_it(), capsys).splitlines()
    assert max(map(len, lines)) <= 100
    for name in known_strategies():
        assert any(line.startswith(f"{name} ") and "100" in line for line in lines)


def test_the_table_shows_counts_and_signs(matrix: Matrix, capsys: Capture) -> None:
    lines = [line.split() for line in show(matrix, capsys).splitlines() if line]
    rows = {first: rest for first, *rest in lines}
    assert rows["field"][:3] == ["2↻", "✗", "!"]
    assert rows["functools_flax"][:3] == ["2↻", "✓", "!"]
    assert rows["cachax_flax"] == ["1", "✓", "1", "0"]


def test_a_verdict_has_its_own_sign() -> None:
    assert len({look.sign for look in LOOKS.values()}) == len(Verdict)


def disagreeing(matrix: Matrix) -> Matrix:
    cells = dict(matrix.cells)
    cell = cells["field", "order_use_use"]
    cells["field", "order_use_use"] = dataclasses.replace(cell, published=1)
    return dataclasses.replace(matrix, cells=cells)


def test_agreement_with_the_published_counts_is_reported(
    matrix: Matrix, capsys: Capture
) -> None:
    assert "All 1 published counts hold here." in show(matrix, capsys)


def test_disagreement_is_pointed_out(matrix: Matrix, capsys: Capture) -> None:
    other = disagreeing(matrix)
    shown = show(other, capsys)
    assert "field, order_use_use: 2 computations on this JAX, published: 1" in shown
    assert "hold here" not in shown
    assert sign(other.cells["field", "order_use_use"]) == "2↻≠"
    assert "2↻≠" in shown
    assert "2↻≠" in picture(other)
    assert '"sign": "2\\u21bb\\u2260"' in page(other)


def test_the_picture_has_a_square_for_each_cell(matrix: Matrix) -> None:
    drawn = ElementTree.fromstring(picture(matrix))
    squares = [r for r in drawn.iter(f"{SVG}rect") if r.get("rx") == "4"]
    assert len(squares) == len(matrix.cells) + len(LOOKS)
    filled = [r for r in squares if r.get("fill") == LOOKS[Verdict.WRONG].fill]
    wrong = [c for c in matrix.cells.values() if c.verdict is Verdict.WRONG]
    assert len(filled) == len(wrong) + 1
    texts = [t.text for t in drawn.iter(f"{SVG}text")]
    for entry in [*matrix.strategies, *matrix.probes]:
        assert entry.title in texts


def test_the_picture_has_a_description(matrix: Matrix) -> None:
    title = ElementTree.fromstring(picture(matrix)).find(f"{SVG}title")
    assert title is not None
    assert re.fullmatch(
        r"3 approaches to caching by 4 probes, 1 cells silently wrong, on JAX [\d.]+",
        title.text or "",
    )


def test_data_cannot_end_the_page(matrix: Matrix) -> None:
    cells = dict(matrix.cells)
    evil = "</script><script>alert(1)</script><!--"
    cells["field", "closure"] = Cell(Verdict.ERROR, evil)
    drawn = page(dataclasses.replace(matrix, cells=cells))
    assert evil not in drawn
    assert drawn.count("</script>") == page(matrix).count("</script>")
