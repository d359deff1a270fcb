"""A function as it is traced: values come in before its arguments, and others go out
with its result."""

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from ._carry import Brought, Carried
from ._compat import Tracer
from ._errors import UnhashableValueError
from ._find import layout_of
from ._habit import active_loan
from ._memo import memo_of
from ._options import Arguments
from ._pack import pack
from ._ready import Moulds, Unprepared, by_root


def carrying(
    fun: Callable[..., Any],
    borrower: object,
    static: Arguments,
    moulds: Moulds,
    options: dict[str, Any],
    transform: Callable[..., Any],
    brings: set[Any],
) -> Callable[..., Any]:
    """`fun`, with the values of `moulds` as one more argument in front; under `jax.jit`
    only if there are any. What it brings out is noted in `brings`."""
    takes_values = bool(moulds) or transform is not jax.jit
    always_bring = "out_shardings" in options
    in_order = tuple(pair for group in by_root(moulds).values() for pair in group)

    @functools.wraps(fun)
    def traced(*args: Any, **kwargs: Any) -> Any:
        loan = active_loan()
        if loan is None or loan.traced or loan.borrower is not borrower:
            raise Unprepared
        values, args = (args[0], args[1:]) if takes_values else ((), args)
        tree, _ = static.take_out(args, kwargs)
        layout = layout_of(tree)
        copies = {} if layout is None else layout.by_slot(tree)
        carried = Carried(jax.tree.leaves(values), in_order)
        if transform is not jax.jit:
            loan.check_the_same(copies, carried, transform)
        loan.lay(copies, carried)
        try:
            out = fun(*args, **kwargs)
        except Exception:
            loan.check_failed()
            raise
        loan.check()
        return _bringing_out(out, brings, always_bring)

    if not takes_values:
        return traced
    try:
        signature = inspect.signature(fun)
    except (TypeError, ValueError):  # a builtin
        return traced
    cached = inspect.Parameter("_cached_values", inspect.Parameter.POSITIONAL_ONLY)
    parameters = [cached, *signature.parameters.values()]
    traced.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return traced


def bringing(fun: Callable[..., Any], brings: set[Any]) -> Callable[..., Any]:
    """`fun`, with the values of the objects it returns, which are noted in `brings`."""

    @functools.wraps(fun)
    def traced(*args: Any, **kwargs: Any) -> Any:
        return _bringing_out(fun(*args, **kwargs), brings)

    return traced


def _bringing_out(out: Any, brings: set[Any], always: bool = False) -> Any:
    brought = _values_on(out)
    brings.update(key.attrname for (_, key), _ in brought.moulds)
    return Brought(out, brought) if brought.moulds or always else out


def _values_on(out: Any) -> Carried:
    """The values kept on the objects in the result of a trace, as far as they can
    leave it. The others are computed again when they are asked for."""
    layout = layout_of((out,))
    arrays: list[Any] = []
    moulds = []
    objects = layout.by_slot((out,)) if layout else {}
    on_trust = frozenset(slot for slot, x in objects.items() if memo_of(x).on_trust)
    for slot, obj in objects.items():
        for key, value in memo_of(obj).values.items():
            try:
                packed = pack(value, key.of(obj))
            except UnhashableValueError:
                continue
            if packed is not None:
                arrays += packed[0]
                moulds.append(((slot, key), packed[1]))
    return Carried(arrays, tuple(moulds), on_trust if moulds else frozenset())


def apart_from(leaves: Sequence[Any], carried: Carried) -> Carried:
    """The same values in other memory, where they share it with one of `leaves`: a
    buffer cannot be donated and be used."""
    taken = {_address(x) for x in leaves} - {None}
    copies = [jnp.copy(x) if _address(x) in taken else x for x in carried.arrays]
    return Carried(copies, carried.moulds)


def _address(x: Any) -> int | None:
    if not isinstance(x, jax.Array) or isinstance(x, Tracer):
        return None
    return x.addressable_data(0).unsafe_buffer_pointer()
