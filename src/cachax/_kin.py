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
from ._uses import arrays_used

NOT_KEPT: Any = object()


class _Record:
    """A value, and what it was computed from."""

    __slots__ = (
        "__weakref__",
        "at_hand",
        "ids",
        "kin",
        "owner",
        "places",
        "rest",
        "value",
        "watched",
    )

    def __init__(self, kin: "Kin", obj: object, makeup: Makeup, value: Any) -> None:
        self.kin = kin
        self.owner = weakref.ref(obj)
        self.rest = makeup.rest
        self.places = makeup.places
        self.ids = [*makeup.ids]
        """Of the arrays, as long as they are there; then None. They are to find it by:
        whoever is to be told that an array is gone may be interrupted."""
        self.value = value
        self.watched: list[_Watch | None] = []
        """The arrays."""
        self.at_hand = AtHand()

    def __del__(self) -> None:
        self.at_hand.withdraw()


class _Watch(weakref.ref[Any]):
    """On one of the arrays of a record."""

    __slots__ = ("place", "record")

    place: int
    record: weakref.ref[_Record]


def _gone(watch: _Watch) -> None:
    record = watch.record()
    if record is not None:
        record.kin.lose(record, watch.place)


class Records(dict[int | None, tuple[Any, ...]]):
    """By the ids of the arrays they were computed from: under each the newest ones.

    They are kept when their objects are gone, as long as the arrays are there. Of a
    property that depends on a number as well, each number would leave one behind: so
    there are few for one array.
    """

    __slots__ = ("at_most",)

    def __init__(self, at_most: int) -> None:
        self.at_most = at_most

    def put(self, kinsman: Any) -> None:
        for array in kinsman.ids:
            if array is not None:
                self[array] = (kinsman, *self.get(array, ()))[: self.at_most]

    def take_out(self, kinsman: Any, array: int | None) -> None:
        others = tuple(x for x in self.get(array, ()) if x is not kinsman)
        if others:
            self[array] = others
        else:
            self.pop(array, None)


_with_undecided: "set[Kin]" = set()


class Kin:
    """The values of one key that may be right for other objects."""

    __slots__ = ("__weakref__", "_body", "_undecided", "_used", "records")

    def __init__(
        self, body: Callable[[Any], Any] | None, records: Records | None = None
    ) -> None:
        self._body = body
        """None if it is not worth a look: everything counts."""
        self.records = Records(2) if records is None else records
        """Of other keys too, if it is a method or a function."""
        self._used: dict[Any, list[bool] | None] = Recent()
        self._undecided: _Record | None = None

    def find(self, key: Key, obj: Any, makeup: Makeup) -> Any:
        """The value, if it is known from another object; else `NOT_KEPT`."""
        if not self.records and not _borrowers:
            return NOT_KEPT
        tried: set[int] = set()
        for array in makeup.ids:
            for kinsman in (*self.records.get(array, ()), *_borrowers.get(array, ())):
                if id(kinsman) not in tried and kinsman.kin in (self, None):
                    tried.add(id(kinsman))
                    value = self._of(kinsman, key, obj, makeup)
                    if value is not NOT_KEPT and may_be_kept(value, obj):
                        return value
        return NOT_KEPT

    def _of(self, kinsman: Any, key: Key, obj: Any, makeup: Makeup) -> Any:
        if isinstance(kinsman, _Record):
            holds = self._holds_for(obj, makeup, kinsman)
            if kinsman is self._undecided:
                self._undecided = None
                if not holds:
                    self.drop(kinsman)
            return kinsman.value if holds else NOT_KEPT
        other = kinsman()
        its = None if other is obj or other is None else makeup_of(other)
        if its is None or not self._holds_for(obj, makeup, its):
            return NOT_KEPT
        is_lent_to = memo_of(other).lender is not None
        return key.read(other) if is_lent_to else key.peek(other, NOT_KEPT)

    def _holds_for(self, obj: Any, makeup: Makeup, other: "Makeup | _Record") -> bool:
        """Whether what was computed for the other one is right for `obj`."""
        rest = makeup.rest
        if rest != other.rest:
            return False
        same = _same(makeup, other)
        if all(same) or self._body is None:
            return all(same)
        if rest not in self._used:
            self._used[rest] = None  # in case that to flatten it reads this very key
            try:
                self._used[rest] = arrays_used(self._body, obj, makeup)
            except BaseException:  # interrupted
                self._used.pop(rest, None)
                raise
        used = self._used[rest]
        if used is None or not _where(used, same):
            return False
        pairs = zip(makeup.places, other.places, strict=True)
        return all(a is None or b is None or a == b for a, b in pairs)

    def note(self, obj: Any, makeup: Makeup, value: Any) -> None:
        """That `value` was computed for `obj`."""
        ids = makeup.ids
        if not any(ids) or not _may_be_shared(value, ids):
            return
        if traces_in(value):
            _note_traced(obj, ids, self.records, self)
            return
        record = _Record(self, obj, makeup, value)
        for place, array in enumerate(makeup.arrays):
            watch = None
            if ids[place] is not None:
                watch = _Watch(array, _gone)
                watch.place, watch.record = place, weakref.ref(record)
            record.watched.append(watch)
        self.records.put(record)

    def forget(self, makeup: Makeup) -> None:
        """All that was computed from one of these arrays."""
        for array in makeup.ids:
            for kinsman in self.records.get(array, ()):
                if kinsman.kin is self:
                    self.drop(kinsman)

    def lose(self, record: _Record, place: int) -> None:
        """One of the arrays of a record is gone."""
        self.records.take_out(record, record.ids[place])
        record.ids[place] = None
        if not self._stays_without(record, place) or not any(record.ids):
            self.drop(record)

    def _stays_without(
        self,
        record: _Record,
        place: int,
        with_undecided: "set[Kin]" = _with_undecided,  # at exit, globals go first
    ) -> bool:
        if record.rest in self._used:
            used = self._used[record.rest]
            return used is not None and not used[place]
        # Nobody knows yet whether the value depends on it. If it went with its object,
        # another may just have been made of the arrays that are left.
        if self._body is None or record.owner() is not None:
            return False
        if self._undecided is not record:
            self.drop_undecided()
            self._undecided = record
            with_undecided.add(self)
        return True

    def known(self, makeup: Makeup) -> tuple[Any, list[bool]] | None:
        """The record of a value for objects of this makeup, and which of the arrays in
        them it depends on."""
        used = self._used.get(makeup.rest)
        for array in makeup.ids:
            for record in self.records.get(array, ()):
                is_mine = isinstance(record, _Record) and record.kin is self
                if is_mine and record.rest == makeup.rest:
                    needed = used or [True] * len(record.ids)
                    if _where(needed, _same(makeup, record)):
                        return record, needed
        return None

    def drop(self, record: Any) -> None:
        for array in record.ids:
            self.records.take_out(record, array)
        if self._undecided is record:
            self._undecided = None

    def drop_undecided(self) -> None:
        if self._undecided is not None:
            self.drop(self._undecided)


