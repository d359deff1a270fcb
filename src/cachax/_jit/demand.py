"""Which values a function uses: found out while it is traced.

When a traced object is read and the value did not come in with the call, the value is
computed on the caller's own object, and something of the same shape and dtype stands in
for it until the end of the trace. That trace is then repeated with the value among its
inputs. Nothing is computed on a guess.
"""

from collections.abc import (
    Callable,
    Container,
    Iterable,
    Iterator,
    Sequence,
)
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import numpy as np

from .._compat import (
    Trace,
    as_in_a_program,
    at_trace,
    configured,
    current_trace,
    settings,
)
from .._core.calls import CallKey
from .._core.computed import Computed
from .._core.fields import is_open, walk
from .._core.index import Record
from .._core.inputs import Inputs
from .._core.levels import UsesAxisError, not_run_here, traces_in
from .._core.memo import (
    NOT_PROVIDED,
    Provider,
    inputs_of,
    memo_of,
    supplied_for,
    supplied_outside,
)
from .._core.parts import NUMBERS
from .._core.slots import layout_of
from .._core.structure import flatten
from .._core.uses import Uses
from .._core.values import Form, Packed, has_hidden_arrays, pack
from .map import NOWHERE, Map, map_of

Slot = Any
"""The number of an object among the arguments; or, for an object in a value, the `Ask`
of that value and the number of the object in it; or one of them `Under` settings."""


class Under(NamedTuple):
    """An object that is read with a different configuration than that of the call:
    `with jax.default_matmul_precision(...)`."""

    slot: Slot
    settings: tuple[Any, ...]


Ask = tuple[Slot, Computed]
"""A value of the object in a slot."""


@dataclass(frozen=True, slots=True)
class Value:
    """A value on its way into a program."""

    packed: Packed
    by_object: bool
    """Whether it belongs to the object itself, and not to its arrays."""
    positions: tuple[int, ...] = ()
    """The arrays it came from, among the leaves of the arguments."""
    numbers: tuple[int, ...] = ()
    """The Python numbers and static leaves it depends on, likewise."""
    statics: Any = None
    """What else it depends on, and what of its object it used (`Given`)."""
    has_atoms: bool = False
    """Whether it depends on numbers that are not leaves, or on fields that are not in
    the tree."""
    holders: tuple[int, ...] = ()
    """If it used no array: those of its object, likewise."""
    is_fixed: bool = True
    """Whether it stays the same as long as its object does."""

    @property
    def looks(self) -> Any:
        """The static parts of the object, with the shapes of its arrays: a program
        serves one of them, so that a call need not look at shapes."""
        return None if self.statics is None else self.statics.statics


Answers = dict[Ask, Value]


class Retrace(BaseException):
    """Ends a trace that had other values than it used.

    Not an `Exception`: a function under trace may well catch those.
    """

    def __init__(self, demand: "Demand", asks: tuple[Ask, ...]) -> None:
        self.demand = demand
        self.asks = asks


Course = tuple[tuple[Ask, Form], ...]
"""What a trace used, one after another. A function may look at the static part of a
value, and use others depending on it."""


def asks_of(courses: Iterable[Course], answers: Answers) -> Iterator[Ask]:
    """What is used next, given `answers`, which must grow by each ask. Up to a value of
    a different form, a function does what it did."""
    for course in courses:
        for ask, form in course:
            if ask not in answers:
                yield ask
            if ask not in answers or answers[ask].packed.form != form:
                break
        else:
            return


