"""The members of objects that a traced function reaches, directly or through others."""

import ast
from collections.abc import Iterable, Iterator

from ._classes import Class
from ._code import Code
from ._defaults import defaults_not_used
from ._module import FunctionNode, Module
from ._project import Definition
from ._tracing import Traced, TracedNode, behind_transforms, reads_of
from ._writes import own_object

# Of a flax TrainState: the same in every state, so an update doesn't change them.
_FUNCTIONS = {"apply_fn", "tx"}


def members_read(
    traced: Traced, code: Code, of_arguments: bool = False
) -> dict[FunctionNode, Class]:
    """The methods and properties that are read on closed-over or static objects; with
    `of_arguments`, on the traced arguments too."""
    found: dict[TracedNode, Class] = {}
    for node in ast.walk(traced.function):
        match node:
            case ast.Attribute(ast.Name(variable) as obj, name, ast.Load()):
                if of_arguments or variable not in traced.traced_parameters:
                    cls = code.objects.class_of(obj, code.module)
                    if cls is not None:
                        _follow(cls, name, found)
    return _methods(found)


def reached_in_traces(code: Code) -> set[FunctionNode]:
    """The methods that traced functions call on objects that are not arguments."""
    return code.module.remember(
        reached_in_traces,
        lambda: {f for traced in code.traced for f in members_read(traced, code)},
    )


def attributes_read(function: FunctionNode, cls: Class) -> set[str]:
    """The attributes of its object that a method reads, by itself or through others."""
    return {read.attr for read, _ in reads_reached([function.name], cls)}


def methods_used(function: FunctionNode, cls: Class) -> dict[FunctionNode, Class]:
    """A method, and those of the same object that it uses, each with its class."""
    return _methods(_reached([function.name], cls))


def reads_reached(
    names: Iterable[str], cls: Class
) -> Iterator[tuple[ast.Attribute, Module]]:
    """What the members with these names read of their object, and the members that
    they use in turn, each with its file. What is read for an argument that every call
    gives is left out, and so are the functions in a train state."""
    first = set(names)
    reached = _reached(first, cls)
    replaced = defaults_not_used(reached, first)
    for function, owner in reached.items():
        for read in _own(function, owner):
            parent = owner.module.parent(read)
            is_function = (
                isinstance(parent, ast.Attribute) and parent.attr in _FUNCTIONS
            )
            if read not in replaced and not is_function:
                yield read, owner.module


def _reached(names: Iterable[str], cls: Class) -> dict[TracedNode, Class]:
    found: dict[TracedNode, Class] = {}
    for name in names:
        _follow(cls, name, found)
    return found


def _methods(found: dict[TracedNode, Class]) -> dict[FunctionNode, Class]:
    return {
        function: owner
        for function, owner in found.items()
        if isinstance(function, FunctionNode) and own_object(function, owner.module)
    }


def _follow(cls: Class, name: str, found: dict[TracedNode, Class]) -> None:
    """Adds a member, and the members of the same object that it uses in turn."""
    waiting: list[tuple[str, Class | None]] = [(name, None)]
    for member, below in waiting:  # grows while it is walked
        for function, owner in _functions(cls, member, below):
            if function not in found:
                found[function] = owner
                waiting += [(read.attr, None) for read in _own(function, owner)]
                waiting += [(of, owner) for of in _of_super(function, owner.module)]


def _functions(
    cls: Class, name: str, below: Class | None
) -> Iterator[tuple[TracedNode, Class]]:
    """The method of this name, or the function that an attribute holds: for
    `self.f = jax.vmap(self.g)`, that is `g`."""
    method = cls.method(name, below)
    if method is not None:
        yield method[1], method[0]
        return
    field = cls.fields.get(name)
    for value in field.values if field else ():
        assert field is not None
        inner = behind_transforms(value, field.module, cls.project)
        match inner:
            case ast.Attribute(ast.Name("self"), held):
                method = cls.method(held)
                if method is not None:
                    yield method[1], method[0]
            case ast.Lambda():
                yield inner, _owner(cls, field.module)
            case ast.Name():
                match cls.project.resolve(inner, field.module):
                    case Definition(module, ast.FunctionDef() as function):
                        if _object_in(function, module):
                            yield function, _owner(cls, module)


def _owner(cls: Class, module: Module) -> Class:
    """The class in whose file a function is."""
    return next((owner for owner in cls.ancestors if owner.module is module), cls)


def _own(function: TracedNode, owner: Class) -> list[ast.Attribute]:
    obj = _object_in(function, owner.module)
    return list(reads_of(obj, function)) if obj else []


def _object_in(function: TracedNode, module: Module) -> str | None:
    """The name that a method, or a function in it, has for the object."""
    for node in [function, *module.around(function)]:
        if isinstance(node, FunctionNode):
            obj = own_object(node, module)
            if obj is not None:
                return obj
    return None


def _of_super(function: TracedNode, module: Module) -> Iterator[str]:
    """The members that are read of `super()`, also behind a local variable."""
    bounds = module.bound_in(function)
    for node in ast.walk(function):
        match node:
            case ast.Attribute(ast.Call(ast.Name("super")), name):
                yield name
            case ast.Attribute(ast.Name(variable), name):
                for bound in bounds.get(variable, []):
                    match bound.value:
                        case ast.Call(ast.Name("super")):
                            yield name
