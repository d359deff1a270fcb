"""The names of cachax: there on first use, the same for a type checker."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import cachax

SOURCE = Path(cachax.__file__).read_text()


def test_a_type_checker_sees_the_names_that_there_are() -> None:
    for_checkers = next(n for n in ast.parse(SOURCE).body if isinstance(n, ast.If))
    seen = {
        (node.module, alias.name, alias.asname)
        for node in for_checkers.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    seen.remove((None, "testing", "testing"))  # a module
    homes = cachax._HOMES  # type: ignore[attr-defined]
    assert seen == {(home, n, n) for home, names in homes.items() for n in names}


def test_a_name_is_that_of_its_file() -> None:
    from cachax import jit
    from cachax._jit.jit import jit as original

    assert jit is cachax.jit is original


def test_all_names_can_be_listed_and_imported() -> None:
    namespace: dict[str, object] = {}
    exec("from cachax import *", namespace)
    assert {"cached_property", "jit", "warm", "CachaxError"} <= set(namespace)
    assert {"cached_property", "jit", "__version__"} <= set(dir(cachax))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'cachax' has no attribute 'jti'"):
        cachax.jti  # type: ignore[attr-defined]  # noqa: B018


def test_jax_is_imported_when_it_is_needed() -> None:
    code = (
        "import sys, cachax, cachax.__main__; assert 'jax' not in sys.modules; "
        "cachax.jit; assert 'jax' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
