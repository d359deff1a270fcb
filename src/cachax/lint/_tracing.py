"""The functions of a file that JAX traces: by which transform, with what static."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from ._classes import called_in_the_end, class_of
from ._jax_names import public_name
from ._module import FunctionNode, Module
from ._project import Definition, Project

# The last parts of the names below: most calls end in none of them.
_ENDINGS = {
    *("jit", "pjit", "pmap", "filter_jit", "filter_pjit", "scan", "while_loop", "map"),
    *("fori_loop", "cond", "switch", "checkpoint", "remat"),
}

# These build a program from the function: what is computed inside is a tracer, even
# from concrete arrays. (Under `vmap` or `grad` alone, those stay concrete.)
JITS = re.compile(
    r"jax\.(jit|pjit|pmap)|jax\.experimental\.pjit\.pjit|equinox\.filter_p?jit|haiku\.jit"
    r"|flax\.(nnx|linen)\.(transforms\.)?jit|cachax\.jit|jaxtyping\.jit"
)
_LOOPS = re.compile(
    r"jax\.lax\.(scan|while_loop|fori_loop|cond|switch|map)|jax\.(checkpoint|remat)"
)

# What these make of a function is traced with it, and has the same parameters.
_WRAPPERS = re.compile(
    r"jax\.(vmap|grad|value_and_grad|jacfwd|jacrev|jacobian|hessian|checkpoint|remat)"
    r"|equinox\.filter_(vmap|grad|value_and_grad|jacfwd|jacrev|checkpoint)"
)
_PARTIAL = re.compile(r"functools\.partial|jax\.tree_util\.Partial")

TracedNode = FunctionNode | ast.Lambda


@dataclass(frozen=True)
class Traced:
    """A function that is traced, by what, and which of its parameters are static."""

    function: TracedNode
    by: str  # the full name of the transform
    said: ast.expr  # the decorator or the call
    static: frozenset[str] = frozenset()
    bound_to: ast.expr | None = None  # `self` in `jax.jit(self.method)`

    @property
    def is_jit(self) -> bool:
        return JITS.fullmatch(self.by) is not None

    @property
    def traced_parameters(self) -> set[str]:
        names = parameters(self.function)
        return set(names[1:] if self.bound_to is not None else names) - self.static


def traced_functions(module: Module, project: Project) -> list[Traced]:
    """All functions of a file that a decorator or a call in it has traced."""
    return module.remember(
        traced_functions,
        lambda: [*_by_decorator(module, project), *_by_call(module, project)],
    )


def parameters(function: TracedNode) -> list[str]:
    """The names of those given by position, then of those given by name."""
    arguments = function.args
    return [
        argument.arg
        for argument in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    ]


def _by_decorator(module: Module, project: Project) -> Iterator[Traced]:
    for function in module.functions:
        for decorator in function.decorator_list:
            said, where = _behind_alias(decorator, module, project)
            transform = _transform(called_in_the_end(said), where, project)
            if transform.traces:
                static = static_parameters(function, said)
                static |= transform.static_of(function)
                yield Traced(function, transform.name, decorator, static)


@dataclass(frozen=True)
class _Transform:
    """What a function makes of a function that it is given."""

    name: str  # the full name of the function of JAX
    said: ast.expr | None = None  # its call in a function of the project

    @property
    def traces(self) -> bool:
        return bool(JITS.fullmatch(self.name) or _LOOPS.fullmatch(self.name))

    def static_of(self, function: TracedNode, skip: int = 0) -> frozenset[str]:
        if self.said is None:
            return frozenset()
        return static_parameters(function, self.said, skip)


def _transform(function: ast.expr, module: Module, project: Project) -> _Transform:
    """For a function of the project that jits what it is given, the jit in it."""
    match project.resolve(function, module):
        case Definition(other, ast.FunctionDef() as wrapper):
            found = other.remember(
                (_transform, wrapper), lambda: _jit_inside(wrapper, other, project)
            )
            if found is not None:
                return found
    return _Transform(public_name(project.name_of(function, module)))


def _jit_inside(
    wrapper: FunctionNode, module: Module, project: Project
) -> _Transform | None:
    """`jax.jit` in `def jit(f, **kwargs): return jax.jit(f, **kwargs)`, and in
    `def jit(**kwargs): return partial(jax.jit, **kwargs)`."""
    for node in ast.walk(wrapper):
        match node:
            case ast.Call(function, [ast.Name(given), *_]):
                name = public_name(project.name_of(function, module))
                if JITS.fullmatch(name) and _is_given(given, node, module):
                    return _Transform(name, node)
            case ast.Return(ast.Call(_, [ast.expr() as jit, *_]) as call):
                name = public_name(project.name_of(jit, module))
                if JITS.fullmatch(name) and called_in_the_end(call) is jit:
                    return _Transform(name, call)
    return None


def _is_given(name: str, node: ast.AST, module: Module) -> bool:
    """Whether a name is a parameter of a function around a node."""
    scopes = [scope for scope in module.scopes(node) if scope is not module.tree]
    return any(isinstance(s, TracedNode) and name in parameters(s) for s in scopes)


def _behind_alias(
    decorator: ast.expr, module: Module, project: Project
) -> tuple[ast.expr, Module]:
    """The call in `jit_method = partial(jax.jit, static_argnums=0)`, for `@jit_method`,
    or the decorator itself."""
    if isinstance(decorator, ast.Name | ast.Attribute):
        match project.resolve(decorator, module):
            case Definition(other, ast.Assign(_, ast.Call() as call)):
                return call, other
    return decorator, module


def _by_call(module: Module, project: Project) -> Iterator[Traced]:
    for call in module.calls:
        if not _may_trace(call.func, module):
            continue
        transform = _transform(call.func, module, project)
        if not transform.traces:
            continue
        is_jit = JITS.fullmatch(transform.name)
        functions = call.args[:1] if is_jit else call.args
        for argument in functions:
            inner, given = _unwrapped(argument, module, project)
            found = _function(inner, module, project)
            if found is not None:
                function, bound_to = found
                first = bound_to is not None
                static = static_parameters(function, call, skip=first + given)
                static |= transform.static_of(function, skip=first + given)
                static |= set(parameters(function)[first : first + given])
                yield Traced(function, transform.name, call, static, bound_to)


def jitted_of_bases(module: Module, project: Project) -> Iterator[Traced]:
    """`jax.jit(self.method)` in a class that has the method from a base class. The
    function may be in a different file."""
    for call in module.calls:
        if not call.args or not _may_trace(call.func, module):
            continue
        transform = _transform(call.func, module, project)
        inner, given = _unwrapped(call.args[0], module, project)
        around = (n for n in module.around(call) if isinstance(n, ast.ClassDef))
        node = next(around, None)
        if node is None or not JITS.fullmatch(transform.name):
            continue
        match inner:
            case ast.Attribute(ast.Name("self") as bound_to, name):
                cls = class_of(node, module, project)
                method = cls.method(name, below=cls)
                if name not in cls.own_methods and method is not None:
                    static = static_parameters(method[1], call, skip=1 + given)
                    yield Traced(method[1], transform.name, call, static, bound_to)


def _unwrapped(
    node: ast.expr, module: Module, project: Project
) -> tuple[ast.expr, int]:
    """The function in `vmap(grad(f))`, and how many arguments a `partial` gives it."""
    given = 0
    for _ in range(8):
        if not isinstance(node, ast.Call) or not node.args or not _may_wrap(node.func):
            break
        name = public_name(project.name_of(node.func, module))
        if name == "functools.partial" and not node.keywords:
            given += len(node.args) - 1
        elif not _WRAPPERS.fullmatch(name):
            break
        node = node.args[0]
    return node, given


def behind_transforms(node: ast.expr, module: Module, project: Project) -> ast.expr:
    """The function in `jit(vmap(f))` or `partial(f, 1)`, else the expression itself."""
    inner = node
    for _ in range(8):
        if not isinstance(inner, ast.Call) or not inner.args:
            return inner
        name = public_name(project.name_of(inner.func, module))
        if not any(of.fullmatch(name) for of in (JITS, _WRAPPERS, _PARTIAL)):
            return node
        inner = inner.args[0]
    return node


def _may_wrap(function: ast.expr) -> bool:
    return isinstance(function, ast.Name | ast.Attribute)


def _may_trace(function: ast.expr, module: Module) -> bool:
    match function:
        case ast.Attribute(_, name):
            return name in _ENDINGS
        case ast.Name(name):
            return module.imports.get(name, name).rpartition(".")[2] in _ENDINGS
    return False


def _function(
    node: ast.expr, module: Module, project: Project
) -> tuple[TracedNode, ast.expr | None] | None:
    """The function of this file behind an argument, and what it is bound to."""
    definition: object = None
    bound_to: ast.expr | None = None
    match node:
        case ast.Lambda():
            return node, None
        case ast.Attribute(ast.Name("self") as bound_to, name):
            classes = (n for n in module.around(node) if isinstance(n, ast.ClassDef))
            cls = next(classes, None)
            definition = module.definitions_in(cls).get(name) if cls else None
        case ast.Name() | ast.Attribute():  # `function`, `Class.method`
            resolved = project.resolve(node, module)
            if isinstance(resolved, Definition) and resolved.module is module:
                definition = resolved.node
    return (definition, bound_to) if isinstance(definition, FunctionNode) else None


def static_parameters(
    function: TracedNode, said: ast.expr, skip: int = 0
) -> frozenset[str]:
    """The parameters that `static_argnums` or `static_argnames` name."""
    names: set[str] = set()
    of_function = parameters(function)[skip:]
    for keyword in _keywords(said):
        if keyword.arg == "static_argnames":
            names |= {c for c in _constants(keyword.value) if isinstance(c, str)}
        elif keyword.arg in ("static_argnums", "static_broadcasted_argnums"):
            for number in _constants(keyword.value):
                if isinstance(number, int) and -1 < number < len(of_function):
                    names.add(of_function[number])
    return frozenset(names)


def _keywords(said: ast.expr) -> Iterator[ast.keyword]:
    """Of a call and of what it calls: `partial(jit, x=1)`, `jit(x=1)(f)`."""
    node: ast.expr = said
    for _ in range(8):
        if not isinstance(node, ast.Call):
            return
        yield from node.keywords
        node = node.func


def _constants(node: ast.expr) -> Iterator[object]:
    parts = node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else [node]
    for part in parts:
        if isinstance(part, ast.Constant):
            yield part.value


def reads_of(name: str, node: ast.AST) -> Iterator[ast.Attribute]:
    """Where an attribute of the variable with this name is read. The defaults of a
    function are not part of it: they are computed when it is defined."""
    parts = node.body if isinstance(node, FunctionNode) else [node]
    for inner in (inner for part in parts for inner in ast.walk(part)):
        match inner:
            case ast.Attribute(ast.Name(variable), _, ast.Load()) if variable == name:
                yield inner
