"""Carry values across a trace: from the caller's objects to their traced copies.

When a traced copy is asked for a value that was not carried, the value is computed on
the caller's own object, and something of the same shape and dtype stands in for it
until the end of the trace. That trace is then thrown away (`_habit.py`), and the next
has the value among its inputs.
"""

import contextlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import jax

from ._compat import Tracer, at_trace, current_trace
from ._errors import LiftError
from ._find import Slot
from ._kin import note_borrower
from ._levels import traces_in
from ._memo import NOT_LENT, Key, Lender, Memo, memo_of
from ._pack import Mould, is_number, pack
from ._snapshot import Snapshot, may_change

Ask = tuple[Slot, Key]
"""A value of the object in a slot."""


@jax.tree_util.register_pytree_node_class
class Carried:
    """Values on their way through a transformation: arrays as leaves, and the rest
    as part of the structure, so that a change of it is traced anew."""

    __slots__ = ("arrays", "moulds", "on_trust")

    def __init__(
        self,
        arrays: Sequence[Any],
        moulds: tuple[tuple[Ask, Mould], ...],
        on_trust: frozenset[Slot] = frozenset(),
    ) -> None:
        self.arrays = arrays
        self.moulds = moulds
        self.on_trust = on_trust
        """Whose values were given, and not computed."""

    def values(self) -> Iterator[tuple[Ask, Mould, Any]]:
        start = 0
        for ask, mould in self.moulds:
            end = start + mould.holes
            yield ask, mould, mould.fill(self.arrays[start:end])
            start = end

    def tree_flatten(self) -> tuple[Sequence[Any], Any]:
        return self.arrays, (self.moulds, self.on_trust)

    @classmethod
    def tree_unflatten(cls, about: Any, arrays: Sequence[Any]) -> "Carried":
        return cls(arrays, *about)


@jax.tree_util.register_pytree_node_class
class Brought:
    """A result, and the values that its objects come out with."""

    __slots__ = ("carried", "out")

    def __init__(self, out: Any, carried: Any) -> None:
        self.out = out
        self.carried = carried

    def tree_flatten(self) -> tuple[tuple[Any, Any], None]:
        return (self.out, self.carried), None

    @classmethod
    def tree_unflatten(cls, _: None, children: tuple[Any, Any]) -> "Brought":
        return cls(*children)


class Retrace(BaseException):
    """Ends a trace that was lent other values than it asked for.

    Not an `Exception`: a function under trace may well catch those.
    """

    def __init__(self, loan: "Loan", asks: tuple[Ask, ...]) -> None:
        self.loan = loan
        self.asks = asks


class NewSubject(BaseException):
    """Ends a trace in which a cached function was called on objects of a class that
    nobody had looked for among the arguments."""


