"""What a method writes to its object, and whether it looks first if it is there."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ._annotations import is_none
from ._classes import Class, is_setter, members_called
from ._fields import Field
from ._module import FunctionNode, Module, dotted
from ._objects import is_self

# Where an object is made or restored, writing to it is what is done.
MAKERS = {
    *("__init__", "__new__", "__post_init__", "__attrs_post_init__", "__check_init__"),
    *("__setstate__", "__setattr__", "__delattr__", "__init_subclass__", "setup"),
    *("tree_unflatten", "__tree_unflatten__", "model_post_init", "__set_name__"),
    *("__setitem__", "__delitem__", "__enter__", "__exit__", "__set__"),
}
# Where variables of flax and of libraries like it keep their arrays.
_PLACES = {"value", "raw_value"}


@dataclass(frozen=True)
class Write:
    """`self.attribute = value` in any spelling, or `self.attribute[key] = value`."""

    attribute: str
    value: ast.expr | None
    node: ast.stmt | ast.expr
    key: ast.expr | None = None
    is_lazy: bool = False  # the method has asked before whether it is there

    @property
    def is_item(self) -> bool:
        return self.key is not None


def own_object(function: FunctionNode, module: Module) -> str | None:
    """The name a method has for its object, mostly `self`."""
    arguments = [*function.args.posonlyargs, *function.args.args]
    if arguments and is_self(function, arguments[0], module):
        return arguments[0].arg
    return None


def writes(function: FunctionNode, obj: str, module: Module) -> list[Write]:
    """What a function writes to the object it calls `obj`."""
    key = (_written, function)
    return module.remember(key, lambda: _written(function, module)).get(obj, [])


def _written(function: FunctionNode, module: Module) -> dict[str, list[Write]]:
    """What a function writes to attributes of variables, by variable."""
    nodes = module.own_nodes(function)
    found: dict[str, list[Write]] = {}
    for node in nodes:
        for obj, write in _written_by(node):
            found.setdefault(obj, []).append(write)
    for obj, write in _written_by_another_name(nodes):
        found.setdefault(obj, []).append(write)
    return {obj: _with_lazy_ones_marked(of, nodes, obj) for obj, of in found.items()}


def _with_lazy_ones_marked(
    found: list[Write], nodes: list[ast.AST], obj: str
) -> list[Write]:
    asked = _asked_for(nodes, obj)
    return [replace(write, is_lazy=write.attribute in asked) for write in found]


def writes_inside(function: FunctionNode, obj: str, module: Module) -> Iterator[Write]:
    """What a function writes to objects that its object holds (`self.a.b = value`), and
    attributes that it sets by a name that is computed (then `attribute` is empty).
    What it takes away again (`self.a.b = None`) is left out."""
    found = list(_written_inside(function, obj, module))
    taken_away = {w.attribute for w in found if w.value and is_none(w.value)}
    yield from (write for write in found if write.attribute not in taken_away)


def _written_inside(
    function: FunctionNode, obj: str, module: Module
) -> Iterator[Write]:
    for node in module.own_nodes(function):
        match node:
            case ast.Assign(targets, value):
                for target in targets:
                    path = (dotted(target) or "").split(".")
                    if path[0] == obj and len(path) > 2 and path[-1] not in _PLACES:
                        yield Write(".".join(path[1:]), value, node)
            case ast.Call(
                ast.Name("setattr") | ast.Attribute(ast.Name("object"), "__setattr__"),
                [ast.Name(name), attribute, value],
            ) if name == obj and not isinstance(attribute, ast.Constant):
                yield Write("", value, node)


def put_into_lists(
    function: FunctionNode, obj: str, cls: Class, module: Module
) -> Iterator[Write]:
    """`self.log.append(value)`, where `log` is a list for all that is known of it."""
    for node in module.own_nodes(function):
        match node:
            case ast.Call(
                ast.Attribute(
                    ast.Attribute(ast.Name(name), attribute),
                    "append" | "extend" | "insert",
                ),
                [*_, value],
            ) if name == obj and _is_list(cls.fields.get(attribute)):
                yield Write(attribute, value, node)


def _is_list(field: Field | None) -> bool:
    if field is None:
        return False
    if field.annotation is not None:
        return ast.unparse(field.annotation).partition("[")[0] in ("list", "List")
    return bool(field.values) and all(
        isinstance(value, ast.List) or ast.unparse(value) == "list()"
        for value in field.values
    )


def is_returned(write: Write, function: FunctionNode, obj: str, module: Module) -> bool:
    """Whether the function returns what it has written: as a cache does."""
    nodes = module.own_nodes(function)
    aliases = _aliases(nodes, obj)
    names = {name for name, kept in aliases.items() if kept == write.attribute}
    match write.value:
        case ast.Name(name):
            names.add(name)
        case ast.Call(made, [ast.Name(name)]) if _is_class_name(made):  # `Box(value)`
            names.add(name)
    returned = [node.value for node in nodes if isinstance(node, ast.Return)]
    return any(
        (isinstance(node, ast.Name) and node.id in names)
        or write.attribute in _attribute_of(node, obj)
        for value in returned
        if value is not None
        for node in ast.walk(value)
    )


def is_returned_whole(
    write: Write, function: FunctionNode, obj: str, module: Module
) -> bool:
    """Whether the function returns just that: `return self.x`, `return self.x[key]`."""
    nodes = module.own_nodes(function)
    aliases = _aliases(nodes, obj)
    for node in nodes:
        value = node.value if isinstance(node, ast.Return) else None
        match write.value, value:
            case ast.Name(name), ast.Name(other) if name == other:
                return True
            case _, ast.Name(name) | ast.Subscript(ast.Name(name)):
                if aliases.get(name) == write.attribute:
                    return True
            case _, ast.expr() if write.attribute in _attribute_of(value, obj):
                return True
    return False


def _is_class_name(node: ast.expr) -> bool:
    name = (dotted(node) or "").rpartition(".")[2]
    return name.lstrip("_")[:1].isupper()


def is_maker(function: FunctionNode, cls: Class) -> bool:
    """Whether an object is made in it: a constructor, a helper of one, a setter."""
    module = cls.module
    makers = module.remember(_makers, lambda: _makers(module))
    if function.name in makers or is_setter(function):
        return True
    key = (is_maker, cls.node)
    by_bases = module.remember(key, lambda: set(cls.called_by(sorted(MAKERS))))
    return function.name in by_bases


def _makers(module: Module) -> set[str]:
    """The constructors and the methods that they call, directly or through others.

    By name only: a helper of a base class may be called by the constructors of others.
    """
    methods: dict[str, list[FunctionNode]] = {}
    for function in module.functions:
        methods.setdefault(function.name, []).append(function)
    names = sorted(MAKERS) + sorted(_put_in_as_constructors(module))
    for name in names:  # grows while it is walked
        for function in methods.get(name, []):
            called = members_called(function) & set(methods)
            names += sorted(called.difference(names))
    return set(names)


def _put_in_as_constructors(module: Module) -> set[str]:
    """The functions in `setattr(cls, "__init__", f)` and `cls.__init__ = f`."""
    found: set[str] = set()
    for node in module.nodes:
        match node:
            case ast.Call(
                ast.Name("setattr"), [_, ast.Constant(name), ast.Name(made)]
            ) | ast.Assign([ast.Attribute(_, name)], ast.Name(made)) if name in MAKERS:
                found.add(made)
    return found


def _written_by(node: ast.AST) -> Iterator[tuple[str, Write]]:
    """The variables that a statement or call writes to, and what."""
    match node:
        case ast.Assign(targets, value):
            for target in targets:
                yield from _target(target, value, node)
        case ast.AnnAssign(target, _, ast.expr() as value):
            yield from _target(target, value, node)
        case ast.AugAssign(target, _, value):
            yield from _target(target, value, node)
        case ast.Call(
            ast.Name("setattr") | ast.Attribute(ast.Name("object"), "__setattr__"),
            [ast.Name(obj), ast.Constant(str(attribute)), value],
        ):
            yield obj, Write(attribute, value, node)
        case ast.Call(
            ast.Attribute(ast.Name(obj), "__setattr__"),
            [ast.Constant(str(attribute)), value],
        ):
            yield obj, Write(attribute, value, node)
        case ast.Call(
            ast.Attribute(ast.Attribute(ast.Name(obj), "__dict__"), "update"),
            _,
            keywords,
        ):
            for keyword in keywords:
                if keyword.arg is not None:
                    yield obj, Write(keyword.arg, keyword.value, node)
        case ast.Call(
            ast.Attribute(ast.Attribute(ast.Name(obj), attribute), "setdefault"),
            [key, value],
        ):
            if attribute != "__dict__":
                yield obj, Write(attribute, value, node, key)
            elif isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield obj, Write(key.value, value, node)


def _target(
    target: ast.expr, value: ast.expr | None, node: ast.stmt
) -> Iterator[tuple[str, Write]]:
    match target:
        case ast.Attribute(ast.Name(obj), attribute):
            yield obj, Write(attribute, value, node)
        case ast.Subscript(
            ast.Attribute(ast.Name(obj), "__dict__")
            | ast.Call(ast.Name("vars"), [ast.Name(obj)]),
            ast.Constant(str(attribute)),
        ):
            yield obj, Write(attribute, value, node)
        case ast.Subscript(ast.Attribute(ast.Name(obj), attribute), key):
            if attribute != "__dict__":
                yield obj, Write(attribute, value, node, key)
        case ast.Tuple(targets) | ast.List(targets):
            values: list[ast.expr | None] = [None] * len(targets)
            if isinstance(value, ast.Tuple) and len(value.elts) == len(targets):
                values = list(value.elts)
            for inner, part in zip(targets, values, strict=True):
                yield from _target(inner, part, node)


def _written_by_another_name(nodes: list[ast.AST]) -> Iterator[tuple[str, Write]]:
    """`cache = self._cache; cache[key] = value`, where `cache` is nothing else."""
    names = [
        node.id
        for node in nodes
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    ]
    aliases: dict[str, ast.Attribute] = {}
    for node in nodes:
        match node:
            case ast.Assign([ast.Name(name)], ast.Attribute(ast.Name()) as attribute):
                if names.count(name) == 1:
                    aliases[name] = attribute
    for node in nodes:
        match node:
            case ast.Assign([ast.Subscript(ast.Name(name), key)], value):
                if name in aliases:
                    attribute = aliases[name]
                    assert isinstance(attribute.value, ast.Name)
                    yield attribute.value.id, Write(attribute.attr, value, node, key)


def _aliases(nodes: list[ast.AST], obj: str) -> dict[str, str]:
    """Local variables that stand for an attribute of the object."""
    found: dict[str, str] = {}
    for node in nodes:
        match node:
            case (
                ast.Assign([ast.Name(name), *_], value)
                | ast.AnnAssign(ast.Name(name), _, ast.expr() as value)
                | ast.NamedExpr(ast.Name(name), value)
            ):
                for attribute in _attribute_of(value, obj):
                    found[name] = attribute
    return found


def _asked_for(nodes: list[ast.AST], obj: str) -> set[str]:
    """The attributes that the code tests: are they None, are they set?"""
    aliases = _aliases(nodes, obj)
    found: set[str] = set()
    for node in nodes:
        match node:
            case ast.If(test) | ast.IfExp(test) | ast.While(test):
                found |= _asked_in(test, obj, aliases)
            case ast.Match(subject):
                found |= _asked_in(subject, obj, aliases)
            case ast.With(items, body) if any(map(_suppresses_missing, items)):
                for inner in body:
                    for part in ast.walk(inner):
                        found |= set(_attribute_of(part, obj))
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
        case ast.Compare(
            left,
            [ast.Is() | ast.IsNot() | ast.Eq() | ast.NotEq()],
            [ast.Constant(None)],
        ):
            return _asked_in(left, obj, aliases)
        case ast.NamedExpr(_, value):
            return _asked_in(value, obj, aliases)
        case ast.Compare(left, [ast.In() | ast.NotIn()], [container]):
            if isinstance(left, ast.Constant) and _is_dict_of(container, obj):
                return {str(left.value)}
            if isinstance(container, ast.Call):  # `in self._cache.keys()`
                container = getattr(container.func, "value", container)
            if isinstance(container, ast.Name):
                return _asked_in(container, obj, aliases)
            return set(_attribute_of(container, obj))
        case ast.Name(name):
            return {aliases[name]} if name in aliases else set()
    return set(_attribute_of(test, obj))


def missing_if(test: ast.expr, obj: str, aliases: dict[str, str]) -> set[str]:
    """The attributes of an object that are not there if a condition is true:
    `self.x is None`, `not hasattr(self, "x")`, `key not in self.x`."""
    match test:
        case ast.UnaryOp(ast.Not(), operand):
            return there_if(operand, obj, aliases) or _asked_in(operand, obj, aliases)
        case ast.BoolOp(_, values):
            return set().union(*(missing_if(value, obj, aliases) for value in values))
        case ast.Compare(_, [ast.Is() | ast.Eq()], [ast.Constant(None)]):
            return _asked_in(test, obj, aliases)
        case ast.Compare(_, [ast.NotIn()]):
            return _asked_in(test, obj, aliases)
    return set()


def there_if(test: ast.expr, obj: str, aliases: dict[str, str]) -> set[str]:
    """The attributes of an object that are there if a condition is true."""
    match test:
        case ast.UnaryOp(ast.Not(), operand):
            return missing_if(operand, obj, aliases)
        case ast.BoolOp(ast.And(), values):
            return set().union(*(there_if(value, obj, aliases) for value in values))
        case ast.Compare(_, [ast.IsNot() | ast.NotEq()], [ast.Constant(None)]):
            return _asked_in(test, obj, aliases)
        case ast.Compare(_, [ast.In()]):
            return _asked_in(test, obj, aliases)
        case ast.BoolOp() | ast.Compare():
            return set()
    return _asked_in(test, obj, aliases)


def is_filled_first(
    write: Write, function: FunctionNode, obj: str, module: Module
) -> bool:
    """Whether a statement runs where the attribute is not there yet: in the branch for
    that, after the other has returned, or where an error says so."""
    aliases = _aliases(module.own_nodes(function), obj)
    inner: ast.AST = write.node
    for outer in module.around(write.node):
        match outer:
            case ast.If(test, body, orelse):
                there = there_if(test, obj, aliases)
                missing = missing_if(test, obj, aliases)
                if write.attribute in (missing if inner in body else there):
                    return inner in body or inner in orelse
            case ast.ExceptHandler() if _is_missing(outer):
                return True
        if _has_returned(write.attribute, inner, outer, obj, aliases):
            return True
        if outer is function:
            return False
        inner = outer
    return False


def _has_returned(
    attribute: str, inner: ast.AST, outer: ast.AST, obj: str, aliases: dict[str, str]
) -> bool:
    """`if self.x is not None: return self.x` in the same block, before a statement; or
    `try: return self.x`, `except AttributeError: pass`."""
    for block in ("body", "orelse", "finalbody"):
        statements = getattr(outer, block, None)
        if not isinstance(statements, list) or inner not in statements:
            continue
        for before in statements[: statements.index(inner)]:
            match before:
                case ast.If(test, [*_, ast.Return()]):
                    if attribute in there_if(test, obj, aliases):
                        return True
                case ast.Try([ast.Return()], handlers):
                    if any(map(_is_missing, handlers)):
                        return True
                case ast.With(items, [ast.Return()]):
                    if any(map(_suppresses_missing, items)):
                        return True
    return False


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
        case ast.Subscript(container, ast.Constant(str(attribute))) | ast.Call(
            ast.Attribute(container, "get"), [ast.Constant(str(attribute)), *_]
        ) if _is_dict_of(container, obj):
            return [attribute]
        case ast.Subscript(ast.Attribute(ast.Name(name), attribute)) if name == obj:
            return [attribute]
        case ast.Call(
            ast.Attribute(ast.Attribute(ast.Name(name), attribute), "get")
        ) if name == obj:
            return [attribute]
    return []


def _is_dict_of(node: ast.AST, obj: str) -> bool:
    match node:
        case ast.Attribute(ast.Name(name), "__dict__") if name == obj:
            return True
        case ast.Call(ast.Name("vars"), [ast.Name(name)]) if name == obj:
            return True
    return False


def _suppresses_missing(item: ast.withitem) -> bool:
    """`with contextlib.suppress(AttributeError):`"""
    said = ast.unparse(item.context_expr)
    return "suppress(" in said and ("AttributeError" in said or "KeyError" in said)


def _is_missing(handler: ast.ExceptHandler) -> bool:
    names = ast.unparse(handler.type) if handler.type else "AttributeError"
    return "AttributeError" in names or "KeyError" in names
