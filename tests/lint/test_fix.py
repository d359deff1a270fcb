"""--fix: what it changes, what it leaves alone, and that the result is the same."""

import textwrap
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import pytest

from cachax.lint import Checked, Settings, Source
from cachax.lint._run import check_source

MODULE = '''
"""A module."""

from __future__ import annotations

import functools  # for the cache
import equinox as eqx
import jax
import jax.numpy as jnp


class Foo(eqx.Module):
    a: jax.Array

    @functools.cached_property  # computed once
    def b(self):
        """The sum."""
        return jnp.sum(self.a)  # of all

    @functools.cached_property
    def shape(self):
        return self.a.shape
'''


def checked_with_fix(text: str, path: Path | None = None) -> Checked:
    return check_source(Source("a.py", text), Settings(), path, fix=True)


def fixed_text(text: str) -> str | None:
    return checked_with_fix(textwrap.dedent(text).lstrip("\n")).fixed


def test_only_the_decorator_and_the_import_change() -> None:
    assert fixed_text(MODULE) == MODULE.lstrip("\n").replace(
        "import equinox", "import cachax\nimport equinox"
    ).replace(
        "@functools.cached_property  # computed", "@cachax.cached_property  # computed"
    )


def test_an_import_that_an_annotation_names_stays() -> None:
    text = MODULE.replace("  # for the cache", "") + (
        "\n\ndef f(a: 'functools.partial') -> None: ...\n"
    )
    assert "import functools\n" in (fixed_text(text) or "")


def run(code: str) -> dict[str, Any]:
    namespace: dict[str, Any] = {"__name__": "fixed"}
    exec(code, namespace)
    return namespace


FIXABLE = {
    "equinox": (
        "import functools\nimport equinox as eqx\nimport jax, jax.numpy as jnp\n"
        "class Foo(eqx.Module):\n    a: jax.Array\n"
    ),
    "flax": (
        "import functools\nimport flax.struct\nimport jax, jax.numpy as jnp\n"
        "class Foo(flax.struct.PyTreeNode):\n    a: jax.Array\n"
    ),
    "a dataclass": (
        "import dataclasses\nimport functools\nimport jax\nimport jax.numpy as jnp\n"
        "@jax.tree_util.register_dataclass\n@dataclasses.dataclass\n"
        "class Foo:\n    a: jax.Array\n"
    ),
    "chex": (
        "import chex\nimport functools\nimport jax\nimport jax.numpy as jnp\n"
        "@chex.dataclass(mappable_dataclass=False)\nclass Foo:\n    a: jax.Array\n"
    ),
    "nnx": (
        "import functools\nimport jax.numpy as jnp\nfrom flax import nnx\n"
        "class Foo(nnx.Module):\n"
        "    def __init__(self, a):\n        self.a = nnx.Param(a)\n"
    ),
    "a plain class": (
        "import functools\nimport jax\nimport jax.numpy as jnp\n"
        "class Foo:\n    def __init__(self, a):\n        self.a = a\n"
        "    def use(self):\n        return jax.jit(lambda x: x * self.b)(1.0)\n"
    ),
}


@pytest.mark.parametrize("head", FIXABLE.values(), ids=FIXABLE)
def test_the_fixed_code_runs_and_computes_the_same(head: str) -> None:
    for library in ("equinox", "flax", "chex"):
        if library in head:
            pytest.importorskip(library)
    body = "    @functools.cached_property\n    def b(self):\n"
    text = f"{head}{body}        return jnp.sum(self.a * 2.0)\n"
    fixed = fixed_text(text)
    assert fixed is not None
    assert "@cachax.cached_property" in fixed
    assert "functools" not in fixed
    values = []
    for code in (text, fixed):
        foo_class = run(code)["Foo"]
        by_name = "chex" in code
        foo = foo_class(a=jnp.ones(3)) if by_name else foo_class(jnp.ones(3))
        values += [foo.b, foo.b]
    assert all(bool(value == 6.0) for value in values)


def test_a_name_imported_from_functools() -> None:
    text = """
    from functools import cached_property, partial
    import equinox as eqx
    import jax.numpy as jnp

    class Foo(eqx.Module):
        @cached_property
        def b(self):
            return jnp.ones(3)

    f = partial(print)
    """
    fixed = fixed_text(text)
    assert fixed is not None
    assert fixed.startswith("from functools import partial\nimport cachax\nimport equ")
    assert "    @cachax.cached_property\n" in fixed
    assert run(fixed)["f"].func is print


