"""What one can do with an object's cached values: look, fill, empty, preset."""

import copy
from collections.abc import Iterable
from typing import Any, TypeVar

import jax

from ._computed import Inside
from ._errors import LeakedTracerError, UnknownPropertyError
from ._find import is_pytree
from ._memo import Key, keys_of, memo_of, sources_of
from ._method import CachedMethod
from ._vmap import BatchKey

T = TypeVar("T")

_MISSING: Any = object()


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
    others = [key for key in _kept(obj) if key.attrname not in known]
    keys = [*known.values(), *others]
    found = {key.attrname or "": key.peek(obj, _MISSING) for key in keys}
    return {name: value for name, value in found.items() if value is not _MISSING}


def is_cached(obj: object, name: str) -> bool:
    """Whether this value is there, so that reading it computes nothing.

    Of a rebuilt object, what is known from another is there once it has been read. Of a
    cached method: whether there is a value for any arguments. Inside a
    `cachax.jit` function, a value that comes with the call is there once it has been
    read.
    """
    keys = _keys(obj, [name])
    return any(key.peek(obj, _MISSING) is not _MISSING for key in keys)


def warm(obj: T, *names: str) -> T:
    """Compute these properties now, all of them if none is named; returns `obj`."""
    for key in [_property(obj, name) for name in names or keys_of(type(obj))]:
        key.read(obj)
    return obj


def clear(obj: object, *names: str) -> None:
    """Forget these values, all of them if none is named.

    So do the objects that are rebuilt from the same arrays, if they have not read them
    yet.
    """
    keys = _keys(obj, names or sources_of(type(obj)))
    kept = [key for key in _kept(obj) if not names or _is_of(key, keys)]
    for key in dict.fromkeys([*keys, *kept]):
        key.forget(obj)


def preset(obj: T, /, **values: Any) -> T:
    """A copy of `obj` that already has these values, for one who knows them.

    They are taken on trust: nothing is computed to compare.
    """
    keys = [_property(obj, name) for name in values]
    new = _copied(obj)
    for key in keys:
        memo_of(new).forget(key)
    memo = memo_of(new)
    memo.on_trust = True
    Inside.note(new)
    for key, value in zip(keys, values.values(), strict=True):
        key.is_given()
        memo.keep(key, value)
        if memo.get(key, _MISSING) is _MISSING:
            raise LeakedTracerError(key.of(new))
    return new


def _copied(obj: T) -> T:
    """As JAX would rebuild it, if it can. (A `copy.copy` of an equinox module stays
    on equinox's list of unfinished ones, and is never let go.)"""
    return jax.tree.map(lambda x: x, obj) if is_pytree(obj) else copy.copy(obj)


def _keys(obj: object, names: Iterable[str]) -> list[Key]:
    """The keys of these names: of a cached method, those that there are values for."""
    keys: list[Key] = []
    for name in names:
        source = sources_of(type(obj)).get(name)
        if isinstance(source, CachedMethod):
            keys += source.keys_kept(obj)
        else:
            keys.append(_property(obj, name))
    return keys


def _kept(obj: object) -> list[Key]:
    """The keys that there are values for, of cached functions and of batches too."""
    if type(obj).__weakrefoffset__ == 0:
        return []
    memo = memo_of(obj)
    return [*memo.values, *memo.folded]


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
