"""The fix: a `functools.cached_property` becomes one of cachax, with its import.

Only where it is safe. What it cannot be sure of, it leaves alone: another decorator
above, a base class that nothing is known of, a body that writes to its object, a file
that speaks of the property in a string or of `functools.cached_property` elsewhere, a
package with an `isinstance(..., cached_property)` in it.
"""

import ast
from collections.abc import Iterable
from dataclasses import dataclass

from ._classes import Class, class_of
from ._code import Code
from ._finding import Edit, Fix, Place
from ._kept import FUNCTOOLS
from ._module import FunctionNode, Module
from ._source import Source
from ._writes import own_object, writes

_HARMLESS_ABOVE = (
    "typing.override",
    "typing_extensions.override",
    "abc.abstractmethod",
)


@dataclass(frozen=True)
class DecoratorFix(Fix):
    """All such decorators of a file at once, as they share the import."""

    of: tuple[ast.expr, ...] = ()


def to_cachax(code: Code, decorators: Iterable[ast.expr | None]) -> DecoratorFix | None:
    """The fix for these decorators of a file, as far as it is safe."""
    safe = [d for d in dict.fromkeys(decorators) if d is not None and _is_safe(d, code)]
    if not safe or code.source.is_notebook or _is_spoken_of(code):
        return None
    if code.project.asks_for_functools(code.module):
        return None
    name = _name_of_cachax(code.module, before=min(d.lineno for d in safe))
    edits: list[Edit] = []
    if name is None:
        place = _place_of_import(code, before=min(d.lineno for d in safe))
        if place is None or _is_bound("cachax", code.module):
            return None
        name = "cachax"
        edits.append(Edit(place, place, f"import cachax{_newline(code.source)}"))
    edits += [_replaced(node, f"{name}.cached_property", code.source) for node in safe]
    edits += _without_import(code, safe)
    edits.sort(key=lambda edit: (edit.start, edit.end))
    return DecoratorFix("Use cachax.cached_property", tuple(edits), tuple(safe))


def _is_safe(decorator: ast.expr, code: Code) -> bool:
    function = code.module.parent(decorator)
    outer = code.module.parent(function) if function else None
    if not isinstance(function, FunctionNode) or not isinstance(outer, ast.ClassDef):
        return False
    above = function.decorator_list[: function.decorator_list.index(decorator)]
    return (
        code.name_of(decorator) == "functools.cached_property"
        and all(code.name_of(node) in _HARMLESS_ABOVE for node in above)
        and _can_hold(class_of(outer, code.module, code.project))
        and not _writes_to_itself(function, code)
        and not _is_named_in_a_string(function.name, code.module)
    )


def _can_hold(cls: Class) -> bool:
    """Objects of the class can be referred to weakly, and it is all known."""
    holds = cls.family is None or cls.family.holds_attributes
    slots = any(owner.has_slots for owner in cls.ancestors)
    known = all(owner.is_decorated_as_known for owner in cls.ancestors)
    return holds and not slots and known and cls.is_known_whole


def _writes_to_itself(function: FunctionNode, code: Code) -> bool:
    obj = own_object(function, code.module)
    return obj is None or bool(writes(function, obj, code.module))


def _is_named_in_a_string(name: str, module: Module) -> bool:
    return any(isinstance(n, ast.Constant) and n.value == name for n in module.nodes)


def _is_spoken_of(code: Code) -> bool:
    """The class itself is used: `isinstance(x, functools.cached_property)`."""
    decorators = {d for f in code.module.functions for d in f.decorator_list}
    return any(
        isinstance(node, ast.Name | ast.Attribute)
        and node not in decorators
        and not isinstance(code.module.parent(node), ast.Attribute)
        and FUNCTOOLS.fullmatch(code.name_of(node))
        for node in code.module.nodes
    )


def _name_of_cachax(module: Module, before: int) -> str | None:
    """What cachax is called in this file, if it is imported before a line."""
    for node in module.tree.body:
        if isinstance(node, ast.Import) and node.lineno < before:
            for alias in node.names:
                if alias.name == "cachax":
                    return alias.asname or "cachax"
    return None


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


def _replaced(node: ast.expr, text: str, source: Source) -> Edit:
    start = source.place(node.lineno, node.col_offset)
    end = source.place(node.end_lineno or node.lineno, node.end_col_offset or 0)
    return Edit(start, end, text)


def _without_import(code: Code, decorators: list[ast.expr]) -> list[Edit]:
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
        or (isinstance(node, ast.Constant) and node.value == name)
        for node in module.nodes
    )


def _line_without(node: ast.stmt, alias: ast.alias, source: Source) -> list[Edit]:
    """The import without one name; the whole line, if it has no other. Only for a line
    that looks just as Python would write it: no comment, no bracket, no second one."""
    line = source.lines[node.lineno - 1]
    if line.rstrip("\r\n") != ast.unparse(node):
        return []
    assert isinstance(node, ast.Import | ast.ImportFrom)
    start, end = Place(node.lineno, 1), Place(node.lineno + 1, 1)
    others = [other for other in node.names if other is not alias]
    if not others:
        return [Edit(start, end, "")] if line.endswith(("\n", "\r")) else []
    kept: ast.stmt = (
        ast.Import(others)
        if isinstance(node, ast.Import)
        else ast.ImportFrom(node.module, others, 0)
    )
    return [
        Edit(start, Place(node.lineno, len(line.rstrip("\r\n")) + 1), ast.unparse(kept))
    ]


def _newline(source: Source) -> str:
    first = source.lines[0] if source.lines else "\n"
    ending = first[len(first.rstrip("\r\n")) :]
    return ending or "\n"
