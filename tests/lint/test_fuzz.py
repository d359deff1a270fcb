"""Any text at all: no crash, no hang, and a fix that parses and is made once."""

import ast
import json
import warnings
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, example, given, settings

from cachax.lint import Settings, Source, known_rules
from cachax.lint._run import Checked, check_source
from cachax.lint._source import UnreadableError, from_bytes

from linted import IMPORTS, code_in

EXAMPLES = [
    code_in(rule, section)
    for rule in known_rules().values()
    for section in ("Example", "Use instead")
]
LINES = sorted({line for text in [IMPORTS, *EXAMPLES] for line in text.split("\n")})
WORDS = sorted({word for line in LINES for word in line.split()})
LESS = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


def check(source: Source) -> None:
    """All that must hold of any text."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = check_source(source, Settings(), None)
        fixed = check_source(source, Settings(), None, fix=True)
    assert found.crash is None
    assert fixed.crash is None
    _places_are_in_the_text(found, source)
    if fixed.fixed is not None:
        ast.parse(fixed.fixed)
        again = Source(source.filename, fixed.fixed)
        assert check_source(again, Settings(), None, fix=True).fixed is None


def _places_are_in_the_text(checked: Checked, source: Source) -> None:
    lines = [*source.lines, ""]
    for finding in checked.findings:
        if finding.code != "CX001":  # Python may count an error past the end
            assert 1 <= finding.start.line <= len(lines)
            assert 1 <= finding.start.column <= len(lines[finding.start.line - 1]) + 1
            assert finding.start <= finding.end


@LESS
@given(st.text())
@example("\x00")
@example("\ufeffimport jax")
@example("x = '\ud800'")
@example("(" * 300)
@example("jax" + "-" * 5000 + "1")
@example("jax\n" + "class A:\n" + "".join(" " * i + "if x:\n" for i in range(1, 99)))
def test_any_text(text: str) -> None:
    check(Source("a.py", text))


@LESS
@given(st.binary())
@example(b"# coding: nonsense\n")
@example(b"# coding: utf-16\n")
@example(b"\xef\xbb\xbf# coding: latin-1\n")
@example(b"# coding: rot13\nimport jax")
def test_any_bytes(content: bytes) -> None:
    for filename in ("a.py", "a.ipynb"):
        try:
            source = from_bytes(filename, content)
        except UnreadableError:
            continue
        check(source)


@LESS
@given(st.lists(st.sampled_from(LINES), max_size=40))
def test_lines_of_the_examples_in_any_order(lines: list[str]) -> None:
    check(Source("a.py", "\n".join(lines)))


@LESS
@given(st.data())
def test_examples_with_words_changed(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(EXAMPLES))
    for _ in range(data.draw(st.integers(1, 4))):
        words = sorted(set(text.split()))
        old = data.draw(st.sampled_from(words))
        new = data.draw(st.sampled_from(WORDS) | st.sampled_from(words))
        text = text.replace(old, new, 1)
    check(Source("a.py", text))


@LESS
@given(st.data())
def test_examples_with_characters_changed(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(EXAMPLES))
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 8)))
        piece = data.draw(st.text(alphabet=" \n\t()[]:.,@=\\'\"#é;ab0", max_size=4))
        text = text[:start] + piece + text[end:]
    check(Source("a.py", text))


SPELLINGS = st.fixed_dictionaries(
    {
        "imports": st.permutations(
            ["import functools", "import equinox as eqx", "import jax.numpy as jnp"]
        ),
        "imported": st.sampled_from(
            ["functools.cached_property", "cached_property", "ft.cached_property"]
        ),
        "more": st.lists(
            st.sampled_from(
                [
                    "from functools import cached_property",
                    "from functools import (cached_property, partial)",
                    "from functools import cached_property, lru_cache as lru",
                    "import functools as ft",
                    "import functools; import os",
                    "import os, functools",
                    "from functools import *",
                    '"""A docstring."""',
                    "from __future__ import annotations",
                    "import cachax",
                    "# a comment",
                    "",
                    "x = functools.partial(print)",
                    "if True:\n    import functools",
                ]
            ),
            max_size=4,
        ),
        "comment": st.sampled_from(["", "  # why", " ;", "  # noqa", "\\\n"]),
        "value": st.sampled_from(["jnp.ones(3)", "jnp.ones(3).shape", "unknown()"]),
        "newline": st.sampled_from(["\n", "\r\n"]),
        "end": st.sampled_from(["", "\n", "\n\n\n"]),
    }
)


@LESS
@given(SPELLINGS)
def test_every_spelling_of_the_import(spelling: dict[str, object]) -> None:
    text = "\n".join(
        [
            *spelling["more"],  # type: ignore[misc]
            *spelling["imports"],  # type: ignore[misc]
            "class Foo(eqx.Module):",
            f"    @{spelling['imported']}{spelling['comment']}",
            "    def b(self):",
            f"        return {spelling['value']}",
        ]
    ) + str(spelling["end"])
    check(Source("a.py", text.replace("\n", str(spelling["newline"]))))


CELLS = st.lists(
    st.fixed_dictionaries(
        {
            "cell_type": st.sampled_from(["code", "markdown"]),
            "source": st.lists(
                st.sampled_from([*LINES, "%magic", "!ls", "x = !ls", "%%bash", "f?"])
            ),
        }
    ),
    max_size=4,
)


@LESS
@given(CELLS)
def test_any_notebook(cells: list[dict[str, object]]) -> None:
    content = json.dumps({"cells": cells}).encode()
    checked = check_source(from_bytes("a.ipynb", content), Settings(), None, fix=True)
    assert checked.crash is None
    assert checked.fixed is None
    assert all(finding.cell for finding in checked.findings)


@LESS
@given(
    st.recursive(
        st.none() | st.text() | st.integers(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(st.sampled_from(["cells", "source", "a"]), inner)
        ),
    )
)
def test_any_json_as_a_notebook(content: object) -> None:
    try:
        source = from_bytes("a.ipynb", json.dumps(content).encode())
    except UnreadableError:
        return
    assert check_source(source, Settings(), None).crash is None


DOUBLED = "\n".join(f"        x{n + 1} = x{n} + x{n}" for n in range(200))
DEEP = {
    "values that double": f"""
