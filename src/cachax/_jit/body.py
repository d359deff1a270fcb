"""Bodies of cached properties that are jitted: the values that a body reads go in with
its object.

The jitted function is called as it is, with all its options. Its argument is something
that turns into the object when JAX rebuilds it in the trace.
"""

from collections.abc import Callable
from typing import Any

import jax

from .._compat import Tracer, current_trace
from .._core.body import NewSubject
from .._core.computed import Table, tables
from .._core.slots import Layout, layout_of
from .._core.values_read import reading_of
from .._errors import StaleValueError
from .demand import Ask, Demand, Retrace, call_of
from .plan import signature_of
from .program import running, tracing


@jax.tree_util.register_pytree_node_class
class _Carried:
    """The argument of a jitted body: an object and the values for it."""

    def __init__(self, obj: Any, layout: Layout, demand: Demand) -> None:
        self.obj = obj
        self.layout = layout
        self.demand = demand
        self.tables: list[Table] = []

    __hash__ = None  # type: ignore[assignment]  # it can't be a static argument

    def tree_flatten(self) -> tuple[Any, Any]:
        answers = self.demand.in_order()
        arrays = [x for answer in answers.values() for x in answer.packed.arrays]
        forms = ((ask, answer.packed.form) for ask, answer in answers.items())
        return (self.obj, arrays), tuple(forms)

    @classmethod
    def tree_unflatten(cls, forms: Any, children: Any) -> Any:
        obj, arrays = children
        call = running.program
        if type(call) is cls and _is_traced(children):
            call.provide([ask for ask, _ in forms], obj, arrays)
        return obj

    def provide(self, asks: list[Ask], obj: Any, arrays: list[Any]) -> None:
        """Let the traced copy of the object find its values."""
        self.demand.was_traced = True
        copies = self.layout.objects((obj,))
        self.demand.provide_for(copies, self.demand.fill(asks, arrays, ()))
        self.tables.append(Table(current_trace()))
        tables.running.append(self.tables[-1])


def _is_traced(children: Any) -> bool:
    """Whether it is rebuilt for the body: JAX also does so to explain an error."""
    leaves = jax.tree.leaves(children)
    return not leaves or any(isinstance(x, Tracer) for x in leaves)


def call(jitted: Callable[[Any], Any], learned: dict[Any, Any], obj: Any) -> Any:
    """What the body returns. `learned` has what it reads, by the structure of its
    object."""
    unstable: set[Any] = set()
    if reading_of(obj) is not None:  # a copy, whose static parts may hold tracers
        learned = {}
    while True:
        layout = layout_of((obj,))
        if layout is None:
            return jitted(obj)
        leaves, structure = jax.tree.flatten((obj,))
        key = (structure, layout, signature_of(leaves))
        objects = layout.objects((obj,))
        demand = Demand(objects, [None] * len(objects), (), False)
        demand.can_be_checked = False
        demand.unstable = unstable
        demand.gather(iter(learned.get(key, ())))
        carried = _Carried(obj, layout, demand)
        try:
            with tracing(carried, demand):
                return jitted(carried)
        except Retrace as retrace:
            if retrace.demand is not demand:  # the end of a trace further out
                raise
            *asks, missing = retrace.asks
            method = call_of(missing)
            if method in {call_of(ask) for ask in asks if ask not in demand.asked}:
                unstable |= {method} - {None}
            learned[key] = [ask for ask in retrace.asks if call_of(ask) not in unstable]
        except NewSubject:
            if tables.running != carried.tables:  # found further out first
                raise
        except Exception as error:
            if demand.was_traced or isinstance(error, StaleValueError):
                raise
            # Refused before it was traced: an option of the jitted function fits the
            # object and nothing else (static, or a sharding for each field).
            return jitted(obj)
        finally:
            for table in carried.tables:
                tables.running.remove(table)
            demand.settle()
