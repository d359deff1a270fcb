"""Bytes to text: encodings, line ends, notebooks."""

import json
from typing import Any

import pytest

from cachax.lint import Settings
from cachax.lint._run import Checked, check_source
from cachax.lint._source import UnreadableError, from_bytes

UPDATE = "import jax\nä = 'ß'; x.at[0].set(1)\n"


def check(filename: str, content: bytes) -> Checked:
    checked = check_source(from_bytes(filename, content), Settings(), None)
    assert checked.crash is None
    return checked


@pytest.mark.parametrize(
    "content",
    [
        UPDATE.encode(),
        b"\xef\xbb\xbf" + UPDATE.encode(),
        b"# -*- coding: latin-1 -*-\n" + UPDATE.encode("latin-1"),
        b"#!/usr/bin/python\n# vim: set fileencoding=cp1252 :\n"
        + UPDATE.encode("cp1252"),
        UPDATE.replace("\n", "\r\n").encode(),
        UPDATE.replace("\n", "\r").encode(),
        UPDATE.replace("\n", "\n\x0c", 1).encode(),
    ],
)
def test_every_encoding_and_line_end(content: bytes) -> None:
    (finding,) = check("a.py", content).findings
    assert finding.code == "CX401"
    assert finding.start.column == 10 + content.count(b"\x0c")


@pytest.mark.parametrize(
    "content",
    [b"\xff\xfe\x00", b"# coding: nonsense\n", b"x = '\xff'", b"# coding: utf-8\n\xff"],
)
def test_a_file_that_cannot_be_decoded_is_reported(content: bytes) -> None:
    with pytest.raises(UnreadableError, match="cannot be decoded"):
        from_bytes("a.py", content)


def notebook(*cells: str | list[str], kind: str = "code") -> bytes:
    content: list[dict[str, Any]] = [
        {"cell_type": "markdown", "source": "x.at[0].set(1)"},
        *({"cell_type": kind, "source": cell, "outputs": []} for cell in cells),
    ]
    return json.dumps({"cells": content, "nbformat": 4}).encode()


def places(content: bytes) -> list[str]:
    return [f"{f.code} {f.where}" for f in check("a.ipynb", content).findings]


def test_the_cells_of_a_notebook() -> None:
    update = ["x.at[0].set(1)\n", "x"]
    content = notebook(["import jax\n", "\n", *update], update)
    assert places(content) == ["CX401 a.ipynb:cell 2:3:1", "CX401 a.ipynb:cell 3:1:1"]


def test_what_a_cell_shows_at_its_end_is_not_thrown_away() -> None:
    assert places(notebook("import jax", "x = f()\nx.at[0].set(1)")) == []
    found = places(notebook("import jax", "if x:\n    x.at[0].set(1)"))
    assert found == ["CX401 a.ipynb:cell 3:2:5"]


def test_names_are_shared_by_cells() -> None:
    content = notebook(
        "import functools, equinox as eqx, jax.numpy as jnp",
        "class Foo(eqx.Module):\n    @functools.cached_property\n"
        "    def b(self):\n        return jnp.ones(3)",
    )
    checked = check("a.ipynb", content)
    assert [(f.code, f.where, f.fix) for f in checked.findings] == [
        ("CX101", "a.ipynb:cell 3:2:6", None)
    ]


@pytest.mark.parametrize(
    "magic",
    [
        "%matplotlib inline",
        "!pip install jax",
        "?x",
        "x?",
        "x??",
        "files = !ls",
        "t = %timeit -o f()",
        "if x:\n    %time f()",
        "for i in y:\n    !echo $i",
    ],
)
def test_magics_are_skipped(magic: str) -> None:
    found = places(notebook(f"import jax\n{magic}\nx.at[0].set(1)\nx"))
    line = 3 + magic.count("\n")
    assert found == [f"CX401 a.ipynb:cell 2:{line}:1"]


def test_cells_of_other_languages_are_skipped() -> None:
    assert places(notebook("import jax", "%%bash\nx.at[0].set(1)")) == []
    found = places(notebook("import jax", "%%time\nx.at[0].set(1)\nx"))
    assert found == ["CX401 a.ipynb:cell 3:2:1"]


def test_a_cell_that_does_not_parse_is_reported_and_the_rest_checked() -> None:
    found = places(notebook("import jax\n\nx = (", "x.at[0].set(1)\nx"))
    assert found == ["CX001 a.ipynb:cell 2:3:5", "CX401 a.ipynb:cell 3:1:1"]


@pytest.mark.parametrize("content", [b"{", b"[]", b"{}", b'{"cells": 3}', b"\xff"])
def test_a_file_that_is_not_a_notebook_is_reported(content: bytes) -> None:
    with pytest.raises(UnreadableError):
        from_bytes("a.ipynb", content)


def test_too_deep_nesting_is_reported() -> None:
    with pytest.raises(UnreadableError, match="nested too deeply"):
        from_bytes("a.ipynb", b"[" * 100_000)
    deep = "import jax\nx = " + "(" * 10_000
    (finding,) = check("a.py", deep.encode()).findings
    assert finding.code == "CX001"
