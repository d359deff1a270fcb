"""Where the parts of an object are in a tree.

A value is found by its arrays if everything that its body read is in the tree: a leaf,
or static, which is for JAX to compare. Found out once for each structure of arguments,
by flattening a copy of the object with marks in place of its parts.
"""

import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
from jax.tree_util import default_registry

from .._core.copies import CannotRebuildError, Copy
from .._core.fields import (
    attributes,
    fields_in,
    is_open,
    may_change,
    reached,
    walk_fields,
)
from .._core.inputs import ARRAY, Fields, Inputs, inputs_in_fields, parts_in
from .._core.memo import Provider, may_have_values, memo_of
from .._core.parts import NUMBERS, is_rebuilt

NOWHERE = -1
"""The place of what is not in the tree."""


@dataclass(frozen=True, slots=True)
class Map:
    """For objects of one shape."""

    shape: tuple[Any, ...]
    places: dict[int, int | None]
    """The number of each part among the leaves. None for a static part of the tree, and
    `NOWHERE`."""
    dropped: frozenset[int]
    """The fields of the object itself that are not in the tree. A call compares
    numbers, strings and None in them: a class may make them again."""

    @property
    def of_arrays(self) -> list[int | None]:
        """Those of the arrays."""
        return [self.places[i] for i, kind in enumerate(self.shape) if kind is ARRAY]

    def numbers(self, inputs: Inputs) -> frozenset[int]:
        """The numbers of an object that are leaves."""
        others = (None, NOWHERE)
        places = self.of_arrays
        return frozenset(i for i in inputs.numbers if places[i] not in others)

    def statics(self, uses: Any) -> list[int]:
        """The leaves that are static parts, and that a value depends on."""
        pairs = ((i, x) for i, x in self.places.items() if i not in uses.unread)
        found = [x for i, x in pairs if self.shape[i] is not ARRAY and x is not None]
        return [*dict.fromkeys(found)]

    def finds(self, inputs: Any, uses: Any) -> bool:
        """Whether a call can compare all that a value depends on."""
        lost = {i for i, place in self.places.items() if place == NOWHERE}
        lost -= uses.unread
        is_known = not lost or lost <= self.dropped & inputs.atoms
        return is_known and bool(self.shape == inputs.shape)

    def reads_dropped(self, uses: Any) -> bool:
        """Whether a value depends on something that is not in the tree."""
        return not self.dropped.issubset(uses.unread)

    def unread(self, uses: Any) -> set[int | None]:
        """The leaves that make no difference."""
        return {self.places.get(i) for i in uses.unread}


def map_of(obj: Any, span: range) -> Map | None:
    """Where the parts of `obj` are among leaves, if its own are these. None if that is
    unknown, or the class looks at its arrays when it is flattened."""
    inputs = inputs_in_fields(obj)
    if inputs is None:
        return None
    try:
        search = _Search(obj, inputs, len(span))
        places = search.places()
    except Exception:  # whatever the class's own code does with a mark
        return None
    places = {
        i: place if place is None or place == NOWHERE else span[place]
        for i, place in places.items()
    }
    dropped = (i for i in search.fields() if places.get(i) == NOWHERE)
    return Map(inputs.shape, places, frozenset(dropped))


