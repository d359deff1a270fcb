"""Values: how they are stored without their own arrays, and how they enter a program.

A value can contain arrays of the object it was computed for. Stored as it is, it would
keep them alive, and they it. A `Template` has their positions instead.

Inside `jit` the arrays of a value are inputs of the program, and the rest of it, its
`Form`, is static: a different form is a different program.
"""

import functools
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._compat import CONCRETE, Tracer, at_trace, share_memory
from .._errors import UnhashableValueError
from .fields import ARRAYS, all_parts, is_open, may_change, walk, walk_fields
from .parts import NUMBERS, Same, bits_of, identity_of
from .structure import Structure, flatten, survives

NUMPY = (np.ndarray, np.generic)


@dataclass(frozen=True, slots=True)
class Own:
    """In place of an array of the object itself: which of those the body used."""

    number: int


class Template(NamedTuple):
    """A value without the arrays of its object."""

    leaves: tuple[Any, ...]
    structure: Structure
    whole: Any
    """The value itself, if it can be shared as it is; else None."""

    def fill(self, arrays: Sequence[Any]) -> Any:
        """The value for an object with these arrays."""
        if self.whole is not None:
            return self.whole[0]
        leaves = [arrays[x.number] if type(x) is Own else x for x in self.leaves]
        return self.structure.unflatten(map(_unshared, leaves))


def template_of(value: Any, own: Sequence[Any]) -> Template | None:
    """None if it contains one of the arrays `own` where JAX doesn't see it, or
    something that can be changed and not be copied."""
    numbers = {id(array): i for i, array in enumerate(own)}
    leaves, structure = flatten(value)
    if any(id(part) in numbers for part in _hidden_in(value, leaves)):
        return None
    if any(may_change(x) for x in leaves if not isinstance(x, ARRAYS)):
        return None
    if not survives(value, structure, leaves):
        return None
    kept = tuple(
        Own(numbers[id(x)]) if id(x) in numbers else _apart(_unshared(x), own)
        for x in leaves
    )
    is_same = all(x is y for x, y in zip(kept, leaves, strict=True))
    is_shared = is_same and not any(isinstance(x, np.ndarray) for x in kept)
    is_shared = is_shared and not any(map(is_open, walk(value)))
    return Template(kept, structure, (value,) if is_shared else None)


def _apart(leaf: Any, own: Sequence[Any]) -> Any:
    """An array may be in the memory of one of its object's (`jax.device_put` to the
    same place): that is gone when the object is donated."""
    if isinstance(leaf, jax.Array) and not isinstance(leaf, Tracer):
        for array in own:
            if share_memory(leaf, array):
                with at_trace(CONCRETE):
                    return leaf.copy()
    return leaf


def _unshared(leaf: Any) -> Any:
    """A numpy array can be written to: everyone gets a copy."""
    return leaf.copy() if isinstance(leaf, np.ndarray) else leaf


HOLE: Any = object()
"""Stands where an array was."""


class Form(NamedTuple):
    """Everything of a value except its arrays. Equal forms trace alike."""

    structure: Structure
    identities: tuple[Any, ...]
    """Of the leaves."""
    holes: int


@dataclass(frozen=True, slots=True)
class Packed:
    """A value as a program takes it."""

    arrays: tuple[Any, ...]
    form: Form
    leaves: tuple[Any, ...]
    """With `HOLE` for arrays and `Own` for arrays of the object. The static ones are
    not in the form: a program must not keep them alive."""
    has_numpy: bool

    def with_arrays(self, arrays: Iterable[Any]) -> "Packed":
        """The same with other arrays."""
        return Packed(tuple(arrays), self.form, self.leaves, self.has_numpy)

    def fill(self, arrays: Sequence[Any], own: Sequence[Any]) -> Any:
        """The value again, with these arrays in it."""
        return self.template(arrays, False).fill(own)

    def template(self, arrays: Sequence[Any], is_shared: bool) -> Template:
        """The same, without the arrays of its object."""
        remaining, structure = iter(arrays), self.form.structure
        leaves = tuple([next(remaining) if x is HOLE else x for x in self.leaves])
        whole = (structure.unflatten(leaves),) if is_shared else None
        return Template(leaves, structure, whole)


