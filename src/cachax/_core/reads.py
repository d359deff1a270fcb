"""Note which fields of an object a body reads.

The fields of a copy are under names that note when Python compares them, which it does
in every look-up, and in a dictionary that notes when it is iterated over. What is in a
field that the body doesn't read makes no difference to its value.
"""

import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import jax
from jax.tree_util import DictKey

from .fields import instance_dict

F = TypeVar("F", bound=Any)
_HERE = str(Path(__file__).parent)
"""What looks at objects to know what they contain."""


Parts = set[int]
"""What counts if a field is read: the numbers of the parts in it (`Inputs.statics`),
and `ORDER`."""


def watch(obj: Any, fields: dict[str, Parts], read: Parts) -> bool:
    """From now on, add to `read` what a field holds when it is read. False if that
    can't be detected for objects of this class."""
    if hasattr(type(obj), "__pydantic_core_schema__"):  # read by code in Rust
        return False
    try:
        found = instance_dict(obj, "__dict__")
        for name in fields.keys() - found.keys():  # in `__slots__`
            read |= fields[name]
        watched = _Fields(
            (Name(k, fields[k], read) if k in fields else k, found[k]) for k in found
        )
        watched.held, watched.read = tuple(fields.values()), read
        object.__setattr__(obj, "__dict__", watched)
    except (AttributeError, TypeError):  # no `__dict__`, or a property of that name
        return False
    return True


def _is_of_a_body(frame: Any) -> bool:
    """Or of what runs it: a body may be a function written in C."""
    code = frame.f_code
    return not code.co_filename.startswith(_HERE) or code in _RUN_BODIES


_RUN_BODIES: set[types.CodeType] = set()


def runs_bodies(fun: F) -> F:
    """Decorates a function that calls a body, which may be written in C."""
    _RUN_BODIES.add(fun.__code__)
    return fun


class Name(str):
    """The name of a field whose reads are noted. Python compares it with the name that
    is looked up, unless both are the same string."""

    __slots__ = ("held", "read")

    held: Parts
    read: Parts
    __hash__ = str.__hash__

    def __new__(cls, name: str, held: Parts, read: Parts) -> "Name":
        new = super().__new__(cls, name)
        new.held, new.read = held, read
        return new

    def __eq__(self, other: object) -> bool:
        if _is_of_a_body(sys._getframe(1)):
            self.read.update(self.held)
        return str.__eq__(self, other)


class _Fields(dict[str, Any]):
    """The `__dict__` of an object. Look-ups don't come through here."""

    held: tuple[Parts, ...]
    read: Parts

    def note_all(self) -> None:
        self.read.update(*self.held)


def _noting(name: str) -> Callable[..., Any]:
    plain = getattr(dict, name)

    def method(self: _Fields, *args: Any) -> Any:
        if not _is_of_a_body(sys._getframe(1)):
            return plain(self, *args)
        self.note_all()
        return plain({str.__str__(k): x for k, x in dict.items(self)}, *args)

    return method


for _method in (
    "__eq__",
    "__iter__",
    "__or__",
    "__repr__",
    "__reversed__",
    "__ror__",
    "copy",
    "items",
    "keys",
    "values",
):
    setattr(_Fields, _method, _noting(_method))


def _flatten(fields: _Fields) -> tuple[list[Any], tuple[str, ...]]:
    fields.note_all()
    names = sorted(map(str, dict.keys(fields)))
    parts = [(DictKey(name), dict.__getitem__(fields, name)) for name in names]
    return parts, tuple(names)


_register: Any = jax.tree_util.register_pytree_with_keys
_register(_Fields, _flatten, lambda names, parts: dict(zip(names, parts, strict=True)))
