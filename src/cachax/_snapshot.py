"""The fields an object had, to see later whether it still has the same ones.

Sameness is identity: a field set to another array is a change, whatever is in the
array. What cannot be seen is a numpy array written to in place.
"""

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from ._compat import is_ref
from ._parts import (
    Parts,
    dict_fields,
    fields_in,
    instance_dict,
    is_frozen,
    is_opaque,
    is_simple,
    parts_of,
    plain_leaves,
    reading_dicts_of,
    walk_fields,
)


class Snapshot:
    """The identities of everything inside an object at one moment.

    An id says nothing once its owner is gone, so what has an id in here is either
    held (numbers, strings) or watched by a weak reference (arrays, objects): when
    one of those dies, the snapshot is void and `on_death` is called. Holding arrays
    would be simpler, but then `obj.a = b` keeps the old array alive.
    """

    __slots__ = ("_held", "_ids", "holds", "is_flat")

    is_flat: bool
    """Whether all that counts are the values in the instance's `__dict__`."""

    holds: Callable[[Any], bool]
    """Whether the object still has the fields it had."""

    def __init__(self, obj: object, on_death: Callable[[], None]) -> None:
        list_parts = parts_of(type(obj)) or (lambda _: [])
        direct = list_parts(obj)
        if plain_leaves.issuperset(map(type, direct)):
            inside, deep = direct, False
        else:
            inside = [part for part in walk_fields(obj) if part is not obj]
            deep = not all(map(_can_be_watched, direct)) or any(map(is_open, inside))
        ids: list[Any] = []  # no references among them: these hold what is called

        def void(_: object) -> None:
            ids.clear()
            on_death()

        self._ids = ids
        """Some, unless it is void."""
        has_dict_only = not deep and list_parts is dict_fields
        fields = [*instance_dict(obj, "__dict__").items()] if has_dict_only else []
        self.is_flat = bool(fields)
        watched = [part for _, part in fields] or (inside if deep else direct)
        self._held = [_watch(part, void) for part in watched]
        if self.is_flat:
            ids += [name for name, _ in fields]
            refs = [*zip(ids, map(_giving, self._held), strict=True)]
            self.holds = _same_by_name(ids, refs, reading_dicts_of(type(obj)))
            if not is_frozen(type(obj)):
                self.holds = _of_one_class(type(obj), self.holds)
        elif deep:
            ids += _ids_within(obj)
            self.holds = _same_within(ids)
        else:
            ids += _ids_directly(list_parts, obj)
            self.holds = _same_directly(list_parts, ids)
        if any(map(is_ref, inside)):  # its contents change, and nobody is told
            void(None)

    def hold(self, obj: object) -> None:
        """Hold the fields of a frozen object: they are looked at in half the time.

        Not at once: while it is being built, a frozen object's fields may be set.
        """
        if self.is_flat and is_simple(obj):
            fields = {**instance_dict(obj, "__dict__")}
            if self.holds(obj):
                self.holds = _same_fields(fields, reading_dicts_of(type(obj)))

    def all_still_in(self, obj: object) -> bool:
        """Whether every array and object that was in `obj` is in it now, whatever
        was added, and whatever numbers and strings were changed."""
        watched = [x() for x in self._held if isinstance(x, weakref.ref)]
        now = set(map(id, walk_fields(obj)))
        return bool(self._ids) and all(id(x) in now for x in watched)


def _same_directly(list_parts: Parts, ids: list[int]) -> Callable[[Any], bool]:
    return lambda obj: _ids_directly(list_parts, obj) == ids


def _ids_directly(list_parts: Parts, obj: object) -> list[int]:
    return [id(type(obj)), *map(id, list_parts(obj))]


def _same_fields(
    then: dict[str, Any], read: Callable[[Any], dict[str, Any]]
) -> Callable[[Any], bool]:
    """For frozen objects, whose fields are held."""
    (first, its_first), *_, (last, its_last) = [*then.items()] * 2

    def one_is_same(obj: Any) -> bool:
        now = read(obj)
        try:
            return now[first] is its_first and len(now) == 1
        except KeyError:
            return False

    def two_are_same(obj: Any) -> bool:
        now = read(obj)
        try:
            return now[first] is its_first and now[last] is its_last and len(now) == 2
        except KeyError:
            return False

    def all_are_same(obj: Any) -> bool:
        now = read(obj)
        try:
            for name, field in then.items():
                if now[name] is not field:
                    return False
        except KeyError:
            return False
        return len(now) == len(then)

    return {1: one_is_same, 2: two_are_same}.get(len(then), all_are_same)


def _same_by_name(
    names: list[str],
    refs: list[tuple[str, Callable[[], Any]]],
    read: Callable[[Any], dict[str, Any]],
) -> Callable[[Any], bool]:
    """For objects with a `__dict__`: most of them, and the fastest way to tell. One or
    two fields take half the time without a loop.

    What was watched and is gone gives None, and so does a field that was set to None:
    that is no reason to take them for the same.
    """
    (first, is_first), *_, (last, is_last) = refs * 2
    nones = {name for name, ref in refs if ref() is None}

    def one_is_same(obj: Any) -> bool:
        fields = read(obj)
        return len(fields) == len(names) and fields.get(first) is is_first() is not None

    def two_are_same(obj: Any) -> bool:
        fields = read(obj)
        return (
            len(fields) == len(names)
            and fields.get(first) is is_first() is not None
            and fields.get(last) is is_last() is not None
        )

    def all_are_same(obj: Any) -> bool:
        fields = read(obj)
        if len(fields) != len(names):
            return False
        for name, ref in refs:
            field = fields.get(name, names)
            if field is not ref() or (field is None and name not in nones):
                return False
        return bool(names)

    if nones:
        return all_are_same
    return {1: one_is_same, 2: two_are_same}.get(len(refs), all_are_same)


def _of_one_class(cls: type, holds: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """An object's class may be set as its fields may."""
    return lambda obj: type(obj) is cls and holds(obj)


def _giving(held: Any) -> Callable[[], Any]:
    """What is held or watched, when it is called."""
    return held if isinstance(held, weakref.ref) else lambda: held


def _same_within(ids: list[int]) -> Callable[[Any], bool]:
    return lambda obj: _ids_within(obj) == ids


def may_change(thing: object) -> bool:
    """Whether something in `thing` can be set without its becoming another thing."""
    return any(map(is_open, walk_fields(thing)))


def is_open(part: object) -> bool:
    cls = type(part)
    if cls in plain_leaves or isinstance(part, np.ndarray):
        return False
    return parts_of(cls) is not None and not is_frozen(cls)


def _can_be_watched(part: object) -> bool:
    """Whether the id of `part` can be relied on: not that of a tuple, which may be
    another tuple's the next time. Its contents must be looked at."""
    is_weak = type(part).__weakrefoffset__ != 0
    return type(part) in plain_leaves or is_weak or _is_atomic(part)


_ATOMS = {str, bytes, int, float, complex, bool, type(None)}


def _is_atomic(part: Any) -> bool:
    """Whether `part` can simply be held: it holds no array, and not the object."""
    return parts_of(type(part)) is None or (
        type(part) is tuple and _ATOMS.issuperset(map(type, part))
    )


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
        parts = fields_in(thing)
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
        # A number, a string: held. A container: its contents are watched one by
        # one, and holding it could hold the object itself.
        is_closed = is_opaque(type(part)) and not gc.is_tracked(part)  # range, date
        return part if is_closed or _is_atomic(part) else type(part)
