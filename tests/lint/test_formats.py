"""How findings are written."""

import json
import re
from dataclasses import replace

from cachax.lint import Edit, Finding, Fix, Place, Severity, known_rules
from cachax.lint._source import from_bytes
from cachax.lint.formats import FORMATS, text

FIX = Fix("Use it", (Edit(Place(3, 6), Place(3, 9), "cachax"),))
ERROR = Finding(
    "dir/a,b.py",
    Place(3, 5),
    Place(4, 7),
    "CX102",
    "cached-property-on-nnx-module",
    Severity.ERROR,
    "100% `wrong`:\nsee",
    FIX,
)
NOTE = Finding(
    "n.ipynb",
    Place(1, 1),
    Place(1, 2),
    "CX101",
    "cached-property-on-pytree",
    Severity.INFORMATION,
    "perhaps",
    cell=2,
)


def test_text_of_files_that_cannot_be_read() -> None:
    for render in (text.render, text.concise):
        assert render([ERROR, NOTE]) == (
            "dir/a,b.py:3:5: CX102 [*] 100% `wrong`:\nsee\n"
            "n.ipynb:cell 2:1:1: CX101 perhaps (information)\n"
            "Found 1 error, 1 note.\n"
            "[*] 1 fixable with `--fix`.\n"
        )
        assert render([]) == "All checks passed!\n"
        assert render([], quiet=True) == ""


def framed(code: str, start: Place, end: Place, cell: int | None = None) -> list[str]:
    filename = "a.py" if cell is None else "n.ipynb"
    source = from_bytes(filename, code.encode())
    finding = replace(NOTE, filename=filename, start=start, end=end, cell=cell)
    return text.render([finding], quiet=True, stdin=source).splitlines()[1:-1]


def test_the_frame_marks_the_subject_of_the_finding() -> None:
    code = "\n\n\tx = f(1)\r\n\nz\n"
    assert framed(code, Place(3, 6), Place(3, 10)) == [
        "  |",
        "3 |     x = f(1)",
        "  |         ^^^^",
        "4 |",
        "5 | z",
        "  |",
    ]


def test_the_frame_of_several_lines_marks_the_first() -> None:
    shown = framed("f(\n  1,\n)\n\n\n\n", Place(1, 1), Place(3, 2))
    assert shown == ["  |", "1 | f(", "  | ^^", "2 |   1,", "3 | )", "  |"]


def test_the_frame_of_a_notebook_is_its_cell() -> None:
    cells = [{"cell_type": "code", "source": text} for text in ("a = 1\nb", "c\nd")]
    code = json.dumps({"cells": cells})
    shown = framed(code, Place(1, 1), Place(1, 2), cell=2)
    assert shown == ["  |", "1 | c", "  | ^", "2 | d", "  |"]


def test_wide_characters_are_counted_as_terminals_show_them() -> None:
    (_, _, marks, _) = framed("x = '\u4f60', y", Place(1, 10), Place(1, 11))
    assert marks == "  |           ^"


def test_a_long_line_is_cut_around_the_mark() -> None:
    (_, code, marks, _) = framed(
        "x" * 5000 + "!" + "x" * 5000, Place(1, 5001), Place(1, 5002)
    )
    assert len(code) < 120
    assert code[marks.index("^")] == "!"


def test_json() -> None:
    first, second = json.loads(FORMATS["json"]([ERROR, NOTE]))
    assert first == {
        "filename": "dir/a,b.py",
        "cell": None,
        "line": 3,
        "column": 5,
        "end_line": 4,
        "end_column": 7,
        "code": "CX102",
        "name": "cached-property-on-nnx-module",
        "severity": "error",
        "message": "100% `wrong`:\nsee",
        "fix": {
            "message": "Use it",
            "edits": [
                {
                    "start": {"line": 3, "column": 6},
                    "end": {"line": 3, "column": 9},
                    "text": "cachax",
                }
            ],
        },
    }
    assert (second["cell"], second["fix"]) == (2, None)
    assert json.loads(FORMATS["json"]([])) == []


def test_github() -> None:
    first, second = FORMATS["github"]([ERROR, NOTE]).splitlines()
    assert first == (
        "::error file=dir/a%2Cb.py,line=3,endLine=4,col=5,"
        "title=CX102 cached-property-on-nnx-module::"
        "dir/a,b.py:3:5: CX102 100%25 `wrong`:%0Asee"
    )
    assert second.startswith("::notice file=n.ipynb,line=1,")


def test_sarif() -> None:
    log = json.loads(FORMATS["sarif"]([ERROR, NOTE]))
    (run,) = log["runs"]
    rules = {rule["id"]: rule for rule in run["tool"]["driver"]["rules"]}
    assert list(rules) == list(known_rules())
    assert re.search("nnx", rules["CX102"]["help"]["markdown"])
    first, second = run["results"]
    assert (log["version"], first["ruleId"], first["level"]) == (
        "2.1.0",
        "CX102",
        "error",
    )
    place = first["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "dir/a,b.py"}
    assert place["region"] == {
        "startLine": 3,
        "startColumn": 5,
        "endLine": 4,
        "endColumn": 7,
    }
    change = first["fixes"][0]["artifactChanges"][0]
    assert change["replacements"][0]["insertedContent"] == {"text": "cachax"}
    assert second["level"] == "note"
    assert "fixes" not in second
