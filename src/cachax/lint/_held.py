"""Which attributes of an object hold arrays: as assigned, as annotated, as used."""

import ast
import re
from collections.abc import Callable, Iterator

from ._annotations import is_none
from ._classes import Class, class_of
from ._code import Code
from ._fields import Field
from ._jax_names import ATTRIBUTES_OF_NO_ARRAY, Kind, public_name
from ._module import Bound, FunctionNode, Module
from ._objects import arguments
from ._project import Definition
from ._reach import reads_reached
from ._tracing import TracedNode, parameters, reads_of, traced_functions
from ._writes import writes

_MOST_DEPTH = 3  # of plain objects in attributes of plain objects

# Functions with arguments that are arrays, or they fail or have nothing to do, and how
# many of them are. A number would do for `jnp.exp`, so that says nothing.
_OF_ARRAYS = [
    (r"jax\.numpy\.(einsum|interp|linalg\.multi_dot)", 9),
    (
        r"jax\.numpy\.(dot|vdot|matmul|tensordot|inner|outer|kron|cross|convolve|take"
        r"|searchsorted|take_along_axis|linalg\.(solve|lstsq|tensorsolve))"
        r"|jax\.scipy\.(linalg\.(solve|solve_triangular|cho_solve)|signal\.\w+)"
        r"|jax\.ops\.segment_\w+|jax\.lax\.(dot\w*|conv\w*|gather|scatter\w*)",
        2,
    ),
    (
        r"jax\.numpy\.(concatenate|stack|[hvd]stack|(linalg|fft)\.\w+|sum|mean|prod|max"
        r"|min|cumsum|cumprod|median|quantile|percentile|std|var|argmin|argmax|argsort"
        r"|sort|transpose|reshape|ravel|swapaxes|moveaxis|squeeze|diag|diagonal|trace"
        r"|tril|triu|roll|flip|diff|pad)"
        r"|jax\.scipy\.(linalg|ndimage|fft)\.\w+|jax\.lax\.dynamic_\w+"
        r"|jax\.random\.(split|fold_in|normal|uniform|bernoulli|categorical|choice"
        r"|permutation|randint|gumbel|exponential|gamma|beta|truncated_normal)",
        1,
    ),
]
_COMPILED = [(re.compile(pattern), count) for pattern, count in _OF_ARRAYS]
_METHODS = {"reshape", "ravel", "astype", "argmax", "argmin", "argsort", "cumsum"}
# Functions that ask something of an array, but not for its numbers.
_QUESTIONS = {"len", "isinstance", "hasattr", "type", "callable", "id"}
_LINEN = re.compile(r"(flax\.linen|haiku)\.(.+\.)?\w*Module")


def arrays_read(
    function: FunctionNode, cls: Class, code: Code, depth: int = _MOST_DEPTH
) -> set[str]:
    """The attributes with arrays that a method reads, by itself or through others of
    its object; also attributes with an object of a plain class of the project, if what
    is read or called there reads such arrays."""
    reads = reads_reached([function.name], cls)
    return {r.attr for r, m in reads if _reads_array(r, m, cls, code, depth)}


def arrays_read_inside(
    function: TracedNode, obj: str, cls: Class, code: Code
) -> set[str]:
    """The same of a function in a method, which knows the object as `obj`."""
    own = list(_reads_taken_along(function, obj, code.module))
    reads = [(read, code.module) for read in own]
    reads += reads_reached([read.attr for read in own], cls)
    return {r.attr for r, m in reads if _reads_array(r, m, cls, code, _MOST_DEPTH)}


def _reads_taken_along(
    function: TracedNode, obj: str, module: Module
) -> Iterator[ast.Attribute]:
    """What a function in a method reads of the object, by itself, in functions of the
    method that it uses, and through local variables: `x = self.x` before it."""
    waiting = [function]
    for inner in waiting:  # grows while it is walked
        yield from reads_of(obj, inner)
        for name in _free_names(inner, module):
            for scope in module.scopes(inner):
                if not isinstance(scope, FunctionNode):
                    break
                bounds = module.bound_in(scope).get(name.id, [])
                made = module.definitions_in(scope).get(name.id)
                if isinstance(made, FunctionNode) and made not in waiting:
                    waiting.append(made)
                if bounds or made is not None:
                    yield from _is_read(bounds, obj)
                    break


