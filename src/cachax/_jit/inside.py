"""Calls with objects that are new: what a program computes itself, and what it takes.

To compute their values beforehand would launch programs for each. Instead, one program
computes them and returns them with the result (`results.py`).
"""

from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import starmap
from typing import Any

import jax

from .._compat import (
    CONCRETE,
    Tracer,
    current_trace,
    has_processes,
    has_several_devices,
    is_placed_like,
    tracing_is_forbidden,
)
from .._core import index
from .._core.inputs import Inputs
from .._core.memo import inputs_of, keys_of, memo_of
from .._core.parts import NUMBERS
from .demand import Ask, Slot, Under, objects_in
from .map import NOWHERE
from .paths import joined
from .plan import Call, Need, Plan, Read

UNKNOWN: Any = object()


class New:
    """What is new in a call, and what is not: which of the values that a function needs
    a program computes, and which it takes."""

    def __init__(self, entry: Any, call: Call) -> None:
        self.leaves: dict[int, frozenset[Any]] = {}
        """Arrays, and properties of which no value is known for them: the next call is
        like this one if they are new in it too."""
        self.unknown: dict[int, tuple[Any, ...]] = {}
        """Objects by slot, and properties: their arrays are not new, but a Python
        number is. The next call is like this one if it knows none of these values."""
        self.known: dict[Ask, None] = {}
        """Values that the program takes, because they are known."""
        self.computed: set[Ask] = set()
        """Those that it may compute."""
        self.objects = entry.objects(call.tree)
        self.used: set[int] = set()
        """The arrays that it computes them from."""
        self._places: set[int] = set()
        """The leaves of the objects of which it computes values."""
        self._entry = entry
        self._call = call

    @property
    def types(self) -> dict[int, type]:
        """Of the other leaves of these objects. For JAX, a number and an array are the
        same, and so are arrays of JAX and of numpy."""
        others = sorted(self._places - self.leaves.keys())
        return {i: type(self._call.leaves[i]) for i in others}

    def add(self, need: Need) -> bool:
        """False if a program can neither compute the value nor take it."""
        slot, key = need.ask
        owner, uses = self.objects[slot], need.value.statics.uses
        inputs = inputs_of(owner)
        if inputs is None:
            return False
        if need.is_ordered and key.is_order_seen(owner, inputs, uses):
            return False
        numbers = (type(self._call.leaves[i]) in NUMBERS for i in need.value.numbers)
        if need.is_ordered and not inputs.is_sorted and any(numbers):
            return False  # each number may make a difference to that
        if key.is_known(owner):
            self.known[need.ask] = None
            return True
        if not self._computes_alike(need, owner, inputs):
            return False
        self._places.update(self._entry.spans[slot])
        read = values_read(self._entry, self.objects, need)
        if read is None:
            return False
        known = [(i, each) for i, each, _ in read if each.is_known(self.objects[i])]
        self.known |= dict.fromkeys(known)
        self.computed |= {need.ask, *((i, each) for i, each, _ in read)}
        computed = [each for each in read if each[:2] not in self.known]
        return all(starmap(self._note, [(slot, key, need.places), *computed]))

    def _computes_alike(self, need: Need, owner: Any, inputs: Inputs) -> bool:
        """Whether the body does the same inside, where all leaves are traced."""
        slot, key = need.ask
        if not need.has_same_types(self._call.args, self._call.kwargs):
            return False
        mapped, uses = self._entry.maps[slot], need.value.statics.uses
        if mapped.reads_dropped(uses) or not mapped.finds(inputs, uses):
            return False  # it may be a different object
        unread = mapped.unread(uses)
        leaves = (
            self._call.leaves[i] for i in self._entry.spans[slot] if i not in unread
        )
        others = [x for x in leaves if not isinstance(x, jax.Array)]
        if not others:
            return True
        are_numbers = all(type(x) in NUMBERS for x in others)
        has_arrays = bool(need.value.positions)
        if not (has_arrays and are_numbers):
            return False
        return bool(key.computes_alike(owner, inputs, mapped.numbers(inputs)))

    def _note(self, slot: int, key: Any, its: Sequence[int]) -> bool:
        """The program computes this value of these leaves. False if nothing in them is
        new: the next call couldn't tell."""
        sources = frozenset([index.token_of(key)])
        leaves, new = self._call.leaves, self.leaves
        arrays = [i for i in its if isinstance(leaves[i], jax.Array)]
        self.used.update(arrays)
        are_new = [i for i in arrays if index.is_new_for(leaves[i], sources)]
        for i in are_new:
            new[i] = sources.union(new.get(i, ()))
        if are_new:
            return True
        for i in arrays:  # no other thread is to compute a value of them meanwhile
            new.setdefault(i, frozenset())
        self.unknown[slot] = (*self.unknown.get(slot, ()), key)
        numbers = (type(leaves[i]) in NUMBERS for i in self._entry.spans[slot])
        return bool(arrays) and any(numbers)


