"""Find the objects with cached values in a tree of arguments."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
from jax.tree_util import PyTreeDef

from ._memo import may_have_values


class Slot(NamedTuple):
    """The place of an object.

    By name, and not by number: what a program was compiled to get for a slot must be
    of the same object in every structure of arguments the program is called with.
    """

    root: str
    """The outermost object it is in: `[0][2]['mesh']`, the path from the arguments."""
    inside: Any = 0
    """Its number in there, or an ask and its number in the value of that ask."""


FIRST = Slot("[0][0]")
"""The first argument itself."""


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

    def spans(self, tree: Any) -> dict[Slot, slice]:
        """For each slot, which of the leaves of `tree` are those of its object."""
        found: dict[Slot, slice] = {}
        start = 0
        for place, part in enumerate(self.prefix.flatten_up_to(tree)):
            if place in self.places:
                i = self.places.index(place)
                spans = self._spans_in(self.inside[i], part, start)
                root = self.roots[i]
                found.update((Slot(root, n), span) for n, span in enumerate(spans))
            start += len(jax.tree.leaves(part))
        return found

    @staticmethod
    def _spans_in(inside: "Layout | None", obj: Any, start: int) -> list[slice]:
        """Of an object and those in it, in the order of `objects`."""
        spans = [slice(start, start + len(jax.tree.leaves(obj)))]
        if inside is not None:
            for place, part in enumerate(inside.prefix.flatten_up_to(obj)):
                if place in inside.places:
                    further = inside.inside[inside.places.index(place)]
                    spans += Layout._spans_in(further, part, start)
                start += len(jax.tree.leaves(part))
        return spans


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
    return may_have_values(cls) and cls.__weakrefoffset__ != 0


def is_pytree(x: object) -> bool:
    """False for an object of a class that JAX has not been told about. It can only
    be a static argument, which the function gets as it is."""
    structure: Any = jax.tree.structure(x)
    return bool(structure != _LEAF)


_LEAF: Any = jax.tree.structure(0)
