"""Where the parts of an object are in a tree.

A value is found by its arrays if everything that its body read is in the tree: a leaf,
or static, which is for JAX to compare. Found out once for each structure of arguments,
by flattening a copy of the object with marks in place of its parts.
"""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
from jax.tree_util import default_registry

from .._core.fields import (
    BUILTIN_ATOMS,
    attributes,
    fields_in,
    is_open,
    may_change,
    reached,
)
from .._core.inputs import (
    ARRAY,
    NUMBERS,
    CannotRebuildError,
    Copy,
    Fields,
    inputs_in_fields,
    is_rebuilt,
    parts_in,
)
from .._core.memo import may_have_values, memo_of

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
    """Numbers, strings and None in fields of the object itself that are not in the
    tree. A call compares them: a class may make them again."""

    @property
    def of_arrays(self) -> list[int | None]:
        """Those of the arrays."""
        return [self.places[i] for i, kind in enumerate(self.shape) if kind is ARRAY]

    def statics(self, uses: Any) -> list[int]:
        """The leaves that are static parts, and that a value depends on."""
        pairs = ((i, x) for i, x in self.places.items() if i not in uses.unread)
        found = [x for i, x in pairs if self.shape[i] is not ARRAY and x is not None]
        return [*dict.fromkeys(found)]

    def finds(self, inputs: Any, uses: Any) -> bool:
        """Whether a call can compare all that a value depends on."""
        lost = {i for i, place in self.places.items() if place == NOWHERE}
        return self.shape == inputs.shape and lost <= self.dropped.union(uses.unread)

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
    things = parts_in(obj, inputs.shape)
    units = _units(inputs.shape, things)
    arrays = [*map(_mark_for, inputs.arrays)]
    marks = {i: (_mark_for(things[i]), *unit) for i, unit in units.items()}
    try:
        tree = _Flattened(obj, arrays, marks, len(span))
        of_units = {i: tree.place(mark) for i, (mark, *_) in marks.items()}
    except Exception:  # the class's own code makes use of a part
        try:
            tree = _Flattened(obj, arrays, {}, len(span))
        except Exception:
            return None
        of_units = {i: tree.place_of_one(i, unit) for i, unit in marks.items()}
    places: dict[int, int | None] = {}
    for i, (count, _) in units.items():
        place = NOWHERE if may_change(things[i]) else of_units[i]
        places |= dict.fromkeys(range(i, i + count), place)
    for number, (part, mark) in enumerate(zip(inputs.parts, arrays, strict=True)):
        if part not in places:
            is_flag = type(mark) is bool
            place = tree.place_of_flag(number) if is_flag else tree.place(mark)
            places[part] = place
    for i, end in _ends(inputs.shape).items():
        inside = {places.get(x, NOWHERE) for x in range(i + 1, end)}
        if inside == {NOWHERE}:  # then so is what is around them
            places.setdefault(i, NOWHERE)
    for i, place in places.items():
        if place is not None and place != NOWHERE:
            places[i] = span[place]
    dropped = {i for i in _fields(obj, inputs.shape) if places.get(i) == NOWHERE}
    return Map(
        inputs.shape,
        places,
        frozenset(i for i in dropped if type(things[i]) in BUILTIN_ATOMS),
    )


def _fields(obj: Any, shape: Sequence[Any]) -> Iterator[int]:
    """The parts that are in the `__dict__` of an object itself."""
    ends, part = _ends(shape), 1
    for name in shape[0].names:
        if name in attributes(obj):
            yield part
        part = ends[part]


def _ends(shape: Sequence[Any]) -> dict[int, int]:
    """For each part, the number after the last one inside, from the last to the
    first."""
    ends: dict[int, int] = {}
    for i in reversed(range(len(shape))):
        ends[i] = i + 1
        for _ in range(shape[i].parts if type(shape[i]) is Fields else 0):
            ends[i] = ends[ends[i]]
    return ends