def test_a_name_that_is_still_used_stays_imported() -> None:
    fixed = fixed_text(MODULE + "\nx = functools.partial(print)\n")
    assert fixed is not None
    assert "import functools" in fixed


@pytest.mark.parametrize("above", ["", "import os\n", '"""Doc."""\n\n'])
def test_an_import_that_goes_leaves_no_gap(above: str) -> None:
    """A group of imports that it was alone in goes with it."""
    rest = """
    import equinox as eqx
    import jax.numpy as jnp


    class Foo(eqx.Module):
        @functools.cached_property
        def b(self):
            return jnp.ones(3)
    """
    fixed = fixed_text(f"{above}import functools\n{textwrap.dedent(rest)}")
    gap = "\n" if above == "import os\n" else ""
    assert (fixed or "").startswith(f"{above}{gap}import cachax\nimport equinox")


def test_cachax_is_imported_once_and_under_its_name() -> None:
    fixed = fixed_text(
        MODULE.replace("import jax\n", "import cachax as cx\nimport jax\n")
    )
    assert fixed is not None
    assert "@cx.cached_property" in fixed
    assert fixed.count("import cachax") == 1


@pytest.mark.parametrize("newline", ["\r\n", "\n", "\r"])
def test_line_ends_stay(newline: str) -> None:
    fixed = checked_with_fix(MODULE.replace("\n", newline)).fixed
    assert fixed is not None
    assert f"import cachax{newline}import equinox" in fixed
    assert fixed.count(newline) == MODULE.count("\n") + 1


def test_columns_are_correct_after_wide_characters() -> None:
    text = """
    import functools, equinox as eqx, jax.numpy as jnp
    class Foo(eqx.Module):
        ä = "ß€😀"; x = 1
        @functools.cached_property
        def b(self): return jnp.ones(3)  # ✓
    """
    fixed = fixed_text(text)
    assert fixed is not None
    assert '    ä = "ß€😀"; x = 1\n    @cachax.cached_property\n' in fixed


ALONE = {
    "a NamedTuple": ("class Foo(eqx.Module):", "class Foo(typing.NamedTuple):"),
    "an unknown base": ("class Foo(eqx.Module):", "class Foo(eqx.Module, Other):"),
    "an unknown decorator": (
        "class Foo(eqx.Module):",
        "@unknown\nclass Foo(eqx.Module):",
    ),
    "attrs": ("class Foo(eqx.Module):", "@attrs.define\nclass Foo(eqx.Module):"),
    "slots": ("    a: jax.Array\n", "    a: jax.Array\n    __slots__ = ('c',)\n"),
    "a decorator above": (
        "    @functools.cached_property  #",
        "    @other\n    @functools.cached_property  #",
    ),
    "a body that writes": (
        '        """The sum."""\n',
        "        object.__setattr__(self, 'n', 1)\n",
    ),
    "the name in a string": ("    a: jax.Array\n", "    a: jax.Array\n    n = 'b'\n"),
    "asked for": (
        "class Foo(eqx",
        "x = isinstance(y, functools.cached_property)\nclass Foo(eqx",
    ),
    "a different cachax": ("class Foo(", "cachax = 3\nclass Foo("),
    "silenced": ("# computed once", "# noqa: CX101"),
    "no array": ("jnp.sum(self.a)", "self.a.shape"),
    "who knows": ("jnp.sum(self.a)", "unknown()"),
}


@pytest.mark.parametrize(("old", "new"), ALONE.values(), ids=ALONE)
def test_what_is_not_sure_is_left_alone(old: str, new: str) -> None:
    text = MODULE.replace(
        "import functools  # for the cache",
        "import attrs\nimport functools\nimport typing",
    )
    assert old in text
    assert fixed_text(text) is not None
    assert fixed_text(text.replace(old, new)) is None


def test_a_package_that_uses_the_class_is_left_alone(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    for name, text in [
        ("__init__.py", ""),
        ("a.py", MODULE),
        (
            "b.py",
            "import functools\n\n"
            "def f(x):\n    return isinstance(x, functools.cached_property)\n",
        ),
    ]:
        (package / name).write_text(text)
    assert checked_with_fix(MODULE, package / "a.py").fixed is None


def test_twice_is_once() -> None:
    once = fixed_text(MODULE)
    assert once is not None
    assert checked_with_fix(once).fixed is None


def test_what_is_fixed_is_no_longer_found() -> None:
    checked = checked_with_fix(MODULE)
    assert checked.findings == ()
    assert checked.fixes == 1
