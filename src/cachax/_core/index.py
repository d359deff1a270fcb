"""The index: values by the arrays they came from.

A record is found by its property and the contents of the arrays that the body used, and
holds for every object with equal static parts. JAX arrays are immutable, so an array
has the same `Contents` for as long as it exists, and there is nothing to invalidate. An
array that a function returns unchanged is a new array with the same contents: so values
follow it. When the last array with some contents is gone, their records are removed. No
object is involved: whether a value is found never depends on what the garbage collector
did.
"""

import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .recent import Recent
from .values import Template

Key = Any
_VARIANTS = 2
"""Records for one property and the same arrays: `S(X, scale=0.1 * i)` must not leave
one for each `i`."""
_VARIANTS_OF_NO_ARRAY = 64
"""The same for values that used no array, for each of the arrays of their objects."""
_FOR_ONE_METHOD = 8
"""The same for the sets of arguments of one method. Objects keep all of theirs."""


class Record:
    """A value, what it came from, and the static parts of its objects."""

    __slots__ = (
        "contents",
        "holders",
        "is_cleared",
        "key",
        "numbers",
        "packed",
        "statics",
        "template",
        "uses",
    )

    def __init__(
        self,
        key: Key,
        contents: "tuple[Contents, ...]",
        statics: Any,
        value: Template,
        uses: Any,
        numbers: dict[int, Any],
    ) -> None:
        self.key = key
        self.contents = contents
        self.statics = statics
        self.template = value
        self.packed: Any = None
        """Its form inside `jit`, once that is known (`_jit`)."""
        self.uses = uses
        """Which of the inputs of its object it used."""
        self.numbers = numbers
        """The Python numbers of its object, by position."""
        self.holders: set[Contents] = set()
        """For a value that used no array: the contents of the arrays of its objects."""
        self.is_cleared = False

    @property
    def group(self) -> Any:
        """The records of one cached method or function, for the same arrays."""
        source = getattr(self.key, "source", None)
        return None if source is None else (id(source), self.contents)


class Contents:
    """What one or more arrays hold, and what is known about it."""

    __slots__ = ("calls", "records", "refs")

    def __init__(self) -> None:
        self.refs: dict[int, _ArrayRef] = {}
        """The arrays, by id."""
        self.records: tuple[Record, ...] = ()
        self.calls: dict[tuple[int, Any], Any] = {}
        """What is ready for calls with these arrays, and goes when they are gone or a
        record is: tables, by their ids and the keys in them."""

    def remove_calls(self) -> None:
        calls, self.calls = self.calls, {}
        for (_, key), table in calls.items():
            if (ready := table()) is not None:
                ready.remove(key)


class _ArrayRef(weakref.ref[Any]):
    __slots__ = ("contents", "id")

    id: int
    contents: Contents


class Changes:
    """Counts the records that were cleared. What objects have noted must be looked up
    again."""

    count = 0


contents_by_id: dict[int, Contents] = {}
"""By the id of an array. Not every array has contents that something is known about."""
_records: dict[tuple[Key, tuple[Contents, ...]], tuple[Record, ...]] = {}
_making = threading.Lock()
_groups: dict[Any, list[Record]] = Recent()
"""Records of one cached method or function, for the same arrays, newest first."""


def known(arrays: Iterable[Any]) -> tuple[Contents, ...] | None:
    """The contents of these arrays; None if there is one that nothing is known of."""
    try:
        return tuple([contents_by_id[id(array)] for array in arrays])
    except KeyError:
        return None


def find(
    key: Key, contents: tuple[Contents, ...] | None, statics: Any
) -> Record | None:
    """The record for arrays with these contents."""
    for record in candidates(key, contents):
        if record.statics is statics or record.statics == statics:
            return record
    return None


def candidates(key: Key, contents: tuple[Contents, ...] | None) -> tuple[Record, ...]:
    """All records for these contents, whatever their static parts."""
    return () if contents is None else _records.get((key, contents), ())


def held_by(arrays: Iterable[Any], key: Key) -> tuple[Record, ...]:
    """Records of values that used no array, for objects with one of these. (Not for all
    objects with equal static parts: what is found would depend on which of the others
    are still there.)"""
    records = (record for array in arrays for record in records_of(array))
    return tuple(r for r in records if not r.contents and r.key == key)


