"""Which inputs of an object a body uses, learned from the first computation.

The first time a property is computed for given static parts, shapes and dtypes, its
body is traced on a copy of the object, and the operations of the trace are run one by
one: so the body runs once, and the trace shows what it used. Later objects of this
kind run the body as it is.
"""

import hashlib
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from .._compat import (
    Tracer,
    as_input,
    current_trace,
    eval_jaxpr,
    functions_in,
    inputs_used,
    settings,
    tracing_is_forbidden,
)
from .fields import walk
from .inputs import Copy, Inputs, Same, bits_of, identity_of, inputs_of
from .spread import are_spread

_ADDRESS = re.compile(" at 0x[0-9a-fX]+")
_ARRAYS = (jax.Array, Tracer, np.ndarray)
_DEEPEST = 4
"""Traces inside traces of bodies that use each other. Each takes some 30 Python frames,
of which there are 1,000."""


@dataclass(frozen=True, slots=True)
class Uses:
    """What of the inputs of an object counts for a value."""

    positions: tuple[int, ...]
    """The arrays it used. Of the others only the shape, dtype and weak type count."""
    numbers: tuple[int, ...]
    """The Python numbers that count."""
    order: bool
    """Whether the order of dictionaries counts."""
    is_host: bool = False
    """Whether the body can't be traced."""
    reads: tuple[Any, ...] = ()
    """The cached values that the body reads, and whether they are of this object."""
    fingerprint: Any = None
    """Equal if a body does the same with the arrays: then a Python number, or the order
    of a dictionary, makes no difference."""

    def is_shareable(self, inputs: Inputs) -> bool:
        """Whether the identities of the arrays describe the value. Those of numpy
        arrays, which can be written to, don't."""
        return inputs.writable.isdisjoint(self.positions)

    def arrays(self, inputs: Inputs) -> list[Any]:
        """Those that it used."""
        return [inputs.arrays[i] for i in self.positions]

    def statics(self, inputs: Inputs) -> tuple[Any, ...]:
        """The rest, and the configuration of JAX."""
        numbers = {i for i, _ in inputs.numbers}
        return (
            inputs.statics,
            tuple((i, bits_of(inputs.arrays[i])) for i in self.numbers if i in numbers),
            inputs.orders if self.order else (),
            settings(),
        )


def everything(inputs: Inputs, is_host: bool = True) -> Uses:
    """For a body that may use anything."""
    numbers = tuple(i for i, _ in inputs.numbers)
    positions = tuple(i for i in range(len(inputs.arrays)) if i not in numbers)
    return Uses(positions, numbers, True, is_host)


_BY_NUMBER: Any = object()


class Learned:
    """The uses of one property, by the static parts and shapes of its object."""

    def __init__(self, table: dict[Any, Any]) -> None:
        self._table = table
        self.keys_read: set[Any] = set()
        """All that the body has read, of whatever object."""

    def get(self, inputs: Inputs) -> Uses | None:
        found = self._table.get(inputs.exactly)
        if found is _BY_NUMBER:
            found = self._table.get((inputs.exactly, _all_bits(inputs)))
        return found

    def put(self, inputs: Inputs, uses: Uses, by_number: bool) -> None:
        self.keys_read.update(key for key, _ in uses.reads)
        if by_number:
            self._table[inputs.exactly] = _BY_NUMBER
            self._table[inputs.exactly, _all_bits(inputs)] = uses
        else:
            self._table[inputs.exactly] = uses


def _all_bits(inputs: Inputs) -> tuple[Any, ...]:
    return tuple(bits_of(inputs.arrays[i]) for i, _ in inputs.numbers)


Body = Callable[[Any], Any]


Known = Callable[[Uses], Any]
"""Finds the value of an object with the same arrays whose body does the same;
`UNKNOWN` if there is none."""

UNKNOWN: Any = object()


def compute(
    body: Body, obj: Any, inputs: Inputs | None, learned: Learned, known: Known
) -> tuple[Any, Uses | None]:
    """The value of `body(obj)`, and what it used; None if identity can't say."""
    if inputs is None:
        return body(obj), None
    uses = learned.get(inputs)
    if uses is not None:
        if not uses.is_shareable(inputs):
            return body(obj), None
        if not uses.is_host and are_spread(inputs.arrays):
            return _as_traced(body, obj, inputs), uses
        return body(obj), uses
    if len(_reading.stack) >= _DEEPEST or tracing_is_forbidden():
        return body(obj), everything(inputs)
    if len(inputs.numbers) == len(inputs.arrays):
        return body(obj), everything(inputs, is_host=False)
    traced = _trace(body, obj, inputs, ())
    if traced is None:
        uses = everything(inputs)
        learned.put(inputs, uses, by_number=True)
        return body(obj), uses if uses.is_shareable(inputs) else None
    if not traced.is_shareable:
        return traced.run(inputs.arrays), None
    uses = traced.uses
    learned.put(inputs, uses, by_number=True)
    if not uses.is_shareable(inputs):  # and numpy computes differently
        return body(obj), None
    value = known(uses)
    if value is UNKNOWN:
        return traced.run(inputs.arrays), uses
    # Only numbers or the order of a dictionary are different, and the body doesn't use
    # them here: find out whether it ever does, so that no trace is needed next time.
    general = _generalised(body, obj, inputs, traced)
    if general is not None:
        learned.put(inputs, general, by_number=False)
    return value, general or uses


