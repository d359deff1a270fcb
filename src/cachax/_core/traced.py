"""What can be learned about a body without computing anything."""

import re
from collections.abc import Iterable, Sequence
from itertools import compress
from typing import Any, NamedTuple

import jax
import numpy as np

from .._compat import (
    Tracer,
    base_of,
    eval_jaxpr,
    hidden_in,
    operations_in,
    tracing_is_forbidden,
    without_unused,
)
from .copies import Copy
from .dependence import Dependence
from .follow import Body, Run, follow
from .inputs import Inputs
from .memo import inputs_of
from .parts import Same, identity_of, look_of
from .spread import is_global
from .uses import Learned, Uses, all_reads, everything

_ADDRESS = re.compile(" at 0x[0-9a-fX]+")


class Traced(NamedTuple):
    """A body as operations on the arrays of an object."""

    jaxpr: Any
    of_body: Run
    """How it was traced. The leaves have None for results of the operations."""

    def run(self, arrays: Sequence[Any]) -> Any:
        """On these arrays. Those that it doesn't use may be anything."""
        jaxpr, is_used = without_unused(self.jaxpr)
        results = iter(eval_jaxpr(jaxpr, self.jaxpr.consts, *compress(arrays, is_used)))
        run = self.of_body
        pairs = zip(run.leaves, run.are_results, strict=True)
        return run.structure.unflatten(
            [next(results) if is_result else x for x, is_result in pairs]
        )

    def is_same(self, other: "Traced") -> bool:
        """Whether both are the same function of the arrays."""
        return bool(
            self.of_body[1:] == other.of_body[1:]
            and self._text() == other._text()
            and self._hidden() == other._hidden()
        )

    @property
    def has_arrays_only(self) -> bool:
        """Whether all leaves of the value are arrays of JAX."""
        pairs = zip(self.of_body.leaves, self.of_body.are_results, strict=True)
        return all(is_result or isinstance(x, jax.Array) for x, is_result in pairs)

    def operations(self) -> tuple[Any, ...]:
        """The operations of the body, the types of its results, and what tells the
        cached values that it read from others."""
        types = [str(x) for x in self.jaxpr.out_avals]
        run = self.of_body
        return operations_in(self.jaxpr.jaxpr), types, run.structure, run.values

    def _text(self) -> str:
        return _ADDRESS.sub("", f"{self.jaxpr.jaxpr} {self.of_body.structure}")

    def _hidden(self) -> list[Any]:
        hidden = map(_contents_of, [*self.jaxpr.consts, *hidden_in(self.jaxpr.jaxpr)])
        return [*hidden, *map(identity_of, self.of_body.leaves)]


def _contents_of(const: Any) -> Any:
    """What distinguishes an array that a body makes: each run makes its own."""
    is_array = isinstance(const, jax.Array | np.ndarray)
    if not is_array or isinstance(const, Tracer) or is_global(const):
        return Same(const)
    return look_of(const), np.asarray(base_of(const)).tobytes()


def trace_body(
    body: Body,
    obj: Any,
    inputs: Inputs,
    traced_numbers: Iterable[int] | None = None,
    only_known: bool = False,
) -> Traced | None:
    """None if the body can't be traced, or does more than return a value."""
    found: Any = None

    def of_arrays(given: list[Any]) -> list[Any]:
        nonlocal found
        trace = Dependence()
        try:
            run = follow(trace, body, obj, inputs, given, traced_numbers, only_known)
        except (
            Exception
        ):  # whatever it is: the body is run again as it is, and shows it
            return []  # JAX keeps the constants of a trace that raises
        finally:
            trace.end()
        if trace.looked_at or trace.has_closures:  # of a callback, maybe
            return []
        leaves = zip(run.leaves, run.are_results, strict=True)
        found = run._replace(
            leaves=[None if is_result else x for x, is_result in leaves]
        )
        return [*compress(run.leaves, run.are_results)]

    try:
        jaxpr = jax.make_jaxpr(of_arrays)(inputs.arrays)
    except Exception:  # of a function that the body has jitted
        return None
    return None if found is None else Traced(jaxpr, found)


def learn(body: Body, obj: Any, inputs: Inputs, learned: Learned) -> Uses:
    """What the body uses, without computing anything."""
    uses = learned.get(inputs)
    if uses is not None:
        return uses
    traced = None
    if not tracing_is_forbidden() and len(inputs.numbers) < len(inputs.arrays):
        traced = trace_body(body, obj, inputs)
    uses = None if traced is None else traced.of_body.uses
    if uses is None:
        return everything(inputs, reads=all_reads(obj))
    learned.put(inputs, uses)
    return learned.get(inputs) or uses


def is_order_seen(body: Body, obj: Any, inputs: Inputs) -> bool:
    """Whether the body does something else if the keys of dictionaries are sorted, or
    may do so."""
    try:
        other = Copy(obj, inputs.arrays, is_sorted=True).obj
    except Exception:  # it can't be copied
        return True
    its = inputs_of(other)
    traces = [
        None if x is None else trace_body(body, each, x, only_known=True)
        for each, x in ((obj, inputs), (other, its))
    ]
    here, there = traces
    return here is None or there is None or not here.is_same(there)


def leaves_traced(
    body: Body, obj: Any, inputs: Inputs, numbers: Iterable[int]
) -> tuple[bool, ...]:
    """Which leaves of the value depend on these Python numbers, which `jit` would
    trace."""
    traced = trace_body(body, obj, inputs, numbers)
    return () if traced is None else tuple(traced.of_body.are_traced)


def computes_alike(
    body: Body, obj: Any, inputs: Inputs, numbers: Iterable[int]
) -> bool:
    """Whether a body does the same if these Python numbers of `obj` are traced: it
    returns none of them, and computes nothing from them alone. (Python has other rules
    than JAX: `2**40`.)"""
    outside, inside = (
        trace_body(body, obj, inputs, traced) for traced in ((), numbers)
    )
    if outside is None or inside is None:
        return False
    return outside.has_arrays_only and outside.operations() == inside.operations()
