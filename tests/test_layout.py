"""Imports go one way: `_core`, `_jit`, `_report` and `_check`, then the rest."""

import ast
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "cachax"
BELOW = {
    "_core": {"_core", "_compat", "_errors"},
    "_jit": {"_core", "_jit", "_compat", "_errors"},
    "_report": {"_core", "_jit", "_report", "_compat", "_errors", "_where", "_watch"},
    "_check": {"_core", "_jit", "_check", "_compat", "_errors", "_where", "_watch"},
    "lint": {"lint"},
}


def imported(path: Path) -> set[str]:
    """The parts of cachax that a file imports from."""
    package = path.relative_to(SOURCE).parts[:-1]
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            outside = package[: len(package) - node.level + 1]
            found.add((*outside, *(node.module or "").split("."))[0])
    return found - {""}


def test_a_package_imports_only_from_those_below_it() -> None:
    for package, allowed in BELOW.items():
        for path in (SOURCE / package).rglob("*.py"):
            assert imported(path) <= allowed | {"_terminal"}, path


def test_the_core_does_not_import_jax_internals() -> None:
    for package in BELOW.keys() - {"lint"}:
        for path in (SOURCE / package).rglob("*.py"):
            assert "jax._src" not in path.read_text(), path


def test_every_package_describes_its_contents() -> None:
    for package in BELOW:
        assert ast.get_docstring(
            ast.parse((SOURCE / package / "__init__.py").read_text())
        )
