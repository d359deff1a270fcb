"""Take a value apart into arrays, which travel, and the rest, which is static."""

import functools
import types
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
from ._parts import all_parts, walk


@dataclass(frozen=True, eq=False)
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
    hash_of_identity: int
    layout: Layout | None
    is_numpy: bool
    """Whether some of its arrays are of numpy, and travel as others."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mould) and self.identity == other.identity

    def __hash__(self) -> int:
        return self.hash_of_identity

    def fill(self, arrays: Sequence[Any]) -> Any:
        """The value again, with these arrays in it."""
        remaining = iter(arrays)
        leaves = [next(remaining) if x is _HOLE else x for x in self.leaves]
        return self.structure.unflatten(leaves)


def pack(
    value: Any, owner: str, numbers: Sequence[bool] | None = None
) -> tuple[list[Any], Mould] | None:
    """The arrays of `value`, and the mould to put them into.

    `numbers` tells which leaves, if they are Python numbers, travel like arrays.

    None if it has arrays where JAX does not see them: in a closure, in a tree's
    metadata, in an object of a class that is no pytree. As a static part they would
    be constants of a program, one for each object, which holds them while it lives.
    """
    leaves, structure = jax.tree.flatten(value)
    if numbers is None or len(numbers) != len(leaves):
        numbers = [False] * len(leaves)
    arrays = []
    static: tuple[Any, ...] = ()
    for leaf, may_travel in zip(leaves, numbers, strict=True):
        goes = _is_array(leaf) or (may_travel and is_number(leaf))
        arrays += [_as_jax(leaf)] if goes else []
        static += (_HOLE if goes else leaf,)
    if _has_arrays_out_of_sight(value, leaves):
        return None
    is_numpy = any(isinstance(leaf, NUMPY) and _is_array(leaf) for leaf in leaves)
    identity = (structure, is_numpy, *map(identity_of, static))
    if not is_hashable(identity):
        raise UnhashableValueError(owner, _unhashable_part(static))
    layout = layout_of((value,))
    hashed = hash(identity)
    mould = Mould(structure, static, len(arrays), identity, hashed, layout, is_numpy)
    return arrays, mould


NUMPY = (np.ndarray, np.generic)
_ARRAYS = (jax.Array, Tracer, np.ndarray)


def _has_arrays_out_of_sight(value: Any, leaves: Sequence[Any]) -> bool:
    in_sight = set(map(id, leaves))
    arrays = (part for part in walk(value) if isinstance(part, _ARRAYS))
    return any(id(array) not in in_sight for array in arrays)


def is_number(leaf: object) -> bool:
    """Whether `leaf` is a number that JAX takes for an array when it is passed."""
    return isinstance(leaf, bool | int | float | complex)


def _is_array(leaf: object) -> bool:
    """What JAX and numpy call an array, and numpy's real and complex scalars, of
    which every object has another. An integer or a truth value stays static, numpy's
    too: it may be a shape or a branch."""
    if isinstance(leaf, jax.Array):
        return True
    if isinstance(leaf, np.ndarray):
        return leaf.dtype.kind not in "OSUMm" and leaf.dtype.names is None
    return isinstance(leaf, np.inexact)


def _as_jax(leaf: Any) -> Any:
    if isinstance(leaf, jax.Array) or not isinstance(leaf, NUMPY):
        return leaf
    with at_trace(CONCRETE):  # in a trace, asarray would give a tracer of it
        return jnp.asarray(leaf)


def identity_of(leaf: Any) -> Any:
    """What tells a static thing from another: 1, 1.0 and True are equal and are not
    the same to a program, nor are 0.0 and -0.0. Two functions are the same if they
    are the same code over the same things, though each object makes its own."""
    cls = type(leaf)
    if isinstance(leaf, float | complex):
        return (cls, repr(leaf))
    if isinstance(leaf, np.generic):
        return (cls, leaf.dtype, leaf.tobytes())
    if cls is tuple:
        return (cls, *map(identity_of, leaf))
    if cls is frozenset:
        return (cls, frozenset(map(identity_of, leaf)))
    if cls is slice:
        return (cls, *map(identity_of, (leaf.start, leaf.stop, leaf.step)))
    if cls is functools.partial:
        keywords = sorted(leaf.keywords.items())
        inside = (leaf.func, *leaf.args, *(x for pair in keywords for x in pair))
        return (cls, *map(identity_of, inside))
    if cls is types.FunctionType:
        return (
            cls,
            leaf.__code__,
            id(leaf.__globals__),
            *map(identity_of, all_parts(leaf)),
        )
    return (cls, leaf)


def is_hashable(thing: object) -> bool:
    try:
        hash(thing)
    except TypeError:
        return False
    return True


def _unhashable_part(leaves: Sequence[Any]) -> object:
    """The leaf to blame; all of them if it is the metadata of a node."""
    return next((leaf for leaf in leaves if not is_hashable(leaf)), leaves)
