"""Which attributes of an object hold arrays: as assigned, as annotated, as used."""

import ast
import re
from collections.abc import Callable, Iterator

from ._classes import Class
from ._code import Code
from ._fields import Field
from ._jax_names import ATTRIBUTES_OF_NO_ARRAY, Kind, public_name
from ._module import FunctionNode, Module
from ._reach import members_reached, methods_used
from ._tracing import TracedNode, reads_of, traced_functions
from ._writes import own_object

_MOST_DEPTH = 3  # of plain objects in attributes of plain objects

# Functions whose first argument (of some, the others too) is an array, or they fail or
# have nothing to do. A number would do for `jnp.exp`, so that says nothing.
_OF_ARRAYS = re.compile(
    r"jax\.numpy\.(dot|vdot|matmul|tensordot|einsum|inner|outer|kron|interp|take"
    r"|concatenate|stack|[hvd]stack|linalg\.\w+|fft\.\w+|sum|mean|prod|cumsum|cumprod"
    r"|median|std|var|argmin|argmax|argsort|sort|searchsorted|transpose|reshape|ravel"
    r"|swapaxes|moveaxis|squeeze|diag|diagonal|trace|tril|triu|take_along_axis)"
    r"|jax\.scipy\.(linalg|signal|ndimage|fft)\.\w+"
)
_LINEN = re.compile(r"(flax\.linen|haiku)\.(.+\.)?\w*Module")


def arrays_read(
    function: FunctionNode, cls: Class, code: Code, depth: int = _MOST_DEPTH
) -> set[str]:
    """The attributes with arrays that a method reads, by itself or through others of
    its object; also attributes with an object of a plain class of the project, if what
    is read or called there reads such arrays."""
    reads = _reads_of_methods(methods_used(function, cls))
    return {r.attr for r, m in reads if _reads_array(r, m, cls, code, depth)}


def arrays_read_inside(
    function: TracedNode, obj: str, cls: Class, code: Code
) -> set[str]:
    """The same of a function in a method, which knows the object as `obj`."""
    own = list(reads_of(obj, function))
    reads = [(read, code.module) for read in own]
    reads += _reads_of_methods(members_reached([read.attr for read in own], cls))
    return {r.attr for r, m in reads if _reads_array(r, m, cls, code, _MOST_DEPTH)}


def _reads_of_methods(
    methods: dict[FunctionNode, Class],
) -> list[tuple[ast.Attribute, Module]]:
    return [
        (read, owner.module)
        for method, owner in methods.items()
        for read in _reads(method, owner)
    ]


def _reads(method: FunctionNode, owner: Class) -> Iterator[ast.Attribute]:
    obj = own_object(method, owner.module)
    yield from reads_of(obj, method) if obj else ()


def _reads_array(
    read: ast.Attribute, module: Module, cls: Class, code: Code, depth: int
) -> bool:
    field = cls.fields.get(read.attr)
    if field is None or cls.method(read.attr) is not None or _is_linen(cls):
        return False
    match module.parent(read):
        case ast.Attribute(_, name) if name in ATTRIBUTES_OF_NO_ARRAY:
            return False  # `self.x.shape`
        case ast.comprehension() | ast.For() if _is_dict(field):
            return False  # its keys
        case ast.Call(ast.Name("len")):
            return False
        case ast.Attribute(_, name):
            member = name
        case _:
            member = ""
    if code.kinds.of_field(field).has_arrays:
        return True
    other = _class_of(field, code) if depth > 0 else None
    if other is None or other is cls or other.family is not None or _is_linen(other):
        return is_used_as_array(read.attr, cls, code)
    method = other.method(member)
    if method is not None:
        return bool(arrays_read(method[1], other, code, depth - 1))
    held = other.fields.get(member)
    return held is not None and code.kinds.of_field(held).has_arrays


def _is_linen(cls: Class) -> bool:
    """A module of flax.linen or haiku: its arrays are made in the trace."""
    bases = [base for owner in cls.ancestors for base in owner.bases]
    return any(isinstance(base, str) and _LINEN.fullmatch(base) for base in bases)


def _is_dict(field: Field) -> bool:
    made = field.values or (field.annotation,)
    return all(isinstance(value, ast.Dict | ast.DictComp) for value in made)


def _class_of(field: Field, code: Code) -> Class | None:
    """The class of what is made for it in `__init__`. An annotation is not followed:
    what is only known by its base class may be anything."""
    classes = [code.objects.class_of(value, field.module) for value in field.values]
    return classes[0] if len(classes) == 1 else None


