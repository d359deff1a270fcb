"""Calls with objects that are new: what a program computes itself, and what it takes.

To compute their values beforehand would launch programs for each. Instead, one program
computes them and returns them with the result (`results.py`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from .._compat import CONCRETE, Tracer, current_trace, tracing_is_forbidden
from .._core import index
from .._core.inputs import NUMBERS
from .._core.memo import has_values, keys_of, memo_of
from .demand import Ask, objects_in
from .plan import Call, kind_of

UNKNOWN: Any = object()


@dataclass
class New:
    """What is new in a call, and what is not."""

    leaves: dict[int, None] = field(default_factory=dict)
    """Arrays of which nothing is known: the next call is like this one if they are new
    in it too."""
    objects: dict[int, None] = field(default_factory=dict)
    """Objects with arrays of numpy, to which values belong, likewise."""
    known: dict[Ask, None] = field(default_factory=dict)
    """Values that the program takes, because they are known."""
    leaf_kinds: dict[int, Any] = field(default_factory=dict)
    """The types of their leaves. For JAX, a number and an array are the same, and so
    are arrays of JAX and of numpy."""

    @property
    def kinds(self) -> Any:
        """The same, except for those that have to be new arrays."""
        kinds = self.leaf_kinds.items()
        return tuple((i, kind) for i, kind in kinds if i not in self.leaves)


def new_in_call(entry: Any, objects: list[Any], call: Call) -> New | None:
    """None if a program can't compute the values that are new, or none is."""
    plan, leaves = entry.plan, call.leaves  # another thread may replace the plan
    needs = [need for need in plan.needs if isinstance(need.ask[0], int)]
    if not needs or current_trace() is not CONCRETE:
        return None
    if entry.inside is None and (
        tracing_is_forbidden()
        or any(need.statics and need.statics[3] for need in needs)  # JAX sorts keys
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
        if key.peek(owner, UNKNOWN) is not UNKNOWN:
            new.known[need.ask] = None
            continue
        if not all(_can_be_traced(leaves[i]) for i in span):
            return None
        is_owned = any(isinstance(leaves[i], np.ndarray) for i in span)
        if is_owned != (need.owner is not None):  # the plan is for other objects
            return None
        others = [i for i in span if not isinstance(leaves[i], jax.Array)]
        if others and not (need.is_of_jax and (need.positions or is_owned)):
            return None  # inside they are traced, and so is what depends on them
        if is_owned:
            if has_values(owner):  # the next call can't tell
                return None
            new.objects[slot] = None
        else:
            places = need.positions or need.holders
            arrays = [i for i in places if isinstance(leaves[i], jax.Array)]
            its = [i for i in arrays if index.is_new(leaves[i])]
            if not its:  # the next call can't tell
                return None
            new.leaves.update(dict.fromkeys(its))
        new.leaf_kinds |= {i: kind_of(leaves[i]) for i in span}
        if need.inner is None or is_owned:
            # It may read any value of the objects inside.
            known = _known_inside(entry, objects, leaves, slot)
        else:
            reads = (inner for inner, _ in need.inner)
            keys = (x for x in reads if x.peek(owner, UNKNOWN) is not UNKNOWN)
            known = ((slot, x) for x in keys)
        new.known |= dict.fromkeys(known)
        for each, places in need.reads:
            used = [owner] if is_owned else [leaves[i] for i in places]
            if computed.setdefault((each, *map(id, used)), slot) != slot:
                return None  # one object in two places: inside, it is two
    if any(_has_known_inside(key.peek(objects[i], None)) for i, key in new.known):
        return None  # which a program that computes values does not take
    return new if new.leaves or new.objects else None


def _can_be_traced(leaf: Any) -> bool:
    """Whether a body computes the same with a tracer: not with an array of numpy that
    JAX has to round."""
    if isinstance(leaf, np.ndarray):
        is_plain = type(leaf) is np.ndarray and leaf.dtype.kind in "biufc"
        return is_plain and jax.dtypes.canonicalize_dtype(leaf.dtype) == leaf.dtype
    return isinstance(leaf, jax.Array) or type(leaf) in NUMBERS


def _known_inside(
    entry: Any, objects: list[Any], leaves: list[Any], slot: int
) -> Iterator[Ask]:
    """The values that are known for an object, and for those inside it."""
    span = entry.spans[slot]
    for other, obj in enumerate(objects):
        its = entry.spans[other]
        if span.start <= its.start and its.stop <= span.stop and obj is not None:
            for key in _known_of(obj, leaves[its]):
                yield other, key


def _known_of(obj: Any, leaves: Sequence[Any]) -> list[Any]:
    """The keys of all values that are known for an object with these leaves."""
    arrays = [x for x in leaves if isinstance(x, jax.Array)]
    keys = {record.key: None for x in arrays for record in index.records_of(x)}
    keys |= dict.fromkeys([*keys_of(type(obj)).values(), *memo_of(obj).values])
    return [key for key in keys if key.peek(obj, UNKNOWN) is not UNKNOWN]


def _has_known_inside(value: Any) -> bool:
    """Whether there are objects in a value for which values are known."""
    return any(_known_of(x, jax.tree.leaves(x)) for x in objects_in(value))
