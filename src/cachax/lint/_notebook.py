"""Notebooks: their code cells as one text, the magics of IPython taken out."""

import json
import re
from dataclasses import dataclass
from typing import Any

_MAGIC_LINE = re.compile(r"^(\s*)(?:[%!?].*|[\w.]+\?\??\s*)$")
_MAGIC_VALUE = re.compile(r"^(\s*[\w.,\s]+=\s*)[%!].*$")
# These run the rest of their cell as the Python it is; any other may do what it likes.
_PYTHON_CELLS = ("%%time", "%%timeit", "%%capture", "%%prun")


@dataclass(frozen=True)
class Cell:
    """A code cell: its number in the notebook, and the line where its code begins."""

    number: int
    first_line: int


def code_cells(content: str) -> tuple[str, tuple[Cell, ...]]:
    """The code of a notebook, and which line belongs to which cell.

    >>> cell = {"cell_type": "code", "source": ["%pip install x\\n", "y = 1"]}
    >>> code_cells(json.dumps({"cells": [cell]}))
    ('pass\\ny = 1\\n', (Cell(number=1, first_line=1),))
    """
    text: list[str] = []
    cells: list[Cell] = []
    for number, code in enumerate(_sources(json.loads(content)), start=1):
        if code is not None:
            cells.append(Cell(number, len(text) + 1))
            text += _without_magics(code)
    return "".join(f"{line}\n" for line in text), tuple(cells)


def _sources(notebook: Any) -> list[str | None]:
    """The code of each cell; None for one that holds no Python."""
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells"), list):
        raise json.JSONDecodeError("it has no list of cells", "", 0)
    return [_code(cell) for cell in notebook["cells"]]


def _code(cell: Any) -> str | None:
    if not isinstance(cell, dict) or cell.get("cell_type") != "code":
        return None
    source = cell.get("source", "")
    code = "".join(map(str, source)) if isinstance(source, list) else str(source)
    first = code.lstrip().partition("\n")[0].split()
    if first and first[0].startswith("%%") and first[0] not in _PYTHON_CELLS:
        return None
    return code


def _without_magics(code: str) -> list[str]:
    lines = re.split(r"\r\n|\r|\n", code)
    lines = [_MAGIC_LINE.sub(r"\1pass", line) for line in lines]
    return [_MAGIC_VALUE.sub(r"\1None", line) for line in lines]
