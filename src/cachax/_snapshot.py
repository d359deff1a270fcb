"""The fields an object had, to see later whether it still has the same ones.

Sameness is identity: a field set to another array is a change, whatever is in the
array. What cannot be seen is a numpy array written to in place.
"""

import weakref
from collections.abc import Callable
from types import FunctionType
from typing import Any

from ._compat import is_ref
from ._parts import Parts, is_frozen, parts_of, plain_leaves, walk

_VOID = [-1]
"""Ids that nothing has."""


class Snapshot:
    """The identities of everything inside an object at one moment.

    An id says nothing once its owner is gone, so what has an id in here is either
    held (numbers, strings, types) or watched by a weak reference (arrays, objects):
    when one of those dies, the snapshot is void and `on_death` is called. Holding
    arrays would be simpler, but then `obj.a = b` keeps the old array alive.
    """

    __slots__ = ("_deep", "_held", "_ids", "_parts")

    def __init__(self, obj: object, on_death: Callable[[], None]) -> None:
        self._parts: Parts = parts_of(type(obj)) or _no_parts
        inside = list(walk(obj, into_functions=False))[1:]
        self._deep = any(map(_can_change, inside))
        if not self._deep:  # what is inside the fields stays as it is
            inside = self._parts(obj)
        ids = self._ids = _ids_within(obj) if self._deep else [*map(id, inside)]

        def void(_: object) -> None:
            ids[:] = _VOID
            on_death()

        self._held = [_watch(part, void) for part in inside]
        if any(map(is_ref, inside)):
            void(None)

    def holds(self, obj: object) -> bool:
        """Whether `obj` still has the fields it had."""
        if self._deep:
            return _ids_within(obj) == self._ids
        return [*map(id, self._parts(obj))] == self._ids

    def all_still_in(self, obj: object) -> bool:
        """Whether every array and object that was in `obj` is in it now, whatever
        was added, and whatever numbers and strings were changed."""
        watched = [x() for x in self._held if isinstance(x, weakref.ref)]
        now = set(map(id, walk(obj, into_functions=False)))
        return self._ids != _VOID and all(id(x) in now for x in watched)


def _can_change(part: object) -> bool:
    cls = type(part)
    return cls not in plain_leaves and not is_frozen(cls) and parts_of(cls) is not None


def _ids_within(obj: object) -> list[int]:
    """The ids of all that is inside, listed container by container.

    Read at every access of an object with lists, dicts or unfrozen objects inside,
    so a wide container of arrays costs a C loop over its items and no more.
    """
    ids: list[int] = []
    seen = {id(obj)}
    stack = [obj]
    while stack:
        thing = stack.pop()
        list_parts = parts_of(type(thing))
        if list_parts is None or isinstance(thing, FunctionType):
            continue
        parts = list_parts(thing)
        ids.append(id(type(thing)))
        ids += map(id, parts)
        if not plain_leaves.issuperset(map(type, parts)):
            for part in parts:
                if type(part) not in plain_leaves and id(part) not in seen:
                    seen.add(id(part))
                    stack.append(part)
    return ids


def _watch(part: Any, void: Callable[[object], None]) -> object:
    try:
        return weakref.ref(part, void)
    except TypeError:
        # A number, a string: held. A builtin container: its contents are watched
        # one by one, and holding it could hold the object itself.
        return type(part) if parts_of(type(part)) else part


def _no_parts(_: object) -> list[Any]:
    return []
