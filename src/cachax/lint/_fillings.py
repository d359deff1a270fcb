"""Where the fields of a class are given values, and what these are computed from."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from ._classes import Class
from ._code import Code
from ._jax_names import ATTRIBUTES_OF_NO_ARRAY
from ._module import FunctionNode, Module
from ._project import Definition
from ._tracing import parameters
from ._writes import is_maker, own_object, writes

_TREE_AT = "equinox.tree_at"
# Values that a field starts with, and that depend on the others for their shape only.
_STARTS = re.compile(
    r"jax\.numpy\.(zeros|ones|full|empty)(_like)?|jax\.random\.\w+|copy\.(copy|deepcopy)"
)


@dataclass(frozen=True)
class Filling:
    """One place where a field gets a value."""

    node: ast.expr
    sources: frozenset[str]  # the other fields that the value is computed from
    other_inputs: bool  # it is computed from something that is in no field, too
    updates_object: bool = False  # by `replace` or `tree_at`
    is_state: bool = False  # it is computed from the field itself


@dataclass(frozen=True)
class _Given:
    """A call or function that gives values to fields of an object."""

    function: FunctionNode
    values: dict[str, ast.expr]
    obj: str | None  # the variable of the object that exists already
    updates_object: bool


def fillings(cls: Class, code: Code) -> dict[str, list[Filling]]:
    """By field, for those that no method assigns once the object exists. Values that
    are only passed on are left out."""
    found: dict[str, list[Filling]] = {}
    for given in [*_by_calls(cls, code), *_by_writes(cls, code)]:
        for name, value in given.values.items():
            filling = _filling(name, value, given, cls, code)
            if filling is not None:
                found.setdefault(name, []).append(filling)
    assigned = _assigned_later(cls, code)
    return {name: of for name, of in found.items() if name not in assigned}


def _assigned_later(cls: Class, code: Code) -> set[str]:
    return {
        write.attribute
        for function in cls.own_methods.values()
        if not is_maker(function, cls)
        for write in writes(
            function, own_object(function, code.module) or "", code.module
        )
    }


def _by_calls(cls: Class, code: Code) -> Iterator[_Given]:
    for call in code.module.calls:
        function = _function_around(call, code.module)
        if function is None:
            continue
        if code.name_of(call.func) == _TREE_AT:
            given = _by_tree_at(call, function, cls, code)
            if given is not None:
                yield given
            continue
        values = {k.arg: k.value for k in call.keywords if k.arg is not None}
        if values.keys().isdisjoint(cls.declared):
            continue
        obj = _replaced(call, function, cls, code)
        if obj is not None:
            yield _Given(function, values, obj, True)
        elif _makes(call, function, cls, code):
            own = _own(function, cls, code)
            yield _Given(function, values, own, False)


def _by_tree_at(
    call: ast.Call, function: FunctionNode, cls: Class, code: Code
) -> _Given | None:
    match call.args:
        case [ast.Lambda(_, ast.Attribute(_, name)), ast.Name(obj) as node, value, *_]:
            if code.objects.class_of(node, code.module) is cls:
                return _Given(function, {name: value}, obj, True)
    return None


def _by_writes(cls: Class, code: Code) -> Iterator[_Given]:
    for function in cls.own_functions:
        obj = own_object(function, code.module)
        written = writes(function, obj, code.module) if obj else []
        whole = [w for w in written if w.value is not None and not w.is_item]
        values = {w.attribute: w.value for w in whole if w.value is not None}
        if values and is_maker(function, cls):
            yield _Given(function, values, obj, False)


def _function_around(node: ast.AST, module: Module) -> FunctionNode | None:
    around = (n for n in module.around(node) if isinstance(n, FunctionNode))
    return next(around, None)


def _own(function: FunctionNode, cls: Class, code: Code) -> str | None:
    is_method = cls.own_methods.get(function.name) is function
    return own_object(function, code.module) if is_method else None


def _replaced(
    call: ast.Call, function: FunctionNode, cls: Class, code: Code
) -> str | None:
    """The object in `obj.replace(...)`, `super().replace(...)`, `replace(obj, ...)`."""
    match call:
        case ast.Call(ast.Attribute(ast.Name(obj) as node, "replace" | "_replace"), []):
            same = code.objects.class_of(node, code.module) is cls
            return obj if same else None
        case ast.Call(ast.Attribute(ast.Call(ast.Name("super")), "replace"), []):
            return _own(function, cls, code)
        case ast.Call(_, [ast.Name(obj) as node]):
            same = code.objects.class_of(node, code.module) is cls
            is_replace = code.name_of(call.func).endswith(".replace")
            return obj if same and is_replace else None
    return None


def _makes(call: ast.Call, function: FunctionNode, cls: Class, code: Code) -> bool:
    """`Class(...)`, or `cls(...)` in one of its class methods."""
    match code.project.resolve(call.func, code.module):
        case Definition(_, node) if node is cls.node:
            return True
    first = parameters(function)[:1]
    return (
        isinstance(call.func, ast.Name)
        and [call.func.id] == first
        and cls.own_methods.get(function.name) is function
        and own_object(function, code.module) is None
    )


def _filling(
    name: str, value: ast.expr, given: _Given, cls: Class, code: Code
) -> Filling | None:
    inputs = Inputs(given.function, code)
    inputs.add(value)
    if not inputs.computed or inputs.drawn:
        return None
    stored = {
        other.id: field
        for field, other in given.values.items()
        if isinstance(other, ast.Name) and field != name and field in cls.leaf_fields
    }
    read = {a for obj, a in inputs.attributes if obj == given.obj}
    if given.updates_object:
        read -= set(given.values) - {name}  # the new object has other values there
    fields = {field for a in read for field in _fields_behind(a, cls)}
    sources = (fields & cls.leaf_fields) | {
        stored[variable] for variable in inputs.variables & set(stored)
    }
    sources = {source for source in sources if _may_be_array(source, cls, code)}
    own = set(parameters(given.function)) | inputs.opaque
    outside = (inputs.variables & own) - set(stored) - {given.obj}
    return Filling(
        value,
        frozenset(sources - {name}),
        bool(outside),
        given.updates_object,
        name in fields,
    )


def _may_be_array(name: str, cls: Class, code: Code) -> bool:
    field = cls.fields.get(name)
    return field is not None and (
        code.kinds.of_field(field).has_arrays or code.kinds.may_be_array(field)
    )


def _fields_behind(name: str, cls: Class) -> set[str]:
    """A field, or those that the property or method of this name returns parts of."""
    method = cls.method(name)
    if method is None:
        return {name}
    owner, function = method
    obj = own_object(function, owner.module)
    return {
        node.attr
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == obj
    }


class Inputs:
    """The variables and attributes that a value is computed from, local variables
    replaced by what they are bound to."""

    def __init__(self, function: FunctionNode, code: Code) -> None:
        self._function = function
        self._code = code
        self.variables: set[str] = set()
        self.attributes: set[tuple[str, str]] = set()
        self.opaque: set[str] = set()  # bound by a loop, a `with`, ...
        self.computed = False  # by an operator or a call
        self.drawn = False  # a random number goes into it

    def add(self, value: ast.expr) -> None:
        bound = self._code.module.bound_in(self._function)
        waiting: list[ast.expr] = [value]
        for expression in waiting:  # grows while it is walked
            for node in self._nodes(expression):
                match node:
                    case ast.Attribute(ast.Name(obj), name):
                        self.attributes.add((obj, name))
                    case ast.Name(name) if name not in self.variables:
                        self.variables.add(name)
                        for one in bound.get(name, []):
                            if one.value is None:
                                self.opaque.add(name)
                            elif one.value not in waiting:
                                waiting.append(one.value)
                    case ast.BinOp() | ast.Call() | ast.UnaryOp():
                        self.computed = True

    def _nodes(self, expression: ast.expr) -> Iterator[ast.AST]:
        """Those that the value depends on: not `x.shape`, not the starting values."""
        waiting: list[ast.AST] = [expression]
        for node in waiting:  # grows while it is walked
            match node:
                case ast.Attribute(_, name) if name in ATTRIBUTES_OF_NO_ARRAY:
                    continue
                case ast.Call(function):
                    name = self._code.name_of(function)
                    self.drawn |= name.startswith("jax.random.")
                    if _STARTS.fullmatch(name):
                        continue
            yield node
            waiting += ast.iter_child_nodes(node)
