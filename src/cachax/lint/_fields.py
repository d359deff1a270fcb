"""A field of a class, and how it is marked as static."""

import ast
from dataclasses import dataclass

from ._module import Module, dotted

_METADATA_OF_STATIC = {"static": True, "pytree_node": False}
_STATIC_FIELDS = {"static_field", "static"}


@dataclass(frozen=True)
class Field:
    """An annotated attribute in the body of a class, or one set in `__init__`."""

    name: str
    module: Module
    annotation: ast.expr | None = None
    values: tuple[ast.expr, ...] = ()  # everything that `__init__` assigns
    static: bool = False
    in_init: bool = True
    default: ast.expr | None = None  # as written: `None`, `field(default=None)`
    node: ast.AnnAssign | None = None  # the declaration

    @property
    def is_optional(self) -> bool:
        """Its default is None."""
        match self.default:
            case ast.Constant(None):
                return True
            case ast.Call():
                default = _keyword_node(self.default, "default")
                return isinstance(default, ast.Constant) and default.value is None
        return False


def is_static(default: ast.expr | None) -> bool:
    """Whether a field is marked as static, in the spelling of any library."""
    if not isinstance(default, ast.Call):
        return False
    function = (dotted(default.func) or "").rpartition(".")[2]
    metadata = _keyword_node(default, "metadata")
    return (
        function in _STATIC_FIELDS
        or constant_keyword(default, "static") is True
        or constant_keyword(default, "pytree_node") is False
        or any(_entries(metadata).get(k) is v for k, v in _METADATA_OF_STATIC.items())
    )


def _entries(node: ast.expr | None) -> dict[object, object]:
    """The constants of a dict, in both spellings."""
    match node:
        case ast.Dict(keys, values):
            pairs = zip(keys, values, strict=True)
            return {
                key.value: value.value
                for key, value in pairs
                if isinstance(key, ast.Constant) and isinstance(value, ast.Constant)
            }
        case ast.Call(ast.Name("dict"), _, keywords):
            constants = [k for k in keywords if isinstance(k.value, ast.Constant)]
            return {k.arg: k.value.value for k in constants}  # type: ignore[attr-defined]
    return {}


def _keyword_node(node: ast.AST | None, name: str) -> ast.expr | None:
    for keyword in getattr(node, "keywords", []):
        if keyword.arg == name:
            return keyword.value  # type: ignore[no-any-return]
    return None


def constant_keyword(node: ast.AST | None, name: str) -> object:
    """The constant that a call or a class gives for a keyword, else None."""
    value = _keyword_node(node, name)
    return value.value if isinstance(value, ast.Constant) else None


def strings(node: ast.expr) -> set[str]:
    """The string constants in an expression."""
    return {
        inner.value
        for inner in ast.walk(node)
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str)
    }
