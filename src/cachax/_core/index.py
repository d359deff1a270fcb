"""The index: values by the arrays they came from.

A record is found by its property and the identities of the arrays that the body used,
and holds for every object with equal static parts. JAX arrays are immutable, so there
is nothing to invalidate: a record is removed when one of its arrays is gone. No object
is involved, so whether a value is found depends on the arrays alone, and never on what
the garbage collector did.
"""

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
"""The same for values that used no array, for each array of their objects."""


_FOR_ONE_METHOD = 8
"""The same for the sets of arguments of one method. Objects keep all of theirs."""


class Record:
    """A value, the arrays it came from, and the static parts of its objects."""

    __slots__ = (
        "fingerprint",
        "group",
        "holders",
        "ids",
        "is_cleared",
        "key",
        "packed",
        "statics",
        "template",
    )

    def __init__(
        self, key: Key, ids: tuple[int, ...], statics: Any, template: Template
    ) -> None:
        self.key = key
        self.ids = ids
        self.statics = statics
        self.template = template
        self.packed: Any = None
        """Its form inside `jit`, once that is known (`_jit`)."""
        source = getattr(key, "source", None)
        self.group = None if source is None else (id(source), ids)
        """The records of one cached method or function, for the same arrays."""
        self.fingerprint: Any = None
        """Of the trace of the body, where numbers or orders may make a difference."""
        self.holders: set[int] = set()
        """For a value that used no array: the arrays of its objects, by id."""
        self.is_cleared = False


class ArrayRef(weakref.ref[Any]):
    """An array, and what goes when it is gone."""

    __slots__ = ("calls", "id", "records")

    id: int
    records: list[Record]
    calls: list[Callable[[], None]]


class Changes:
    """Counts the records that were cleared. What objects have noted must be looked up
    again."""

    count = 0


_records: dict[tuple[Key, tuple[int, ...]], tuple[Record, ...]] = {}
_arrays: dict[int, ArrayRef] = {}
_groups: dict[tuple[int, tuple[int, ...]], list[Record]] = Recent()
"""Records of one cached method or function, for the same arrays, newest first."""


def find(key: Key, ids: tuple[int, ...], statics: Any) -> Record | None:
    """The record for arrays with these ids, which the caller holds."""
    for record in _records.get((key, ids), ()):
        if record.statics is statics or record.statics == statics:
            return record
    return None


def candidates(key: Key, ids: tuple[int, ...]) -> tuple[Record, ...]:
    """All records for these arrays, whatever their static parts."""
    return _records.get((key, ids), ())


def held_by(arrays: Iterable[Any], key: Key) -> tuple[Record, ...]:
    """Records of values that used no array, for objects with one of these. (Not for all
    objects with equal static parts: what is found would depend on which of the others
    are still there.)"""
    records = (record for array in arrays for record in records_of(array))
    return tuple(r for r in records if not r.ids and r.key == key)


def put(
    key: Key,
    arrays: Sequence[Any],
    statics: Any,
    template: Template,
    holders: Iterable[Any] = (),
) -> Record:
    """Keep a value for these arrays. If it used none, `holders` are the arrays that it
    stays with, as long as one of them is there."""
    record = Record(key, (*map(id, arrays),), statics, template)
    if record.ids:
        _add(record, arrays)
    else:
        _hold(record, holders)
    return record


def _hold(record: Record, arrays: Iterable[Any]) -> None:
    """Let a value that used no array stay with these."""
    source = getattr(record.key, "source", record.key)
    for ref in map(ref_of, arrays):
        others = [
            each
            for each in ref.records
            if not each.ids and getattr(each.key, "source", each.key) is source
        ]
        if record in others:
            continue
        same = [
            r for r in others if r.key == record.key and r.statics == record.statics
        ]
        for each in same or others[: 1 - _VARIANTS_OF_NO_ARRAY]:
            ref.records.remove(each)
            each.holders.discard(ref.id)
        ref.records.append(record)
        record.holders.add(ref.id)


