"""What is at hand for a warm call: all that is left is to see that nothing changed.

To take the arguments apart, find their objects and look up each value is more work
than the call itself. So the values a call was lent are put on a shelf, by the outermost
object they came from. That is only a guess at what the next call with this object
needs. Whether the arguments are otherwise as they were is for JAX to see: it has a
program for them, or it starts to trace one, and that trace has nothing lent to it.
"""

import operator
import weakref
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import numpy as np

from ._carry import Ask, Carried
from ._find import Layout, Slot
from ._memo import Key, Memo, memo_of
from ._options import Arguments
from ._pack import Mould
from ._parts import (
    is_frozen,
    reading_dicts_of,
    values_in_any_order,
    values_in_order,
    walk_fields,
)
from ._shelf import Ready, Shelf

Moulds = tuple[tuple[Ask, Mould], ...]


class Declined:
    """In place of a result: this way is not for this call."""


class Unprepared(BaseException):
    """Ends a trace that nothing was lent to: the guess was wrong, or new to JAX."""


def by_root(moulds: Moulds) -> dict[str, Moulds]:
    """The values of a call, grouped by the outermost object they come from."""
    groups: dict[str, list[Any]] = {}
    for pair in moulds:
        (slot, _), _ = pair
        groups.setdefault(slot.root, []).append(pair)
    return {root: tuple(group) for root, group in groups.items()}


def in_front(carried: Carried) -> tuple[Any, ...]:
    """The arrays as a program takes them, grouped in the same way: as one argument
    before those of the function."""
    groups: dict[str, list[Any]] = {}
    start = 0
    for (slot, _), mould in carried.moulds:
        end = start + mould.holes
        groups.setdefault(slot.root, []).extend(carried.arrays[start:end])
        start = end
    return (one_or_all([array for group in groups.values() for array in group]),)


def one_or_all(arrays: Sequence[Any]) -> Any:
    """A tuple of one would be one more thing for JAX to take apart."""
    return arrays[0] if len(arrays) == 1 else tuple(arrays)


class Plan:
    """How to gather the values for calls like one that has been."""

    def __init__(
        self,
        layout: Layout | None,
        moulds: Moulds,
        program: Any,
        static: Arguments,
        nothing: tuple[Any, ...],
    ) -> None:
        self.layout = layout
        self._static = static
        self.moulds = moulds
        self.program = program
        self._nothing = nothing
        self.misfits = 0
        """Calls that looked like it and had another structure."""
        self._shelf = Shelf()
        self._asked = by_root(moulds)
        self._places: list[tuple[int, str]] = []
        self._flatten: Any = None
        if layout is not None:
            self._flatten = layout.prefix.flatten_up_to
            places = dict(zip(layout.roots, layout.places, strict=True))
            self._places = [(places[root], root) for root in self._asked]
        self._pick = picking([place for place, _ in self._places])
        self._read = reading_dicts_of(object)
        self._all_frozen = False

    def put_on_shelf(self, owners: dict[Slot, Any]) -> None:
        """Have the values of these objects at hand."""
        for root, moulds in self._asked.items():
            put_on_shelf(self._shelf, owners[Slot(root)], moulds, owners, tuple, root)

    def values(self, args: Any, kwargs: Any) -> Any:
        """As `in_front` has them, for these arguments; None if they are not all at
        hand."""
        if not self._places:
            return self._nothing
        tree, _ = self._static.take_out(args, kwargs)
        try:
            leaves = self._flatten(tree)
        except Exception:  # its message has the arguments in it: slow, and may fail
            self.misfits += 1
            return None
        objects = self._pick(leaves)
        together = self._shelf.together
        try:
            if together is not None and together[0] == self._look_at(objects):
                return together[1]
        except (AttributeError, TypeError):  # a number where an object was
            return None
        found: list[Any] = []
        checks: list[Callable[[Any], bool]] = []
        all_flat = True
        for obj, (_, root) in zip(objects, self._places, strict=True):
            ready = self._shelf.get(id(obj))
            if ready is None or ready.about is not root or not ready.holds(obj):
                return None
            found += ready.values
            checks.append(ready.holds)
            all_flat &= ready.is_flat
        values = (one_or_all(found),)
        if all_flat:
            self._put_together(objects, checks, values)
        return values

    def _put_together(
        self, objects: Sequence[Any], checks: list[Callable[[Any], bool]], values: Any
    ) -> None:
        """Have the values of many flat objects at hand at once."""
        classes = {*map(type, objects)}
        (self._read, *others) = {*map(reading_dicts_of, classes)}
        if not others:
            self._all_frozen = all(map(is_frozen, classes))
            seen = self._look_at(objects)
            # Another thread may have set a field since the values were found.
            if all(holds(obj) for holds, obj in zip(checks, objects, strict=True)):
                self._shelf.together = (seen, values)

    def _look_at(self, objects: Sequence[Any]) -> tuple[Any, list[Any]]:
        """Where many objects and their fields are in memory, all in C: for flat objects
        that is all there is to see. And their classes and names, if that may change."""
        dicts = [*map(self._read, objects)]
        if self._all_frozen:
            things, names = values_in_any_order(dicts), []
        else:
            things = values_in_order(dicts)
            names = [*map(type, objects), *map(len, dicts)]
            names += chain.from_iterable(dicts)
        things += objects
        if len(things) < 10:
            return [*map(id, things)], names
        # A third of the time, since no number is made of each.
        return np.fromiter(things, object, len(things)).tobytes(), names


