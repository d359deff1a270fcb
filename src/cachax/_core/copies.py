"""Copies of objects with other arrays in them."""

import operator
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import InitVar, dataclass, field
from itertools import islice
from typing import Any

from .fields import walk_fields
from .inputs import ORDER
from .parts import (
    CONTAINERS,
    NUMBERS,
    Taken,
    in_order,
    is_array,
    is_one_of_a_kind,
    is_rebuilt,
    is_whole,
    may_be_a_key,
    take_apart,
)
from .reads import Parts, watch
from .sources import names_of


class CannotRebuildError(Exception):
    """A thing in an object can't be copied with other arrays in it."""


@dataclass(eq=False)
class Copy:
    """A copy of an object with other arrays in it, made without running its code."""

    root: InitVar[Any]
    arrays: InitVar[Iterable[Any]]
    instead: dict[int, tuple[Any, int, int]] = field(default_factory=dict)
    """Others for some of the parts, by number, with how many parts and how many arrays
    these stand for."""
    is_sorted: bool = False
    """Whether the keys of its dictionaries are in sorted order."""
    notes_reads: bool = False
    """Whether it notes which of its fields are read from then on."""
    is_written: bool = True
    """Whether it has its own lists and dictionaries, with arrays in them or not."""
    numbered: dict[int, Any] = field(default_factory=dict)
    """The copies of things that are taken apart, by their numbers."""
    read: Parts = field(default_factory=set)
    """What was read since."""
    originals: dict[int, tuple[Any, Any]] = field(default_factory=dict)
    """The objects in it, by id, with what they are copies of."""

    kept: set[int] = field(default_factory=set)
    """The arrays that stay as they are, in things that are equal to others."""

    def __post_init__(self, root: Any, arrays: Iterable[Any]) -> None:
        self._root = root
        self._arrays = iter(arrays)
        self._copies: dict[int, tuple[Any, Parts, range] | None] = {}
        """By the id of a thing: its copy, what is read with it, and which parts are in
        it. None for those that the next part is in."""
        self._spans: dict[int, range] = {}
        """Which parts are in a copy, by its id."""
        self._again: dict[int, range] = {}
        """For a thing in a second place, by its number there: the parts in it."""
        self._arrays_seen = self._position = self._parts = 0
        self.obj, held = self._copy(root)
        self.read |= held

    def is_copy(self, thing: Any) -> bool:
        found = self.originals.get(id(thing))
        return found is not None and found[0] is thing

    def original(self, thing: Any) -> Any:
        """What `thing` is a copy of; itself if it isn't one."""
        return self.originals[id(thing)][1] if self.is_copy(thing) else thing

    def parts_in(self, thing: Any) -> set[int]:
        """The parts of the object that are in `thing`, which holds copies."""
        copies = filter(self.is_copy, walk_fields(thing))
        return self._with_first_places(p for x in copies for p in self._spans[id(x)])

    def parts_among(self, copy: Any, parts: Iterable[int], shape: Any) -> set[int]:
        """The numbers in the object of these parts of a copy inside, whose own shape
        this is."""
        span = self._spans[id(copy)]
        if len(shape) != len(span):  # one of them is in a different place, too
            return self.parts_in(copy)
        return self._with_first_places(span[part] for part in parts)

    def _with_first_places(self, parts: Iterable[int]) -> set[int]:
        """With what is in things that are in a different place, too."""
        found: set[int] = set()
        remaining = [*parts]
        while remaining:
            part = remaining.pop()
            if part not in found:
                found.add(part)
                remaining += self._again.get(part, ())
        return found

    def _copy(self, thing: Any) -> tuple[Any, Parts]:
        """A copy of a part, and what is read with the field that the part is in. (Parts
        are numbered as in `inputs_in_fields`.)"""
        number = self._parts
        held = {number}
        if number in self.instead:
            mark, count, arrays = self.instead[number]
            self._parts += count
            self._position += len([*islice(self._arrays, arrays)])
            return mark, held
        self._parts += 1
        if is_array(thing):
            self._position += 1
            self._arrays_seen += type(thing) not in NUMBERS
            return next(self._arrays), held
        if is_whole(thing):
            return thing, held
        if id(thing) in self._copies:
            found = self._copies[id(thing)]
            if found is None:
                raise CannotRebuildError
            if not is_rebuilt(thing):
                copy, its, span = found
                self._again[number] = span
                return copy, held | its
        self._copies[id(thing)] = None
        taken, before = take_apart(thing), self._arrays_seen
        start = self._position
        copies = [self._copy(part) for part in taken.parts]
        parts, inside = [copy for copy, _ in copies], [its for _, its in copies]
        new, is_watched = thing, False
        span = range(number, self._parts)
        is_kept = is_one_of_a_kind(type(thing)) and not names_of(type(thing))
        if self._arrays_seen > before:
            is_kept = may_be_a_key(thing)  # a body may look it up in a table
            if is_kept and thing is self._root:
                raise CannotRebuildError
            self.kept.update(range(start, self._position) if is_kept else ())
        if not is_kept and self._is_changed(thing, parts, taken):
            new = self._rebuilt(thing, taken, parts)
            self._spans[id(new)] = span
            is_watched = self._watch(new, thing, taken, inside)
        if not is_watched:  # to read the field that it is in is to read all of it
            held.update(*inside)
            if type(thing) in (dict, defaultdict) and len(thing) > 1:
                held.add(ORDER)
        self._copies[id(thing)] = new, held, span
        self.numbered[number] = new
        return new, held

    def _is_changed(self, thing: Any, parts: list[Any], taken: Taken) -> bool:
        """Whether a copy is needed. What has no arrays in it is shared, because a body
        may ask which object it is; but a body may put something into a list."""
        if not all(map(operator.is_, parts, taken.parts)):
            return True
        if type(thing) in (list, dict, defaultdict):
            return self.is_written
        return bool(names_of(type(thing))) and type(thing).__weakrefoffset__ != 0

    def _rebuilt(self, thing: Any, taken: Taken, parts: list[Any]) -> Any:
        if taken.rebuild is None or hasattr(type(thing), "__del__"):
            raise CannotRebuildError
        new = taken.rebuild(parts)
        if self.is_sorted and type(thing) in (dict, defaultdict):
            items = {key: new[key] for key in in_order(new)}
            new.clear()
            new.update(items)
        self.originals[id(new)] = (new, thing)
        return new

    def _watch(self, new: Any, thing: Any, taken: Taken, inside: list[Parts]) -> bool:
        """Note which fields of a copy are read. False if that isn't possible."""
        has_fields = type(thing).__dictoffset__ != 0 and not isinstance(
            thing, CONTAINERS
        )
        if not (self.notes_reads and has_fields):
            return False
        fields = dict(zip(taken.names, inside, strict=True))
        return watch(new, fields, self.read)
