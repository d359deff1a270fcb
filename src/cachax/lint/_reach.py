"""The members of objects that a traced function reaches, directly or through others."""

import ast
from collections.abc import Iterable

from ._classes import Class
from ._code import Code
from ._module import FunctionNode
from ._tracing import Traced, reads_of
from ._writes import own_object


def members_read(
    traced: Traced, code: Code, of_arguments: bool = False
) -> dict[FunctionNode, Class]:
    """The methods and properties that are read on closed-over or static objects; with
    `of_arguments`, on the traced arguments too."""
    found: dict[FunctionNode, Class] = {}
    for node in ast.walk(traced.function):
        match node:
            case ast.Attribute(ast.Name(variable) as obj, name, ast.Load()):
                if of_arguments or variable not in traced.traced_parameters:
                    cls = code.objects.class_of(obj, code.module)
                    if cls is not None:
                        _follow(cls, name, found)
    return found


def attributes_read(function: FunctionNode, cls: Class) -> set[str]:
    """The attributes of its object that a method reads, by itself or through others."""
    methods = methods_used(function, cls)
    return {name for method, owner in methods.items() for name in _own(method, owner)}


def methods_used(function: FunctionNode, cls: Class) -> dict[FunctionNode, Class]:
    """A method, and those of the same object that it uses, each with its class."""
    return members_reached([function.name], cls)


def members_reached(names: Iterable[str], cls: Class) -> dict[FunctionNode, Class]:
    """The methods and properties of these names, and those that they use in turn."""
    found: dict[FunctionNode, Class] = {}
    for name in names:
        _follow(cls, name, found)
    return found


def _follow(cls: Class, name: str, found: dict[FunctionNode, Class]) -> None:
    """Adds a member, and the members of the same object that it uses in turn."""
    waiting = [name]
    for member in waiting:  # grows while it is walked
        method = cls.method(member)
        if method is not None and method[1] not in found:
            owner, function = method
            found[function] = owner
            waiting += _own(function, owner)


def _own(function: FunctionNode, owner: Class) -> list[str]:
    obj = own_object(function, owner.module)
    return [node.attr for node in reads_of(obj, function)] if obj else []
