"""Run a body and follow what its results depend on.

A JAX trace under which every operation runs at once, as without it: a tracer has its
value, and which inputs that depends on. So the body computes what it computes anyway,
on the same arrays, with the same control flow; what doesn't depend on an input is an
ordinary array, which a body may well keep. If the body looks at the contents of an
array (`if x > 0`, `np.asarray(x)`), it gets them, and that is noted.
"""

import gc
import operator
import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import compress
from typing import Any

import jax
import numpy as np

from .._compat import (
    CONCRETE,
    NEED_CONTENTS,
    Trace,
    TraceBase,
    Tracer,
    aval_of,
    calls_host,
    current_trace,
    functions_in,
    has_jaxprs,
    inputs_used,
    is_call,
    is_ref,
    results_of,
    set_current_trace,
)
from .fields import instance_dict, made_locally, walk, walk_fields
from .reads import Name

Inputs = frozenset[int]
"""The numbers of the inputs that something depends on."""


class Dependence(TraceBase):  # type: ignore[misc]
    """The trace. It is for concrete values."""

    def __init__(self) -> None:
        super().__init__()
        self.parent_trace: Trace = current_trace()
        self.is_over = False
        self.tracers = 0
        """How many there are."""
        self.looked_at = False
        """Whether the contents of an array were looked at, or written to: what is used
        may depend on them."""
        self.seen: set[int] = set()
        """The inputs that these contents depend on, and operations without results:
        `jax.debug.print`."""
        self.has_closures = False
        """Whether functions that may run later, rules and callbacks, hold something
        that depends on an input: what else they read is not known."""
        self.was_refused = False
        """Whether JAX refused to do something that it does with an array."""

    def tracer(self, value: Any, inputs: Iterable[int]) -> "Dependent":
        """`value`, which depends on these inputs."""
        return Dependent(self, value, frozenset(inputs))

    def end(self) -> None:
        """From now on, a tracer that is left is as good as its value."""
        self.is_over = True

    def release(self, obj: Any) -> None:
        """Replace tracers by their values that a body has put into `obj`: it has no
        copies of objects without arrays."""
        for part in [*walk_fields(obj)]:
            things: Any = part
            if type(part).__dictoffset__ and not isinstance(part, dict | list | type):
                things = instance_dict(part, "__dict__")
            items: Any = enumerate(things) if isinstance(things, list) else ()
            items = things.items() if isinstance(things, dict) else items
            for place, x in [*items]:
                if self.own(x):
                    things[place] = x.value

    def has_survivors(self) -> bool:
        """Whether something still holds a tracer."""
        if self.tracers:
            gc.collect()  # the same decision whenever the collector runs
        return self.tracers > 0

    def own(self, x: Any) -> bool:
        return type(x) is Dependent and x._trace is self

    def value(self, x: Any) -> Any:
        return x.value if self.own(x) else x

    def inputs_of(self, tracers: Iterable[Any]) -> Inputs:
        """Those that any of them depends on."""
        return frozenset[int]().union(*(x.inputs for x in tracers if self.own(x)))

    def _held_by(self, functions: Sequence[Any]) -> Inputs:
        """The inputs that what they close over depends on."""
        if not functions:
            return frozenset()
        parts = [*walk(functions)]
        parts += walk(made_locally(parts))
        inputs = self.inputs_of(parts)
        self.has_closures |= bool(inputs) or any(type(x) is Name for x in parts)
        return inputs

    def _run(
        self,
        tracers: Sequence[Any],
        run: Callable[[list[Any]], Any],
        used: Callable[[list[Any]], list[bool]] | None = None,
        held: Inputs = frozenset(),
    ) -> Any:
        values = [self.value(x) for x in tracers]
        with set_current_trace(self.parent_trace):
            out = run(values)
        if not held and not any(map(self.own, tracers)):
            return out
        is_used = [True] * len(tracers) if used is None else used(values)
        inputs = held | self.inputs_of(compress(tracers, is_used))
        results, rebuild = results_of(out)
        has_refs = any(map(is_ref, [*values, *results]))
        self.looked_at |= has_refs
        if has_refs or not results:
            self.seen |= inputs
        return rebuild([self.tracer(x, inputs) for x in results])

    # What JAX calls, from its oldest to its newest version that is supported.

    def process_primitive(self, primitive: Any, tracers: Any, params: Any, /) -> Any:
        def run(values: list[Any]) -> Any:
            return primitive.bind(*values, **params)

        def used(values: list[Any]) -> list[bool]:
            if is_call(primitive):
                return inputs_used(params["jaxpr"])
            return inputs_used(jax.make_jaxpr(lambda *x: run([*x]))(*values))

        is_for_host = calls_host(primitive, params)
        held = self._held_by(functions_in(params))
        if not (is_for_host or held or any(isinstance(x, Tracer) for x in tracers)):
            with set_current_trace(CONCRETE):  # a body may well keep it
                return run([*tracers])
        if is_for_host and self.has_closures:
            self.looked_at = True
            self.seen |= held | self.inputs_of(tracers)
        return self._run(tracers, run, used if has_jaxprs(params) else None, held)

    def process_shard_map(
        self, primitive: Any, fun: Any, tracers: Any, /, *rest: Any, **params: Any
    ) -> Any:
        process = self.parent_trace.process_shard_map
        return self._run(tracers, lambda x: process(primitive, fun, x, *rest, **params))

    # At the level of concrete values, a rule for derivatives makes no difference. But a
    # derivative may depend on what the rule uses. The function runs at this level: it
    # may close over tracers.

    def process_custom_jvp_call(
        self, primitive: Any, fun: Any, jvp: Any, tracers: Any, /, **params: Any
    ) -> Any:
        return self._run_with_rule(fun, tracers, jvp)

    def process_custom_vjp_call(
        self, primitive: Any, fun: Any, fwd: Any, bwd: Any, tracers: Any, /, **_: Any
    ) -> Any:
        return self._run_with_rule(fun, tracers, fwd, bwd)

    def _run_with_rule(self, fun: Any, tracers: Any, *rules: Any) -> Any:
        with set_current_trace(self):
            results = fun.call_wrapped(*tracers)
        held = self._held_by(rules)
        inputs = held | self.inputs_of(tracers)
        if not inputs:
            return results
        return [
            self.tracer(self.value(x), inputs | self.inputs_of([x])) for x in results
        ]

    def stage_value(self, x: Any, /) -> Any:
        if not isinstance(x, Tracer):
            with set_current_trace(CONCRETE):  # like an operation without tracers
                return CONCRETE.stage_value(x)
        return self._run([x], lambda values: self.parent_trace.stage_value(*values))


