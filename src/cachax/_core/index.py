"""The index: values by the arrays they came from.

A record is found by its property and the contents of the arrays that the body used, and
holds for every object with equal static parts. JAX arrays are immutable, so an array
has the same `Contents` for as long as it exists, and there is nothing to invalidate. An
array that a function returns unchanged is a new array with the same contents: so values
follow it.

The arrays own it all. Contents are an attribute of their arrays, and have the records:
these go with the last array. No object is involved, and no table: whether a value is
found never depends on what the garbage collector did.
"""

import itertools
import operator
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import InitVar, dataclass
from itertools import repeat
from typing import Any

import jax

from .._compat import BASE, ArrayImpl, base_of, is_same_sharding
from .recent import Recent
from .values import Template

Key = Any
ATTRIBUTE = "_cachax"
"""Of an array: its contents. (Of random keys, it is that of the array inside: the keys
are pickled with their attributes.)"""
_VARIANTS = 4
"""Records for one property and the same arrays: `S(X, scale=0.1 * i)` must not leave
one for each `i`."""
_VARIANTS_AGAIN = 16
"""Beside them, those that were computed again after newer ones had replaced them."""
_MANY_VARIANTS = 64
"""The same for the sets of arguments of one method (objects keep all of theirs), and
for values that used no array, for each of the arrays of their objects."""

_MANY_REPLACED = 64
"""Records of which it is known that they were replaced, for each of their arrays."""

_MANY_LATER = 12
"""Records that are not made yet, of one array."""

_making = threading.RLock()
_serials = itertools.count()
_serial = operator.attrgetter("serial")


class Contents:
    """What one or more arrays hold, and what is known about it."""

    _records: "dict[Any, tuple[Record, ...]] | None" = None
    later: tuple[list[Any], ...] = ()
    """Records that are made when one is looked for; see `put_later`."""
    _is_making = False
    calls: dict[tuple[int, Any], Any] | None = None
    """What is ready for calls with these arrays, and goes when they are gone or a
    record is: tables, by their ids and the keys in them."""

    sources: frozenset[Any] = frozenset()
    """The properties and methods of which a value was computed, or is: their tokens."""
    placed: Any = None
    """The sharding of an array that it was passed on to."""
    replaced: "Recent[Any, None] | tuple[()]" = ()
    """The names of records that newer ones have replaced."""
    busy: tuple[int, threading.Event] | None = None
    """While a program computes values of new arrays: in which thread, and an event that
    is set afterwards."""

    def __init__(self) -> None:
        self.serial = next(_serials)
        """What others know it by. They must not hold it: the arrays do."""

    @property
    def records(self) -> "dict[Any, tuple[Record, ...]]":
        """By the property or method, and the contents of all arrays that were used."""
        if self._records is None:
            self._records = {}
        if self.later:
            with _making:  # other threads wait until they are there
                self._make_later()
        return self._records

    def _make_later(self) -> None:
        if self._is_making:  # the oldest ones first
            return
        self._is_making = True
        try:
            for make, parts, refs in filter(None, map(_emptied, self.later)):
                contents = [ref() for ref in refs] or [self]
                if None in contents:  # one is about to be removed
                    continue
                record = make(contents, parts)
                if record is not None:
                    add(record, contents)
        finally:
            self._is_making = False
            self.later = tuple(filter(None, self.later))

    def remove(self, record: "Record") -> None:
        records = self._records or {}
        left = tuple([x for x in records.get(record.place, ()) if x is not record])
        if left:
            records[record.place] = left
        else:
            records.pop(record.place, None)

    def remove_calls(self) -> None:
        while self.calls:
            try:
                (_, key), table = self.calls.popitem()
            except KeyError:  # another thread was faster
                return
            if (ready := table()) is not None:
                ready.remove(key)

    def __del__(self) -> None:
        # At any moment: it takes no lock, and uses no global, which may be gone.
        for each in self.later:
            each.clear()
        for records in [*(self._records or {}).values()]:
            for record in records:
                if record.serials and len(record.owners) > 1:
                    record.drop()
        if self.calls:
            self.remove_calls()


