"""Run a body and follow it: which inputs of its object does it use?

It runs on a copy of the object whose arrays note what is computed from them
(`dependence.py`) and whose fields note that they are read (`reads.py`).
"""

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import jax

from .._compat import Tracer, at_trace
from .copies import Copy
from .dependence import Dependence
from .fields import attributes, walk, walk_fields
from .inputs import ORDER, Inputs
from .memo import has_supplied, inputs_of
from .parts import is_rebuilt
from .reads import runs_bodies
from .sources import names_of
from .structure import flatten, survives
from .uses import Uses, all_reads, everything, uses_of
from .values_read import NotAFunctionError, Reading, running

_COMPILED = (jax.stages.Compiled, jax.stages.Lowered)


Body = Callable[[Any], Any]


class Run(NamedTuple):
    """A run of a body that was followed."""

    leaves: list[Any]
    """Those of its value."""
    are_results: list[bool]
    """Which of them depend on an input."""
    are_traced: list[bool]
    """The same for all leaves, those of parts of the object included."""
    structure: Any
    uses: Uses | None
    """None if identity can't say."""
    values: list[Any]
    """What tells the cached values that it read from others."""


def follow(
    trace: Dependence,
    body: Body,
    obj: Any,
    inputs: Inputs,
    given: Sequence[Any],
    traced_numbers: Iterable[int] | None = None,
    only_known: bool = False,
) -> Run:
    """Run a body with these arrays in its object, and with these Python numbers traced.
    (Then the bodies of all values that it reads are a part of the trace. Otherwise
    those are that would have to be computed, if it takes `only_known` ones.)"""
    numbers = inputs.numbers.difference(traced_numbers or ())
    concrete = numbers | inputs.writable  # numpy computes differently
    arrays = [
        inputs.arrays[i] if i in concrete else trace.tracer(x, (i,))
        for i, x in enumerate(given)
    ]
    copy = Copy(obj, arrays, notes_reads=True)
    for new, _ in copy.originals.values():  # a body reads what the original has
        for name in names_of(type(new)):
            attributes(new).pop(name, None)
    with at_trace(trace):
        takes_known = traced_numbers is None
        computes = takes_known and not only_known
        reading = Reading(trace, obj, copy, arrays, inputs, takes_known, computes)
        value = _run(body, reading, copy)
    leaves, structure = flatten(value, copy.is_copy)
    rebuilt = structure.unflatten([*map(copy.original, leaves)])
    _check_value(rebuilt, leaves, copy)
    if trace.was_refused or not survives(value, structure, leaves):
        raise NotAFunctionError
    parts = [x for x in leaves if copy.is_copy(x)]  # of the object, in the value
    reads = reading.reads | all_reads(obj if copy.kept else parts)
    uses: Uses | None = everything(inputs, reads=reads)
    if not reading.is_shareable:
        uses = None
    read = inputs.every_part if trace.has_closures else frozenset(copy.read)
    read |= copy.parts_in(parts) | ({ORDER} if parts else set())
    # What of numpy's arrays is used is not known, nor what depends on it.
    is_known = inputs.positions(read).isdisjoint(inputs.writable | copy.kept)
    if uses is not None and is_known and all(map(is_rebuilt, parts)):
        used = trace.inputs_of([*leaves, *walk_fields(parts)])
        used |= trace.seen | reading.not_followed | reading.used
        is_host = trace.looked_at or bool(reading.not_followed)
        uses = uses_of(inputs, used, read, is_host, reads)
        uses = uses._replace(is_varying=is_host)
    found = [trace.value(copy.original(x)) for x in leaves]
    are_results = [*map(trace.own, leaves)]
    every = (flatten(x)[0] if copy.is_copy(x) else [x] for x in leaves)
    are_traced = [trace.own(x) for each in every for x in each]
    return Run(found, are_results, are_traced, structure, uses, reading.values)


@runs_bodies
def _call(body: Body, obj: Any) -> Any:
    return body(obj)


def _run(body: Body, reading: "Reading", copy: Copy) -> Any:
    """The value of a body for a copy of an object."""
    before = inputs_of(copy.obj)
    running.stack.append(reading)
    try:
        value = _call(body, copy.obj)
    finally:
        running.stack.pop()
    check_unchanged(copy.obj, before)
    if any(has_supplied(copy.original(x)) for x in walk(value)):
        raise NotAFunctionError  # when the value is rebuilt, that is lost
    return value


def _check_value(value: Any, leaves: list[Any], copy: Copy) -> None:
    """A tracer, or a copy, may be where JAX doesn't see it, or in compiled code."""
    visible = {*map(id, leaves)}
    for part in walk(value):
        is_hidden = isinstance(part, Tracer) or copy.is_copy(part)
        if (is_hidden and id(part) not in visible) or isinstance(part, _COMPILED):
            raise NotAFunctionError


def is_unchanged(obj: Any, before: Inputs | None) -> bool:
    """Whether a body has set no field."""
    after = inputs_of(obj)
    if before is None or after is None or before.exactly != after.exactly:
        return False
    return all(map(operator.is_, before.arrays, after.arrays))


def check_unchanged(obj: Any, before: Inputs | None) -> None:
    """Of the copy that it got, or of an original."""
    if not is_unchanged(obj, before):
        raise NotAFunctionError