import equinox as eqx, functools, jax.numpy as jnp
class Foo(eqx.Module):
    @functools.cached_property
    def b(self):
        x0 = unknown()
{DOUBLED}
        return x200
""",
    "a chain": f"import jax\ntry:\n    x\nexcept x{'.a' * 900}:\n    self.y = 1\n",
    "many nots": f"import jax\ndef f(self):\n    if {'not ' * 900}self.x: self.x = 1\n",
    "an annotation": f"import jax\nclass A:\n    x: a{'.b' * 900} = 1\n",
    "a sum": f"import jax\nx = {' + '.join(['x'] * 900)}\n",
    "a decorator": f"import jax\n@jax{'.jit' * 900}\ndef f(self): self.x = 1\n",
    "calls": f"import jax\n@jax.jit{'()' * 900}\ndef f(self): self.x = 1\n",
    "classes": "import jax\n"
    + "".join(f"class A{n}(A{n - 1}):\n    x: A{n} = A{n - 1}()\n" for n in range(300)),
    "functions": "import jax\n"
    + "".join(f"def f{n}():\n    return f{n - 1}()\n" for n in range(300))
    + "@jax.jit\ndef g(x):\n    return f299()\n",
}


@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP)
def test_deeply_nested_code_does_not_fail(text: str) -> None:
    check(Source("a.py", text))


@pytest.mark.parametrize("text", ["x" * 3_000_000, "x = 1\n" * 400_000])
def test_a_huge_text_is_not_parsed(text: str, tmp_path: Path) -> None:
    with pytest.raises(
        UnreadableError, match=r"too big to be parsed: [\d,]+ characters"
    ):
        from_bytes("a.py", text.encode())