def _as_traced(body: Body, obj: Any, inputs: Inputs) -> Any:
    """Like the first computation, always, on several devices. JAX runs some operations
    as different programs when no trace is active (`x[::2]`, an inlined jit): the value
    would have a different sharding than inside `jit`, and a process that has already
    learned what the body uses, from a different object, would launch other programs
    than the rest."""
    traced = _trace(body, obj, inputs, ())
    return body(obj) if traced is None else traced.run(inputs.arrays)


def learn(body: Body, obj: Any, inputs: Inputs, learned: Learned) -> Uses:
    """What the body uses, without computing anything."""
    uses = learned.get(inputs)
    if uses is not None:
        return uses
    traced = None
    if not tracing_is_forbidden() and len(inputs.numbers) < len(inputs.arrays):
        traced = _trace(body, obj, inputs, ())
    if traced is None or not traced.is_shareable:
        return everything(inputs)
    learned.put(inputs, traced.uses, by_number=True)
    return traced.uses


def _generalised(body: Body, obj: Any, inputs: Inputs, traced: "Traced") -> Uses | None:
    """The uses for all numbers of the same types; None if there are none."""
    all_numbers = tuple(i for i, _ in inputs.numbers)
    numbers: tuple[int, ...] = ()
    if all_numbers:
        with_numbers = _trace(body, obj, inputs, all_numbers)
        if with_numbers is None:
            return None
        numbers = tuple(i for i in all_numbers if i in with_numbers.used)
        unused = tuple(i for i in all_numbers if i not in with_numbers.used)
        without = _trace(body, obj, inputs, unused)
        if without is None or without.uses.fingerprint != traced.uses.fingerprint:
            return None
    order = bool(inputs.orders)
    if order:
        in_order = _trace(body, obj, inputs, (), is_sorted=True)
        mine = traced.uses.fingerprint
        order = in_order is None or in_order.uses.fingerprint != mine
    # The trace shows what the body does with this number, and not with others.
    fingerprint = None if numbers else traced.uses.fingerprint
    return replace(traced.uses, numbers=numbers, order=order, fingerprint=fingerprint)


def leaves_traced(body: Body, obj: Any, inputs: Inputs) -> tuple[bool, ...]:
    """Which leaves of the value depend on Python numbers that `jit` would trace."""
    numbers = tuple(i for i, _ in inputs.numbers)
    traced = _trace(body, obj, inputs, numbers)
    return () if traced is None else tuple(x is None for x in traced.statics)


@dataclass(frozen=True, eq=False)
class Traced:
    """A body as operations on the arrays of an object."""

    jaxpr: Any
    structure: Any
    statics: list[Any]
    """The leaves of the value that are not results of the operations, else None."""
    used: set[int]
    uses: Uses
    is_shareable: bool

    def run(self, arrays: Sequence[Any]) -> Any:
        results = iter(eval_jaxpr(self.jaxpr.jaxpr, self.jaxpr.consts, *arrays))
        leaves = [next(results) if x is None else x[0] for x in self.statics]
        return self.structure.unflatten(leaves)