def picking(places: Sequence[int]) -> Callable[[list[Any]], Sequence[Any]]:
    """What takes the things in these places out of a list, in C."""
    if len(places) > 1:
        return operator.itemgetter(*places)
    (place,) = places or (0,)
    return operator.itemgetter(slice(place, place + len(places)))


def put_on_shelf(
    shelf: Shelf,
    root: Any,
    moulds: Moulds,
    owners: dict[Slot, Any],
    form: Callable[[Sequence[Any]], Any],
    about: Any,
) -> None:
    """Have the values of `root` and of the objects in it at hand, if they can be relied
    on as long as these are as they were."""
    memos = {id(root): memo_of(root)}
    values: list[Any] = []
    kept: list[tuple[Memo, Key, Any]] = []
    inside: set[int] | None = None
    for (slot, key), mould in moulds:
        owner = owners.get(slot)
        if owner is None:  # an object in a value
            return
        if owner is not root:
            if inside is None:
                inside = {id(part) for part in walk_fields(root)}
            if id(owner) not in inside:  # the class makes it up to be flattened
                return
        memo = memos.setdefault(id(owner), memo_of(owner))
        packed, changes = entry = memo.packed.get(key, (None, None))
        if packed is None or changes is not None or packed[2] != mould:
            return
        values += packed[1]
        kept.append((memo, key, entry))
    for memo in memos.values():
        memo.hold()
    is_flat = len(memos) == 1 and memos[id(root)].is_flat
    holds = _holding(*memos.values())
    shelf.put(Ready(weakref.ref(root), holds, form(values), about, is_flat))
    for memo in memos.values():
        memo.at_hand.note(shelf, id(root))
    # Another thread may have had them forgotten before that was noted.
    if any(memo.packed.get(key) is not entry for memo, key, entry in kept):
        shelf.withdraw(id(root))


def _holding(memo: Memo, *inner: Memo) -> Callable[[Any], bool]:
    """Whether an object, and those in it that have values, are as they were."""
    if not inner:
        return memo.holds
    holds_outside = memo.holds
    first, holds_first = inner[0], inner[0].holds  # mostly the only one
    others = inner[1:]

    def holds(root: Any) -> bool:
        if not holds_outside(root) or (obj := first()) is None or not holds_first(obj):
            return False
        for other in others:
            obj = other()
            if obj is None or not other.holds(obj):
                return False
        return True

    return holds
