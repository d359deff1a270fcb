"""What an annotation says of a value: a JAX array, a tree of them, neither."""

import ast
import re

from ._jax_names import Kind
from ._module import PARSE_ERRORS, Module
from ._project import Definition, Project

_ARRAYS = re.compile(
    r"jax\.Array|jax\.numpy\.ndarray|jax\.(_src\.)?(basearray|array|core)\.(Array|Tracer)"
    r"|jax\.(core\.Tracer|random\.PRNGKeyArray|random\.KeyArray)"
    r"|jaxtyping\.(Array|Scalar|PRNGKeyArray|Key)|chex\.(Array|ArrayDevice|PRNGKey|Scalar)"
    r"|flax\.(typing\.Array|nnx\.(Param|Variable|BatchStat))|equinox\.internal\.Array"
)
_TREES = re.compile(r"chex\.Array(Device)?Tree|optax\.(Params|Updates)")
_OTHERS = re.compile(
    r"int|float|complex|bool|str|bytes|slice|range|type|object_|None"
    r"|numpy\..*|scipy\..*|(typing|collections\.abc)\.Callable|pathlib\.\w+|enum\.\w+"
    r"|jax\.(ShapeDtypeStruct|typing\.DTypeLike)|jax\.tree_util\.PyTreeDef|jax\.(sharding\.\w+|Device)|datetime\.\w+"
)
_CONTAINERS = re.compile(
    r"(typing\.|collections\.abc\.|immutabledict\.)?"
    r"(tuple|list|dict|set|frozenset|Tuple|List|Dict|Set|FrozenSet|Sequence|Mapping"
    r"|Iterable|Collection|MutableMapping|immutabledict)"
)
_WRAPPERS = re.compile(
    r"(typing|typing_extensions)\.(Optional|Annotated|Final|Required|NotRequired)"
    r"|equinox\.AbstractVar|dataclasses\.InitVar|jax_dataclasses\.Static"
)
_UNIONS = re.compile(r"typing\.Union")
# Says nothing, or something that includes arrays: `Any`, `ArrayLike`, `T`, `PyTree`.
_OPEN = re.compile(
    r"(typing\.)?Any|([\w.]+\.)?\w*(Array|Tensor|Vector|Matrix|Scalar|Numeric)\w*"
)
_JAXTYPED = re.compile(r"jaxtyping\.\w+")


