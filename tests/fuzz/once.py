"""The model of law 1: how often a body may run for the same arrays."""

from collections import Counter, defaultdict
from typing import Any

import jax
import numpy as np

from .worlds import BY_OBJECT, PROPS, array, inside


def is_array(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array)


class Once:
    """Which values have been computed, by the arrays that they came from.

    What is not known to the model may be computed once, and is known from then on. The
    model may know less than cachax, never more.
    """

    def __init__(self) -> None:
        self._known: dict[Any, list[Any]] = defaultdict(list)
        self._alive: list[Any] = []  # ids are reused
        self._untracked: list[Any] = []

    def cost(self, obj: Any, name: str) -> Counter[str]:
        """The bodies that may run when this value is read; known from then on."""
        if self.knows(obj, name):
            return Counter()
        prop = PROPS[name]
        allowed = Counter([name])
        for other in prop.reads:
            allowed += self.cost(obj, other)
        if prop.of_parts:
            for part in inside(obj):
                allowed += self.cost(part, prop.of_parts)
        self.learn(obj, name)
        return allowed

    def knows(self, obj: Any, name: str) -> bool:
        arrays, statics = self._key(obj, name)
        known = self._known[arrays]
        # Of one set of arrays, the values of two static variants are kept.
        return len(known) <= 2 and statics in known

    def learn(self, obj: Any, name: str) -> None:
        if name == "picky" and len(array(obj.a)) > 4:
            return  # it raised
        arrays, statics = self._key(obj, name)
        if statics not in self._known[arrays]:
            self._known[arrays].append(statics)

    def follow(self, old: Any, new: Any, kept: set[str]) -> None:
        """`new` came out of jit; these fields of it passed through unchanged."""
        if not all(map(is_array, jax.tree.leaves(old))):
            return  # a number is static going in, and an array coming out
        if self._by_object(old):
            return
        for name, prop in PROPS.items():
            # A value that came from no array stays with its object.
            if prop.uses and prop.uses <= kept and self.knows(old, name):
                self.learn(new, name)

    def forget(self) -> None:
        self._known.clear()

    def distrust(self, obj: Any) -> None:
        """Nothing is known of an object whose values were supplied."""
        self._untracked.append(obj)

    def _by_object(self, obj: Any) -> bool:
        if type(obj).__name__ in BY_OBJECT:
            return True
        leaves = jax.tree.leaves(obj)
        has_numpy = any(isinstance(x, np.ndarray | np.generic) for x in leaves)
        return has_numpy or any(self._by_object(part) for part in inside(obj))

    def _key(self, obj: Any, name: str) -> tuple[Any, Any]:
        if any(obj is one for one in self._untracked):
            return object(), None
        uses = PROPS[name].uses
        parts = {"a": obj.a, "b": obj.b, "n": obj.n, "inside": list(inside(obj))}
        leaves = [
            (field, jax.tree.map(array, leaf))
            for field, part in parts.items()
            for leaf in _leaves(part)
        ]
        self._alive.append([obj, leaves])
        arrays = [
            id(leaf) for field, leaf in leaves if field in uses and is_array(leaf)
        ]
        if self._by_object(obj) or not arrays:  # it stays with its object
            arrays += [id(obj), *(id(leaf) for _, leaf in leaves if is_array(leaf))]
        statics = [
            (field, _aval(leaf)) if is_array(leaf) else (field, type(leaf), repr(leaf))
            for field, leaf in leaves
        ]
        key = (type(obj).__name__, name, tuple(arrays))
        return key, (repr(statics), repr(obj.k), repr(_shape(obj)))


def _leaves(part: Any) -> list[Any]:
    """Also of objects that are not pytrees."""
    if isinstance(part, list):
        return [leaf for one in part for leaf in _leaves(one)]
    if hasattr(part, "child"):
        own = [array(part.a), array(part.b), array(part.n), part.k]
        return own + _leaves(list(inside(part)))
    return [array(part)]


def _shape(obj: Any) -> Any:
    """What is where inside."""
    return (type(obj).__name__, type(obj.items).__name__, [*map(_shape, inside(obj))])


def _aval(leaf: jax.Array) -> Any:
    return leaf.shape, str(leaf.dtype), leaf.weak_type, str(leaf.sharding)
