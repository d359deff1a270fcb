"""Trace levels: where a value is to be computed, and whether it may be kept.

An object lives at the level of its leaves: concrete, or inside one of the traces
JAX has under way. A value is computed at the level of its object, also while an
inner trace is running, and is kept only if every trace found in it is found in the
object too. Such a value lives exactly as long as its object is usable.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from .._compat import (
    CONCRETE,
    Trace,
    Tracer,
    at_trace,
    current_trace,
    is_ref,
    parent_of,
    trace_of,
)
from .fields import made_locally, walk


class UsesAxisError(Exception):
    """A body uses a named axis of `vmap` or `shard_map`: its value is one for every
    axis, and not kept."""


class Here(threading.local):
    """Whether a body that uses a named axis may run where it is read."""

    is_allowed = True


@contextmanager
def not_run_here() -> Iterator[None]:
    """In this context, it raises `UsesAxisError`."""
    before, here.is_allowed = here.is_allowed, False
    try:
        yield
    finally:
        here.is_allowed = before


here = Here()


def traces_in(*things: object) -> set[Trace]:
    """The traces whose tracers are found in `things`."""
    return {trace_of(x) for x in walk(things) if isinstance(x, Tracer)}


@contextmanager
def level_of(obj: object, body: object = None) -> Iterator[None]:
    """Operations inside this context happen at the level of `obj`.

    What the body and the class close over counts as well: a class made inside a traced
    function may use the function's tracers. Then the value belongs to that inner level.
    And an object with a reference is at the level of what was written to it: the
    current one.
    """
    current = current_trace()
    level = current
    if current is not CONCRETE and not any(map(is_ref, walk(obj))):
        methods = traces_in(made_locally(walk(obj)))  # they may have kept old ones
        methods &= {*_with_outer(current)}
        level = _innermost(traces_in(obj, body) | methods, current)
    if level is current:
        yield
        return
    try:
        with at_trace(level):
            yield
    except NameError as error:
        if "unbound axis" not in str(error):
            raise
        raise UsesAxisError from error


def may_be_kept(value: object, obj: object) -> bool:
    """Whether `value` lives as long as `obj` does."""
    traces = traces_in(value)
    return not traces or traces <= traces_in(obj)


def is_alive(value: object) -> bool:
    """Whether every tracer in `value` belongs to a trace that is still under way.

    True as well where JAX does not say which traces are under way.
    """
    traces = traces_in(value)
    under_way = _with_outer(current_trace()) if traces else [CONCRETE]
    return traces <= {*under_way} or under_way[-1] is not CONCRETE


def _innermost(traces: set[Trace], current: Trace) -> Trace:
    """The level at which all of `traces` can be used: the one inside all others.

    Where it is unknown the current level always works. The value then has a trace
    that its object doesn't have, so it is not kept.
    """
    if not traces:
        return CONCRETE
    if len(traces) == 1:
        return next(iter(traces))
    return next((x for x in traces if traces <= {*_with_outer(x)}), current)


def _with_outer(trace: Trace) -> list[Trace]:
    """A trace and those it is in. The last is `CONCRETE`, where JAX says it."""
    found = [trace]
    while (outer := parent_of(found[-1])) is not None:
        found.append(outer)
    return found