class Loan:
    """The objects of one call, and what it lends to the traced copies of them."""

    __slots__ = (
        "_asked",
        "_lent",
        "_owners",
        "_trace",
        "at_once",
        "borrower",
        "computed_inside",
        "is_last",
        "traced",
    )

    def __init__(self, owners: dict[Slot, Any], borrower: object) -> None:
        self.borrower = borrower
        """Who is traced with it."""
        self.traced = False
        self.at_once = False
        """End the trace at the first ask for more: for a function whose end is out
        of reach, such as one that is jitted already."""
        self.is_last = False
        """What was not lent is computed inside, whatever it costs."""
        self.computed_inside: set[Ask] = set()
        """What could not be lent."""
        self._owners = dict(owners)
        self._lent: dict[Ask, None] = {}
        self._asked: dict[Ask, None] = {}

    def gather(self, asks: Callable[[list[Any]], Iterator[Ask]]) -> Carried:
        """The values asked for, computed if they are not there yet.

        `asks` sees the answers so far. A value that cannot be kept cannot be
        carried: it is left out, and so are those of the objects in it.
        """
        arrays: list[Any] = []
        moulds: list[tuple[Ask, Mould]] = []
        for ask in asks(moulds):
            slot, key = ask
            if slot in self._owners:
                key.read(self._owners[slot])
                self._take(ask, arrays, moulds)
        return Carried(arrays, tuple(moulds))

    def gather_kept(self, usual: tuple[tuple[Ask, Mould], ...]) -> Carried | None:
        """The usual values, if they are all there and differ only in their arrays.

        This is what a warm call does, so an object is checked for changes once.
        """
        arrays: list[Any] = []
        memos: dict[Slot, Memo] = {}
        for ask, mould in usual:
            slot, key = ask
            memo = memos.get(slot)
            if memo is None:
                if slot not in self._owners:  # of a value that has no such object now
                    return None
                memo = memos[slot] = memo_of(self._owners[slot])
            packed, snapshot = memo.packed.get(key, _NOT_PACKED)
            if packed is None or snapshot is not None:
                packed = _packed(key, self._owners[slot])
            if packed is None or packed[2] != mould:
                return None
            arrays += packed[1]
            if mould.layout is not None:
                self._owners |= _slots_in(ask, mould, packed[0])
        return Carried(arrays, usual)

    def given(self, asks: Collection[Ask]) -> list[Ask]:
        """Those of which there is a value now that can travel: somebody gave it. Or may
        be one, further out."""
        found = []
        for slot, key in asks:
            if key.was_given and slot in self._owners:
                owner = self._owners[slot]
                is_lent_to = memo_of(owner).lender is not None
                if is_lent_to or _packed(key, owner) is not None:
                    found.append((slot, key))
        return found

    def _take(self, ask: Ask, arrays: list[Any], moulds: list[Any]) -> None:
        slot, key = ask
        packed = _packed(key, self._owners[slot])
        if packed is not None:
            value, its_arrays, mould = packed
            arrays += its_arrays
            moulds.append((ask, mould))
            self._owners |= _slots_in(ask, mould, value)

    def check_the_same(
        self, copies: dict[Slot, Any], carried: Carried, transform: object
    ) -> None:
        """Whether a transform gives the function the objects of the caller, with other
        tracers for their leaves and nothing else."""
        traces = traces_in(carried.arrays)
        for slot, copy in copies.items():
            if _shapes_in(copy) != _shapes_in(self._owners[slot]):
                raise LiftError(transform, "the function gets arrays of other shapes.")
            if carried.arrays and not traces_in(copy) <= traces:
                raise LiftError(
                    transform, "it differentiates the function by its arguments."
                )

    def traces_with(self, traces: set[Any]) -> bool:
        """Whether the trace that this is lent to is one of these."""
        return self.traced and self._trace in traces

    def lay(self, copies: dict[Slot, Any], carried: Carried) -> None:
        """Make the traced `copies` come here for the values they have not got."""
        self.traced = True
        self._trace = current_trace()
        self._lent = dict.fromkeys(ask for ask, _ in carried.moulds)
        lent: dict[Slot, dict[Key, Any]] = defaultdict(dict)
        for ask, mould, value in carried.values():
            slot, key = ask
            lent[slot][key] = value
            copies |= _slots_in(ask, mould, value)
        for slot, copy in copies.items():
            owner = self._owners[slot]
            if copy is not owner:  # with jit disabled they are the same
                memo = memo_of(copy)
                memo.lender = self._lender(slot, lent[slot])
                memo.on_trust = memo_of(owner).on_trust
                note_borrower(copy, owner)

    def _lender(self, slot: Slot, lent: dict[Key, Any]) -> Lender:
        """For one traced object. Its values hang on it and not on the loan, which
        may be there when the trace is over."""

        def lend(key: Key) -> Any:
            ask = (slot, key)
            if key in lent:
                self._asked[ask] = None
                return lent[key]
            if self.is_last or slot not in self._owners:
                return NOT_LENT
            owner = self._owners[slot]
            if memo_of(owner).is_busy(key):
                # Waiting here could be for ever: the other thread may want the trace
                # that this one is in. Wait outside.
                raise Retrace(self, (*self._lent, ask))
            key.read(owner)
            packed = _packed(key, owner)
            if packed is None:  # it could not be kept, or cannot travel
                self.computed_inside.add(ask)
                return NOT_LENT
            self._asked[ask] = None
            if self.at_once:
                raise Retrace(self, (*self._lent, ask))
            return self._stand_in(ask, *packed)

        return lend

    def _stand_in(self, ask: Ask, value: Any, arrays: list[Any], mould: Mould) -> Any:
        """Something like `value`, in a trace that will be thrown away.

        Not the value itself: a trace that has seen a tracer from outside and is given
        up is kept alive by JAX as long as that tracer (up to 0.10 at least).
        """
        with at_trace(self._trace):
            copy = mould.fill([jax.lax.full_like(x, 0) for x in arrays])
        self._owners |= _slots_in(ask, mould, value)
        for slot, obj in _slots_in(ask, mould, copy).items():
            memo_of(obj).lender = self._lender(slot, {})
        return copy

    def check(self) -> None:
        """At the end of a trace: was it lent what it asked for, and no more?"""
        if not self.is_last and self._asked.keys() != self._lent.keys():
            raise Retrace(self, tuple(self._asked))

    def check_failed(self) -> None:
        """In a trace that failed: a value that only stood in may be the reason."""
        if self._asked.keys() - self._lent.keys():
            raise Retrace(self, tuple(self._lent | self._asked))

    def settle(self) -> None:
        """Let go of the objects: a traced copy may outlive its trace by mistake."""
        self._owners.clear()


