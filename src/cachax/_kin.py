"""Values that still hold for another object, rebuilt from the same arrays.

`replace` of one field makes a new object, and most of what was computed for the old one
is right for it too. Each key notes from which arrays a value came. An object that has
the same ones gets that value, if what else it has is either equal or of no use to the
body, which is looked at once for each makeup (`_uses.py`), and only when it matters.
"""

import gc
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ._compat import is_ref
from ._levels import may_be_kept, traces_in
from ._makeup import Makeup, makeup_of
from ._memo import Key, memo_of
from ._parts import plain_leaves, walk
from ._recent import Recent
from ._shelf import AtHand
from ._snapshot import is_open
from ._uses import things_used

NOT_KEPT: Any = object()


class _Record:
    """A value, and what it was computed from."""

    __slots__ = ("__weakref__", "at_hand", "ids", "owner", "rest", "value", "watched")

    def __init__(
        self, obj: object, rest: Any, ids: list[int | None], value: Any
    ) -> None:
        self.owner = weakref.ref(obj)
        self.rest = rest
        self.ids = ids
        """Of the things, as long as they are there; then None."""
        self.value = value
        self.watched: list[_Watch] = []
        self.at_hand = AtHand()

    def __del__(self) -> None:
        self.at_hand.withdraw()


class _Watch(weakref.ref[Any]):
    """On one of the things of a record."""

    __slots__ = ("kin", "place", "record")

    kin: "Kin"
    place: int
    record: weakref.ref[_Record]


def _gone(watch: _Watch) -> None:
    record = watch.record()
    if record is not None:
        watch.kin.lose(record, watch.place)


_AT_MOST = 2
"""Values kept for one thing, when their objects are gone: of a property that depends on
a number as well, each number would leave one behind."""


class Kin:
    """The values of one key, by the ids of the things they were computed from: under
    each the newest ones."""

    __slots__ = ("__weakref__", "_body", "_undecided", "_used", "by_thing")

    def __init__(self, body: Callable[[Any], Any] | None) -> None:
        self._body = body
        """None if it is not worth a look: everything counts."""
        self.by_thing: dict[int | None, tuple[Any, ...]] = {}
        self._used: dict[Any, list[bool] | None] = Recent()
        self._undecided: _Record | None = None

    def find(self, key: Key, obj: Any, makeup: Makeup) -> Any:
        """The value, if it is known from another object; else `NOT_KEPT`."""
        if not self.by_thing and not _borrowers:
            return NOT_KEPT
        tried: set[int] = set()
        for thing in makeup.ids:
            for kinsman in (*self.by_thing.get(thing, ()), *_borrowers.get(thing, ())):
                if id(kinsman) not in tried:
                    tried.add(id(kinsman))
                    value = self._of(kinsman, key, obj, makeup)
                    if value is not NOT_KEPT and may_be_kept(value, obj):
                        return value
        return NOT_KEPT

    def _of(self, kinsman: Any, key: Key, obj: Any, makeup: Makeup) -> Any:
        if isinstance(kinsman, _Record):
            holds = self._holds_for(obj, makeup, kinsman.rest, kinsman.ids)
            if kinsman is self._undecided:
                self._undecided = None
                if not holds:
                    self.drop(kinsman)
            return kinsman.value if holds else NOT_KEPT
        other = kinsman()
        its = None if other is obj or other is None else makeup_of(other)
        if its is None or not self._holds_for(obj, makeup, its.rest, its.ids):
            return NOT_KEPT
        is_lent_to = memo_of(other).lender is not None
        return key.read(other) if is_lent_to else key.peek(other, NOT_KEPT)

    def _holds_for(
        self, obj: Any, makeup: Makeup, rest: Any, ids: Sequence[int | None]
    ) -> bool:
        """Whether what was computed from things of these ids is right for `obj`."""
        if makeup.rest != rest:
            return False
        pairs = zip(makeup.ids, ids, strict=True)
        same = [mine is not None and mine == its for mine, its in pairs]
        if all(same) or self._body is None:
            return all(same)
        if rest not in self._used:
            self._used[rest] = None  # in case that to flatten it reads this very key
            self._used[rest] = things_used(self._body, obj, makeup.things)
        used = self._used[rest]
        return used is not None and all(
            is_same for is_same, is_used in zip(same, used, strict=True) if is_used
        )

    def note(self, obj: Any, makeup: Makeup, value: Any) -> None:
        """That `value` was computed for `obj`."""
        ids = makeup.ids
        if not any(ids) or not _may_be_shared(value, ids):
            return
        if traces_in(value):
            _note_traced(obj, ids, self.by_thing)
            return
        record = _Record(obj, makeup.rest, ids, value)
        for place, thing in enumerate(makeup.things):
            if ids[place] is not None:
                watch = _Watch(thing, _gone)
                watch.kin, watch.place, watch.record = self, place, weakref.ref(record)
                record.watched.append(watch)
        _put(record, self.by_thing)

    def forget(self, makeup: Makeup) -> None:
        """All that was computed from one of these things."""
        for thing in makeup.ids:
            for kinsman in self.by_thing.get(thing, ()):
                self.drop(kinsman)

    def lose(self, record: _Record, place: int) -> None:
        """One of the things of a record is gone."""
        _take_out(record, self.by_thing, record.ids[place])
        record.ids[place] = None
        if not self._stays_without(record, place) or not any(record.ids):
            self.drop(record)

    def _stays_without(self, record: _Record, place: int) -> bool:
        if record.rest in self._used:
            used = self._used[record.rest]
            return used is not None and not used[place]
        # Nobody knows yet whether the value depends on it. If it went with its object,
        # another may just have been made of the things that are left.
        if self._body is None or record.owner() is not None:
            return False
        if self._undecided is not record:
            self.drop_undecided()
            self._undecided = record
            _with_undecided.add(self)
        return True

    def known(self, makeup: Makeup) -> tuple[Any, list[bool]] | None:
        """The record of a value for objects of this makeup, and which of the things in
        them it depends on."""
        used = self._used.get(makeup.rest)
        for thing in makeup.ids:
            for record in self.by_thing.get(thing, ()):
                if isinstance(record, _Record) and record.rest == makeup.rest:
                    pairs = zip(record.ids, makeup.ids, strict=True)
                    same = [its == mine is not None for its, mine in pairs]
                    needed = used or [True] * len(same)
                    if all(s for s, u in zip(same, needed, strict=True) if u):
                        return record, needed
        return None

    def drop(self, record: Any) -> None:
        for thing in record.ids:
            _take_out(record, self.by_thing, thing)
        if self._undecided is record:
            self._undecided = None

    def drop_undecided(self) -> None:
        if self._undecided is not None:
            self.drop(self._undecided)