class Demand:
    """The objects of one call, and the values it has for the traced copies of them."""

    def __init__(
        self,
        objects: Sequence[Any],
        maps: Sequence[Map | None],
        leaves: Sequence[Any],
        static_numpy: bool,
    ) -> None:
        self._objects: dict[Slot, Any] = dict(enumerate(objects))
        self._maps = maps
        self.leaves = leaves
        self.static_numpy = static_numpy
        """Whether what numpy computed is a constant of the program."""
        self.answers: Answers = {}
        self.asked: dict[Ask, None] = {}
        self.computed_inside: dict[Ask, None] = {}
        """What can't be an input of the program."""
        self.unstable: set[Any] = set()
        """What is left inside: calls of cached methods, and values."""
        self.raised: set[Ask] = set()
        """Values whose bodies have raised."""
        self.can_be_checked = True
        """Whether `check` is called at the end of the trace. If not, it ends when it
        reads a value that it doesn't have."""
        self.is_last = False
        """What is missing is computed inside, whatever it costs."""
        self.may_compute: Container[Ask] | None = None
        """But nothing except these, and not what is known, or supplied: this is for
        objects that are new. None if it is not."""
        self.misplaced: Container[Slot] = ()
        """Objects with arrays that are elsewhere than `in_shardings` says. Inside, they
        are there, and so are their values."""
        self.computed = False
        """Whether a value had to be computed."""
        self.settings = settings()
        self.call: Any = ()
        """The arguments, as they are."""
        self.outer: Trace = current_trace()
        """Where the call is."""
        self.trace: Trace = None
        self.was_traced = False
        self.failed_with = 0
        """The id of what the function raised."""

    def gather(self, asks: Iterator[Ask]) -> None:
        """Get these values, computed if they are not there yet."""
        for slot, key in asks:
            if self._owner(slot) is not None:
                answer = self._answer(slot, key)
                if answer is not None:
                    self.answers[slot, key] = answer
                    self._note_objects_in((slot, key))

    def supplied(self, asks: Iterable[Ask]) -> Iterator[Ask]:
        """Those whose values the user put there, or may have put there outside of the
        trace that this call is in."""
        for slot, key in asks:
            owner = self._objects.get(slot)
            if owner is None or not key.was_supplied:
                continue
            if key.is_supplied(owner) or memo_of(owner).provider is not None:
                yield slot, key

    def all_supplied(self) -> frozenset[Any]:
        """All values that the user put there: what the function does may depend on
        which these are."""
        objects = self._objects.items()
        return frozenset((slot, key) for slot, x in objects for key in supplied_for(x))

    def _owner(self, slot: Slot) -> Any:
        return self._objects.get(slot.slot if type(slot) is Under else slot)

    def _answer(self, slot: Slot, key: Computed) -> Value | None:
        if type(slot) is Under:
            with configured(slot.settings):
                return self._answer(slot.slot, key)
        owner = self._objects[slot]
        if slot in self.misplaced and self._can_be_inside(owner, key):
            return None
        is_known = key.peek(owner, self) is not self
        if not is_known and not key.can_be_computed():
            return None
        self.computed |= not is_known
        try:
            with as_in_a_program(), not_run_here():
                key.read(owner)
        except UsesAxisError:
            return None
        mapped = self._maps[slot] if isinstance(slot, int) else None
        inputs = None if mapped is None else inputs_of(owner)
        record = None if inputs is None else key.record_of(owner, inputs)
        found: Value | None = None
        if mapped is not None and inputs is not None and record is not None:
            found = self._by_arrays(owner, key, mapped, inputs, record)
        if found is None:
            found = by_object(key, owner, self.static_numpy)
            if found is not None and record is not None:  # for the same program
                found = replace(found, statics=record.statics)
        return found

    def _can_be_inside(self, owner: Any, key: Computed) -> bool:
        """Whether a value can be computed inside."""
        inputs = inputs_of(owner)
        if inputs is None or key.is_supplied(owner):
            return False
        return not key.learn(owner, inputs).is_host

    def _by_arrays(
        self, owner: Any, key: Computed, mapped: Map, inputs: Inputs, record: Record
    ) -> Value | None:
        if record.statics.supplied or supplied_for(owner):
            return None
        uses: Uses = record.uses
        if not mapped.finds(inputs, uses) or key.is_order_seen(owner, inputs, uses):
            return None
        places: Any = mapped.of_arrays
        positions = tuple([places[i] for i in uses.positions])
        numbers = [places[i] for i, _ in record.statics.bits]
        leaves = [i for i in numbers if i is not None and i != NOWHERE]
        others = inputs.numbers | inputs.writable
        holders = tuple(
            [x for i, x in enumerate(places) if i not in others and x != NOWHERE]
        )
        if None in positions or None in holders or not holders:
            return None
        packed = packed_of(record, owner, uses.arrays(inputs), self.static_numpy)
        if packed is None:
            return None
        return Value(
            packed,
            by_object=False,
            positions=positions,
            numbers=(*leaves, *mapped.statics(uses)),
            statics=record.statics,
            has_atoms=len(leaves) < len(numbers) or mapped.reads_dropped(uses),
            holders=() if positions else holders,
        )

    def _note_objects_in(self, ask: Ask) -> None:
        """Objects in a value have cached values in their turn."""
        slot, key = ask
        if type(slot) is Under:
            return
        value = key.read(self._objects[slot])
        for number, obj in enumerate(objects_in(value)):
            self._objects[ask, number] = obj

    def sharing(self, copies: Sequence[Any]) -> list[Callable[[Any], bool]]:
        """For each object: whether a value of it holds for others with the arrays of
        its traced copy."""

        def sharing(slot: Slot, copy: Any) -> Callable[[Any], bool]:
            owner, its = self._objects[slot], inputs_of(copy)

            def is_shared(key: Any) -> bool:
                if key.is_supplied(owner):
                    return False
                inputs = inputs_of(owner)
                if inputs is None or its is None:
                    return True
                if inputs.orders == its.orders and inputs.is_like(its):
                    return True
                # JAX has sorted its dictionaries, or its class drops something.
                answer, mapped = self._answer(slot, key), self._maps[slot]
                if answer is None or answer.by_object or mapped is None:
                    return False
                return not mapped.reads_dropped(answer.statics.uses)

            return is_shared

        return [sharing(slot, copy) for slot, copy in enumerate(copies)]

    def is_same_inside(self, slot: int, copy: Inputs, uses: Uses) -> bool:
        """Whether a body gets all that it reads of an object from its traced copy."""
        mapped, inputs = self._maps[slot], inputs_of(self._objects[slot])
        if mapped is None or inputs is None or not inputs.is_like(copy, uses.unread):
            return False
        return mapped.finds(inputs, uses) and not mapped.reads_dropped(uses)

    def in_order(self) -> Answers:
        """The answers by slot and by name, not by first use: so the same program is the
        same in every process."""
        return {ask: self.answers[ask] for ask in sorted(self.answers, key=_path)}

    # What follows happens in the trace.

    def start(self) -> None:
        self.trace = current_trace()
        self.was_traced = True

    def fill(
        self, asks: Sequence[Ask], values: Sequence[Any], leaves: Sequence[Any]
    ) -> dict[Ask, Any]:
        """The values as the trace sees them."""
        remaining = iter(values)
        found = {}
        for ask in asks:
            answer = self.answers[ask]
            arrays = [next(remaining) for _ in range(answer.packed.form.holes)]
            own = [leaves[i] for i in answer.positions]
            found[ask] = answer.packed.fill(arrays, own)
        return found

    def provide_for(self, copies: Sequence[Any], values: dict[Ask, Any]) -> None:
        """Let the traced copies of the objects find their values here."""
        for slot, copy in enumerate(copies):
            self._provide(slot, copy, values)
        for ask, value in values.items():
            for number, obj in enumerate(objects_in(value)):
                self._provide((ask, number), obj, values)

    def _provide(self, slot: Slot, copy: Any, values: dict[Ask, Any]) -> None:
        if copy is not self._objects.get(slot):  # (`jax.tree_util.register_static`)
            memo_of(copy).set_provider(self._provider(slot, values, copy))

    def _provider(self, slot: Slot, values: dict[Ask, Any], copy: Any) -> Provider:
        """For one traced object, which the values hang on: the demand may outlive the
        trace. An object without arrays may outlive it too, so it has the value itself,
        as a constant."""
        is_constant = not traces_in(copy)

        def provide(key: Any) -> Any:
            now = settings()
            is_same = now == self.settings or self._is_supplied(slot, key)
            ask = (slot if is_same else Under(slot, now), key)
            if ask in values:
                self.asked[ask] = None
                return values[ask]
            if slot not in self._objects:
                return NOT_PROVIDED
            if self.is_last:
                only = self.may_compute
                if only is not None and (ask not in only or self._is_given(slot, key)):
                    raise Retrace(self, (*self.answers, ask))
                return NOT_PROVIDED
            if self.unstable and not self.unstable.isdisjoint((ask, call_of(ask))):
                return NOT_PROVIDED
            owner = self._objects[slot]
            if is_constant and not key.was_supplied:
                return key.read(owner)
            if memo_of(owner).is_busy(key):
                # The other thread may wait for the trace that this one is in: wait
                # outside of it.
                raise Retrace(self, (*self.answers, ask))
            try:
                answer = self._answer(*ask)
            except Exception:
                self.raised.add(ask)
                raise
            if answer is None:
                self.computed_inside[ask] = None
                return NOT_PROVIDED
            self.asked[ask] = None
            if not self.can_be_checked:
                raise Retrace(self, (*self.answers, ask))
            return self._stand_in(ask, answer)

        return Provider(provide, lambda: supplied_outside(self._objects.get(slot)))

    def _is_supplied(self, slot: Slot, key: Any) -> bool:
        """Whether the user put the value there: it is the same whatever the
        configuration."""
        owner = self._objects.get(slot)
        return owner is not None and bool(key.was_supplied and key.is_supplied(owner))

    def _is_given(self, slot: Slot, key: Any) -> bool:
        """Whether a value is known outside, or may depend on one that was supplied."""
        owner = self._objects[slot]
        inputs = inputs_of(owner)
        return inputs is None or bool(inputs.supplied) or bool(key.is_known(owner))

    def _stand_in(self, ask: Ask, answer: Value) -> Any:
        """Something like the value, in a trace that will be repeated.

        Not the value itself: a trace that has seen a tracer from outside and is given
        up is kept alive by JAX as long as that tracer (up to 0.10 at least).
        """
        with at_trace(self.trace):
            arrays = [jax.lax.full_like(x, 0) for x in answer.packed.arrays]
            own = [jax.lax.full_like(self.leaves[i], 0) for i in answer.positions]
        copy = answer.packed.fill(arrays, own)
        self._note_objects_in(ask)
        for number, obj in enumerate(objects_in(copy)):
            self._provide((ask, number), obj, {})
        return copy

    def check(self) -> None:
        """At the end of a trace: did it have what it used, and no more? And if the
        function caught the error of a body, that may depend on the contents of arrays:
        then the body runs inside, as under `jax.jit`."""
        is_as_given = self.asked.keys() == self.answers.keys() and not self.raised
        if not (self.is_last or is_as_given):
            raise Retrace(self, tuple(self.asked))

    def check_failed(self, error: Exception) -> None:
        """In a trace that failed: a value that only stood in, or that isn't
        concrete, may be the reason."""
        if self.asked.keys() - self.answers.keys():
            raise Retrace(self, tuple(self.answers | self.asked))
        has_numpy = any(x.packed.has_numpy for x in self.answers.values())
        if has_numpy and not self.static_numpy:  # it may need it for a shape or a mask
            self.static_numpy = True
            raise Retrace(self, tuple(self.answers))
        self.failed_with = id(error)

    def settle(self) -> None:
        """Let go of the objects: a traced copy may outlive its trace by mistake."""
        self._objects.clear()
        self.answers = {}
        self.leaves = self.call = ()
        self.outer = self.trace = None


