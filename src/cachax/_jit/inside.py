"""Calls with objects that are new: what a program computes itself, and what it takes.

To compute their values beforehand would launch programs for each. Instead, one program
computes them and returns them with the result (`results.py`).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax

from .._compat import (
    CONCRETE,
    Tracer,
    current_trace,
    has_several_devices,
    is_placed_like,
    tracing_is_forbidden,
)
from .._core import index
from .._core.inputs import NUMBERS
from .._core.memo import keys_of, memo_of
from .demand import Ask, objects_in
from .plan import Call

UNKNOWN: Any = object()


@dataclass
class New:
    """What is new in a call, and what is not."""

    leaves: dict[int, None] = field(default_factory=dict)
    """Arrays of which nothing is known: the next call is like this one if they are new
    in it too."""
    known: dict[Ask, None] = field(default_factory=dict)
    """Values that the program takes, because they are known."""
    types: dict[int, type] = field(default_factory=dict)
    """Of the other leaves of these objects. For JAX, a number and an array are the
    same, and so are arrays of JAX and of numpy."""


def new_in_call(entry: Any, objects: list[Any], call: Call) -> New | None:
    """None if a program can't compute the values that are new, or none is."""
    plan, leaves = entry.plan, call.leaves  # another thread may replace the plan
    needs = [need for need in plan.needs if isinstance(need.ask[0], int)]
    if not needs or any(need.owner is not None for need in needs):
        return None  # a value that belongs to its object has to be known
    if current_trace() is not CONCRETE:
        return None
    if entry.inside is None and (
        tracing_is_forbidden()
        or any(need.statics and need.statics.orders for need in needs)  # JAX sorts keys
        or any(isinstance(x, Tracer) for x in leaves)
    ):
        return None
    if plan.is_supplied(call.args, call.kwargs):
        return None
    new = New()
    computed: dict[Any, int] = {}
    for need in needs:
        slot, key = need.ask
        owner, span = objects[slot], range(len(leaves))[entry.spans[slot]]
        if key.is_known(owner):
            new.known[need.ask] = None
            continue
        others = [leaves[i] for i in span if not isinstance(leaves[i], jax.Array)]
        if others and not (
            need.positions
            and all(type(x) in NUMBERS for x in others)
            and key.computes_alike(owner)
        ):
            return None
        places = need.positions or need.holders
        arrays = [i for i in places if isinstance(leaves[i], jax.Array)]
        its = [i for i in arrays if index.is_new(leaves[i])]
        if not its:  # the next call can't tell
            return None
        new.leaves.update(dict.fromkeys(its))
        new.types |= {i: type(leaves[i]) for i in span}
        if need.inner is None:  # it may read any value of the objects inside
            known = _known_inside(entry, objects, leaves, slot)
        else:
            reads = (inner for inner, _ in need.inner)
            keys = (x for x in reads if x.is_known(owner))
            known = ((slot, x) for x in keys)
        new.known |= dict.fromkeys(known)
        for each, places in need.reads:
            same = (each, *(id(leaves[i]) for i in places))
            if computed.setdefault(same, slot) != slot:
                return None  # one object in two places: inside, it is two
    if any(_has_known_inside(key.peek(objects[i], None)) for i, key in new.known):
        return None  # which a program that computes values does not take
    if not new.leaves or (has_several_devices() and not _are_placed_alike(leaves)):
        return None
    new.types = {i: cls for i, cls in new.types.items() if i not in new.leaves}
    return new


def _known_inside(
    entry: Any, objects: list[Any], leaves: list[Any], slot: int
) -> Iterator[Ask]:
    """The values that are known for an object, and for those inside it."""
    for other, obj in enumerate(objects):
        if _is_in(entry, other, slot) and obj is not None:
            for key in _known_of(obj, leaves[entry.spans[other]]):
                yield other, key


def _is_in(entry: Any, slot: int, outer: int) -> bool:
    """Whether an object is in the other one, or is that."""
    its, around = entry.spans[slot], entry.spans[outer]
    return bool(around.start <= its.start and its.stop <= around.stop)


def _are_placed_alike(leaves: Iterable[Any]) -> bool:
    """Whether all arrays are in the same place: then so is what is computed from any of
    them. (See `_are_in_place` in `results.py`.)"""
    arrays = [x for x in leaves if isinstance(x, jax.Array)]
    return all(is_placed_like(x, arrays[0]) for x in arrays)


def _known_of(obj: Any, leaves: Sequence[Any]) -> list[Any]:
    """The keys of all values that are known for an object with these leaves."""
    arrays = [x for x in leaves if isinstance(x, jax.Array)]
    keys = {record.key: None for x in arrays for record in index.records_of(x)}
    keys |= dict.fromkeys([*keys_of(type(obj)).values(), *memo_of(obj).values])
    return [key for key in keys if key.peek(obj, UNKNOWN) is not UNKNOWN]


def _has_known_inside(value: Any) -> bool:
    """Whether there are objects in a value for which values are known."""
    return any(_known_of(x, jax.tree.leaves(x)) for x in objects_in(value))