def _free_names(function: TracedNode, module: Module) -> Iterator[ast.Name]:
    """Where it uses variables that it doesn't assign. `x.shape` doesn't count."""
    inside = list(ast.walk(function))
    own = {node.arg for node in inside if isinstance(node, ast.arg)}
    own |= set(module.bound_in(function))
    for node in inside:
        match node, module.parent(node):
            case ast.Name(), ast.Attribute(_, name) if name in ATTRIBUTES_OF_NO_ARRAY:
                continue
            case ast.Name(name, ast.Load()), _ if name not in own:
                yield node


def _is_read(bounds: list[Bound], obj: str) -> Iterator[ast.Attribute]:
    match [bound.value for bound in bounds]:
        case [ast.Attribute(ast.Name(name)) as read] if name == obj:
            yield read


def _reads_array(
    read: ast.Attribute, module: Module, cls: Class, code: Code, depth: int
) -> bool:
    field = cls.fields.get(read.attr)
    if field is None or cls.method(read.attr) is not None or is_linen(cls):
        return False
    match module.parent(read):
        case ast.Attribute(_, name) if name in ATTRIBUTES_OF_NO_ARRAY:
            return False  # `self.x.shape`
        case ast.comprehension() | ast.For() if _is_dict(field):
            return False  # its keys
        case ast.Call(ast.Name(name)) if name in _QUESTIONS:
            return False
        case ast.Compare(_, operators) if all(map(_is_identity, operators)):
            return False  # `self.x is None`
    other = _class_of(field, code) if depth > 0 else None
    if other is not None and other is not cls and not is_linen(other):
        for path in _paths(read, module):
            found = _has_array(other, path, code, depth)
            if found:
                return True
            if found is None:
                break
        else:
            return False
    return (
        _is_array(field, code)
        or (depth == _MOST_DEPTH and _is_leaf(field, cls, code))
        or is_used_as_array(read.attr, cls, code)
        or _reads_used_part(read, module, cls, code)
    )


def _reads_used_part(
    read: ast.Attribute, module: Module, cls: Class, code: Code
) -> bool:
    """Whether it is `self.state` in `self.state.x`, and the methods of the class do to
    that what is done to arrays alone."""
    for path in _paths(read, module):
        if path and _is_part_used_as_array(read.attr, path[0], cls, code):
            return path[1:2] == [] or path[1] not in ATTRIBUTES_OF_NO_ARRAY
    return False


def _is_part_used_as_array(name: str, part: str, cls: Class, code: Code) -> bool:
    other = code.objects.class_of_attribute(cls, name)
    if other is not None:
        inner = other.fields.get(part)
        if inner is None or other.method(part) is not None:
            return False
        if code.kinds.of_field(inner) is Kind.OTHER:
            return False
    used = (_used_as_arrays(owner, code) for owner in cls.ancestors)
    return any(f"{name}.{part}" in names for names in used)


def _is_identity(operator: ast.cmpop) -> bool:
    return isinstance(operator, ast.Is | ast.IsNot)


def _paths(read: ast.Attribute, module: Module) -> Iterator[list[str]]:
    """What is read of an object in turn: `["grid", "x"]` for `self.plan.grid.x`, also
    if a local variable stands for `self.plan` or `self.plan.grid`."""
    path: list[str] = []
    node: ast.expr = read
    while isinstance(parent := module.parent(node), ast.Attribute):
        path.append(parent.attr)
        node = parent
    uses = list(_uses_of_alias(node, module))
    if not uses:
        yield path
    for use in uses:
        rest: list[str] = []
        while isinstance(parent := module.parent(use), ast.Attribute):
            rest.append(parent.attr)
            use = parent
        yield [*path, *rest]


def _uses_of_alias(value: ast.expr, module: Module) -> Iterator[ast.expr]:
    """Where a local variable is read that is this value and nothing else."""
    scope = next(iter(module.scopes(value)), None)
    if not isinstance(scope, FunctionNode | ast.Lambda):
        return
    for name, bounds in module.bound_in(scope).items():
        if len(bounds) == 1 and bounds[0].value is value:
            for node in ast.walk(scope):
                match node:
                    case ast.Name(used, ast.Load()) if used == name:
                        yield node


