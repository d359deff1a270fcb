"""A property's body that is jitted itself: `@cached_property` over `@jax.jit`.

JAX rebuilds the object inside such a body, without its cached values: a property that
uses others would compute them again. So the values go in with the object.
"""

import threading
from collections.abc import Callable
from typing import Any

import jax

from .._compat import Tracer, jit_is_disabled
from .._errors import StaleValueError
from .computed import tables
from .memo import NOT_PROVIDED, Key, memo_of
from .recent import Recent
from .slots import Layout, layout_of
from .values import Packed, pack

Need = tuple[int, Key]
"""Which of the objects in the argument, and which of its values."""


class _SelfIsStatic(BaseException):
    """The body hashes its argument: then it gets the object itself."""


class _Needs(BaseException):
    """Ends a trace that reads a value which did not come in with its object."""

    def __init__(self, call: "_Carried", need: Need) -> None:
        self.call = call
        self.need = need


class NewSubject(BaseException):
    """Ends a trace in which a cached function was called on an object of a class whose
    objects were not looked for among the arguments."""


class _Call(threading.local):
    """The call of a jitted body that is running in this thread."""

    carried: "_Carried | None" = None


_running = _Call()


def is_running() -> bool:
    """Whether a trace that can be repeated is running in this thread."""
    return _running.carried is not None or bool(tables.running)


@jax.tree_util.register_pytree_node_class
class _Carried:
    """An argument that turns into the object when JAX rebuilds it in the trace, with
    its values. The jitted function is called as it is, with all its options."""

    def __init__(self, obj: Any, layout: Layout, values: dict[Need, Packed]) -> None:
        self.obj = obj
        self.layout = layout
        self.values = values
        self.left_inside: set[Any] = set()
        """What can't be an input of a trace: needs, and calls of methods."""
        self.read: set[Need] = set()
        self.traced = False

    def __hash__(self) -> int:
        raise _SelfIsStatic

    def tree_flatten(self) -> tuple[Any, Any]:
        arrays = [packed.arrays for packed in self.values.values()]
        forms = tuple((need, packed.form) for need, packed in self.values.items())
        return (self.obj, arrays), forms

    @classmethod
    def tree_unflatten(cls, forms: Any, children: Any) -> Any:
        obj, arrays = children
        call = _running.carried
        if call is not None and _is_traced(children):
            call.traced = True
            values = {}
            for (need, _), given in zip(forms, arrays, strict=True):
                values[need] = call.values[need].fill(given, ())
            for number, copy in enumerate(call.layout.objects((obj,))):
                memo_of(copy).provider = _provider(call, number, values)
        return obj


def _is_traced(children: Any) -> bool:
    """Whether it is rebuilt for the body: JAX also does so to explain an error."""
    leaves = jax.tree.leaves(children)
    return not leaves or any(isinstance(x, Tracer) for x in leaves)


def _provider(
    call: _Carried, number: int, values: dict[Need, Any]
) -> Callable[[Key], Any]:
    def provide(key: Key) -> Any:
        need = (number, key)
        if need in values:
            call.read.add(need)
            return values[need]
        inside = {need, _call_of(need)} & call.left_inside
        if _running.carried is not call or inside:
            return NOT_PROVIDED
        raise _Needs(call, need)

    return provide


def _call_of(need: Need) -> Any:
    """Without the arguments of a method."""
    number, key = need
    return number, id(getattr(key, "source", key))


def carrying_body(jitted: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`jitted`, in which the object has the values it has outside."""
    needed: dict[Any, list[Need]] = Recent()

    def body(obj: Any) -> Any:
        if jit_is_disabled():
            return jitted(obj)
        structure: Any = jax.tree.structure((obj,))
        layout = layout_of((obj,))
        if layout is None:
            return jitted(obj)
        needs = needed.setdefault(structure, [])
        left_inside: set[Any] = set()
        while True:
            values = _values(obj, layout, needs, left_inside)
            carried = _Carried(obj, layout, values)
            carried.left_inside = left_inside
            outer, _running.carried = _running.carried, carried
            try:
                return jitted(carried)
            except _SelfIsStatic:
                return jitted(obj)
            except _Needs as error:
                if error.call is not carried:  # the end of a trace further out
                    raise
                call = _call_of(error.need)
                others = [need for need in needs if _call_of(need) == call]
                if carried.read.issuperset(others):
                    needs.append(error.need)
                else:  # each trace makes its own argument, which is equal to no other
                    left_inside.add(call)
                    needs[:] = [need for need in needs if need not in others]
            except NewSubject:
                if outer is not None or tables.running:  # found further out first
                    raise
                return body(obj)
            except Exception as error:
                if carried.traced or isinstance(error, StaleValueError):
                    raise
                # Refused before it was traced: an option of the jitted function (a
                # sharding for each field) fits the object and nothing else.
                return jitted(obj)
            finally:
                _running.carried = outer

    return body


def _values(
    obj: Any, layout: Layout, needs: list[Need], left_inside: set[Any]
) -> dict[Need, Packed]:
    objects = layout.objects((obj,))
    values = {}
    for number, key in needs:
        owner = objects[number]
        packed = pack(key.read(owner), key.of(owner))
        if packed is None:
            left_inside.add((number, key))
        else:
            values[number, key] = packed
    return values