def pack(
    value: Any,
    owner: str,
    traced: Sequence[bool] | None = None,
    static_numpy: bool = False,
    template: tuple[Sequence[Any], Structure] | None = None,
) -> Packed | None:
    """The arrays of a value, and its form. `template` has the leaves and the structure
    of its template, if there is one.

    None if it has arrays where JAX doesn't see them: in a closure, in a tree's
    metadata, in an object of a class that is not a pytree. As a static part they would
    be constants of a program, one for each object, which holds them while it lives.
    """
    leaves, structure = template or flatten(value)
    if template is None and (
        has_hidden_arrays(value) or not survives(value, structure, leaves)
    ):
        return None
    if traced is None or len(traced) != len(leaves):
        traced = [False] * len(leaves)
    arrays: list[Any] = []
    static: list[Any] = []
    identities: list[Any] = []
    for leaf, is_traced in zip(leaves, traced, strict=True):
        travels = _travels(leaf, static_numpy)
        travels = travels or (is_traced and type(leaf) in NUMBERS)
        arrays += [_as_jax(leaf)] if travels else []
        static.append(HOLE if travels else leaf)
        identities.append(HOLE if travels else static_identity(leaf))
    form = Form(structure, tuple(identities), len(arrays))
    if not is_hashable(form):
        raise UnhashableValueError(owner, value)
    has_numpy = any(isinstance(x, NUMPY) and _travels(x, False) for x in leaves)
    return Packed(tuple(arrays), form, tuple(static), has_numpy)


def has_hidden_arrays(value: Any) -> bool:
    """Whether there are arrays in a value where JAX doesn't see them."""
    hidden = _hidden_in(value, flatten(value)[0])
    return any(isinstance(part, ARRAYS) for part in hidden)


def _hidden_in(value: Any, leaves: list[Any]) -> Iterator[Any]:
    visible = {*map(id, leaves)}
    return (part for part in walk(value) if id(part) not in visible)


def _travels(leaf: object, static_numpy: bool) -> bool:
    """Whether a leaf is an input of a program. What numpy computed is, if no program
    can tell the difference: JAX has its dtype, and it isn't an integer or truth value
    that may be a shape or a branch."""
    if isinstance(leaf, jax.Array):
        return True
    if static_numpy or not isinstance(leaf, NUMPY):
        return False
    if isinstance(leaf, np.ndarray):
        is_plain = type(leaf) is np.ndarray and leaf.dtype.kind in "biufc"
    else:
        is_plain = isinstance(leaf, np.inexact)
    dtype = jax.dtypes.canonicalize_dtype(leaf.dtype) if is_plain else None
    if dtype is not None and dtype != leaf.dtype and leaf.dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return not leaf.size or bool(
            limits.min <= leaf.min() and leaf.max() <= limits.max
        )
    return is_plain and dtype == leaf.dtype


def _as_jax(leaf: Any) -> Any:
    if isinstance(leaf, jax.Array) or not isinstance(leaf, NUMPY):
        return leaf
    with at_trace(CONCRETE):  # in a trace, asarray would return a tracer
        return jnp.asarray(leaf)


def static_identity(
    leaf: Any,
    of_changing: Callable[[Any], Any] | None = None,
    outer: tuple[int, ...] = (),
) -> Any:
    """What distinguishes a static leaf of a value. Functions are the same if they have
    the same code over the same things: every object makes its own. Of what may change,
    `of_changing` says it."""
    cls = type(leaf)
    if id(leaf) in outer:  # a function that calls itself
        return (cls, outer.index(id(leaf)))
    if cls in NUMBERS or isinstance(leaf, np.generic | jax.Array):
        return identity_of(leaf)  # (a function may close over an array)
    if isinstance(leaf, np.ndarray):
        is_plain = not leaf.dtype.hasobject
        return (cls, leaf.dtype, leaf.shape, leaf.tobytes() if is_plain else leaf)
    parts = _parts(leaf)
    if parts is not None:
        outer = (*outer, id(leaf))
        identities = (static_identity(x, of_changing, outer) for x in parts)
        made_of = (cls, (frozenset if cls is frozenset else tuple)(identities))
        is_function = cls is types.FunctionType
        return Same(leaf) if is_function and not is_hashable(made_of) else made_of
    if of_changing is not None and may_change(leaf):
        return of_changing(leaf)
    # A subclass of `Decimal` that has fields is equal to others whatever is in them.
    is_own = isinstance(cls.__eq__, types.FunctionType) or not cls.__dictoffset__
    if not is_own and cls.__hash__ is not None:
        return Same(leaf)
    numbers = (bits_of(x) for x in walk_fields(leaf) if type(x) in NUMBERS)
    return (cls, leaf, *numbers)  # 2 and 2.0 are equal, and so are such objects


def _parts(leaf: Any) -> Iterable[Any] | None:
    """What a static leaf is made of; None if it is compared as a whole."""
    cls = type(leaf)
    if cls is frozenset or (isinstance(leaf, tuple) and not cls.__dictoffset__):
        return leaf  # type: ignore[no-any-return]
    if cls is slice:
        return (leaf.start, leaf.stop, leaf.step)
    if cls is functools.partial and not vars(leaf):
        return (leaf.func, leaf.args, *sorted(leaf.keywords.items()))
    if cls is types.FunctionType:
        return (leaf.__code__, id(leaf.__globals__), *all_parts(leaf))
    return None


def is_hashable(thing: object) -> bool:
    try:
        hash(thing)
    except TypeError:
        return False
    return True