def _units(shape: Sequence[Any], things: Sequence[Any]) -> dict[int, tuple[int, int]]:
    """The parts that JAX takes as one thing, except arrays: how many parts are in each,
    and how many numbers."""
    ends = _ends(shape)
    found: dict[int, tuple[int, int]] = {}
    covered = 0
    for i, kind in enumerate(shape):
        if i < covered or kind is ARRAY or isinstance(kind, type):
            continue
        inside = [x for x in range(i, ends[i]) if shape[x] is ARRAY]
        if type(kind) is Fields and kind.parts:
            is_taken_apart = is_rebuilt(things[i])
            if is_taken_apart or any(type(things[x]) not in NUMBERS for x in inside):
                continue
        covered = ends[i]
        found[i] = (ends[i] - i, len(inside))
    return found


class _Flattened:
    """A copy of an object with marks, flattened."""

    def __init__(
        self, obj: Any, arrays: list[Any], marks: dict[int, Any], count: int
    ) -> None:
        self._given = (obj, arrays, marks, count)
        copy = Copy(obj, arrays, instead=marks, is_written=False)
        for new, _ in copy.originals.values():
            provide_anything(new)
        structure: Any
        leaves, structure = jax.tree.flatten(copy.obj)
        self._structure = structure
        self._static = _ids_in_structure(copy.obj)
        self._static |= {id(x) for x in leaves if type(x) is _NoLeaf}
        self._leaves = [x for x in leaves if type(x) is not _NoLeaf]
        if len(self._leaves) != count:
            raise CannotRebuildError

    def place(self, mark: Any) -> int | None:
        """Where a mark is: see `Map.places`."""
        places = (i for i, leaf in enumerate(self._leaves) if leaf is mark)
        return next(places, None if id(mark) in self._static else NOWHERE)

    def place_of_one(self, part: int, unit: Any) -> int | None:
        """Where a part is if nothing but the arrays and this part is replaced."""
        obj, arrays, _, count = self._given
        try:
            return _Flattened(obj, arrays, {part: unit}, count).place(unit[0])
        except Exception:
            return NOWHERE

    def place_of_flag(self, number: int) -> int | None:
        """Where a truth value is, of which there are only two: see what the other one
        changes."""
        obj, arrays, marks, count = self._given
        arrays = [not x if i == number else x for i, x in enumerate(arrays)]
        try:
            other = _Flattened(obj, arrays, marks, count)
        except Exception:
            return None
        if other._structure != self._structure:
            return None
        pairs = enumerate(zip(self._leaves, other._leaves, strict=True))
        return next((i for i, (x, y) in pairs if x is not y), NOWHERE)


class _NoLeaf:
    """In place of what has no leaves: None, an empty list."""


class _Whole(int): ...


class _Double(float): ...


class _Text(str): ...


def _mark_for(thing: Any) -> Any:
    """Something that is found again by its identity, and is as good as `thing` for code
    that looks at it, if that is possible."""
    for cls, mark in ((int, _Whole), (float, _Double), (str, _Text)):
        if type(thing) is cls:
            return mark(thing)
    if type(thing) is bool:
        return thing
    is_empty = is_rebuilt(thing) and not jax.tree.leaves(thing)
    return _NoLeaf() if thing is None or is_empty else object()


def provide_anything(copy: Any) -> None:
    """A class may read a value to be flattened."""
    if may_have_values(type(copy)) and type(copy).__weakrefoffset__:
        memo_of(copy).provider = lambda key: object()


def _ids_in_structure(tree: Any) -> set[int]:
    """What is in the static parts of a tree, apart from what can be changed there."""
    level = default_registry.flatten_one_level(tree)
    if level is None:
        return set()
    parts, static = level
    found = {id(x) for x in reached(static, _fixed_parts)}
    return found.union(*map(_ids_in_structure, parts))


def _fixed_parts(thing: Any) -> list[Any]:
    if isinstance(thing, functools.partial):  # its dictionary is its own
        return [thing.func, thing.args, *thing.keywords, *thing.keywords.values()]
    return [] if is_open(thing) else fields_in(thing)
