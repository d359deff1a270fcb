"""Edits of import lines: one that is added, one that is taken out."""

import ast
import re

from ._code import Code
from ._finding import Edit, Place
from ._module import Module
from ._source import Source


def imported_as(name: str, code: Code, before: int) -> tuple[str, list[Edit]] | None:
    """What a module is called above a line, and the edit that imports it, if it is not
    imported yet. None if it cannot be: the name is taken, or there is no place."""
    for node in code.module.tree.body:
        if isinstance(node, ast.Import) and node.lineno < before:
            for alias in node.names:
                if alias.name == name:
                    return alias.asname or name, []
    place = _place_of_import(code, before)
    if place is None or _is_bound(name, code.module):
        return None
    return name, [Edit(place, place, f"import {name}{_newline(code.source)}")]


def _is_bound(name: str, module: Module) -> bool:
    return any(
        getattr(node, "id", None) == name
        or getattr(node, "arg", None) == name
        or getattr(node, "name", None) == name
        or getattr(node, "asname", None) == name
        for node in module.nodes
    )


def _place_of_import(code: Code, before: int) -> Place | None:
    """Before the first import of JAX or the like, else before the first statement that
    is neither the docstring nor from the future."""
    body = [node for node in code.module.tree.body if _first_line(node) < before]
    imports = [node for node in body if isinstance(node, ast.Import | ast.ImportFrom)]
    for node in imports:
        if _origin(node).startswith(("jax", "flax", "equinox", "chex", "numpy")):
            return _line_of_its_own(node, code)
    for first in code.module.tree.body:
        is_docstring = first is code.module.tree.body[0] and isinstance(first, ast.Expr)
        if not is_docstring and _origin(first) != "__future__":
            return _line_of_its_own(first, code)
    return None


def _origin(node: ast.stmt) -> str:
    match node:
        case ast.Import([alias, *_]):
            return alias.name
        case ast.ImportFrom(str(module), _, 0):
            return module
    return ""


def _first_line(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def _line_of_its_own(node: ast.stmt, code: Code) -> Place | None:
    """Where the line of a statement begins, if no other statement is on it."""
    line = _first_line(node)
    others = [n for n in code.module.tree.body if n is not node]
    alone = all(not n.lineno <= line <= (n.end_lineno or 0) for n in others)
    return Place(line, 1) if alone else None


def without_functools(code: Code, decorators: list[ast.expr]) -> list[Edit]:
    """The import of functools taken out, if nothing else uses it."""
    gone = {id(node) for decorator in decorators for node in ast.walk(decorator)}
    edits = []
    for node in code.module.tree.body:
        for alias in _functools_names(node):
            used = _is_used(alias.asname or alias.name, gone, code.module)
            if not used and not code.module.is_package:
                edits += _line_without(node, alias, code.source)
    return edits if len(edits) == 1 else []


def _functools_names(node: ast.stmt) -> list[ast.alias]:
    match node:
        case ast.Import(names):
            return [alias for alias in names if alias.name == "functools"]
        case ast.ImportFrom("functools", names, 0):
            return [alias for alias in names if alias.name == "cached_property"]
    return []


def _is_used(name: str, gone: set[int], module: Module) -> bool:
    return any(
        (isinstance(node, ast.Name) and node.id == name and id(node) not in gone)
        or (isinstance(node, ast.Constant) and _names(node.value, name))
        for node in module.nodes
    )


def _names(value: object, name: str) -> bool:
    """Whether a string has a name in it: an annotation, or what `__all__` lists."""
    return isinstance(value, str) and name in re.findall(r"\w+", value)


def _line_without(node: ast.stmt, alias: ast.alias, source: Source) -> list[Edit]:
    """The import without one name; the whole line, if it has no other. Only for a line
    that looks just as Python would write it: no comment, no bracket, no second one."""
    line = source.lines[node.lineno - 1]
    if line.rstrip("\r\n") != ast.unparse(node):
        return []
    assert isinstance(node, ast.Import | ast.ImportFrom)
    start = Place(node.lineno, 1)
    others = [other for other in node.names if other is not alias]
    if not others:
        end = Place(node.lineno + (2 if _stands_alone(node, source) else 1), 1)
        return [Edit(start, end, "")] if line.endswith(("\n", "\r")) else []
    kept: ast.stmt = (
        ast.Import(others)
        if isinstance(node, ast.Import)
        else ast.ImportFrom(node.module, others, 0)
    )
    return [
        Edit(start, Place(node.lineno, len(line.rstrip("\r\n")) + 1), ast.unparse(kept))
    ]


def _stands_alone(node: ast.stmt, source: Source) -> bool:
    """Whether there is an empty line below, and nothing or an empty line above."""
    above, below = source.lines[: node.lineno - 1], source.lines[node.lineno :]
    return (not above or not above[-1].strip()) and bool(below) and not below[0].strip()


def _newline(source: Source) -> str:
    first = source.lines[0] if source.lines else "\n"
    ending = first[len(first.rstrip("\r\n")) :]
    return ending or "\n"
