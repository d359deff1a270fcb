"""A function as it is traced: values come in before its arguments, and others go out
with its result."""

import functools
import inspect
import operator
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from ._carry import Brought, Carried
from ._compat import Tracer
from ._errors import UnhashableValueError
from ._find import layout_of
from ._habit import active_loan
from ._makeup import makeup_of
from ._memo import Key, memo_of
from ._options import Arguments
from ._pack import NUMPY, is_number, pack
from ._ready import Moulds, Unprepared, by_root
from ._snapshot import may_change


def carrying(
    fun: Callable[..., Any],
    borrower: object,
    static: Arguments,
    moulds: Moulds,
    options: dict[str, Any],
    transform: Callable[..., Any],
    brings: set[Any] | None,
) -> Callable[..., Any]:
    """`fun`, with the values of `moulds` as one more argument in front; under `jax.jit`
    only if there are any. What it brings out is noted in `brings`; nothing, without."""
    takes_values = bool(moulds) or transform is not jax.jit
    always_bring = "out_shardings" in options
    of_numpy = {key for (_, key), mould in moulds if mould.is_numpy}
    in_order = tuple(pair for group in by_root(moulds).values() for pair in group)

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
        if brings is None:
            return out
        return _bringing_out(out, brings, of_numpy, always_bring)

    named: Any = _named(traced, fun)
    if not takes_values:
        return named  # type: ignore[no-any-return]
    try:
        signature = inspect.signature(fun)
    except (TypeError, ValueError):  # a builtin
        return named  # type: ignore[no-any-return]
    cached = inspect.Parameter("_cached_values", inspect.Parameter.POSITIONAL_ONLY)
    parameters = [cached, *signature.parameters.values()]
    named.__signature__ = signature.replace(parameters=parameters)
    return named  # type: ignore[no-any-return]


def bringing(fun: Callable[..., Any], brings: set[Any]) -> Callable[..., Any]:
    """`fun`, with the values of the objects it returns, which are noted in `brings`."""

    def traced(*args: Any, **kwargs: Any) -> Any:
        return _bringing_out(fun(*args, **kwargs), brings, set())

    return _named(traced, fun)


def name_of(fun: Any) -> str:
    """As reports call it, and its programs by the end of it."""
    while isinstance(fun, functools.partial):
        fun = fun.func
    names = (getattr(fun, name, None) for name in ("__qualname__", "__name__"))
    return next(filter(None, names), type(fun).__qualname__)


def _named(traced: Callable[..., Any], fun: Any) -> Callable[..., Any]:
    traced.__qualname__ = name_of(fun)
    traced.__name__ = name_of(fun).rpartition(".")[2]
    return functools.wraps(fun)(traced)


def _bringing_out(
    out: Any, brings: set[Any], of_numpy: set[Key], always: bool = False
) -> Any:
    brought = _values_on(out, of_numpy)
    brings.update(key.attrname for (_, key), _ in brought.moulds)
    return Brought(out, brought) if brought.moulds or always else out


def _values_on(out: Any, of_numpy: set[Key]) -> Carried:
    """The values kept on the objects in the result of a trace, as far as they can
    leave it. The others are computed again when they are asked for, and so are those
    that came into it as other things than they were: `of_numpy`."""
    layout = layout_of((out,))
    arrays: list[Any] = []
    moulds = []
    objects = layout.by_slot((out,)) if layout else {}
    on_trust = frozenset(slot for slot, x in objects.items() if memo_of(x).on_trust)
    for slot, obj in objects.items():
        if not memo_of(obj).values or not _comes_out_the_same(obj):
            continue
        for key, value in memo_of(obj).values.items():
            if key in of_numpy or any(map(_stays_in, jax.tree.leaves(value))):
                continue
            try:
                packed = pack(value, key.of(obj))
            except UnhashableValueError:
                continue
            if packed is not None:
                arrays += packed[0]
                moulds.append(((slot, key), packed[1]))
    return Carried(arrays, tuple(moulds), on_trust if moulds else frozenset())


def _comes_out_the_same(obj: Any) -> bool:
    """Whether what the caller gets is what the values were computed from. A number
    comes out as an array; a class may leave a field behind."""
    leaves, structure = jax.tree.flatten(obj)
    if any(is_number(x) or isinstance(x, NUMPY) for x in leaves):
        return False
    before, after = makeup_of(obj), makeup_of(jax.tree.unflatten(structure, leaves))
    if before is None or after is None:  # it cannot be told
        return memo_of(obj).on_trust
    is_same = before.rest == after.rest
    return is_same and all(map(operator.is_, before.arrays, after.arrays))


def _stays_in(leaf: Any) -> bool:
    """Whether a leaf of a value would be another thing outside, of numpy, or the same
    one for all results of the program, which may change."""
    return isinstance(leaf, NUMPY) or (
        not isinstance(leaf, jax.Array) and may_change(leaf)
    )


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
