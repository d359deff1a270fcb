"""Objects like a given one: copies, and objects that differ in one field."""

import contextlib
import copy
import dataclasses
import pickle
import sys
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._compat import Tracer
from .._core.fields import fields_in, instance_dict, slots_of
from .._core.slots import is_pytree
from .compare import difference


def cold(obj: Any) -> Any:
    """A copy of an object, with its own arrays and no cached values.

    Args:
        obj: The object.

    Returns:
        The copy.

    Raises:
        Exception: The object can't be copied.

    Example:
        >>> import equinox as eqx, jax, jax.numpy as jnp, cachax
        >>> class Line(eqx.Module):
        ...     x: jax.Array
        ...
        ...     @cachax.cached_property
        ...     def mean(self):
        ...         return self.x.mean()
        >>> line = cachax.warm(Line(jnp.ones(3)))
        >>> cachax.cached(cachax.testing.cold(line))
        {}
    """
    if is_pytree(obj):
        with contextlib.suppress(Exception):
            rebuilt = jax.tree.map(_copied, obj)
            if difference(fields(rebuilt), fields(obj)) is None:
                return rebuilt
    return copy.deepcopy(obj)


def _copied(leaf: Any) -> Any:
    if isinstance(leaf, jax.Array) and not isinstance(leaf, Tracer):
        return jnp.copy(leaf)
    return copy.deepcopy(leaf)


def fields(obj: Any) -> dict[str, Any]:
    """The fields of an object, as they are now: mutable ones are copied.

    Args:
        obj: The object.

    Returns:
        A dictionary from names to values.

    Example:
        >>> import types
        >>> from cachax import testing
        >>> testing.fields(types.SimpleNamespace(x=1))
        {'x': 1}
    """
    found: dict[str, Any] = {}
    if type(obj).__dictoffset__ != 0:
        found |= instance_dict(obj, "__dict__")
    found |= {x: getattr(obj, x) for x in slots_of(type(obj)) if hasattr(obj, x)}
    return {name: _kept_apart(value) for name, value in found.items()}


def _kept_apart(value: Any) -> Any:
    if isinstance(value, np.ndarray) or fields_in(value):
        with contextlib.suppress(Exception):
            return copy.deepcopy(value)
    return value


def looks(obj: Any) -> dict[str, Any]:
    """What other code sees of an object: its repr, hash, leaves, structure, pickle.

    Args:
        obj: The object.

    Returns:
        A dictionary; None for what raises an error.

    Example:
        >>> from cachax import testing
        >>> testing.looks((1, 2))["leaves"]
        [1, 2]
    """
    found: dict[str, Any] = {"repr": _or_none(repr, obj), "hash": _or_none(hash, obj)}
    if is_pytree(obj):
        leaves, structure = jax.tree.flatten(obj)
        found |= {"leaves": leaves, "structure": structure}
    return found | {"pickle": _or_none(pickle.dumps, obj)}


def _or_none(fun: Callable[[Any], Any], obj: Any) -> Any:
    try:
        return fun(obj)
    except Exception:
        return None


def altered(thing: Any) -> Any:
    """Something of the same kind with different contents.

    Args:
        thing: A number, string, array or pytree.

    Returns:
        The changed copy; `thing` itself, if it can't be changed. Of a pytree the
        floating-point numbers are changed, if there are any.

    Example:
        >>> from cachax import testing
        >>> testing.altered(1), testing.altered({"x": 2.0, "n": 1})
        (2, {'n': 1, 'x': 4.0})
    """
    if isinstance(thing, bool):
        return not thing
    if isinstance(thing, str):
        return f"{thing}?"
    if isinstance(thing, np.ndarray | np.generic | jax.Array):
        is_number = jnp.issubdtype(thing.dtype, jnp.number)
        return thing + np.ones((), thing.dtype) if is_number else thing
    if isinstance(thing, int | float | complex):
        return thing + 1
    if not is_pytree(thing) or thing is None:
        return thing
    leaves, structure = jax.tree.flatten(thing)
    if any(isinstance(x, Tracer) for x in leaves):
        return thing
    changed = [2 * x if is_floating(x) else x for x in leaves]
    if not any(map(is_floating, leaves)) and isinstance(thing, list | tuple | dict):
        changed = [*map(altered, leaves)]
    if all(x is y for x, y in zip(leaves, changed, strict=True)):
        return thing
    return jax.tree.unflatten(structure, changed)


def variants(obj: Any) -> Iterator[Any]:
    """Objects that differ from a given one in one field.

    Args:
        obj: The object.

    Returns:
        An iterator over them.

    Example:
        >>> import equinox as eqx
        >>> from cachax import testing
        >>> class Point(eqx.Module):
        ...     x: float
        ...     y: float
        >>> [*testing.variants(Point(1.0, 2.0))]
        [Point(x=2.0, y=2.0), Point(x=1.0, y=4.0)]
    """
    if dataclasses.is_dataclass(obj):
        names = [field.name for field in dataclasses.fields(obj) if field.init]
        evolve: Any = dataclasses.replace
    elif hasattr(obj, "__attrs_attrs__"):
        names = [field.name for field in obj.__attrs_attrs__ if field.init]
        evolve = sys.modules["attr"].evolve
    elif is_pytree(obj):
        yield from _with_other_leaves(obj)
        return
    else:
        names, evolve = [*fields(obj)], _with
    for name in names:
        value = getattr(obj, name)
        other = 2 * value if is_floating(value) else altered(value)
        if other is not value and (is_floating(value) or is_pytree(value)):
            yield evolve(obj, **{name: other})


def _with(obj: Any, **changes: Any) -> Any:
    new = copy.copy(obj)
    for name, value in changes.items():
        setattr(new, name, value)
    return new


def _with_other_leaves(obj: Any) -> Iterator[Any]:
    leaves, structure = jax.tree.flatten(obj)
    for i, leaf in enumerate(leaves):
        if is_floating(leaf):
            others = [*leaves[:i], 2 * leaf, *leaves[i + 1 :]]
            yield jax.tree.unflatten(structure, others)


def assigning(obj: Any) -> Iterator[str]:
    """Assign a different value to each field of an object, one after the other.

    Args:
        obj: The object.

    Returns:
        An iterator over the names of the fields, empty if the class is frozen.

    Example:
        >>> import types
        >>> from cachax import testing
        >>> point = types.SimpleNamespace(x=1.0, y=2.0)
        >>> for name in testing.assigning(point):
        ...     print(name, point)
        x namespace(x=2.0, y=2.0)
        y namespace(x=2.0, y=4.0)
    """
    for name in fields(obj):
        value: Any = getattr(obj, name, None)
        other = 2 * value if is_floating(value) else altered(value)
        if other is value or not (is_floating(value) or is_pytree(value)):
            continue
        try:
            setattr(obj, name, other)
        except Exception:  # each library has its own
            return
        yield name


def is_floating(leaf: Any) -> bool:
    return isinstance(leaf, float) or (
        isinstance(leaf, jax.Array | np.ndarray | np.generic)
        and jnp.issubdtype(leaf.dtype, jnp.floating)
    )
