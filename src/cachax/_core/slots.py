"""Find the objects that can have cached values in a tree of arguments."""

from dataclasses import dataclass
from typing import Any

import jax
from jax.tree_util import PyTreeDef

from .memo import can_have_values


@dataclass(frozen=True)
class Layout:
    """Where the objects are in every tree of one structure.

    `prefix` is that structure down to the outermost objects, which are its leaves;
    `places` says which leaves, `inside` where further objects are in each.
    """

    prefix: PyTreeDef
    places: tuple[int, ...]
    inside: tuple["Layout | None", ...]

    def objects(self, tree: Any) -> list[Any]:
        """The objects in `tree`, outer before inner, always in the same order."""
        leaves = self.prefix.flatten_up_to(tree)
        found = []
        for place, inside in zip(self.places, self.inside, strict=True):
            obj = leaves[place]
            found.append(obj)
            if inside is not None:
                found += inside.objects(obj)
        return found

    def spans(self, tree: Any, start: int = 0) -> list[slice]:
        """For each object, which of the leaves of `tree` are in it."""
        found: list[slice] = []
        for place, part in enumerate(self.prefix.flatten_up_to(tree)):
            end = start + len(jax.tree.leaves(part))
            if place in self.places:
                found.append(slice(start, end))
                inside = self.inside[self.places.index(place)]
                found += [] if inside is None else inside.spans(part, start)
            start = end
        return found


def layout_of(tree: Any) -> Layout | None:
    """Where the objects are in trees like this one; None if there are none."""

    def is_object(x: Any) -> bool:
        return x is not tree and can_have_values(x)

    leaves, prefix = jax.tree.flatten(tree, is_leaf=is_object)
    places = tuple(
        i for i, x in enumerate(leaves) if can_have_values(x) and is_pytree(x)
    )
    if not places:
        return None
    return Layout(prefix, places, tuple(layout_of(leaves[i]) for i in places))


def is_pytree(x: object) -> bool:
    """False for an object of a class that is not registered with JAX. It can only be a
    static argument, which the function gets as it is."""
    return not jax.tree_util.all_leaves([x])
