"""What a method writes to its object, and whether it looks first if it is there."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ._classes import Class
from ._kinds import is_self
from ._module import FunctionNode, Module, own_nodes

# Where an object is made or restored, writing to it is what is done.
MAKERS = {
    *("__init__", "__new__", "__post_init__", "__attrs_post_init__", "__check_init__"),
    *("__setstate__", "__setattr__", "__delattr__", "__init_subclass__", "setup"),
    *("tree_unflatten", "__tree_unflatten__", "model_post_init", "__set_name__"),
    *("__setitem__", "__delitem__", "__enter__", "__exit__", "__set__"),
}
_SETTERS = ("object.__setattr__", "setattr")


@dataclass(frozen=True)
class Write:
    """`self.attribute = value` in any spelling, or `self.attribute[key] = value`."""

    attribute: str
    value: ast.expr | None
    node: ast.stmt | ast.expr
    is_item: bool = False
    is_lazy: bool = False  # the method has asked before whether it is there


def own_object(function: FunctionNode, module: Module) -> str | None:
    """The name a method has for its object, mostly `self`."""
    arguments = [*function.args.posonlyargs, *function.args.args]
    if arguments and is_self(function, arguments[0], module):
        return arguments[0].arg
    return None


def writes(function: FunctionNode, obj: str) -> list[Write]:
    """What a function writes to the object it calls `obj`."""
    nodes = list(own_nodes(function))
    asked = _asked_for(nodes, obj)
    return [
        Write(attribute, value, node, is_item, is_lazy=attribute in asked)
        for node in nodes
        if isinstance(node, ast.stmt | ast.expr)
        for attribute, value, is_item in _written_by(node, obj)
    ]


def is_maker(function: FunctionNode, cls: Class) -> bool:
    """Whether an object is made in it: a constructor, or a helper that one calls."""
    if function.name in MAKERS or is_setter(function):
        return True
    makers = [method for name in MAKERS if (method := cls.own_methods.get(name))]
    return any(
        isinstance(node, ast.Attribute) and node.attr == function.name
        for maker in makers
        for node in ast.walk(maker)
    )


def is_setter(function: FunctionNode) -> bool:
    """`@x.setter`: to write is its purpose."""
    return any(
        isinstance(node, ast.Attribute) and node.attr in ("setter", "deleter")
        for node in function.decorator_list
    )


def _written_by(node: ast.AST, obj: str) -> Iterator[tuple[str, ast.expr | None, bool]]:
    """Attribute, value, and whether it is an item of it."""
    match node:
        case ast.Assign(targets, value):
            for target in targets:
                yield from _target(target, value, obj)
        case ast.AnnAssign(target, _, ast.expr() as value):
            yield from _target(target, value, obj)
        case ast.AugAssign(target, _, value):
            yield from _target(target, value, obj)
        case ast.Call(function, [ast.Name(name), ast.Constant(str(attribute)), value]):
            if name == obj and ast.unparse(function) in _SETTERS:
                yield attribute, value, False
        case ast.Call(
            ast.Attribute(ast.Attribute(ast.Name(name), attribute), "setdefault"),
            [_, value],
        ):
            if name == obj:
                yield attribute, value, True


def _target(
    target: ast.expr, value: ast.expr | None, obj: str
) -> Iterator[tuple[str, ast.expr | None, bool]]:
    match target:
        case ast.Attribute(ast.Name(name), attribute) if name == obj:
            yield attribute, value, False
        case ast.Subscript(
            ast.Attribute(ast.Name(name), "__dict__")
            | ast.Call(ast.Name("vars"), [ast.Name(name)]),
            ast.Constant(str(attribute)),
        ) if name == obj:
            yield attribute, value, False
        case ast.Subscript(ast.Attribute(ast.Name(name), attribute)) if name == obj:
            if attribute != "__dict__":
                yield attribute, value, True
        case ast.Tuple(targets) | ast.List(targets):
            values: list[ast.expr | None] = [None] * len(targets)
            if isinstance(value, ast.Tuple) and len(value.elts) == len(targets):
                values = list(value.elts)
            for inner, part in zip(targets, values, strict=True):
                yield from _target(inner, part, obj)


def _asked_for(nodes: list[ast.AST], obj: str) -> set[str]:
    """The attributes that the code asks for: are they None, are they there?"""
    aliases = {
        node.targets[0].id: attribute
        for node in nodes
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        for attribute in _attribute_of(node.value, obj)
    }
    found: set[str] = set()
    for node in nodes:
        match node:
            case ast.If(test) | ast.IfExp(test) | ast.While(test):
                found |= _asked_in(test, obj, aliases)
            case ast.Try(body, handlers) if any(map(_is_missing, handlers)):
                for inner in body:
                    for part in ast.walk(inner):
                        found |= set(_attribute_of(part, obj))
    return found


def _asked_in(test: ast.expr, obj: str, aliases: dict[str, str]) -> set[str]:
    match test:
        case ast.BoolOp(_, values):
            return set().union(*(_asked_in(value, obj, aliases) for value in values))
        case ast.UnaryOp(ast.Not(), operand):
            return _asked_in(operand, obj, aliases)
        case ast.Compare(left, [ast.Is() | ast.IsNot()], [ast.Constant(None)]):
            return _asked_in(left, obj, aliases)
        case ast.Compare(left, [ast.In() | ast.NotIn()], [container]):
            if isinstance(left, ast.Constant) and _is_dict_of(container, obj):
                return {str(left.value)}
            if isinstance(container, ast.Call):  # `in self._cache.keys()`
                container = getattr(container.func, "value", container)
            return set(_attribute_of(container, obj))
        case ast.Name(name):
            return {aliases[name]} if name in aliases else set()
    return set(_attribute_of(test, obj))


def _attribute_of(node: ast.AST, obj: str) -> list[str]:
    """`self.x`, `hasattr(self, "x")`, `getattr(self, "x", None)`: the attribute."""
    match node:
        case ast.Attribute(ast.Name(name), attribute) if name == obj:
            return [attribute]
        case ast.Call(
            ast.Name("hasattr" | "getattr"),
            [ast.Name(name), ast.Constant(str(attribute)), *_],
        ) if name == obj:
            return [attribute]
        case ast.Subscript(ast.Attribute(ast.Name(name), attribute)) if name == obj:
            return [attribute]
    return []


def _is_dict_of(node: ast.expr, obj: str) -> bool:
    match node:
        case ast.Attribute(ast.Name(name), "__dict__") if name == obj:
            return True
        case ast.Call(ast.Name("vars"), [ast.Name(name)]) if name == obj:
            return True
    return False


def _is_missing(handler: ast.ExceptHandler) -> bool:
    names = ast.unparse(handler.type) if handler.type else "AttributeError"
    return "AttributeError" in names or "KeyError" in names