class Annotations:
    """Reads the annotations of one project."""

    def __init__(self, project: Project) -> None:
        self._project = project

    def kind(self, node: ast.expr | None, module: Module, depth: int = 8) -> Kind:
        """What a value so annotated is, as far as the annotation says."""
        if depth <= 0 or node is None:
            return Kind.UNKNOWN
        match node:
            case ast.Constant(None):
                return Kind.OTHER
            case ast.Constant(str(text)):
                return self.kind(_parsed(text), module, depth - 1)
            case ast.BinOp(left, ast.BitOr(), right):
                return self._union([left, right], module, depth)
            case ast.Subscript(value, inner):
                return self._subscript(value, inner, module, depth)
            case ast.Name() | ast.Attribute():
                return self._named(node, module, depth)
        return Kind.UNKNOWN

    def _named(self, node: ast.expr, module: Module, depth: int) -> Kind:
        found = self._project.resolve(node, module)
        match found:
            case Definition(other, ast.Assign(_, value) | ast.AnnAssign(_, _, value)):
                # An alias for a longer annotation: `Arrays = tuple[Array, ...]`.
                return self.kind(value, other, depth - 1)
            case str():
                return kind_of_type(found)
        return Kind.UNKNOWN

    def _subscript(
        self, value: ast.expr, inner: ast.expr, module: Module, depth: int
    ) -> Kind:
        name = self._project.name_of(value, module)
        parts = _parts(inner)
        if _UNIONS.fullmatch(name):
            return self._union(parts, module, depth)
        if _WRAPPERS.fullmatch(name) or _JAXTYPED.fullmatch(name):
            # jaxtyping: Float[Array, "n m"]. The first is the kind of array.
            return self.kind(parts[0], module, depth - 1) if parts else Kind.UNKNOWN
        if _CONTAINERS.fullmatch(name):
            kinds = [self.kind(part, module, depth - 1) for part in parts]
            kinds = [k for k, p in zip(kinds, parts, strict=True) if not _is_dots(p)]
            if any(kind.has_arrays for kind in kinds):
                return Kind.TREE
            is_other = all(kind is Kind.OTHER for kind in kinds)
            return Kind.OTHER if is_other else Kind.UNKNOWN
        return kind_of_type(name)

    def may_be_array(self, node: ast.expr | None, module: Module) -> bool:
        """Whether the annotation leaves it open that a value is an array."""
        match node:
            case None:
                return True
            case ast.BinOp(left, ast.BitOr(), right):
                return any(self.may_be_array(part, module) for part in (left, right))
            case ast.Subscript(value, inner):
                name = self._project.name_of(value, module)
                parts = _parts(inner)
                if _UNIONS.fullmatch(name) or _WRAPPERS.fullmatch(name):
                    return any(self.may_be_array(part, module) for part in parts)
                return False
            case ast.Constant(str(text)):
                parsed = _parsed(text)
                return parsed is not None and self.may_be_array(parsed, module)
            case ast.Name() | ast.Attribute():
                if self.kind(node, module).has_arrays:
                    return True
                name = self._project.name_of(node, module)
                known = self.kind(node, module) is not Kind.UNKNOWN
                return not known and _OPEN.fullmatch(name) is not None
        return False

    def may_hold_arrays(self, node: ast.expr | None, module: Module) -> bool:
        """Whether it leaves that open of a value or of its parts: `dict[str, Any]`."""
        if self.may_be_array(node, module):
            return True
        return any(
            isinstance(one, ast.Subscript)
            and _CONTAINERS.fullmatch(self._project.name_of(one.value, module))
            and any(self.may_hold_arrays(part, module) for part in _parts(one.slice))
            for one in self.alternatives(node, module)
        )

    def names_array(
        self, node: ast.expr | None, module: Module, depth: int = 8
    ) -> bool:
        """Whether a JAX array is one of the alternatives: `float | Array`."""
        for one in self.alternatives(node, module):
            match self._project.resolve(one, module):
                case Definition(other, ast.Assign(_, value)) if depth > 0:
                    if self.names_array(value, other, depth - 1):
                        return True
            if self.kind(one, module) is Kind.ARRAY:
                return True
        return False

    def alternatives(self, node: ast.expr | None, module: Module) -> list[ast.expr]:
        """What a value so annotated may be, None left out: `A` and `B` for
        `Optional[A | B]`."""
        match node:
            case ast.BinOp(left, ast.BitOr(), right):
                parts = [left, right]
            case ast.Subscript(value, inner):
                name = self._project.name_of(value, module)
                if _UNIONS.fullmatch(name):
                    parts = _parts(inner)
                elif _WRAPPERS.fullmatch(name):
                    parts = _parts(inner)[:1]
                else:
                    return [node]
            case ast.Constant(str(text)):
                parsed = _parsed(text)
                return self.alternatives(parsed, module) if parsed else []
            case _:
                return [] if node is None or is_none(node) else [node]
        return [one for part in parts for one in self.alternatives(part, module)]

    def _union(self, parts: list[ast.expr], module: Module, depth: int) -> Kind:
        """Surely an array only if nothing else but None is allowed."""
        kinds = {
            self.kind(part, module, depth - 1) for part in parts if not is_none(part)
        }
        return kinds.pop() if len(kinds) == 1 else Kind.UNKNOWN


def _parts(node: ast.expr) -> list[ast.expr]:
    return node.elts if isinstance(node, ast.Tuple) else [node]


def kind_of_type(name: str) -> Kind:
    """Of a value of the type with this full name."""
    if _ARRAYS.fullmatch(name):
        return Kind.ARRAY
    if _TREES.fullmatch(name):
        return Kind.TREE
    return Kind.OTHER if _OTHERS.fullmatch(name) else Kind.UNKNOWN


def _parsed(text: str) -> ast.expr | None:
    try:
        return ast.parse(text.strip(), mode="eval").body
    except PARSE_ERRORS:
        return None


def is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_dots(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is ...