def _has_array(cls: Class, path: list[str], code: Code, depth: int) -> bool | None:
    """Whether there is an array at a path of attributes; None if that is unknown."""
    if not path or depth <= 0:
        return None
    name, *rest = path
    method = cls.method(name)
    if method is not None:
        return bool(arrays_read(method[1], cls, code, depth - 1))
    field = cls.fields.get(name)
    if field is None:
        return None
    if _is_array(field, code):
        return not rest or rest[0] not in ATTRIBUTES_OF_NO_ARRAY
    inner = code.objects.class_of_attribute(cls, name) if rest else None
    return bool(inner and _has_array(inner, rest, code, depth - 1))


def _is_array(field: Field, code: Code) -> bool:
    return (
        code.kinds.of_field(field).has_arrays
        or code.kinds.names_array(field)
        or code.kinds.field_may_be_tree_of_arrays(field)
    )


def _is_leaf(field: Field, cls: Class, code: Code) -> bool:
    """Of the object itself: what the class has registered as data. In an object that it
    holds, a leaf may as well be a number."""
    if field.name not in cls.leaf_fields or not code.kinds.may_be_array(field):
        return False
    return code.kinds.of_field(field) is not Kind.OTHER


def is_linen(cls: Class) -> bool:
    """A module of flax.linen or haiku: its arrays are made in the trace."""
    bases = [base for owner in cls.ancestors for base in owner.bases]
    return any(isinstance(base, str) and _LINEN.fullmatch(base) for base in bases)


def _is_dict(field: Field) -> bool:
    made = field.values or (field.annotation,)
    return all(isinstance(value, ast.Dict | ast.DictComp) for value in made)


def _class_of(field: Field, code: Code) -> Class | None:
    """The class of what is made for it in `__init__`, or that its annotation names. If
    that has subclasses, it may be anything."""
    if field.annotation is not None:
        said = code.objects.annotated_class(field.annotation, field.module)
        return None if said is None or said.subclasses else said
    classes = [code.objects.class_of(value, field.module) for value in field.values]
    first = classes[0] if classes else None
    return first if all(cls is first for cls in classes) else None


def is_used_as_array(name: str, cls: Class, code: Code) -> bool:
    """Whether the methods of a class do to an attribute what is done to arrays alone,
    and nothing says that it is a numpy array, or not an array."""
    field = cls.fields.get(name)
    if field is None or code.kinds.of_field(field) is Kind.OTHER:
        return False
    if not code.kinds.may_hold_arrays(field):
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
                        yield from _of_self(value, cls.module)


def _with_defaults(function: TracedNode) -> set[str]:
    """The parameters that may not be given: their defaults are not traced."""
    arguments = function.args
    by_position = [*arguments.posonlyargs, *arguments.args]
    optional = by_position[len(by_position) - len(arguments.defaults) :]
    by_name = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    optional += [argument for argument, default in by_name if default is not None]
    return {argument.arg for argument in optional}


def _arrays_in(node: ast.AST, cls: Class, code: Code) -> list[str]:
    """The attributes that are arrays if a node is in a method."""
    match node:
        case ast.BinOp(left, ast.MatMult(), right):
            arrays = [left, right]
        case ast.Attribute(value, "T" | "mT" | "at"):
            arrays = [value]
        case ast.Call(ast.Attribute(value, name)) if name in _METHODS:
            arrays = [value]
        case ast.Subscript(value, key) if _is_of_array(key):
            arrays = [value]
        case ast.Call():
            arrays = _arrays_given(node, cls, code)
        case _:
            return []
    return [name for array in arrays for name in _of_self(array, cls.module)]


def _is_of_array(key: ast.expr) -> bool:
    """`x[:, 0]`, `x[..., 0]`, `x[None]`: of nothing but an array."""
    match key:
        case ast.Tuple(parts):
            return any(isinstance(p, ast.Slice) or _is_of_array(p) for p in parts)
        case ast.Constant(value):
            return value is None or value is ...
    return False


