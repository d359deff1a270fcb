"""Which arrays of an object a body makes use of, seen in its jaxpr."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.tree_util import PyTreeDef

from ._compat import Tracer, inputs_used
from ._levels import at_level_of
from ._parts import is_weak, walk

_ARRAYS = (jax.Array, Tracer, np.ndarray)


def things_used(
    body: Callable[[Any], Any], obj: Any, things: Sequence[Any]
) -> list[bool] | None:
    """For each of the `things` in `obj`: may the value of the body depend on it?

    None if that cannot be told: the class is no pytree, or the body needs real numbers.
    """
    try:
        leaves, structure = jax.tree.flatten(obj)
        arrays = [i for i, leaf in enumerate(leaves) if isinstance(leaf, _ARRAYS)]
        if not {id(leaves[i]) for i in arrays} <= set(map(id, things)):
            return None  # the class makes them up to be flattened

        def trace(_: object) -> list[bool] | None:
            return _leaves_used(body, leaves, arrays, structure)

        used = at_level_of(obj, trace)
    except Exception:  # whatever a body, or a class's own code, may raise
        return None
    if used is None:
        return None
    of_id: dict[int, bool] = {}
    for i, is_used in zip(arrays, used, strict=True):
        of_id[id(leaves[i])] = is_used or of_id.get(id(leaves[i]), False)
    return [of_id.get(id(thing), True) for thing in things]


def _leaves_used(
    body: Callable[[Any], Any],
    leaves: list[Any],
    arrays: list[int],
    structure: PyTreeDef,
) -> list[bool] | None:
    in_sight = True

    def of_arrays(given: list[Any]) -> list[Any]:
        nonlocal in_sight
        filled = [*leaves]
        for i, array in zip(arrays, given, strict=True):
            filled[i] = array
        value = body(structure.unflatten(filled))
        out = [x for x in jax.tree.leaves(value) if isinstance(x, Tracer)]
        seen = set(map(id, out))
        hidden = (x for x in walk(value) if isinstance(x, Tracer))
        in_sight = all(id(x) in seen for x in hidden)
        return out

    jaxpr = jax.make_jaxpr(of_arrays)([_like(leaves[i]) for i in arrays])
    return inputs_used(jaxpr) if in_sight else None


def _like(array: Any) -> Any:
    if isinstance(array, np.ndarray):
        return array
    like: Any = jax.ShapeDtypeStruct
    return like(array.shape, array.dtype, weak_type=is_weak(array))