def _same(makeup: Makeup, other: Makeup | _Record) -> list[bool]:
    """Which of the arrays are the same."""
    if isinstance(other, _Record):
        watched = zip(makeup.arrays, other.watched, strict=True)
        return [watch is not None and watch() is array for array, watch in watched]
    ids = zip(makeup.ids, other.ids, strict=True)
    return [mine is not None and mine == its for mine, its in ids]


def _where(needed: Sequence[bool], same: Sequence[bool]) -> bool:
    """Whether all that is needed is the same."""
    return all(s for s, n in zip(same, needed, strict=True) if n)


def _drop_undecided(phase: str, info: dict[str, int]) -> None:
    if phase == "start" and info["generation"] == 2:
        for kin in [*_with_undecided]:
            kin.drop_undecided()
        _with_undecided.clear()


gc.callbacks.append(_drop_undecided)


def _may_be_shared(value: Any, ids: Sequence[int | None]) -> bool:
    """Not if it can be changed, in place too, nor if it holds one of the arrays it came
    from: they would be there as long as it is, and it as long as they are."""
    if type(value) in plain_leaves:
        return id(value) not in ids and not is_ref(value)
    return not any(
        id(part) in ids
        or isinstance(part, np.ndarray)
        or is_ref(part)
        or is_open(part)
        or (type(part) not in plain_leaves and type(part).__hash__ is None)
        for part in walk(value)
    )


class _Traced(weakref.ref[Any]):
    """A traced object, which can be asked for its values as long as it is there.

    To hold them here would hold its trace: a tracer holds what it was computed from.
    """

    __slots__ = ("ids", "kin", "records")

    ids: list[int | None]
    records: Records
    kin: Kin | None
    """None if it can be asked for the value of any key."""


_borrowers = Records(2)
"""Traced objects that values are lent to."""


def note_borrower(obj: Any, owner: Any) -> None:
    """That an object rebuilt from `obj` may ask it for values, which are those of
    `owner`."""
    makeup, its = makeup_of(obj), makeup_of(owner)
    if makeup is not None and its is not None and makeup.ids != its.ids:
        _note_traced(obj, makeup.ids, _borrowers, None)


def _note_traced(
    obj: Any, ids: list[int | None], records: Records, kin: Kin | None
) -> None:
    traced = _Traced(obj, _remove)
    traced.ids, traced.records, traced.kin = ids, records, kin
    records.put(traced)


def _remove(traced: _Traced) -> None:
    for array in traced.ids:
        traced.records.take_out(traced, array)