@dataclass(eq=False, slots=True)
class Record:
    """A value, what it came from, and the static parts of its objects."""

    key: Key
    contents: InitVar[Sequence[Contents]]
    statics: Any
    template: Template
    packed: Any = None
    """Its form inside `jit`, once that is known (`_jit`)."""
    owners: tuple[weakref.ref[Contents], ...] = ()
    """The contents of the arrays that it used. If it used none, of all arrays of its
    objects."""
    holder: weakref.ref[Any] | None = None
    """The object that it was computed for, if that has it from nowhere else."""
    is_cleared: bool = False
    is_again: bool = False
    """Whether it was computed again after newer ones had replaced it."""
    serials: tuple[int, ...] = ()
    place: Any = None

    def __post_init__(self, contents: Sequence[Contents]) -> None:
        self.serials, self.place = _place(self.key, contents)

    @property
    def uses(self) -> Any:
        """Which of the inputs of its object it used."""
        return self.statics.uses

    def drop(self) -> None:
        """Remove it from all that has it."""
        for ref in self.owners:
            if (owner := ref()) is not None:
                owner.remove(self)

    @property
    def name(self) -> Any:
        """The same for each record of this value. (Not a hash: there are ids in it, and
        whether they are used again depends on the garbage collector.)"""
        return self.place, self.key, self.statics

    def replaces(self, others: Sequence["Record"]) -> list["Record"]:
        """Which of others in the same place, newest first, are not kept beside it."""
        same = [x for x in others if x.key == self.key]
        equal = [x for x in same if x.statics == self.statics]
        if equal or not self.serials:
            return [*equal, *others[_MANY_VARIANTS - 1 :]]
        most = _VARIANTS_AGAIN if self.is_again else _VARIANTS
        alike = [x for x in same if x.is_again == self.is_again]
        return [*alike[most - 1 :], *others[_MANY_VARIANTS - 1 :]]


class Changes:
    """Counts the records that were cleared. What objects have noted must be looked up
    again."""

    count = 0


def source_of(key: Key) -> Any:
    """The property or method that it belongs to."""
    return getattr(key, "source", key)


def token_of(key: Key) -> object:
    """What stands for its property or method, and doesn't hold it."""
    return vars(source_of(key)).setdefault("_token", object())


def _place(key: Key, contents: Sequence[Contents]) -> tuple[tuple[int, ...], Any]:
    serials = tuple(map(_serial, contents))
    return serials, (source_of(key), serials)


def known(arrays: Iterable[Any]) -> tuple[Contents, ...] | None:
    """The contents of these arrays; None if there is one that nothing is known of."""
    try:
        return tuple([base_of(array)._cachax for array in arrays])
    except AttributeError:
        return None


def serials_of(arrays: Iterable[Any]) -> tuple[int, ...] | None:
    """The serials of their contents, likewise."""
    contents = known(arrays)
    return None if contents is None else tuple(map(_serial, contents))


def candidates(key: Key, contents: tuple[Contents, ...] | None) -> Sequence[Record]:
    """All records for these contents, whatever their static parts."""
    if not contents:
        return ()
    for each in contents[1:]:
        if each.later:
            each.records  # noqa: B018 (it makes them)
    place = (source_of(key), tuple(map(_serial, contents)))
    records = contents[0].records.get(place, ())
    if len(records) == 1 and records[0].key is key:  # as most are
        return records
    return [record for record in records if record.key == key]


def held_by(arrays: Iterable[Any], key: Key) -> Sequence[Record]:
    """Records of values that used no array, for objects with one of these. (Not for all
    objects with equal static parts: what is found would depend on which of the others
    are still there.)"""
    _, place = _place(key, ())
    owners = (getattr(base_of(array), ATTRIBUTE, None) for array in arrays)
    found = (owner.records.get(place, ()) for owner in owners if owner is not None)
    return [record for each in found for record in each if record.key == key]


