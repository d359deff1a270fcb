"""What an object is made of, to be compared with another: arrays, and the rest.

Two objects of one makeup differ at most in which arrays they hold. Read from the
fields, and not by `jax.tree.flatten`, for the reasons told in `_parts.py`.
"""

import enum
import functools
import types
import weakref
from collections import defaultdict, deque
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import jax
import numpy as np

from ._compat import Tracer, is_ref
from ._memo import memos
from ._pack import identity_of, is_hashable
from ._parts import (
    ATOMS,
    dict_fields,
    instance_dict,
    is_opaque,
    is_weak,
    parts_of,
    walk,
)
from ._snapshot import is_open

_LAID_IN = {*functools.WRAPPER_ASSIGNMENTS, "__annotations__"}
"""By equinox up to 0.11, into what it rebuilds."""

_TOO_MANY = 200
"""Parts, from which on an object costs more to compare than it may save."""

_OF_NO_ACCOUNT = "flax.nnx.tracers"
"""Notes in which trace a thing was made: others in every copy."""

_VARIABLES = "flax.nnx.variablelib"
"""Their metadata are a dictionary, in another order in every copy."""


@dataclass(frozen=True, slots=True)
class Makeup:
    """The arrays of an object by identity, and everything else by value."""

    rest: tuple[Any, ...]
    arrays: list[Any]
    ids: list[int | None]
    """Of the arrays; None for one that may be written to in place, and is never the
    same."""

    @property
    def places(self) -> list[Any]:
        """Where the arrays are."""
        return [place_of(x) for x in self.arrays]


class _Kind(enum.Enum):
    """How the things of one class are compared."""

    ARRAY = enum.auto()
    TRACER = enum.auto()
    WRITABLE = enum.auto()
    """An array that may have been written to in place."""
    VALUE = enum.auto()
    """By value: numbers, strings, dates."""
    NOTE = enum.auto()
    """By the class alone."""
    FUNCTION = enum.auto()
    WHOLE = enum.auto()
    """By identity."""
    PARTS = enum.auto()
    """Part by part."""
    UNKNOWN = enum.auto()


_kinds: WeakKeyDictionary[type, _Kind] = WeakKeyDictionary()


def _kind_of(cls: type) -> _Kind:
    try:
        return _kinds[cls]
    except KeyError:
        found = _kinds[cls] = _find_kind(cls)
        return found


def _find_kind(cls: type) -> _Kind:
    if issubclass(cls, Tracer):
        return _Kind.TRACER
    if issubclass(cls, jax.Array):
        return _Kind.ARRAY
    if issubclass(cls, np.ndarray):
        return _Kind.WRITABLE
    if issubclass(cls, ATOMS):
        return _Kind.VALUE
    if cls.__module__ == _OF_NO_ACCOUNT:
        return _Kind.NOTE
    if issubclass(cls, types.FunctionType):
        return _Kind.FUNCTION
    if is_opaque(cls):
        return _Kind.VALUE if cls.__hash__ is not None else _Kind.UNKNOWN
    if parts_of(cls) is None:
        return _Kind.WHOLE if cls.__weakrefoffset__ != 0 else _Kind.UNKNOWN
    if issubclass(cls, defaultdict | deque):  # with a factory, a length, that are
        return _Kind.UNKNOWN  # not among the parts
    return _Kind.PARTS


def makeup_of(obj: Any) -> Makeup | None:
    """The makeup of `obj`; None if it cannot be compared."""
    rest: list[Any] = []
    arrays: list[Any] = []
    ids: list[int | None] = []
    seen: dict[int, int] = {}
    stack = [obj]
    while stack:
        thing = stack.pop()
        cls = type(thing)
        kind = _kind_of(cls)
        if kind is _Kind.VALUE:
            rest.append(identity_of(thing))
        elif kind is _Kind.ARRAY:
            rest.append(look_of(thing))
            arrays.append(thing)
            ids.append(id(thing))
        elif kind is _Kind.UNKNOWN or len(rest) > _TOO_MANY or is_ref(thing):
            return None
        elif kind is _Kind.TRACER:
            rest.append(look_of(thing))
            arrays.append(thing)
            ids.append(id(thing))
        elif kind is _Kind.WRITABLE:
            rest.append((cls, thing.shape, thing.dtype))
            arrays.append(thing)
            ids.append(None)
        elif id(thing) in seen:
            rest.append(seen[id(thing)])
        else:
            seen[id(thing)] = len(seen)
            parts = _compared(thing, kind)
            if parts is None:
                return None
            about, further = parts
            rest.append((cls, *about))
            stack += reversed(further)
    whole = tuple(rest)
    return Makeup(whole, arrays, ids) if is_hashable(whole) else None


def look_of(array: Any) -> tuple[Any, ...]:
    """What a body may see of an array without making use of its numbers."""
    return (array.shape, array.dtype, is_weak(array))


def place_of(array: Any) -> Any:
    """Where an array is, if it is somewhere, and could be elsewhere."""
    if not _several_devices() or not isinstance(array, jax.Array):
        return None
    return None if isinstance(array, Tracer) else (array.sharding, array.committed)


@functools.cache
def _several_devices() -> bool:
    return len(jax.devices()) > 1


def _compared(thing: Any, kind: _Kind) -> tuple[tuple[Any, ...], list[Any]] | None:
    """What a thing itself is compared by, and what further things; None if it can't."""
    if kind is _Kind.PARTS:
        memo = memos.get(id(thing))
        if memo is not None and memo.on_trust:
            return None
        parts = _in_order(thing)
        return (len(parts),), parts
    if kind is _Kind.FUNCTION and any(map(is_open, walk(thing))):
        return None  # what it closes over may change
    # With the id of a thing, the reference tells whether it is still its own.
    return () if kind is _Kind.NOTE else (id(thing), weakref.ref(thing)), []


def _in_order(thing: Any) -> list[Any]:
    """Fields by name: who rebuilds an object may set them in another order."""
    list_parts = parts_of(type(thing))
    assert list_parts is not None
    if list_parts is not dict_fields:
        parts = list_parts(thing)
        if any(base.__module__ == _VARIABLES for base in type(thing).__mro__):
            return [_sorted(part) if type(part) is dict else part for part in parts]
        return parts
    fields = instance_dict(thing, "__dict__")
    names = sorted(name for name in fields if name not in _LAID_IN)
    return [*names, *(fields[name] for name in names)]


def _sorted(metadata: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(part for name in sorted(metadata) for part in (name, metadata[name]))