class Dependent(Tracer):  # type: ignore[misc]
    """A value, and the inputs that it depends on."""

    __slots__ = ("inputs", "value")

    def __init__(self, trace: Dependence, value: Any, inputs: Inputs) -> None:
        self._trace = trace  # type: ignore[misc]
        self.value = value
        self.inputs = inputs
        trace.tracers += 1

    def __del__(self) -> None:
        self._trace.tracers -= 1

    @property
    def aval(self) -> Any:
        return aval_of(self.value)

    def full_lower(self) -> Any:
        if self._trace.is_over:
            return self.value
        # A body may start a thread, in which there is no trace.
        return self._look() if current_trace() is CONCRETE else self

    def to_concrete_value(self) -> Any:
        # JAX asks in many places, to do without an operation.
        frame: Any = sys._getframe(1)
        while frame.f_code.co_name in ("to_concrete_value", "is_concrete"):
            frame = frame.f_back
        return self._look() if frame.f_code.co_name in NEED_CONTENTS else None

    def _origin_msg(self) -> str:
        self._trace.was_refused = True  # JAX raises, and the body may catch it
        return ""

    def _look(self) -> Any:
        self._trace.looked_at = True
        self._trace.seen |= self.inputs
        return self.value


def _looking(convert: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, *args, **kwargs: convert(self._look(), *args, **kwargs)


_BUILTIN = (bool, complex, float, format, int, repr, str)
for _convert in (*_BUILTIN, np.asarray, operator.index):
    _name = {"asarray": "array"}.get(_convert.__name__, _convert.__name__)
    setattr(Dependent, f"__{_name}__", _looking(_convert))


def _forwarding(name: str) -> property:
    return property(lambda self: getattr(self._look(), name))


for _name in (
    "__dlpack__",
    "__dlpack_device__",
    "addressable_data",
    "addressable_shards",
    "block_until_ready",
    "committed",
    "copy_to_host_async",
    "device",
    "devices",
    "format",
    "global_shards",
    "is_deleted",
    "is_fully_addressable",
    "is_fully_replicated",
    "item",
    "layout",
    "on_device_size_in_bytes",
    "sharding",
    "tobytes",
    "tolist",
    "unsafe_buffer_pointer",
):  # what an array has beside its contents
    setattr(Dependent, _name, _forwarding(_name))