_NOT_PACKED = (None, None)


def _packed(key: Key, obj: Any) -> tuple[Any, list[Any], Mould] | None:
    """The value of `key` and its parts, if it is there and can travel."""
    memo = memo_of(obj)
    packed, snapshot = memo.packed.get(key, _NOT_PACKED)
    if packed is not None and (snapshot is None or snapshot.holds(packed[0])):
        return packed  # type: ignore[no-any-return]
    value = key.peek(obj, memo)
    if value is memo:
        return None
    parts = pack(value, key.of(obj), numbers_that_travel(key, obj, value))
    if parts is None:
        return None
    arrays, mould = parts
    packed = (value, arrays, key.moulds.setdefault(mould, mould))
    if memo.values.get(key, memo) is value:  # and not the user's, nor a folded one
        changes = Snapshot(value, lambda: None) if may_change(value) else None
        memo.packed[key] = (packed, changes)
    return packed


def numbers_that_travel(key: Key, obj: Any, value: Any) -> list[bool] | None:
    """Which leaves of `value` are no constants, though they are Python numbers.

    An object with Python numbers for leaves has them traced inside jit, and so is
    what is computed from them. A trace of the body tells; one that cannot be traced
    has only static numbers.
    """
    if not any(map(is_number, jax.tree.leaves(value))):
        return None
    leaves, structure = jax.tree.flatten(obj)
    if not any(map(is_number, leaves)):
        return None
    known = key.traced_leaves
    if structure not in known:
        known[structure] = _traced_leaves(key, obj)
    return known[structure]


def _traced_leaves(key: Key, obj: Any) -> list[bool] | None:
    found: list[bool] | None = None

    def probe(copy: Any) -> None:
        nonlocal found
        leaves = jax.tree.leaves(key.read(copy))
        found = [isinstance(x, Tracer) for x in leaves]

    with contextlib.suppress(Exception):  # it needs real numbers
        jax.eval_shape(probe, obj)
    return found


def _shapes_in(obj: Any) -> list[Any]:
    return [getattr(leaf, "shape", None) for leaf in jax.tree.leaves(obj)]


def _slots_in(ask: Ask, mould: Mould, value: Any) -> dict[Slot, Any]:
    """The objects in the value of an ask. They have cached values in their turn."""
    if mould.layout is None:
        return {}
    root = ask[0].root
    objects = mould.layout.objects((value,))
    return {Slot(root, (ask, i)): obj for i, obj in enumerate(objects)}
