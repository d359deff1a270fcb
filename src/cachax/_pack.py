"""Take a value apart into arrays, which travel, and the rest, which is static."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import PyTreeDef

from ._compat import CONCRETE, Tracer, at_trace
from ._errors import UnhashableValueError
from ._find import Layout, layout_of
from ._parts import walk


class _Hole:
    """Stands where an array was."""

    def __repr__(self) -> str:
        return "*"


_HOLE = _Hole()


@dataclass(frozen=True, eq=False)
class Mould:
    """Everything of a value but its arrays. Equal moulds trace alike."""

    structure: PyTreeDef
    leaves: tuple[Any, ...]
    holes: int
    identity: tuple[Any, ...]
    layout: Layout | None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mould) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)

    def fill(self, arrays: Sequence[Any]) -> Any:
        """The value again, with these arrays in it."""
        remaining = iter(arrays)
        leaves = [next(remaining) if x is _HOLE else x for x in self.leaves]
        return self.structure.unflatten(leaves)


def pack(value: Any, owner: str) -> tuple[list[Any], Mould] | None:
    """The arrays of `value`, and the mould to put them into.

    None if it has arrays where JAX does not see them: in a closure, or in an object
    of a class that is no pytree. As a static part they would be constants of a
    program, one for each object, which holds them for as long as it lives.
    """
    leaves, structure = jax.tree.flatten(value)
    arrays = [_as_jax(x) for x in leaves if _travels(x)]
    static = tuple(_HOLE if _travels(x) else x for x in leaves)
    identity = (structure, *map(_identity, static))
    try:
        hash(identity)
    except TypeError:
        raise UnhashableValueError(owner, _unhashable_part(static)) from None
    if any(isinstance(part, _ARRAYS) for part in walk(static)):
        return None
    layout = layout_of((value,))
    return arrays, Mould(structure, static, len(arrays), identity, layout)


_ARRAYS = (jax.Array, Tracer, np.ndarray)


def _travels(leaf: object) -> bool:
    """Whether a leaf goes as an array: what JAX and numpy call an array, and numpy's
    real and complex scalars, of which every object has another. An integer or a
    truth value stays static, numpy's too: it may be a shape or a branch."""
    if isinstance(leaf, jax.Array):
        return True
    if isinstance(leaf, np.ndarray):
        return leaf.dtype.kind not in "OSUMm" and leaf.dtype.names is None
    return isinstance(leaf, np.inexact)


def _as_jax(leaf: Any) -> Any:
    if isinstance(leaf, jax.Array):
        return leaf
    with at_trace(CONCRETE):  # in a trace, asarray would give a tracer of it
        return jnp.asarray(leaf)


def _identity(leaf: Any) -> Any:
    """What tells a static leaf from another: 1, 1.0 and True are equal and are not
    the same to a program, nor are 0.0 and -0.0."""
    if isinstance(leaf, float | complex):
        return (type(leaf), repr(leaf))
    return (type(leaf), leaf)


def _unhashable_part(leaves: Sequence[Any]) -> object:
    for leaf in leaves:
        try:
            hash(leaf)
        except TypeError:
            return leaf
    return leaves  # the structure itself: a node with unhashable metadata
