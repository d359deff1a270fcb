"""Cached values that a body reads while it is followed: inputs of its trace."""

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax

from .copies import CannotRebuildError, Copy
from .dependence import Dependence
from .fields import walk, walk_fields
from .inputs import ORDER, Inputs
from .levels import traces_in
from .memo import has_supplied, inputs_of
from .parts import identity_of
from .structure import flatten, survives
from .uses import Uses, all_reads
from .values import has_hidden_arrays

_DEEPEST = 10
"""Bodies that run inside each other and are looked at. Each takes some 15 Python
frames, of which there are 1,000."""


@dataclass(eq=False)
class Reading:
    """Cached values that a traced body reads: inputs of its trace, with their uses."""

    trace: Dependence
    obj: Any
    copy: Copy
    arrays: Sequence[Any]
    inputs: Inputs
    takes_known: bool
    """Whether the body takes values that are known."""
    computes: bool
    """Whether others are computed. If not, their bodies are a part of the trace."""
    reads: dict[Any, None] = field(default_factory=dict)
    values: list[Any] = field(default_factory=list)
    not_followed: set[int] = field(default_factory=set)
    """Those that count as used, because a value of the host, or one with hidden arrays,
    depends on them."""
    used: set[int] = field(default_factory=set)
    """Those that what is static in a value depends on, like a number that was computed
    from a number outside of the trace that the object is in."""
    is_shareable: bool = True

    def original(self, obj: Any) -> Any:
        """What `obj` is a copy of, or None."""
        if self.copy.is_copy(obj):
            return self.copy.original(obj)
        is_made = traces_in(obj) == {self.trace}
        return self._made_of_values(obj) if is_made else None

    def _made_of_values(self, obj: Any) -> Any:
        """An object that the body made, with the arrays behind the tracers."""
        inputs = inputs_of(obj)
        originals = map(self.copy.original, walk_fields(obj))
        if inputs is None or any(map(has_supplied, originals)):
            return None
        try:
            values = map(self.trace.value, inputs.arrays)
            new = Copy(obj, values).obj
            return None if self.trace in traces_in(new) else new
        except CannotRebuildError:
            return None

    def value(
        self, key: Any, obj: Any, value: Any, original: Any, uses: Uses | None
    ) -> Any:
        """What a body sees of a value that was computed for the original object."""
        is_same = original is self.obj
        self.reads[key, is_same] = None
        self.values += (key, *map(identity_of, flatten(value)[0]))
        inputs = inputs_of(obj)
        if uses is None or inputs is None:
            self.is_shareable = False
            return self._as_inputs(value, ())
        self.reads |= {(key, is_same and x): None for key, x in uses.reads}
        its_parts = inputs.every_part - uses.unread
        order = its_parts & {ORDER}
        arrays = (inputs.arrays[i] for i in inputs.positions(its_parts))
        if self.copy.is_copy(obj):
            parts = self.copy.parts_among(obj, its_parts - order, inputs.shape)
        else:  # what it was made from was read already
            parts = self.copy.parts_in(obj)
        places = self.inputs.positions(parts) | self.trace.inputs_of(arrays)
        self.copy.read |= parts | order
        if uses.is_host or not _is_visible(value):
            self.not_followed |= places
        used = self.trace.inputs_of(uses.arrays(inputs))
        if traces_in(original) and not _has_only_arrays(value):
            self.used |= used
        return self._as_inputs(value, used)

    def note_inlined(self, value: Any) -> None:
        """A value was computed as a part of the trace."""
        leaves, structure = flatten(value)
        kinds = (None if isinstance(x, jax.Array) else identity_of(x) for x in leaves)
        self.values += (str(structure), *kinds)

    def note_failure(self) -> None:
        """A body that it reads a value of has raised, and it may catch that: it depends
        on whatever that body has read."""
        every = range(len(self.arrays))
        self.not_followed.update(every)
        self.note_all()
        self.reads |= all_reads(self.obj)

    def note_all(self) -> None:
        """All of the object may have been read."""
        self.copy.read.update(range(ORDER, len(self.inputs.shape)))

    def _as_inputs(self, value: Any, used: Iterable[int]) -> Any:
        if not _is_visible(value):
            return value
        leaves, structure = flatten(value)
        trace = self.trace
        return structure.unflatten(
            [trace.tracer(x, used) if isinstance(x, jax.Array) else x for x in leaves]
        )


def _is_visible(value: Any) -> bool:
    """Whether JAX sees all arrays in a value, and can rebuild it."""
    if has_hidden_arrays(value) or any(map(has_supplied, walk(value))):
        return False
    leaves, structure = flatten(value)
    return survives(value, structure, leaves)


def _has_only_arrays(value: Any) -> bool:
    return all(isinstance(x, jax.Array) for x in flatten(value)[0])


class NotAFunctionError(Exception):
    """A body whose trace doesn't stand for it."""


class _Running(threading.local):
    def __init__(self) -> None:
        self.stack: list[Reading] = []


running = _Running()


def reading_of(obj: Any) -> tuple[Reading, Any] | None:
    """The trace of a body that `obj` is a copy for, and what it is a copy of."""
    for reading in reversed(running.stack):
        original = reading.original(obj)
        if original is not None:
            return reading, original
    return None


def note_parts(obj: Any) -> None:
    """A body reads a value of something that it has made around parts of its object,
    or gives it to a cached method: what of these is read is not known."""
    for reading in running.stack:
        if any(map(reading.copy.is_copy, walk_fields(obj))):
            reading.note_all()


def is_deep() -> bool:
    """Whether so many bodies are running inside each other that one more is run as it
    is."""
    return len(running.stack) >= _DEEPEST


def is_tracing_a_body() -> bool:
    return bool(running.stack)
