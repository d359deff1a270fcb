"""Values that methods of plain classes compute on first use and keep on the object."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from ._annotations import is_none
from ._classes import Class
from ._code import Code
from ._fields import Field
from ._fillings import Inputs
from ._held import is_linen
from ._kept import holds_arrays, is_concrete, mentions_tracers
from ._module import FunctionNode
from ._tables import is_empty_table
from ._tracing import parameters, reads_of
from ._writes import (
    Write,
    is_filled_first,
    is_maker,
    is_returned,
    missing_if,
    own_object,
    writes,
)

# What is read from a file is the same in every call.
_LOADS = re.compile(
    r"_*(load|read|open|download|fetch|restore|from_file|from_pretrained)"
)
# Drawn by a function that is not of jax.random.
_RANDOM = re.compile(r"(^|_)(p?rngs?|seed|random\w*)(_|$)")


@dataclass(frozen=True)
class Lazy:
    """`if self._x is None: self._x = value`, and the method that does it."""

    cls: Class
    function: FunctionNode
    write: Write


def lazy_values(cls: Class, code: Code) -> Iterator[Lazy]:
    """The arrays that the methods of a plain class compute from the object, each by the
    first statement that keeps it. What other methods change too is state."""
    if cls.family is not None or is_linen(cls):
        return
    for function in cls.own_methods.values():
        obj = own_object(function, code.module)
        if obj is None or is_maker(function, cls) or is_concrete(function, code):
            continue
        if mentions_tracers(function):
            continue
        seen: set[str] = set()
        for write in writes(function, obj, code.module):
            if write.is_item or write.attribute in seen:
                continue
            seen.add(write.attribute)
            if (
                _is_filled(write, function, obj, cls, code)
                and _starts_empty(cls.fields.get(write.attribute))
                and _is_derived(write, function, obj, code)
                and _is_read(write.attribute, cls)
                and not _is_state(write.attribute, function, cls, code)
            ):
                yield Lazy(cls, function, write)


def _is_filled(
    write: Write, function: FunctionNode, obj: str, cls: Class, code: Code
) -> bool:
    """Whether the method assigns it only where it is not there yet, or only a test of
    another method leads to it."""
    if write.attribute in _filled_for_others(cls, code):
        return write.attribute.startswith("_")
    return write.is_lazy and all(
        is_filled_first(one, function, obj, code.module)
        for one in writes(function, obj, code.module)
        if one.attribute == write.attribute
    )


def _starts_empty(field: Field | None) -> bool:
    """Whether the constructor sets it to None: what it is given is not a cache."""
    if field is None:
        return True
    if field.default is not None and not field.is_optional:
        return False
    is_given = field.annotation is not None and field.in_init and field.default is None
    return all(map(is_none, field.values)) and not is_given


def is_lazy_item(write: Write, function: FunctionNode, cls: Class, code: Code) -> bool:
    """Whether a private dictionary that starts empty is a cache of what a method
    computes from the object and returns: nothing else is put into it."""
    obj = own_object(function, code.module)
    field = cls.fields.get(write.attribute)
    if obj is None or field is None or not write.attribute.startswith("_"):
        return False
    return (
        bool(field.values)
        and all(map(is_empty_table, field.values))
        and is_returned(write, function, obj, code.module)
        and _is_derived(write, function, obj, code)
        and not _is_state(write.attribute, function, cls, code)
    )


def _filled_for_others(cls: Class, code: Code) -> set[str]:
    """The attributes that a method tests before it calls the one that fills them:
    `if self._x is None: self._compute()`."""

    def find() -> set[str]:
        found: set[str] = set()
        for function in cls.own_methods.values():
            obj = own_object(function, code.module)
            if obj is None or is_maker(function, cls):
                continue
            for node in code.module.own_nodes(function):
                if isinstance(node, ast.If):
                    called = _methods_called(node.body, obj, cls)
                    written = {
                        write.attribute
                        for method in called
                        for write in writes(method, obj, code.module)
                        if not is_maker(method, cls)
                    }
                    found |= missing_if(node.test, obj, {}) & written
        return found

    return code.module.remember((_filled_for_others, cls.node), find)


def _methods_called(body: list[ast.stmt], obj: str, cls: Class) -> list[FunctionNode]:
    names = [
        call.func.attr
        for statement in body
        for call in ast.walk(statement)
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id == obj
    ]
    return [cls.own_methods[name] for name in names if name in cls.own_methods]


def _is_derived(write: Write, function: FunctionNode, obj: str, code: Code) -> bool:
    """Whether it is an array that is computed, and the object is read for that."""
    kind = code.kinds.computed(write.value, code.module)
    if write.value is None or not holds_arrays(write, function, obj, code, kind):
        return False
    inputs = Inputs(function, code)
    inputs.add(write.value)
    if not inputs.computed or inputs.drawn or is_loading(function):
        return False
    names = {*inputs.variables, *(name for _, name in inputs.attributes)}
    if write.attribute in names or any(map(_RANDOM.search, names)):
        return False
    return any(read.attr != write.attribute for read in reads_of(obj, function))


def is_loading(function: FunctionNode) -> bool:
    """Whether it reads what it keeps from somewhere, by the names of what it calls."""
    calls = (node.func for node in ast.walk(function) if isinstance(node, ast.Call))
    names = (getattr(called, "attr", getattr(called, "id", "")) for called in calls)
    return any(_LOADS.match(name) for name in [function.name, *names])


def _is_read(attribute: str, cls: Class) -> bool:
    """Whether a method does more with it than to test whether it is there."""
    for function in cls.own_methods.values():
        obj = own_object(function, cls.module)
        for read in reads_of(obj, function) if obj else ():
            parent = cls.module.parent(read)
            if read.attr == attribute and not isinstance(parent, ast.Compare | ast.If):
                return True
    return False


def _is_state(attribute: str, function: FunctionNode, cls: Class, code: Code) -> bool:
    """Whether another function assigns a value that it computes. To forget it, or to
    store what the caller gives, is what is done with a cache too."""
    for other in code.module.functions:
        if other is function or is_maker(other, cls):
            continue
        for variable in {*parameters(other), *code.module.bound_in(other)}:
            for write in writes(other, variable, code.module):
                if write.attribute == attribute and not _leaves_cache(write, other):
                    return True
    return False


def _leaves_cache(write: Write, function: FunctionNode) -> bool:
    if not isinstance(write.node, ast.Assign | ast.AnnAssign | ast.Call):
        return False
    match write.value:
        case ast.Constant(None):
            return True
        case ast.Name(name):
            return write.is_lazy or name in parameters(function)
        case ast.Call(ast.Attribute(ast.Attribute(_, attribute), "copy"), []):
            return attribute == write.attribute  # `new._x = self._x.copy()`
        case ast.Attribute(_, attribute):
            return write.is_lazy or attribute == write.attribute
        case ast.expr():
            return write.is_lazy or is_empty_table(write.value)
    return False