def packed_of(
    record: Record, owner: Any, own: Sequence[Any], static_numpy: bool
) -> Packed | None:
    """The value of a record as a program takes it, for an object with these arrays;
    None if it can't be an input of a program."""
    if record.packed is None:
        record.packed = {}
    if static_numpy not in record.packed:
        key, (leaves, structure, _) = record.key, record.template
        value = record.template.fill(own)
        numbers, parts = _traced_numbers(key, owner, value), (leaves, structure)
        record.packed[static_numpy] = (
            None
            if has_hidden_arrays(value)
            else pack(value, key.of(owner), numbers, static_numpy, parts)
        )
    found: Packed | None = record.packed[static_numpy]
    return found


def _path(ask: Ask) -> list[Any]:
    """Where a value is: of which argument, in which value of it, and its name."""
    path: list[Any] = []
    slot, key = ask
    while not isinstance(slot, int):
        if type(slot) is Under:
            path += [str(slot.settings), -1]
            slot = slot.slot
            continue
        path += [key.attrname, slot[1]]
        slot, key = slot[0]
    return [slot, key.attrname, *reversed(path)]


def call_of(ask: Ask) -> Any:
    """The object and the method of a call, without its arguments; None if it is not
    one."""
    slot, key = ask
    return (slot, id(key.source)) if isinstance(key, CallKey) else None


