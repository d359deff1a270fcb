"""What an object is made of, to be compared with another: arrays, and the rest.

Two objects of one makeup differ at most in which arrays they hold. Read from the
fields, and not by `jax.tree.flatten`, for the reasons told in `_parts.py`.
"""

import enum
import types
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import jax
import numpy as np

from ._compat import Tracer, is_ref
from ._memo import memos
from ._pack import identity_of
from ._parts import ATOMS, dict_fields, instance_dict, is_weak, parts_of

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
    things: list[Any]
    """Arrays, functions and the like."""

    @property
    def ids(self) -> list[int | None]:
        """Of the things; None for one that may be written to in place, and is never
        the same."""
        return [id(x) if not isinstance(x, np.ndarray) else None for x in self.things]


class _Kind(enum.Enum):
    """How the things of one class are compared."""

    ARRAY = enum.auto()
    """By identity, if they are the same array; else by shape and dtype."""
    TRACER = enum.auto()
    """The same."""
    WRITABLE = enum.auto()
    """Never: it may have been written to in place."""
    ATOM = enum.auto()
    """By value."""
    NOTE = enum.auto()
    """By the class alone."""
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
        return _Kind.ATOM
    if cls.__module__ == _OF_NO_ACCOUNT:
        return _Kind.NOTE
    if not issubclass(cls, types.FunctionType) and parts_of(cls) is not None:
        return _Kind.PARTS
    return _Kind.WHOLE if cls.__weakrefoffset__ != 0 else _Kind.UNKNOWN


def makeup_of(obj: Any) -> Makeup | None:
    """The makeup of `obj`; None if it cannot be compared."""
    rest: list[Any] = []
    things: list[Any] = []
    seen: dict[int, int] = {}
    stack = [obj]
    while stack:
        thing = stack.pop()
        cls = type(thing)
        kind = _kind_of(cls)
        if kind is _Kind.ATOM:
            rest.append(identity_of(thing))
            continue
        if kind is _Kind.UNKNOWN or len(rest) > _TOO_MANY:
            return None
        if kind is not _Kind.ARRAY and is_ref(thing):  # what is in it changes
            return None
        if kind is _Kind.ARRAY or kind is _Kind.TRACER:
            rest.append((thing.shape, thing.dtype, is_weak(thing)))
            things.append(thing)
        elif kind is _Kind.WRITABLE:
            rest.append((cls, thing.shape, thing.dtype))
            things.append(thing)
        elif id(thing) in seen:
            rest.append(seen[id(thing)])
        else:
            seen[id(thing)] = len(seen)
            parts: list[Any] = []
            if kind is _Kind.WHOLE:
                things.append(thing)
            elif kind is _Kind.PARTS:
                memo = memos.get(id(thing))
                if memo is not None and memo.on_trust:
                    return None
                parts = _in_order(thing)
                stack += reversed(parts)
            rest.append((cls, len(parts)))
    return Makeup(tuple(rest), things)


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
    # equinox up to 0.11 lays __doc__ and the like into what it rebuilds.
    names = sorted(name for name in fields if not name.startswith("__"))
    return [*names, *(fields[name] for name in names)]


def _sorted(metadata: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(part for name in sorted(metadata) for part in (name, metadata[name]))
