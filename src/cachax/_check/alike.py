"""Objects like another one: copies, and others that differ in one field."""

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
    """A copy of `obj`, of arrays of its own: nothing is known about it yet."""
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
    """The fields of `obj`, as they are now: what can be changed in place is copied."""
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
    """What others can see of `obj`."""
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
    """Something like it that is not the same: real numbers are others, and so are
    other numbers and strings if there is nothing else. `thing` itself if there is no
    telling how."""
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
    """Objects like `obj` in all but one field."""
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
    """Assigns another value to each field in turn, and gives its name. Nothing, if the
    class is frozen."""
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