_with_undecided: weakref.WeakSet[Kin] = weakref.WeakSet()


def _drop_undecided(phase: str, info: dict[str, int]) -> None:
    if phase == "start" and info["generation"] == 2:
        for kin in [*_with_undecided]:
            kin.drop_undecided()
        _with_undecided.clear()


gc.callbacks.append(_drop_undecided)


def _may_be_shared(value: Any, ids: Sequence[int | None]) -> bool:
    """Not if it can be changed, in place too, nor if it holds one of the things it came
    from: they would be there as long as it is, and it as long as they are."""
    if type(value) in plain_leaves:
        return id(value) not in ids and not is_ref(value)
    return not any(
        id(part) in ids or isinstance(part, np.ndarray) or is_ref(part) or is_open(part)
        for part in walk(value)
    )


class _Traced(weakref.ref[Any]):
    """A traced object, which can be asked for its values as long as it is there.

    To hold them here would hold its trace: a tracer holds what it was computed from."""

    __slots__ = ("ids", "table")

    ids: list[int | None]
    table: dict[int | None, Any]


_borrowers: dict[int | None, tuple[Any, ...]] = {}
"""Traced objects that values are lent to, by the ids of the things in them."""


def note_borrower(obj: Any, owner: Any) -> None:
    """That an object rebuilt from `obj` may ask it for values, which are those of
    `owner`."""
    makeup, its = makeup_of(obj), makeup_of(owner)
    if makeup is not None and its is not None and makeup.ids != its.ids:
        _note_traced(obj, makeup.ids, _borrowers)


def _note_traced(
    obj: Any, ids: list[int | None], table: dict[int | None, tuple[Any, ...]]
) -> None:
    traced = _Traced(obj, _remove)
    traced.ids, traced.table = ids, table
    _put(traced, table)


def _remove(traced: _Traced) -> None:
    for thing in traced.ids:
        _take_out(traced, traced.table, thing)


def _put(kinsman: Any, table: dict[int | None, tuple[Any, ...]]) -> None:
    for thing in kinsman.ids:
        if thing is not None:
            table[thing] = (kinsman, *table.get(thing, ()))[:_AT_MOST]


def _take_out(
    kinsman: Any, table: dict[int | None, tuple[Any, ...]], thing: int | None
) -> None:
    others = tuple(other for other in table.get(thing, ()) if other is not kinsman)
    if others:
        table[thing] = others
    else:
        table.pop(thing, None)
