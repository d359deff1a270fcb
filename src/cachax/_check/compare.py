"""Whether two values are the same: arrays by their numbers, the rest by value."""

import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._compat import CONCRETE, Tracer, at_trace, is_ref
from .._core.fields import parts_of

_ARRAYS = (jax.Array, np.ndarray, np.generic)
_LEAF: Any = jax.tree.structure(0)


@dataclass(frozen=True)
class Tolerance:
    """How far two numbers may be apart: `atol + rtol * abs(number)`."""

    rtol: float = 0.0
    atol: float = 0.0
    rounding: bool = False
    """Two programs may round differently: half of the digits must be the same, of
    the largest number in an array."""

    def around(self, numbers: Any, dtype: Any) -> Any:
        allowed = self.atol + self.rtol * np.abs(numbers)
        if not self.rounding or not jnp.issubdtype(dtype, jnp.inexact):
            return allowed
        finite = np.abs(numbers[np.isfinite(numbers)])
        half = float(jnp.finfo(dtype).eps) ** 0.5  # type: ignore[no-untyped-call]
        return np.maximum(allowed, half * finite.max(initial=0.0))


@dataclass(frozen=True)
class Difference:
    """What is not the same, and where in the value."""

    where: str
    words: str
    size: float | None = None

    def __str__(self) -> str:
        place = f" at {self.where}" if self.where else ""
        if self.size is None:
            return f"They differ{place}: {self.words}."
        return f"The largest difference is {self.size:.6g}{place}."


EXACT = Tolerance()


def difference(one: Any, other: Any, tolerance: Tolerance = EXACT) -> Difference | None:
    """The largest one there is; None if the two are the same.

    What cannot be compared (tracers, locks, open files) counts as the same.
    """
    with at_trace(CONCRETE):  # the numbers are real, whatever is being traced
        found = [*_Comparison(tolerance).differences(one, other, "")]
    in_kind = [d for d in found if d.size is None]
    return next(iter(in_kind), None) or max(found, key=_by_size, default=None)


def _by_size(found: Difference) -> float:
    assert found.size is not None
    return np.inf if np.isnan(found.size) else found.size


class _Comparison:
    def __init__(self, tolerance: Tolerance) -> None:
        self._tolerance = tolerance
        self._seen: set[tuple[int, int]] = set()

    def differences(self, one: Any, other: Any, where: str) -> Iterator[Difference]:
        if one is other or (id(one), id(other)) in self._seen:
            return
        self._seen.add((id(one), id(other)))
        if any(isinstance(x, Tracer) or is_ref(x) for x in (one, other)):
            return
        if type(one) is not type(other) and not _both_arrays(one, other):
            yield Difference(where, f"{_kind(one)} against {_kind(other)}")
        elif isinstance(one, _ARRAYS):
            yield from self._of_arrays(one, other, where)
        elif isinstance(one, float | complex):
            yield from self._of_numbers(np.asarray(one), np.asarray(other), where)
        elif jax.tree.structure(one) != _LEAF:
            yield from self._of_trees(one, other, where)
        else:
            yield from self._of_things(one, other, where)

    def _of_arrays(self, one: Any, other: Any, where: str) -> Iterator[Difference]:
        if (one.shape, one.dtype) != (other.shape, other.dtype):
            yield Difference(where, f"{_kind(one)} against {_kind(other)}")
            return
        if not all(map(_can_be_read, (one, other))):
            return
        if jnp.issubdtype(one.dtype, jax.dtypes.prng_key):
            one, other = jax.random.key_data(one), jax.random.key_data(other)
            if not np.array_equal(one, other):
                yield Difference(where, "two keys of random numbers")
            return
        one, other = np.asarray(one), np.asarray(other)
        if one.dtype.hasobject:
            pairs = zip(one.ravel().tolist(), other.ravel().tolist(), strict=True)
            for x, y in pairs:
                yield from self.differences(x, y, where)
        elif one.dtype.kind in "SUMmV" and not jnp.issubdtype(one.dtype, jnp.number):
            if one.tobytes() != other.tobytes():
                yield Difference(where, "they hold other things")
        else:
            yield from self._of_numbers(one, other, where)

    def _of_numbers(self, one: Any, other: Any, where: str) -> Iterator[Difference]:
        wide: Any = complex if jnp.issubdtype(one.dtype, jnp.complexfloating) else float
        x, y = one.astype(wide), other.astype(wide)
        same = (one == other) | (np.isnan(x) & np.isnan(y))
        if same.all():
            return
        with np.errstate(invalid="ignore"):  # infinity less infinity
            apart = np.where(same, 0.0, np.abs(x - y))
        if not (apart <= self._tolerance.around(y, one.dtype)).all():
            yield Difference(where, "", float(apart.max()))  # nan, if one is

    def _of_trees(self, one: Any, other: Any, where: str) -> Iterator[Difference]:
        leaves, structure = jax.tree_util.tree_flatten_with_path(one)
        others, its_structure = jax.tree_util.tree_flatten_with_path(other)
        if not _equal(structure, its_structure):
            # In a different order, or with different metadata, or with metadata that
            # is never equal, such as a function that was just made.
            yield from self._of_parts(one, other, where)
        else:
            for (path, x), (_, y) in zip(leaves, others, strict=True):
                yield from self.differences(x, y, where + jax.tree_util.keystr(path))

    def _of_things(self, one: Any, other: Any, where: str) -> Iterator[Difference]:
        compares: Any = type(one).__eq__
        if compares is object.__eq__:
            yield from self._of_parts(one, other, where)
        elif not _equal(one, other):
            if (parts_of(type(one)) or _no_parts)(one):
                yield from self._of_parts(one, other, where)
            else:
                yield Difference(where, f"{_short(one)} against {_short(other)}")

    def _of_parts(self, one: Any, other: Any, where: str) -> Iterator[Difference]:
        list_parts = parts_of(type(one)) or _no_parts
        parts, others = list_parts(one), list_parts(other)
        code = isinstance(one, types.FunctionType) and one.__code__ != other.__code__
        if isinstance(one, dict) and one.keys() != other.keys():
            names = ", ".join(repr(key) for key in one.keys() ^ other.keys())
            yield Difference(where, f"only one of them has {names}")
            return
        if len(parts) != len(others) or code:
            yield Difference(where, f"{_short(one)} against {_short(other)}")
            return
        for x, y in zip(parts, others, strict=True):
            yield from self.differences(x, y, where)


def _no_parts(_: Any) -> list[Any]:
    return []


def _both_arrays(one: Any, other: Any) -> bool:
    """Of JAX: its arrays are of more than one class."""
    return isinstance(one, jax.Array) and isinstance(other, jax.Array)


def _can_be_read(array: Any) -> bool:
    """Not one that was donated, nor one that is spread over several machines."""
    if not isinstance(array, jax.Array):
        return True
    return not array.is_deleted() and array.is_fully_addressable


def _equal(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except Exception:  # whatever a class's own code may raise; arrays: more than one
        return False


def _kind(x: Any) -> str:
    if isinstance(x, _ARRAYS):
        return f"{x.dtype}[{','.join(map(str, x.shape))}]"
    return type(x).__name__


def _short(x: Any) -> str:
    words = repr(x)
    return words if len(words) <= 60 else f"{words[:57]}..."
