"""Find the objects with cached values in a tree of arguments."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
from jax.tree_util import PyTreeDef

from ._memo import names_of


class Slot(NamedTuple):
    """The place of an object.

    By name, and not by number: what a program was compiled to get for a slot must be
    of the same object in every structure of arguments the program is called with.
    """

    root: str
    """The outermost object it is in: `[0][2]['mesh']`, the path from the arguments."""
    inside: Any = 0
    """Its number in there, or an ask and its number in the value of that ask."""


@dataclass(frozen=True)
class Layout:
    """Where the objects are in every tree of one structure.

    `prefix` is that structure down to the outermost objects, which are leaves of
    it; `places` says which leaves, `inside` where further objects are in each.
    """

    prefix: PyTreeDef
    places: tuple[int, ...]
    roots: tuple[str, ...]
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

    def by_slot(self, tree: Any) -> dict[Slot, Any]:
        """The objects in `tree`, each in its slot."""
        leaves = self.prefix.flatten_up_to(tree)
        found: dict[Slot, Any] = {}
        for place, root, inside in zip(
            self.places, self.roots, self.inside, strict=True
        ):
            obj = leaves[place]
            objects = [obj] if inside is None else [obj, *inside.objects(obj)]
            found.update((Slot(root, i), each) for i, each in enumerate(objects))
        return found


def layout_of(tree: Any) -> Layout | None:
    """Where the objects are in trees like this one; None if there are none."""

    def is_object(x: Any) -> bool:
        return x is not tree and _has_keys(x)

    leaves, prefix = jax.tree.flatten(tree, is_leaf=is_object)
    places = tuple(i for i, x in enumerate(leaves) if _has_keys(x) and is_pytree(x))
    if not places:
        return None
    paths, _ = jax.tree_util.tree_flatten_with_path(tree, is_leaf=is_object)
    roots = [jax.tree_util.keystr(path) for path, _ in paths]
    if len(set(roots)) < len(leaves):  # a class that gives two children one name
        roots = [f"{root}#{i}" for i, root in enumerate(roots)]
    return Layout(
        prefix,
        places,
        tuple(roots[i] for i in places),
        tuple(layout_of(leaves[i]) for i in places),
    )


def _has_keys(x: object) -> bool:
    cls = type(x)
    return bool(names_of(cls)) and cls.__weakrefoffset__ != 0


def is_pytree(x: object) -> bool:
    """False for an object of a class that JAX has not been told about. It can only
    be a static argument, which the function gets as it is."""
    structure: Any = jax.tree.structure(x)
    return bool(structure != _LEAF)


_LEAF: Any = jax.tree.structure(0)
