"""Objects without their contents, to find the fields that a body uses."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.tree_util import PyTreeDef

from .._compat import Tracer, inputs_used
from .._core.fields import walk

_ARRAYS = (jax.Array, Tracer, np.ndarray)


@dataclass(frozen=True)
class Sample:
    """An object without its contents, to trace bodies with."""

    leaves: list[Any]
    structure: Any
    fields: list[str]
    """For each leaf, the field it is in."""
    bodies: dict[str, Callable[[Any], Any]]


def sample_of(obj: Any, bodies: dict[str, Callable[[Any], Any]]) -> Sample | None:
    """None if the class is not a pytree."""
    try:
        paths, structure = jax.tree_util.tree_flatten_with_path(obj)
    except Exception:  # a class's own code
        return None
    if len(paths) == 1 and not paths[0][0]:
        return None
    leaves = [_like(leaf) if isinstance(leaf, _ARRAYS) else leaf for _, leaf in paths]
    fields = [jax.tree_util.keystr(path[:1]).strip(".[]'") for path, _ in paths]
    return Sample(leaves, structure, fields, bodies)


def field_uses(sample: Sample) -> dict[str, list[str]]:
    """The fields that each body uses; all of them, if JAX can't trace it."""
    arrays = [i for i, leaf in enumerate(sample.leaves) if hasattr(leaf, "shape")]
    found = {}
    for name, body in sample.bodies.items():
        used: list[bool] | None = None
        with contextlib.suppress(Exception):
            used = _leaves_used(body, sample.leaves, arrays, sample.structure)
        pairs = zip(arrays, used or [True] * len(arrays), strict=True)
        found[name] = sorted({sample.fields[i] for i, is_used in pairs if is_used})
    return found


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
    if isinstance(array, np.ndarray | jax.ShapeDtypeStruct):
        return array
    like: Any = jax.ShapeDtypeStruct
    about = (
        {"weak_type": True} if getattr(array, "weak_type", False) else {}
    )  # a PRNG key takes none
    return like(array.shape, array.dtype, **about)