def contents_of(array: Any) -> Contents:
    """Those of an array. They get their own if nothing is known about it yet."""
    base = base_of(array)
    found: Contents | None = getattr(base, ATTRIBUTE, None)
    return found or vars(base).setdefault(ATTRIBUTE, Contents())


def is_new_for(array: Any, sources: frozenset[Any]) -> bool:
    """Whether no value of these properties and methods is known for it yet."""
    contents = getattr(base_of(array), ATTRIBUTE, None)
    if contents is None:
        return True
    return contents.busy is None and sources.isdisjoint(contents.sources)


_claiming = threading.Lock()
_WAIT = 1.0
"""Seconds to wait for another thread, which may wait for this one."""


@contextmanager
def computing_inside(
    arrays: Sequence[Any], sources: Sequence[frozenset[Any]]
) -> Iterator[bool]:
    """In this context, a program computes values of these arrays. False if they are not
    new any more: then a different thread does, or did."""
    busy = (threading.get_ident(), threading.Event())
    with _claiming:
        are_new = all(map(is_new_for, arrays, sources))
        unknown = [x for x in map(base_of, arrays) if not hasattr(x, ATTRIBUTE)]
        contents = [*map(contents_of, arrays)] if are_new else []
        for each in contents:
            each.busy = busy
    try:
        yield are_new
    finally:
        for each in contents:
            each.busy = None
        for array in unknown if are_new else ():
            each = contents_of(array)
            if not (each.sources or each.calls):  # threads make no difference
                vars(array).pop(ATTRIBUTE, None)
        busy[1].set()


def claim(key: Key, arrays: Iterable[Any]) -> None:
    """A value of these arrays is about to be computed: they are not new any more, so
    that no program computes it as well. If one does, wait for it."""
    with _claiming:
        contents = [*map(contents_of, arrays)]
        for each in contents:
            each.sources |= {token_of(key)}
    _wait_for(contents)


def wait_for_all(arrays: Iterable[Any]) -> None:
    """If a program of another thread computes a value of these arrays, wait for it."""
    found = (getattr(base_of(array), ATTRIBUTE, None) for array in arrays)
    _wait_for([contents for contents in found if contents is not None])


def _wait_for(contents: Iterable[Contents]) -> None:
    for each in contents:
        thread, is_done = each.busy or (None, None)
        if is_done is not None and thread != threading.get_ident():
            is_done.wait(_WAIT)


def follow(given: Any, returned: Any, is_of_an_object: bool = False) -> None:
    """A function returned an array unchanged: what is known of one holds for the other,
    unless it is placed elsewhere. Both are given by `base_of`. So does what will be
    known, if it is an array of an object that may have values.

    This is done in every step of a training loop.
    """
    contents: Contents | None = getattr(given, ATTRIBUTE, None)
    if contents is None:
        if not (is_of_an_object and isinstance(given, ArrayImpl)):
            return
        contents = contents_of(given)
    placed = returned._sharding
    if contents.placed is not placed:
        if not is_same_sharding(given, returned):
            return
        contents.placed = placed
    returned._cachax = contents


def follow_in_place(given: Any, returned: Any, is_of_an_object: bool = False) -> None:
    """The same where there are several devices: a value that may be moved to a
    different one doesn't follow an array that may not be moved any more."""
    if getattr(given, "_committed", None) == returned._committed:
        follow(given, returned, is_of_an_object)


def put(
    key: Key,
    arrays: Sequence[Any],
    statics: Any,
    template: Template,
    holders: Iterable[Any] = (),
) -> Record:
    """Keep a value for these arrays. If it used none, `holders` are the arrays that it
    stays with, as long as one of them is there."""
    contents = [*map(contents_of, arrays)]
    record = Record(key, contents, statics, template)
    add(record, contents or [*map(contents_of, holders)])
    return record