def _arrays_given(call: ast.Call, cls: Class, code: Code) -> list[ast.expr]:
    """The arguments of a call that are arrays, or hold arrays."""
    name = public_name(code.project.name_of(call.func, cls.module))
    for pattern, count in _COMPILED:
        if pattern.fullmatch(name):
            return [one for given in call.args[:count] for one in _parts(given)]
    match call:
        case ast.Call(ast.Attribute(_, "apply"), [variables, _, *_]):
            return [variables]  # of a module of flax.linen or haiku
    for function, module in _functions(call.func, cls, code):
        return [
            argument
            for parameter, argument in arguments(call, function, module)
            if _is_annotated_as_array(parameter, module, code)
        ]
    mapped = _mapped(call.func, cls, code)
    return [a for n, a in enumerate(call.args) if mapped is not None and mapped(n)]


def _is_annotated_as_array(parameter: ast.arg, module: Module, code: Code) -> bool:
    said = parameter.annotation
    holds = code.kinds.of_annotation(said, module).has_arrays
    return holds or code.kinds.may_be_tree_of_arrays(said, module)


def _parts(node: ast.expr) -> list[ast.expr]:
    return node.elts if isinstance(node, ast.List | ast.Tuple) else [node]


def _functions(
    node: ast.expr, cls: Class, code: Code
) -> Iterator[tuple[FunctionNode, Module]]:
    """The function of the project behind `f`, `self.f` or `super().f`, or the
    constructor of a class, and its file."""
    match node:
        case ast.Attribute(ast.Name("self"), name):
            method = cls.method(name)
        case ast.Attribute(ast.Call(ast.Name("super"), []), name):
            method = cls.method(name, below=cls)
        case _:
            match code.project.resolve(node, cls.module):
                case Definition(other, ast.FunctionDef() as function):
                    yield function, other
                    return
                case Definition(other, ast.ClassDef() as inner):
                    made = class_of(inner, other, code.project)
                    method = made.method("__init__")
                case _:
                    return
    if method is not None:
        yield method[1], method[0].module


def _mapped(function: ast.expr, cls: Class, code: Code) -> Callable[[int], bool] | None:
    """Which arguments are mapped over, if a function is `vmap(f, in_axes)`, or an
    attribute that is one. What is mapped over is an array, or holds arrays."""
    for name in _of_self(function, cls.module):
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
            return axis is not None and not is_none(axis)  # a number, or a tree of them
        case ast.Constant(int()):
            return True
    return False


def _of_self(node: ast.expr, module: Module) -> list[str]:
    """The attribute in `self.x`, `self.x["key"]`, `self.x[0]` and `getattr(self.x, y)`,
    also behind a local variable, a parameter that is stored there, or a method that
    returns it. For `self.state.x`, that is `state.x`."""
    match node:
        case ast.Attribute(ast.Name("self"), name):
            return [name]
        case ast.Attribute(ast.Attribute(ast.Name("self"), name), part):
            return [f"{name}.{part}"]
        case ast.Call(ast.Name("getattr"), [value, *_]):
            return _of_self(value, module)
        case ast.Call(ast.Attribute(ast.Name("self"), name)):
            return _given_back(node, name, module)
        case ast.Subscript(value, ast.Constant(str() | int())):
            return _of_self(value, module)
        case ast.Name(name):
            return _behind(node, name, module)
    return []


def _given_back(node: ast.Call, name: str, module: Module) -> list[str]:
    """The attributes that a method of the class around a node returns as they are."""
    classes = (n for n in module.around(node) if isinstance(n, ast.ClassDef))
    cls = next(classes, None)
    method = module.definitions_in(cls).get(name) if cls else None
    found: list[str] = []
    for inner in module.own_nodes(method) if isinstance(method, FunctionNode) else ():
        match inner:
            case ast.Return(ast.Attribute(ast.Name("self"), attribute)):
                found.append(attribute)
    return found


def _behind(node: ast.Name, name: str, module: Module) -> list[str]:
    for scope in module.scopes(node):
        if not isinstance(scope, FunctionNode | ast.Lambda):
            return []
        bounds = module.bound_in(scope).get(name, [])
        if name in parameters(scope):
            return [] if bounds else _stored(name, scope, module)
        if bounds:
            value = bounds[0].value
            is_other = len(bounds) > 1 or value is None or isinstance(value, ast.Name)
            return [] if is_other or value is None else _of_self(value, module)
    return []


def _stored(name: str, function: TracedNode, module: Module) -> list[str]:
    """`self.x = x`"""
    if isinstance(function, ast.Lambda):
        return []
    return [
        write.attribute
        for write in writes(function, "self", module)
        if isinstance(write.value, ast.Name) and write.value.id == name
    ]