class _Search:
    """For the places of the parts of an object."""

    def __init__(self, obj: Any, inputs: Inputs, count: int) -> None:
        self._obj = obj
        self._count = count
        self._inputs = inputs
        self._shape = shape = inputs.shape
        self._marks = [*map(mark_for, inputs.arrays)]
        pairs = zip(inputs.arrays, self._marks, strict=True)
        self._arrays = [x if type(x) is bool else mark for x, mark in pairs]
        """The same, with truth values as they are: a class may ask which it is."""
        self._things = parts_in(obj, shape)
        self._ends: dict[int, int] = {}
        """For each part, the number after the last one inside."""
        for i in reversed(range(len(shape))):
            self._ends[i] = i + 1
            for _ in range(shape[i].parts if type(shape[i]) is Fields else 0):
                self._ends[i] = self._ends[self._ends[i]]

    def places(self) -> dict[int, int | None]:
        plain = _Flattened(self._obj, self._arrays, {}, self._count)
        try:
            flagged = _Flattened(self._obj, self._marks, {}, self._count)
        except Exception:
            flagged = plain
        pairs = zip(self._inputs.parts, self._marks, strict=True)
        places = {
            i: (flagged if type(x) is _Flag else plain).place(x) for i, x in pairs
        }
        units = self._units(range(len(self._shape)))
        # A class may well ask whether something is None.
        empty = [i for i in units if _is_empty(self._things[i])]
        others = [i for i in units if i not in empty]
        nodes = {
            i: NOWHERE if place is None and not plain.has(self._things[i]) else place
            for i, place in self._found(empty)
        }
        for i, place in [*self._found(others), *nodes.items()]:
            is_fixed = not may_change(self._things[i])
            inside = range(i, self._ends[i])
            places |= dict.fromkeys(inside, place if is_fixed else NOWHERE)
        for i, end in self._ends.items():
            inside_it = {places.get(x, NOWHERE) for x in range(i + 1, end)}
            if inside_it == {NOWHERE}:  # then so is what is around them
                places.setdefault(i, NOWHERE)
        return places

    def fields(self) -> Iterator[int]:
        """The parts that are in the `__dict__` of the object itself."""
        part = 1
        for name in self._shape[0].names:
            if name in attributes(self._obj):
                yield part
            part = self._ends[part]

    def _units(self, parts: Iterable[int]) -> list[int]:
        """Those of these parts that JAX takes as one thing, except arrays."""
        found: list[int] = []
        covered = 0
        for i in parts:
            kind = self._shape[i]
            if i < covered or kind is ARRAY or isinstance(kind, type):
                continue
            if type(kind) is Fields and kind.parts:
                inside = [self._things[x] for x in self._arrays_in(i)]
                has_arrays = any(type(x) not in NUMBERS for x in inside)
                if is_rebuilt(self._things[i]) or has_arrays:
                    continue
            covered = self._ends[i]
            found.append(i)
        return found

    def _arrays_in(self, i: int) -> list[int]:
        return [x for x in range(i, self._ends[i]) if self._shape[x] is ARRAY]

    def _found(self, units: Sequence[int]) -> Iterator[tuple[int, int | None]]:
        """The places of all these. What the class's own code makes use of is taken
        apart, or it is nowhere."""
        marks = {
            i: (mark_for(self._things[i]), self._ends[i] - i, len(self._arrays_in(i)))
            for i in units
        }
        try:
            tree = _Flattened(self._obj, self._arrays, marks, self._count)
        except Exception:
            half = len(units) // 2
            if half:
                yield from self._found(units[:half])
                yield from self._found(units[half:])
                return
            (i,) = units
            inside = self._units(range(i + 1, self._ends[i]))
            yield from self._found(inside) if inside else [(i, NOWHERE)]
            return
        yield from ((i, tree.place(mark)) for i, (mark, *_) in marks.items())


class _Flattened:
    """A copy of an object with marks, flattened."""

    def __init__(
        self, obj: Any, arrays: list[Any], marks: dict[int, Any], count: int
    ) -> None:
        copy = Copy(obj, arrays, instead=marks, is_written=False)
        for new, _ in copy.originals.values():
            provide_anything(new)
        self._own = {id(x): x for x in walk_fields(copy.obj)}
        self._static: dict[int, Any] = {}
        self.leaves: list[Any] = []
        self._flatten(copy.obj)
        if len(self.leaves) != count:
            raise CannotRebuildError

    def _flatten(self, tree: Any) -> None:
        """Note the leaves and the static parts. (Not by `jax.tree.flatten`: if a class
        raises in it, JAX counts the levels above it as taken, until it can't flatten
        anything.)"""
        level = default_registry.flatten_one_level(tree)
        if level is None and type(tree) is _NoLeaf:
            self._static[id(tree)] = tree
        elif level is None:
            self.leaves.append(tree)
        if level is not None:
            parts, static = level
            if not parts:
                self._static[id(tree)] = tree
            self._static |= {id(x): x for x in reached(static, self._fixed_parts)}
            for part in parts:
                self._flatten(part)

    def _fixed_parts(self, thing: Any) -> list[Any]:
        """Without those of what is the object's own and can be changed."""
        if isinstance(thing, functools.partial):  # its dictionary is its own
            return [thing.func, thing.args, *thing.keywords, *thing.keywords.values()]
        return [] if id(thing) in self._own and is_open(thing) else fields_in(thing)

    def has(self, thing: Any) -> bool:
        """Whether it is a static part."""
        return id(thing) in self._static

    def place(self, mark: Any) -> int | None:
        """Where a mark is: see `Map.places`."""
        places = (i for i, leaf in enumerate(self.leaves) if leaf is mark)
        return next(places, None if self.has(mark) else NOWHERE)


class _NoLeaf:
    """In place of what has no leaves: None, an empty list."""


class _Flag(int): ...


class _Whole(int): ...


class _Double(float): ...


class _Text(str): ...


def mark_for(thing: Any) -> Any:
    """Something that is found again by its identity, and is as good as `thing` for code
    that looks at it, if that is possible."""
    for cls, mark in ((bool, _Flag), (int, _Whole), (float, _Double), (str, _Text)):
        if type(thing) is cls:
            return mark(thing)
    return _NoLeaf() if _is_empty(thing) else object()


def _is_empty(thing: Any) -> bool:
    return thing is None or (is_rebuilt(thing) and not jax.tree.leaves(thing))


def provide_anything(copy: Any) -> None:
    """A class may read a value to be flattened."""
    if may_have_values(type(copy)) and type(copy).__weakrefoffset__:
        memo_of(copy).provider = Provider(lambda key: object())
