"""NumPy arrays that are written to in place: their contents, then and now."""

import hashlib
import threading
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from .._core.fields import fields_in, instance_dict, slots_of, walk
from .._core.levels import traces_in

Contents = dict[str, bytes]
"""A digest for each numpy array, by its place: `x`, `layers[0].weight`."""


def contents(root: Any) -> Contents:
    """The contents of the NumPy arrays in `root`."""
    found: Contents = {}
    seen: set[int] = set()
    stack = [("", root)]
    while stack:
        place, thing = stack.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if isinstance(thing, np.ndarray):
            found[place.removeprefix(".")] = _digest(thing)
        elif fields_in(thing):
            stack += reversed([(place + name, part) for name, part in _named(thing)])
    return found


def _named(thing: Any) -> Iterator[tuple[str, Any]]:
    """The parts directly inside, with how to write them."""
    if isinstance(thing, dict):
        yield from ((f"[{key!r}]", part) for key, part in [*dict.items(thing)])
    elif isinstance(thing, list | tuple):
        yield from ((f"[{i}]", part) for i, part in enumerate([*thing]))
    if type(thing).__dictoffset__ != 0:
        fields = instance_dict(thing, "__dict__")
        yield from ((f".{name}", part) for name, part in [*fields.items()])
    for name in slots_of(type(thing)):
        if hasattr(thing, name):
            yield f".{name}", getattr(thing, name)


def _digest(array: Any) -> bytes:
    if array.dtype.hasobject:
        return b""
    return hashlib.blake2b(array.tobytes(), digest_size=16).digest()


@dataclass(frozen=True)
class Then:
    """How things were when a value was computed."""

    fields: Contents
    """The NumPy arrays of its object."""
    value: Contents


class Seen:
    """The computations inside `verify`: for which objects, and with which arrays.

    By the first array, since a value is handed on to objects that are rebuilt; and by
    the object, since it may have no arrays, or others when it is carried.
    """

    def __init__(self) -> None:
        self._table: dict[Any, tuple[weakref.ref[Any], Then]] = {}
        self._lock = threading.RLock()  # a collection may call back at any time

    def note(self, key: Any, obj: Any, value: Any, fields: Contents) -> None:
        if traces_in(value):
            return
        then = Then(fields, contents((value,)))
        self._put((id(obj), key), obj, then)
        first = _first_array(value)
        if first is not None:
            self._put(id(first), first, then)

    def _put(self, place: Any, anchor: Any, then: Then) -> None:
        table, lock = self._table, self._lock

        def remove(ref: Any) -> None:
            with lock:
                if place in table and table[place][0] is ref:
                    del table[place]

        with lock:
            table[place] = (weakref.ref(anchor, remove), then)

    def about(self, key: Any, obj: Any, value: Any) -> Then | None:
        """None if the value came from elsewhere."""
        first = _first_array(value)
        for place, anchor in ((id(first), first), ((id(obj), key), obj)):
            with self._lock:
                ref, then = self._table.get(place, (None, None))
            if ref is not None and ref() is anchor:
                return then
        return None


def _first_array(value: Any) -> Any:
    arrays = (x for x in walk(value) if isinstance(x, jax.Array | np.ndarray))
    return next(arrays, None)