def add(record: Record, owners: Iterable[Contents]) -> None:
    """Keep a record with all of these."""
    owners = dict.fromkeys(owners)
    record.owners = tuple(map(weakref.ref, owners))
    for owner in owners:
        owner.records  # noqa: B018 (it makes those that are not made yet)
    for owner in owners:
        owner.sources |= {token_of(record.key)}
        records = owner.records
        record.is_again |= record.name in owner.replaced
        for old in record.replaces(records.get(record.place, ())):
            if old.statics != record.statics:
                owner.replaced = owner.replaced or Recent(_MANY_REPLACED)
                owner.replaced[old.name] = None
            obj = None if old.holder is None else old.holder()
            if obj is not None and old.statics != record.statics:
                old.key.keep_beside(old, obj)  # first: other threads look for it
            _replace(old) if record.serials else owner.remove(old)
        records[record.place] = (record, *records.get(record.place, ()))


def put_later(
    arrays: Sequence[Any],
    make: Callable[[Sequence[Contents], Any], Record | None],
    sources: frozenset[Any],
    parts: tuple[Any, Any, Any],
) -> None:
    """The same for a value that may never be looked for: its record is made by
    `make(contents, parts)` then. This is done in every call with new arrays. With an
    array of numpy's among them, nothing is done. The parts are arrays in the value,
    numbers that it was computed from, and its object."""
    contents: list[Contents] = []
    found: Any
    for array in arrays:
        found = getattr(array, ATTRIBUTE, None)
        if found is None:
            if not isinstance(array, jax.Array):  # but numpy's
                return
            # (`base_of`, without the call.)
            found = getattr(array, BASE, array).__dict__.setdefault(
                ATTRIBUTE, Contents()
            )
        contents.append(found)
    owner = found  # one of them has it: one that is new, if there is one
    for each in contents:
        if each.sources:
            each.sources |= sources
        else:
            each.sources = sources
            owner = each
    later = [make, parts, ()]
    if len(contents) > 1:  # it goes with any of them
        later = _Later(later)
        later[2] = [*map(weakref.ref, contents, repeat(later))]
    if not owner.later:
        owner.later = (later,)
        return
    with _making:
        others = [x for x in owner.later if x and not _is_again(x, later)]
        owner.later = (*others, later)
        if len(others) > _MANY_LATER:
            owner.records  # noqa: B018 (it makes them)


def _is_again(later: list[Any], other: list[Any]) -> bool:
    """Whether both are one value, for the same arrays and numbers."""
    now = tuple(later)  # it may be emptied at any moment
    if not now or now[0] is not other[0]:
        return False
    return bool(now[1][1] == other[1][1] and now[2] == other[2])


class _Later(list[Any]):
    """What is called when one of the arrays is gone."""

    def __call__(self, _: Any) -> None:
        self.clear()


def _emptied(later: list[Any]) -> tuple[Any, ...]:
    """What was in it. Nothing, if the record was made for a different array already,
    or one of the arrays is gone."""
    parts = tuple(later)
    later.clear()
    return parts


def _replace(record: Record) -> None:
    """Remove a record, and what is ready with it."""
    record.drop()
    for ref in record.owners:
        if (owner := ref()) is not None:
            owner.remove_calls()


def forget(record: Record) -> None:
    """Remove a record though its arrays are there."""
    _replace(record)
    record.is_cleared = True
    Changes.count += 1


def forget_all(array: Any) -> None:
    """Remove all records of an array, and those that are not made yet."""
    for record in records_of(array):
        forget(record)
    for ref in weakref.getweakrefs(contents_of(array)):
        if type(ref.__callback__) is _Later:
            ref.__callback__.clear()


def records_of(array: Any) -> list[Record]:
    """What is known for an array."""
    contents = getattr(base_of(array), ATTRIBUTE, None)
    found = () if contents is None else [*contents.records.values()]
    return [record for each in found for record in each]
