"""What one can do with an object's cached values: look, fill, empty, preset."""

import copy
from collections.abc import Iterable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp

from .._core import index
from .._core.computed import MISSING, Computed, table_of
from .._core.inputs import CannotRebuildError, Copy, Inputs, inputs_of
from .._core.levels import level_of, may_be_kept, traces_in
from .._core.memo import Key, keys_of, memo_of
from .._core.sources import sources_of
from .._core.method import CachedMethod
from .._core.slots import is_pytree
from .._core.uses import Uses
from .._errors import LeakedTracerError, UnknownPropertyError
from .vmap import BatchKey

T = TypeVar("T")


def cached(obj: object) -> dict[str, Any]:
    """The values `obj` has now, by name. Computes nothing.

    >>> import cachax
    >>> class Square:
    ...     side = 3
    ...     @cachax.cached_property
    ...     def area(self):
    ...         return self.side**2
    >>> square = Square()
    >>> cachax.cached(square)
    {}
    >>> square.area, cachax.cached(square)
    (9, {'area': 9})
    """
    known = keys_of(type(obj))
    keys = [*known.values()]
    keys += [key for key in _kept(obj) if key not in keys]
    found = {key.attrname or "": key.peek(obj, MISSING) for key in keys}
    return {name: value for name, value in found.items() if value is not MISSING}


def is_cached(obj: object, name: str) -> bool:
    """Whether this value is there, so that reading it computes nothing.

    Of a cached method: whether there is a value for any arguments. Inside a
    `cachax.jit` function, a value that comes with the call is there once it has been
    read.
    """
    keys = _keys(obj, [name])
    return any(key.peek(obj, MISSING) is not MISSING for key in keys)


def warm(obj: T, *names: str) -> T:
    """Compute these properties now, all of them if none is named; returns `obj`."""
    for key in [_property(obj, name) for name in names or keys_of(type(obj))]:
        key.read(obj)
    return obj


def clear(obj: object, *names: str) -> None:
    """Forget these values, all of them if none is named.

    They are forgotten for all objects with the same arrays that have not read them yet.
    `obj` can be an array too: then everything that was computed from it is forgotten.
    """
    if isinstance(obj, jax.Array):
        for record in index.records_of(obj):
            index.forget(record)
        return
    keys = _keys(obj, names or sources_of(type(obj)))
    kept = [key for key in _kept(obj) if not names or _is_of(key, keys)]
    for key in dict.fromkeys([*keys, *kept]):
        key.forget(obj)


def preset(obj: T, /, **values: Any) -> T:
    """A copy of `obj` that already has these values, for when you know them.

    They are not verified: nothing is computed to compare. The copy has its own copy of
    an array that each of these properties uses, so that other objects with the same
    arrays are not affected.
    """
    keys = [_property(obj, name) for name in values]
    inputs = inputs_of(obj)
    private: dict[int, Any] = {}
    uses: dict[Key, Uses] = {}
    for key in keys:
        found = None if inputs is None else _private(key, obj, inputs, private)
        if found is not None:
            uses[key] = found
    new = _copied(obj, inputs, private)
    now = inputs_of(new)
    for key, value in zip(keys, values.values(), strict=True):
        if not may_be_kept(value, new):
            raise LeakedTracerError(key.of(new))
        if not (now and key in uses and _keep(key, new, now, uses[key], value)):  # type: ignore[arg-type]
            key.note_supplied()
            key.forget(new)
            memo_of(new).supply(key, value)
    return new


def _private(
    key: Key, obj: Any, inputs: Inputs, private: dict[int, Any]
) -> Uses | None:
    """What a property uses, with one of the arrays of its own; None if it uses none."""
    if not isinstance(key, Computed) or key.is_supplied(obj):
        return None
    uses = key.learn(obj, inputs)
    numbers = {i for i, _ in inputs.numbers}
    arrays = [i for i in uses.positions if i not in numbers]
    if not arrays or not uses.is_shareable(inputs):
        return None
    if not private.keys() & {*arrays}:
        smallest = min(arrays, key=lambda i: inputs.arrays[i].size)
        array = inputs.arrays[smallest]
        with level_of(array):
            private[smallest] = jnp.copy(array)
    return uses


def _keep(key: Computed, obj: Any, inputs: Inputs, uses: Uses, value: Any) -> bool:
    """Keep a value that was not computed, for the arrays of its object."""
    traces = traces_in(obj)
    if not traces:
        record = key.note(inputs, uses, value)
        if record is None:
            return False
        record.is_supplied = True
        return key.peek(obj, MISSING) is not MISSING
    table = table_of(traces)
    if table is not None:
        table.records.append((key, inputs, uses, value))
    memo_of(obj).supply(key, value)
    return True


def _copied(obj: T, inputs: Inputs | None, private: dict[int, Any]) -> T:
    """As JAX would rebuild it, if it can. (A `copy.copy` of an equinox module stays
    on equinox's list of unfinished ones.)"""
    if private and inputs is not None:
        arrays = [private.get(i, x) for i, x in enumerate(inputs.arrays)]
        try:
            return Copy(obj, arrays).obj  # type: ignore[no-any-return]
        except (CannotRebuildError, RecursionError):
            private.clear()
    return jax.tree.map(lambda x: x, obj) if is_pytree(obj) else copy.copy(obj)


def _keys(obj: object, names: Iterable[str]) -> list[Key]:
    """The keys of these names: of a cached method, those that there are values for."""
    keys: list[Key] = []
    for name in names:
        source = sources_of(type(obj)).get(name)
        if isinstance(source, CachedMethod):
            keys += [k for k in _kept(obj) if getattr(k, "source", None) is source]
        else:
            keys.append(_property(obj, name))
    return keys


def _kept(obj: object) -> list[Key]:
    """The keys that there are values for, of cached functions and of batches too."""
    if type(obj).__weakrefoffset__ == 0:
        return []
    memo = memo_of(obj)
    inputs = None if traces_in(obj) else inputs_of(obj)
    arrays = [] if inputs is None else inputs.arrays
    records = [record.key for array in arrays for record in index.records_of(array)]
    kept = dict.fromkeys([*memo.values, *memo.folded, *records])
    return [key for key in kept if key.peek(obj, MISSING) is not MISSING]


def _is_of(key: Key, keys: list[Key]) -> bool:
    """Whether `key` is one of `keys`, for each example of a batch."""
    while isinstance(key, BatchKey):
        key = key.source
    return key in keys


def _property(obj: object, name: str) -> Key:
    keys = keys_of(type(obj))
    if name not in keys:
        raise UnknownPropertyError(type(obj), name, keys)
    return keys[name]