def _add(record: Record, arrays: Iterable[Any]) -> None:
    place = (record.key, record.ids)
    old = []
    for each in _records.get(place, ()):
        if each is record or each.statics != record.statics:
            old += [each] if each is not record else []
        else:
            drop(each)
    newest = (record, *old)
    if record.group is not None:  # of a method: a value for every set of arguments
        group = _groups.setdefault(record.group, [])
        for dropped in group[_FOR_ONE_METHOD - 1 :]:
            drop(dropped)
        _groups.setdefault(record.group, group).insert(0, record)
    for dropped in newest[_VARIANTS:]:
        drop(dropped)
    _records[place] = newest[:_VARIANTS]
    for array in arrays:
        ref = ref_of(array)
        if record not in ref.records:
            ref.records.append(record)


def drop(
    record: Record,
    table: dict[Any, tuple[Record, ...]] = _records,
    arrays: dict[int, ArrayRef] = _arrays,
    groups: dict[Any, list[Record]] = _groups,
) -> None:
    """Remove a record."""
    group = groups.get(record.group, ())
    if record in group:
        group.remove(record)  # type: ignore[union-attr]
        if not group:
            groups.pop(record.group, None)
    place = (record.key, record.ids)
    others = tuple(r for r in table.get(place, ()) if r is not record)
    if others:
        table[place] = others
    else:
        table.pop(place, None)
    for each in record.ids or record.holders:
        ref = arrays.get(each)
        if ref is not None and record in ref.records:
            ref.records.remove(record)


def _gone(
    ref: ArrayRef,
    arrays: dict[int, ArrayRef] = _arrays,
    drop: Callable[[Record], None] = drop,
) -> None:
    # Called at any moment, and by the last arrays of a program when globals are gone
    # already: so it takes no lock, and has what it needs as defaults.
    if arrays.get(ref.id) is ref:
        del arrays[ref.id]
    records, ref.records = ref.records, []
    for record in records:
        if record.ids:
            drop(record)
        else:
            record.holders.discard(ref.id)
    calls, ref.calls = ref.calls, []
    for call in calls:
        call()


def forget(record: Record) -> None:
    """Remove a record though its arrays are there."""
    drop(record)
    record.is_cleared = True
    Changes.count += 1


def ref_of(array: Any) -> ArrayRef:
    ref = _arrays.get(id(array))
    if ref is None or ref() is not array:
        ref = ArrayRef(array, _gone)
        ref.id = id(array)
        ref.records, ref.calls = [], []
        _arrays[ref.id] = ref
    return ref


def records_of(array: Any) -> list[Record]:
    """What is known for an array."""
    ref = _arrays.get(id(array))
    return [*ref.records] if ref is not None and ref() is array else []


def follow(pairs: Sequence[tuple[int, Any]]) -> None:
    """Let values follow their arrays through a function that returns them unchanged.

    `pairs` has the ids of arrays that went in, and the arrays they came out as. This is
    done in every step of a training loop.
    """
    several: dict[int, Record] = {}
    for each, array in pairs:
        ref = _arrays.get(each)
        for record in () if ref is None else [*ref.records]:
            if len(record.ids) == 1:
                _follow(record, (array,))
            elif record.ids:
                several[id(record)] = record
            else:
                _hold(record, (array,))
    if several:
        outputs: dict[int, list[Any]] = {}
        for each, array in pairs:
            outputs.setdefault(each, []).append(array)
        for record in several.values():
            came = [outputs.get(i, ()) for i in record.ids]
            if all(came):
                for n in range(max(map(len, came))):
                    _follow(record, [outs[min(n, len(outs) - 1)] for outs in came])


_NO_HOLDERS: set[int] = set()


def _follow(record: Record, arrays: Sequence[Any]) -> None:
    copy = Record.__new__(Record)
    copy.key, copy.statics, copy.template = record.key, record.statics, record.template
    copy.packed, copy.fingerprint = record.packed, record.fingerprint
    copy.ids = ids = (*map(id, arrays),)
    copy.group = None if record.group is None else (record.group[0], ids)
    copy.holders, copy.is_cleared = _NO_HOLDERS, False
    place = (copy.key, ids)
    if copy.group is not None or place in _records:
        _add(copy, arrays)
        return
    _records[place] = (copy,)
    for array in arrays:
        ref_of(array).records.append(copy)


def size() -> int:
    """How many arrays there are with values."""
    return len(_arrays)
