"""The structure of a value: that of JAX, and the orders of its dictionaries.

JAX sorts the keys of a dictionary that it rebuilds. A program that uses a value may
rely on their order.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import jax
from jax.tree_util import default_registry

from .fields import plain_leaves, walk
from .inputs import inputs_in_fields
from .levels import level_of
from .parts import in_order

IsLeaf = Callable[[Any], bool]


@dataclass(eq=False, slots=True)
class Structure:
    """What is left of a value without its leaves."""

    tree: Any
    orders: tuple[tuple[Any, ...], ...] = ()
    """The keys of all dictionaries in it, if some are not sorted."""

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        leaves = [*leaves]
        if len(leaves) == self.tree.num_nodes == 1:
            return leaves[0]
        with level_of(leaves):  # a class may compute something
            value = self.tree.unflatten(leaves)
        if self.orders:
            given = {*map(id, leaves)}  # objects with their own dictionaries, maybe
            found = _dictionaries(value, lambda x: id(x) in given)
            for dictionary, order in zip(found, self.orders, strict=True):
                items = {key: dictionary[key] for key in order}
                dictionary.clear()
                dictionary.update(items)
        return value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Structure):
            return False
        return is_same_tree(self.tree, other.tree) and self.orders == other.orders

    def __hash__(self) -> int:
        return hash((self.tree, self.orders))

    def __str__(self) -> str:
        return f"{self.tree} {self.orders}"


def is_same_tree(one: Any, other: Any) -> bool:
    """Whether two tree structures of JAX are the same. Those of dataclasses are equal
    if the classes have the same fields (in 0.10 and 0.12, not in 0.4.36); their hashes
    differ."""
    return bool(one == other) and hash(one) == hash(other)


def flatten(value: Any, is_leaf: IsLeaf | None = None) -> tuple[list[Any], Structure]:
    """The leaves of a value, and its structure. What is not a tree is a leaf: a
    dictionary whose keys can't be sorted."""
    if isinstance(value, jax.Array):
        return [value], _LEAF
    try:
        leaves, tree = jax.tree.flatten(value, is_leaf=is_leaf)
    except Exception:
        return [value], _LEAF
    if not any(map(_is_unsorted, walk(value))):
        return leaves, Structure(tree)
    return leaves, Structure(tree, tuple(map(tuple, _dictionaries(value, is_leaf))))


_LEAF = Structure(jax.tree.structure(0))


def survives(value: Any, structure: Structure, leaves: Iterable[Any]) -> bool:
    """Whether a value is the same when it is rebuilt. An object may have more than its
    class gives to JAX."""
    is_builtin = all(
        type(x) in _BUILTIN or type(x) in plain_leaves for x in walk(value)
    )
    if not is_builtin and structure.tree.num_nodes > 1:
        again = structure.unflatten(leaves)
        before, after = inputs_in_fields(value), inputs_in_fields(again)
        if before is not None and after is not None:
            pairs = zip(before.arrays, after.arrays, strict=False)
            return before.exactly == after.exactly and all(x is y for x, y in pairs)
    return True


_BUILTIN = (tuple, list, dict)


def _is_unsorted(thing: Any) -> bool:
    return type(thing) in (dict, defaultdict) and in_order(thing) != [*thing]


def _dictionaries(value: Any, is_leaf: IsLeaf | None = None) -> list[dict[Any, Any]]:
    """Those that JAX rebuilds, in the order of the leaves."""
    found = [value] if type(value) in (dict, defaultdict) else []
    if is_leaf is None or not is_leaf(value):
        level = default_registry.flatten_one_level(value)
        for part in () if level is None else level[0]:
            found += _dictionaries(part, is_leaf)
    return found
