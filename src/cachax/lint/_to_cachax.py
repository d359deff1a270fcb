"""The fix: a `functools.cached_property` becomes one of cachax, with its import.

Only where it is safe. Otherwise the code is left as it is: with a different
decorator above, an unknown base class, a body that writes to its object, a file
that speaks of the property in a string or of `functools.cached_property` elsewhere, a
package with an `isinstance(..., cached_property)` in it.
"""

import ast
from collections.abc import Iterable

from ._classes import Class, class_of
from ._code import Code
from ._descriptors import FUNCTOOLS
from ._finding import Edit, Fix
from ._imports import imported_as, without_functools
from ._module import FunctionNode, Module
from ._source import Source
from ._writes import own_object, writes

_HARMLESS_ABOVE = (
    "typing.override",
    "typing_extensions.override",
    "abc.abstractmethod",
)


def to_cachax(
    code: Code, decorators: Iterable[ast.expr | None]
) -> tuple[Fix | None, list[ast.expr]]:
    """The fix for those decorators of a file for which it is safe, and which they are.

    They are fixed together, as they share the import.
    """
    safe = [d for d in dict.fromkeys(decorators) if d is not None and _is_safe(d, code)]
    if not safe or code.source.is_notebook or _is_spoken_of(code):
        return None, []
    if code.project.asks_for_functools(code.module):
        return None, []
    imported = imported_as("cachax", code, before=min(d.lineno for d in safe))
    if imported is None:
        return None, []
    name, edits = imported
    edits += [_replaced(node, f"{name}.cached_property", code.source) for node in safe]
    edits += without_functools(code, safe)
    edits.sort(key=lambda edit: (edit.start, edit.end))
    return Fix("Use cachax.cached_property", tuple(edits)), safe


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


def _replaced(node: ast.expr, text: str, source: Source) -> Edit:
    start = source.place(node.lineno, node.col_offset)
    end = source.place(node.end_lineno or node.lineno, node.end_col_offset or 0)
    return Edit(start, end, text)