def _trace(
    body: Body,
    obj: Any,
    inputs: Inputs,
    traced_numbers: tuple[int, ...],
    is_sorted: bool = False,
) -> Traced | None:
    """None if the body can't be traced, or does more than return a value."""
    reading: Reading | None = None
    structure: Any = None
    statics: list[Any] = []
    concrete = {i for i, _ in inputs.numbers} - {*traced_numbers}

    def of_arrays(given: list[Any]) -> list[Any]:
        nonlocal reading, structure, statics
        arrays = [inputs.arrays[i] if i in concrete else x for i, x in enumerate(given)]
        copy = Copy(obj, arrays, is_sorted)
        before = inputs_of(copy.obj)
        reading = Reading(obj, copy, inputs)
        _reading.stack.append(reading)
        try:
            value = body(copy.obj)
        finally:
            _reading.stack.pop()
            reading.close()
        leaves, structure = jax.tree.flatten(value)
        is_result = [isinstance(x, Tracer) for x in leaves]
        statics = [None if r else (x,) for x, r in zip(leaves, is_result, strict=True)]
        results = [x for x, r in zip(leaves, is_result, strict=True) if r]
        _check_value(value, results, copy, before)
        return results

    try:
        jaxpr = jax.make_jaxpr(of_arrays)(inputs.arrays)
    except Exception:  # whatever a body raises: it is run again as it is, and shows it
        return None
    assert reading is not None
    used = {i for i, is_used in enumerate(inputs_used(jaxpr)) if is_used}
    used |= {*range(len(inputs.arrays))} if reading.everything else reading.used
    numbers = tuple(i for i, _ in inputs.numbers)
    positions = tuple(i for i in sorted(used) if i not in numbers)
    fingerprint = (
        hashlib.blake2b(_ADDRESS.sub("", str(jaxpr.jaxpr)).encode()).digest(),
        tuple(map(Same, [*jaxpr.consts, *functions_in(jaxpr.jaxpr)])),
        str(structure),  # not itself: it may hold a function that holds an array
        tuple(None if x is None else identity_of(x[0]) for x in statics),
        positions,
    )
    uses = Uses(
        positions, numbers, bool(inputs.orders), False, (*reading.reads,), fingerprint
    )
    return Traced(jaxpr, structure, statics, used, uses, reading.is_shareable)


class _NotAFunctionError(Exception):
    """A body whose trace doesn't stand for it."""


def _check_value(
    value: Any, results: list[Any], copy: Copy, before: Inputs | None
) -> None:
    """A tracer, or the copy, may be where JAX doesn't see it; the body may have set a
    field of the copy."""
    seen = {*map(id, results)}
    for part in walk(value):
        if isinstance(part, Tracer) and id(part) not in seen:
            raise _NotAFunctionError
        if id(part) in copy.originals and copy.originals[id(part)][0] is part:
            raise _NotAFunctionError
    after = inputs_of(copy.obj)
    if before is None or after is None or before.exactly != after.exactly:
        raise _NotAFunctionError
    if any(x is not y for x, y in zip(before.arrays, after.arrays, strict=True)):
        raise _NotAFunctionError


class Reading:
    """Cached values that a traced body reads: inputs of its trace, with their uses."""

    def __init__(self, obj: Any, copy: Copy, inputs: Inputs) -> None:
        self._copy: Any = copy
        self._obj = obj
        self._inputs = inputs
        self._trace = current_trace()
        self.reads: set[Any] = set()
        self.used: set[int] = set()
        self.everything = False
        self.is_shareable = True

    def close(self) -> None:
        """Let go of all tracers: the trace is over."""
        self._copy = self._trace = None

    def original(self, obj: Any) -> Any:
        found = self._copy.originals.get(id(obj))
        return found[1] if found is not None and found[0] is obj else None

    def value(self, key: Any, value: Any, original: Any, uses: Uses | None) -> Any:
        """What a body sees of a value that was computed for the original object."""
        self.reads.add((key, original is self._obj))
        if uses is None:
            self.is_shareable = False
            return self._as_inputs(value)
        inputs = self._inputs if original is self._obj else inputs_of(original)
        assert inputs is not None
        positions = {*uses.positions, *uses.numbers}
        if original is self._obj:
            self.used |= positions
        else:
            ids = {id(inputs.arrays[i]) for i in positions}
            self.used |= {i for i, x in enumerate(self._inputs.arrays) if id(x) in ids}
        leaves = jax.tree.leaves(value)
        if uses.is_host and not all(isinstance(x, jax.Array) for x in leaves):
            self.everything = True  # which arrays are used may depend on it
        return self._as_inputs(value)

    def _as_inputs(self, value: Any) -> Any:
        leaves: list[Any]
        structure: Any
        leaves, structure = jax.tree.flatten(value)
        visible = {*map(id, leaves)}
        if any(isinstance(x, _ARRAYS) and id(x) not in visible for x in walk(value)):
            self.everything = True
            return value
        return structure.unflatten(
            [
                as_input(self._trace, x) if isinstance(x, jax.Array) else x
                for x in leaves
            ]
        )


class _Stack(threading.local):
    def __init__(self) -> None:
        self.stack: list[Reading] = []


_reading = _Stack()


def reading_of(obj: Any) -> tuple[Reading, Any] | None:
    """The trace of a body that `obj` is a copy for, and what it is a copy of."""
    for reading in reversed(_reading.stack):
        original = reading.original(obj)
        if original is not None:
            return reading, original
    return None


def is_tracing_a_body() -> bool:
    return bool(_reading.stack)