def contents_of(array: Any) -> Contents:
    """Those of an array. They get their own if nothing is known about it yet."""
    found = contents_by_id.get(id(array))
    if found is None:
        with _making:
            found = contents_by_id.get(id(array)) or Contents()
            _join(array, found)
    return found


def _join(array: Any, contents: Contents) -> None:
    each = id(array)
    if each not in contents_by_id:
        ref = contents.refs[each] = _ArrayRef(array, _gone)
        ref.id = each
        ref.contents = contents
        contents_by_id[each] = contents


def follow(given: Any, returned: Any) -> None:
    """A function returned an array unchanged: what is known of one holds for the other,
    unless it is placed elsewhere.

    This is done in every step of a training loop.
    """
    placed, now = given.sharding, returned.sharding
    if placed is now or placed == now:
        _join(returned, contents_by_id[id(given)])


def put(
    key: Key,
    arrays: Sequence[Any],
    statics: Any,
    template: Template,
    uses: Any,
    numbers: dict[int, Any],
    holders: Iterable[Any] = (),
) -> Record:
    """Keep a value for these arrays. If it used none, `holders` are the arrays that it
    stays with, as long as one of them is there."""
    contents = tuple(map(contents_of, arrays))
    record = Record(key, contents, statics, template, uses, numbers)
    if not contents:
        _hold(record, holders)
        return record
    place, group = (key, contents), record.group
    others: tuple[Record, ...] = _records.get(place, ())
    if others:
        for old in others:
            if old.statics == statics:
                _replace(old)
        for old in _records.get(place, ())[_VARIANTS - 1 :]:
            _replace(old)
        others = _records.get(place, ())
    _records[place] = (record, *others)
    if group is not None:  # of a method: a value for every set of arguments
        for old in _groups.get(group, [])[_FOR_ONE_METHOD - 1 :]:
            _replace(old)
        _groups.setdefault(group, []).insert(0, record)
    for each in {*contents}:
        each.records = (*each.records, record)
    return record


def _hold(record: Record, arrays: Iterable[Any]) -> None:
    """Let a value that used no array stay with these."""
    source = getattr(record.key, "source", record.key)
    mine = (record.key, record.statics)
    record.holders = {*map(contents_of, arrays)}
    for contents in record.holders:
        others = [
            each
            for each in contents.records
            if not each.contents and getattr(each.key, "source", each.key) is source
        ]
        same = [each for each in others if (each.key, each.statics) == mine]
        for old in same or others[: 1 - _VARIANTS_OF_NO_ARRAY]:
            old.holders.discard(contents)
            contents.records = tuple(r for r in contents.records if r is not old)
        contents.records = (*contents.records, record)


def drop(
    record: Record,
    table: dict[Any, tuple[Record, ...]] = _records,
    groups: dict[Any, list[Record]] = _groups,
) -> None:
    """Remove a record."""
    place, name = (record.key, record.contents), record.group
    records = table.get(place, ())
    if records == (record,):
        del table[place]
    elif record in records:
        table[place] = tuple(r for r in records if r is not record)
    if name is not None and record in groups.get(name, ()):
        groups[name].remove(record)
        if not groups[name]:
            groups.pop(name, None)
    for each in record.contents or record.holders:
        each.records = tuple(r for r in each.records if r is not record)


def _gone(
    ref: _ArrayRef,
    table: dict[int, Contents] = contents_by_id,
    drop: Callable[[Record], None] = drop,
) -> None:
    # Called at any moment, and by the last arrays of a program when globals are gone
    # already: so it takes no lock, and has what it needs as defaults.
    contents = ref.contents
    if contents.refs.get(ref.id) is ref:
        del contents.refs[ref.id]
        if table.get(ref.id) is contents:
            del table[ref.id]
    if contents.refs:
        return
    records, contents.records = contents.records, ()
    for record in records:
        if record.contents:
            drop(record)
        else:
            record.holders.discard(contents)
    contents.remove_calls()


def forget(record: Record) -> None:
    """Remove a record though its arrays are there."""
    _replace(record)
    record.is_cleared = True
    Changes.count += 1


def _replace(record: Record) -> None:
    """The same, and what is ready with it."""
    drop(record)
    for each in record.contents:
        each.remove_calls()


def records_of(array: Any) -> list[Record]:
    """What is known for an array."""
    contents = contents_by_id.get(id(array))
    return [] if contents is None else [*contents.records]