def values_read(
    entry: Any, objects: Sequence[Any], need: Need
) -> list[tuple[int, Any, tuple[int, ...]]] | None:
    """The values that a body may read in its turn, of its object and of those in it:
    slots and keys, and the leaves that they are computed from. None if that is not
    known."""
    if not need.reads:
        return []
    found: list[Any] = []
    own = need.ask[0].slot if type(need.ask[0]) is Under else need.ask[0]
    span = entry.spans[own]
    inside = [
        i
        for i, x in enumerate(entry.spans)
        if i != own and span.start <= x.start and x.stop <= span.stop
    ]
    for key, is_same in need.reads:
        before = len(found)
        for slot in [own] if is_same else inside:
            inputs, mapped = inputs_of(objects[slot]), entry.maps[slot]
            uses = None if inputs is None else key.learned.get(inputs)
            kinds = key.learned.kinds(inputs) if inputs is not None else []
            if uses is None and len(kinds) > 1:  # for a number that is new
                return None
            for positions, *_ in kinds[:1] if uses is None else [uses.kind]:
                places = [] if mapped is None else mapped.of_arrays
                its = [places[i] for i in positions] if places else [None]
                found.append((slot, key, tuple(its or places)))
        if len(found) == before:  # of an object that the body makes, maybe
            found.append((own, key, need.places))
    return None if any({None, NOWHERE} & {*its} for *_, its in found) else found


def new_in_call(entry: Any, call: Call) -> New | None:
    """None if a program can't compute the values that are new, or none is."""
    plan, leaves = entry.plan, call.leaves  # another thread may replace the plan
    needs = [need for need in plan.needs if isinstance(need.ask[0], int)]
    if not needs or any(need.value.by_object for need in needs):
        return None  # a value that belongs to its object has to be known
    if any(type(need.ask[0]) is Under for need in plan.needs):
        return None
    if current_trace() is not CONCRETE or tracing_is_forbidden():
        return None
    if any(isinstance(x, Tracer) for x in leaves):
        return None
    new = New(entry, call)
    if not all(map(new.add, needs)):
        return None
    # A program that computes values does not take those of objects in known values.
    if any(_has_known_inside(key.peek(new.objects[i], None)) for i, key in new.known):
        return None
    if any(_is_in_one_of(new.known, need.ask[0]) for need in plan.needs):
        return None
    used = [leaves[i] for i in new.used]
    if not new.leaves or (
        has_several_devices() and not _are_placed_alike(leaves, used)
    ):
        return None
    code = is_new_code(entry, plan, new, call)
    is_new = entry.reader(call.tree).function(code, needs=plan.needs)
    return new if is_new(call.args, call.kwargs) else None


