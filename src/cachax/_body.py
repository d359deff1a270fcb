"""A property's body that is jitted itself: `@cached_property` over `@jax.jit`.

JAX rebuilds the object inside such a body, without its cached values: a property
that uses others would compute them again.
"""

from collections.abc import Callable
from typing import Any

import jax
from jax.tree_util import PyTreeDef

from ._carry import Carried, NewSubject
from ._compat import Tracer, jit_is_disabled
from ._errors import StaleValueError
from ._find import layout_of
from ._habit import Habit, active_loan, call_lending
from ._memo import subjects
from ._recent import Recent


class _SelfIsStatic(BaseException):
    """The body hashes its argument: then it gets the object itself."""


@jax.tree_util.register_pytree_node_class
class _Luggage:
    """An argument that turns into the object when JAX rebuilds it in the trace,
    with the values that came along laid on it. The jitted function is called as it
    is, so all the options it was made with hold."""

    def __init__(self, obj: Any, carried: Carried, habit: Habit) -> None:
        self.obj = obj
        self.carried = carried
        self.habit = habit

    def __hash__(self) -> int:
        raise _SelfIsStatic

    def tree_flatten(self) -> tuple[Any, Any]:
        return (self.obj, self.carried), self.habit

    @classmethod
    def tree_unflatten(cls, habit: Any, children: Any) -> Any:
        obj, carried = children
        loan = active_loan()
        if loan is not None and _is_traced(children):
            loan.lay(habit.layout.by_slot((obj,)), carried)
        return obj


def _is_traced(children: Any) -> bool:
    """Whether it is rebuilt for the body: JAX also does so to explain an error."""
    leaves = jax.tree.leaves(children)
    return not leaves or any(isinstance(x, Tracer) for x in leaves)


def carrying_body(jitted: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`jitted`, in which the object has the values it has outside."""
    habits: dict[tuple[PyTreeDef, object], Habit] = Recent()

    def body(obj: Any) -> Any:
        if jit_is_disabled():
            return jitted(obj)
        leaves, structure = jax.tree.flatten((obj,))
        habit = habits.get((structure, subjects()))
        if habit is None:
            habit = habits[structure, subjects()] = Habit(layout_of((obj,)))
        if habit.layout is None:
            return jitted(obj)
        started = False

        def program(carried: Carried) -> Any:
            nonlocal started
            luggage = _Luggage(obj, carried, habit)
            try:
                return jitted(luggage)
            finally:
                loan = active_loan()
                started = loan is not None and loan.traced

        try:
            return call_lending(habit, (obj,), leaves, program, at_once=True).result
        except _SelfIsStatic:
            return jitted(obj)
        except NewSubject:
            if active_loan() is not None:  # further out they must be found first
                raise
            return body(obj)
        except Exception as error:
            if started or isinstance(error, StaleValueError):
                raise
        # Refused before it came to tracing: an option of the jitted function (a
        # sharding for each field) fits the object and not the luggage.
        return jitted(obj)

    return body