def is_used_as_array(name: str, cls: Class, code: Code) -> bool:
    """Whether the methods of a class do to an attribute what is done to arrays alone,
    and nothing says that it is a numpy array, or not an array."""
    field = cls.fields.get(name)
    if field is None or code.kinds.of_field(field) is Kind.OTHER:
        return False
    if not code.kinds.may_be_array(field):
        return False
    return any(name in _used_as_arrays(owner, code) for owner in cls.ancestors)


def _used_as_arrays(cls: Class, code: Code) -> set[str]:
    def find() -> set[str]:
        found = {
            name
            for function in cls.own_methods.values()
            for node in ast.walk(function)
            for name in _arrays_in(node, cls, code)
        }
        return found | set(_indexed_in_traces(cls, code))

    return cls.module.remember((_used_as_arrays, cls.node), find)


def _indexed_in_traces(cls: Class, code: Code) -> Iterator[str]:
    """`self.x[i]` in a jitted method, where `i` is one of its arguments: a list, a
    dictionary or a numpy array would fail with a tracer."""
    for traced in traced_functions(cls.module, code.project):
        method = traced.function
        if method not in cls.own_methods.values() or not traced.is_jit:
            continue
        indices = traced.traced_parameters - _with_defaults(method)
        indices -= set(cls.module.bound_in(method))
        for node in cls.module.own_nodes(method):
            match node:
                case ast.Subscript(value, key):
                    parts = key.elts if isinstance(key, ast.Tuple) else [key]
                    if any(isinstance(p, ast.Name) and p.id in indices for p in parts):
                        yield from _of_self(value)


def _with_defaults(function: TracedNode) -> set[str]:
    """The parameters that may not be given: their defaults are not traced."""
    arguments = function.args
    by_position = [*arguments.posonlyargs, *arguments.args]
    optional = by_position[len(by_position) - len(arguments.defaults) :]
    by_name = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    optional += [argument for argument, default in by_name if default is not None]
    return {argument.arg for argument in optional}


def _arrays_in(node: ast.AST, cls: Class, code: Code) -> list[str]:
    module = cls.module
    match node:
        case ast.BinOp(left, ast.MatMult(), right):
            return [*_of_self(left), *_of_self(right)]
        case ast.Attribute(value, "T" | "mT" | "at"):
            return _of_self(value)
        case ast.Subscript(value, ast.Tuple(parts)) if any(
            isinstance(part, ast.Slice) for part in parts
        ):
            return _of_self(value)
        case ast.Call(function, arguments) if arguments:
            called = public_name(code.project.name_of(function, module))
            if _OF_ARRAYS.fullmatch(called):
                return [name for argument in arguments for name in _of_self(argument)]
            mapped = _mapped(function, cls, code)
            return [
                name
                for number, argument in enumerate(arguments)
                if mapped is not None and mapped(number)
                for name in _of_self(argument)
            ]
    return []


def _mapped(function: ast.expr, cls: Class, code: Code) -> Callable[[int], bool] | None:
    """Which arguments are mapped over, if a function is `vmap(f, in_axes)`, or an
    attribute that is one. What is mapped over is an array, or holds arrays."""
    for name in _of_self(function):
        field = cls.fields.get(name)
        if field is not None and len(field.values) == 1:
            function = field.values[0]
    axes: list[ast.expr | None] = []
    while isinstance(function, ast.Call) and function.args:
        if public_name(code.project.name_of(function.func, cls.module)) != "jax.vmap":
            break
        axes.append(_in_axes(function))
        function = function.args[0]
    if not axes:
        return None
    return lambda number: any(_is_mapped(one, number) for one in axes)


def _in_axes(vmap: ast.Call) -> ast.expr | None:
    by_name = [k.value for k in vmap.keywords if k.arg == "in_axes"]
    return next(iter([*vmap.args[1:2], *by_name]), None)


def _is_mapped(axes: ast.expr | None, number: int) -> bool:
    match axes:
        case None:
            return True  # the default is 0 for all
        case ast.Tuple(parts) | ast.List(parts):
            axis = parts[number] if number < len(parts) else None
            return isinstance(axis, ast.Constant) and isinstance(axis.value, int)
        case ast.Constant(int()):
            return True
    return False


def _of_self(node: ast.expr) -> list[str]:
    match node:
        case ast.Attribute(ast.Name("self"), name):
            return [name]
    return []
