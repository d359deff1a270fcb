"""List, compute, clear and supply the cached values of an object."""

import copy
import types
from collections.abc import Iterable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import tree_flatten_with_path

from .._compat import at_trace, is_jitted
from .._core import index
from .._core.computed import MISSING
from .._core.copies import CannotRebuildError, Copy
from .._core.dependence import Dependence
from .._core.fields import walk
from .._core.inputs import Inputs
from .._core.levels import level_of, traces_in
from .._core.memo import (
    Key,
    inputs_of,
    keys_of,
    may_have_values,
    memo_of,
    memos,
)
from .._core.method import CachedMethod
from .._core.slots import is_pytree
from .._core.sources import sources_of
from .._core.structure import is_same_tree
from .._errors import (
    PresetError,
    UnknownPropertyError,
    given_a_class,
    given_a_function,
    nothing_to_warm,
)
from .vmap import BatchKey

T = TypeVar("T")


def cached(obj: Any) -> dict[str, Any]:
    """The cached values of an object, by name. Computes nothing.

    Args:
        obj: Any object.

    Returns:
        A dictionary from names to values. A value of a cached method is listed under
        its call, such as `"moment(2)"`.

    Raises:
        UsageError: `obj` is a function or a class. To cache a function, use
            `cachax.cache`.

    Example:
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
    _check_object("cached", obj)
    known = keys_of(type(obj))
    others = [key for key in _kept(obj) if key.attrname not in known]
    keys = [*known.values(), *others]
    found = {key.attrname or "": key.peek(obj, MISSING) for key in keys}
    return {name: value for name, value in found.items() if value is not MISSING}


def is_cached(obj: Any, name: str) -> bool:
    """Whether a value is cached, so that reading it computes nothing.

    Inside a `cachax.jit` function, a value that is passed in counts as cached once it
    has been read.

    Args:
        obj: The object.
        name: The name of a cached property or a cached method.

    Returns:
        True if the value is cached; of a method, if there is a value for any arguments.

    Raises:
        UnknownPropertyError: The class has no such property or method.

    Example:
        >>> import cachax
        >>> class Square:
        ...     side = 3
        ...     @cachax.cached_property
        ...     def area(self):
        ...         return self.side**2
        >>> square = Square()
        >>> cachax.is_cached(square, "area"), square.area
        (False, 9)
        >>> cachax.is_cached(square, "area")
        True
    """
    keys = _keys(obj, [name])
    return any(key.peek(obj, MISSING) is not MISSING for key in keys)


def warm(obj: T, *names: str) -> T:
    """Compute cached properties now.

    Args:
        obj: The object.
        *names: The names of cached properties; all of them, if there are none.

    Returns:
        The same object.

    Raises:
        UnknownPropertyError: The class has no cached property of this name.
        UsageError: `obj` has no cached properties at all, or is a class.

    Example:
        >>> import cachax
        >>> class Square:
        ...     side = 3
        ...     @cachax.cached_property
        ...     def area(self):
        ...         return self.side**2
        >>> cachax.cached(cachax.warm(Square()))
        {'area': 9}
    """
    _check_object("warm", obj)
    if not names and not sources_of(type(obj)):
        inner = (type(x) for x in walk(obj) if sources_of(type(x)))
        raise nothing_to_warm(type(obj), next(inner, None))
    for key in [_property(obj, name) for name in names or keys_of(type(obj))]:
        key.read(obj)
    return obj


def clear(obj: Any, *names: str) -> None:
    """Remove cached values, so that the next read computes them again.

    They are removed for all objects with the same arrays.

    Args:
        obj: The object, or an array: then all values computed from it are removed.
        *names: The names of cached properties or methods; all of them, if there are
            none.

    Raises:
        UsageError: `obj` is a class or a function.
        UnknownPropertyError: The class has no such property or method.

    Example:
        >>> import cachax
        >>> class Square:
        ...     side = 3
        ...     @cachax.cached_property
        ...     def area(self):
        ...         return self.side**2
        >>> square = cachax.warm(Square())
        >>> cachax.clear(square, "area")
        >>> cachax.is_cached(square, "area")
        False
    """
    if isinstance(obj, jax.Array):
        index.forget_all(obj)
        for memo in [*memos.values()]:
            memo.drop_cleared(index.contents_of(obj))
        return
    _check_object("clear", obj)
    keys = _keys(obj, names or sources_of(type(obj)))
    kept = [key for key in _kept(obj) if not names or _is_of(key, keys)]
    for key in dict.fromkeys([*keys, *kept]):
        key.forget(obj)


def preset(obj: T, /, **values: Any) -> T:
    """A copy of an object with values that you supply instead of computing them.

    The values are not verified; only the shapes of arrays are compared with what the
    body returns, where JAX can trace it. They belong to the copy, and not to other
    objects with the same arrays.

    Args:
        obj: The object. It is not changed.
        **values: The values, by the names of cached properties.

    Returns:
        The copy.

    Raises:
        UnknownPropertyError: The class has no cached property of this name.
        PresetError: An array has a different shape from what the body returns.
        LeakedTracerError: A value holds a tracer of a trace that has ended.

    Example:
        >>> import cachax
        >>> class Square:
        ...     side = 3
        ...     @cachax.cached_property
        ...     def area(self):
        ...         return self.side**2
        >>> cachax.preset(Square(), area=9).area
        9
    """
    keys = [_property(obj, name) for name in values]
    for key, value in zip(keys, values.values(), strict=True):
        _check_shapes(obj, key, value)
    new = _copied(obj)
    for key, value in zip(keys, values.values(), strict=True):
        key.note_supplied()
        getattr(new, "__dict__", {}).pop(key.attrname, None)
        memo = memo_of(new)
        memo.forget(key)
        memo.hide(key.attrname)
        memo.supply(key, value)
    return new


_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.MethodType)


def _check_object(function: str, obj: object) -> None:
    if isinstance(obj, type):
        raise given_a_class(function, obj)
    if isinstance(obj, _FUNCTIONS) or is_jitted(obj):
        raise given_a_function(function)


def _check_shapes(obj: object, key: Any, given: Any) -> None:
    """Compare a value with what the body returns, where JAX can trace it."""
    inputs = inputs_of(obj)
    if inputs is None:
        return
    wanted, structure = key.once(_shapes, obj, inputs, inputs.exactly)
    try:
        leaves, its_structure = jax.tree.flatten(given)
    except Exception:  # it can't be flattened
        return
    if structure is None or not is_same_tree(structure, its_structure):
        return  # a different kind of value: the user's choice
    for (path, expected), leaf in zip(wanted, leaves, strict=True):
        if hasattr(leaf, "shape") and leaf.shape != expected.shape:
            where = f"{key.of(obj)}{jax.tree_util.keystr(path)}"
            raise PresetError(where, expected.shape, leaf.shape)


def _shapes(body: Any, obj: Any, inputs: Inputs) -> tuple[Any, Any]:
    """The shapes in the value of a body, and its structure; None if JAX can't tell."""

    def shapes(given: dict[int, Any]) -> Any:
        trace = Dependence()
        traced = {i: trace.tracer(x, ()) for i, x in given.items()}
        arrays = [traced.get(i, x) for i, x in enumerate(inputs.arrays)]
        with at_trace(trace):  # it keeps what a body may store out of the trace
            value = body(Copy(obj, arrays).obj)
        return jax.tree.map(lambda x: jnp.zeros(np.shape(x)), value)

    arrays = {i: x for i, x in enumerate(inputs.arrays) if isinstance(x, jax.Array)}
    try:
        return tree_flatten_with_path(jax.eval_shape(shapes, arrays))
    except Exception:  # it needs concrete values, or an object that can't be copied
        return (), None


def _copied(obj: T) -> T:
    """With a copy of its smallest array, so that it has one when the arrays of the
    original are donated."""
    inputs = inputs_of(obj)
    arrays = [] if inputs is None else [*inputs.arrays]
    concrete = [i for i, x in enumerate(arrays) if isinstance(x, jax.Array)]
    if concrete:
        smallest = min(concrete, key=lambda i: arrays[i].size)
        with level_of(arrays[smallest]):
            arrays[smallest] = jnp.copy(arrays[smallest])
    try:
        copied = Copy(obj, arrays)
        for new, original in copied.originals.values():
            if may_have_values(type(new)) and type(new).__weakrefoffset__:
                before, memo = memo_of(original), memo_of(new)
                if before.provider is not None:
                    memo.set_provider(before.provider.supplied_only())
                for key in before.supplied:
                    memo.supply(key, key.read(original))
        return copied.obj  # type: ignore[no-any-return]
    except (CannotRebuildError, RecursionError, StopIteration):
        # (A `copy.copy` of an equinox module stays on equinox's list of unfinished
        # ones.)
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