def is_new_code(entry: Any, plan: Plan, new: New | Plan, call: Call) -> str:
    """The condition for a call to take a program that computes values inside: the same
    is new, and the user stored no value on an object. `needs` are those of the plan."""
    reader = entry.reader(call.tree)
    conditions = []
    for i, sources in new.leaves.items():
        if not sources:
            continue
        array = reader.array(i, call.leaves)
        is_new = f"{reader.constant(sources)}.isdisjoint({array}._cachax.sources)"
        conditions.append(f"('_cachax' not in {array}.__dict__ or {is_new})")
    conditions += [f"not ({plan.supplied_code})", "here.trace is concrete"]
    if has_processes():
        leaves = joined([*map(reader.leaf, new.leaves)])
        conditions.append(f"are_global({leaves}) is {entry.is_global}")
    conditions += _unknown_code(entry, plan, new, call)
    arrays_of: dict[Any, dict[Any, str]] = {}
    spans = [(i, tuple(span)) for i, span in enumerate(entry.spans)]
    for need in plan.needs:
        if not {*need.places}.isdisjoint(new.leaves):
            read = values_read(entry, entry.objects(call.tree), need)
            if read is None:  # more of them than before
                read = [(i, key, s) for key, _ in need.reads for i, s in spans]
            for slot, key, places in [(*need.ask, need.places), *read]:
                ids = [f"id({reader.leaf(i)})" for i in places]
                arrays_of.setdefault(key, {})[slot] = joined(ids)
    for each in arrays_of.values():  # inside, one object in two places is two
        if len(each) > 1:
            objects = [f"id({reader.object(slot)})" for slot in each]
            for codes in (each.values(), objects):
                conditions.append(f"len({{{', '.join(codes)}}}) == {len(each)}")
    return " and ".join(conditions)


def _unknown_code(entry: Any, plan: Plan, new: New | Plan, call: Call) -> Iterator[str]:
    """Conditions: each of the values is unknown that are to be."""
    reader = entry.reader(call.tree)
    for slot, keys in new.unknown.items():
        for key in keys:
            if (slot, key) in plan.asks:
                number = plan.asks.index((slot, key))
                yield f"not needs[{number}].is_known(args, kwargs)"
            else:
                obj = reader.object(slot)
                yield f"not {reader.constant(key)}.is_known({obj})"


def are_unknown(entry: Any, plan: Plan, new: New, call: Call) -> Read:
    """Makes a function of `args` and `kwargs`, for use in one thread at a time."""
    code = " and ".join(_unknown_code(entry, plan, new, call)) or "True"
    reader = entry.reader(call.tree)
    return reader.function(code, needs=plan.needs)  # type: ignore[no-any-return]


def _are_placed_alike(leaves: Iterable[Any], used: Iterable[Any]) -> bool:
    """Whether all arrays that may not be moved are in the same place: then so is what
    is computed from any of them. If there are some, the results of the program may not
    be moved either: then the used ones are among them. (See `_in_place` in
    `results.py`.)"""
    arrays = [x for x in leaves if isinstance(x, jax.Array) and x.committed]
    is_one_place = all(is_placed_like(x, arrays[0]) for x in arrays)
    return is_one_place and all(x.committed == bool(arrays) for x in used)


def _is_in_one_of(known: Container[Ask], slot: Slot) -> bool:
    """Whether an object is in one of these values."""
    while type(slot) is tuple:
        ask, _ = slot
        if ask in known:
            return True
        slot, _ = ask
    return False


def _known_of(obj: Any, leaves: Sequence[Any]) -> list[Any]:
    """The keys of all values that are known for an object with these leaves."""
    arrays = [x for x in leaves if isinstance(x, jax.Array)]
    keys = {record.key: None for x in arrays for record in index.records_of(x)}
    keys |= dict.fromkeys([*keys_of(type(obj)).values(), *memo_of(obj).values])
    return [key for key in keys if key.peek(obj, UNKNOWN) is not UNKNOWN]


def _has_known_inside(value: Any) -> bool:
    """Whether there are objects in a value for which values are known."""
    return any(_known_of(x, jax.tree.leaves(x)) for x in objects_in(value))