def by_object(key: Computed, owner: Any, static_numpy: bool) -> Value | None:
    """A value that belongs to its object; None if it isn't there, or can't be an input
    of a program."""
    memo = memo_of(owner)
    value = key.peek(owner, memo)
    if value is memo:
        return None
    kept = memo.packed.get((key, static_numpy))
    if kept is not None and kept[0] is value:
        found: Value = kept[1]
        return found
    numbers = _traced_numbers(key, owner, value)
    packed = pack(value, key.of(owner), numbers, static_numpy)
    if packed is None:
        return None
    # (A value that was computed is not to be written to: docs/when.md.)
    may_be_written = key.is_supplied(owner) and any(map(_may_be_written, walk(value)))
    is_fixed = key not in memo.folded and not may_be_written
    found = Value(packed, by_object=True, is_fixed=is_fixed)
    if is_fixed:
        memo.packed[key, static_numpy] = (value, found)
    return found


def _may_be_written(part: Any) -> bool:
    return is_open(part) or isinstance(part, np.ndarray)


def objects_in(value: Any) -> list[Any]:
    """The objects in a value that can have cached values."""
    try:
        layout = layout_of((value,))
    except Exception:  # it is not a tree
        return []
    return [] if layout is None else layout.objects((value,))


def _traced_numbers(key: Computed, owner: Any, value: Any) -> tuple[bool, ...] | None:
    """Which leaves of a value are inputs though they are Python numbers: an object with
    numbers for leaves has them traced inside `jit`, and so is what is computed from
    them."""
    if not any(type(x) in NUMBERS for x in flatten(value)[0]):
        return None
    inputs = inputs_of(owner)
    if inputs is None or not inputs.numbers:
        return None
    kind = inputs.without(inputs.numbers)
    numbers = key.once(_numbers_in_leaves, owner, inputs, kind)
    return key.leaves_traced(owner, inputs, numbers) if numbers else None


def _numbers_in_leaves(_: Any, obj: Any, inputs: Inputs) -> frozenset[int]:
    """Which of the numbers in an object are leaves: others are static."""
    mapped = map_of(obj, range(len(jax.tree.leaves(obj))))
    return frozenset(inputs.numbers) if mapped is None else mapped.numbers(inputs)
