"""Run a body: the first time for objects of a kind it is followed (`follow.py`). Later
objects of this kind run it as it is.
"""

from contextlib import suppress
from typing import Any

import jax

from .._compat import CONCRETE, current_trace, tracing_is_forbidden
from .dependence import Dependence
from .fields import ARRAYS, walk
from .follow import Body, follow
from .inputs import Inputs
from .spread import are_spread
from .traced import learn, trace_body
from .uses import Learned, Uses, all_reads, everything
from .values_read import is_deep, running


def compute(
    body: Body, obj: Any, inputs: Inputs | None, learned: Learned
) -> tuple[Any, Uses | None]:
    """The value of `body(obj)`, and what it used; None if identity can't say."""
    if inputs is None:
        return body(obj), None
    uses = learned.get(inputs)
    if uses is None or uses.is_varying:
        if tracing_is_forbidden():
            return body(obj), everything(inputs, reads=all_reads(obj))
        has_arrays = len(inputs.numbers) < len(inputs.arrays)
        if is_deep() or not has_arrays:
            if uses is None:
                learned.put(inputs, everything(inputs, has_arrays, all_reads(obj)))
            return body(obj), learned.get(inputs)
        is_concrete = current_trace() is CONCRETE
        if is_concrete and (uses is not None or not are_spread(inputs.arrays)):
            return _compute_followed(body, obj, inputs, learned)
        uses = learn(body, obj, inputs, learned)
        if is_concrete and uses.is_host:
            return _compute_followed(body, obj, inputs, learned)
    if not uses.is_host and are_spread(inputs.arrays):
        # Always like this, and not only the first time. JAX runs some operations as
        # different programs when no trace is active (`x[::2]`, an inlined jit): the
        # value would have a different sharding than inside `jit`, and a process that
        # has learned what the body uses from a local object would launch other
        # programs than the rest.
        traced = trace_body(body, obj, inputs)
        if traced is not None:
            with suppress(Exception):  # whatever it is: the body shows it
                return traced.run(inputs.arrays), uses
    return body(obj), uses


def _compute_followed(
    body: Body, obj: Any, inputs: Inputs, learned: Learned
) -> tuple[Any, Uses | None]:
    """Run a body on a copy of its object, and see what it uses."""
    trace = Dependence()
    run = None
    value: Any
    uses: Uses | None
    try:
        run = follow(trace, body, obj, inputs, inputs.arrays)
    except Exception as error:  # whatever it is: the body is run again, and shows it
        if isinstance(error, RecursionError) and running.stack:
            raise  # the outermost one is, or each level would be tried twice
    finally:
        trace.end()
    if run is None:
        trace.release(obj)
        value, uses = body(obj), everything(inputs, reads=all_reads(obj))
    else:
        value, uses = run.structure.unflatten(run.leaves), run.uses
        if _may_hide(value) and trace.has_survivors():
            value, uses = body(obj), everything(inputs, reads=all_reads(obj))
    if uses is not None:
        learned.put(inputs, uses)
    return value, uses


def _may_hide(value: Any) -> bool:
    """Whether code in a value may close over an array."""
    return any(
        callable(part)
        or "<locals>" in type(part).__qualname__
        or isinstance(part, jax.tree_util.PyTreeDef)
        for part in walk(value)
        if not isinstance(part, ARRAYS)
    )
