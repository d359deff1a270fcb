"""What comes out of a program besides the result.

Leaves that pass through unchanged come out as new arrays: the values that were known
for the old ones follow them. An object that is made inside comes out with the values
that were computed on it there.
"""

import weakref
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, NamedTuple

import jax
from jax.tree_util import tree_flatten

from .._compat import (
    CONCRETE,
    Tracer,
    has_several_devices,
    is_placed_like,
    trace_context,
)
from .._core import index
from .._core.computed import Computed, Noted, Table, table_of
from .._core.fields import attributes, walk
from .._core.inputs import Inputs
from .._core.levels import may_be_kept, traces_in
from .._core.memo import (
    Provider,
    Supplied,
    has_supplied,
    inputs_of,
    keys_of,
    memo_of,
    preset_keys,
    supplied_for,
    supplied_outside,
)
from .._core.parts import NUMBERS
from .._core.slots import layout_of
from .._core.sources import names_of
from .._core.structure import Structure, survives
from .._core.uses import Uses
from .._core.values import NUMPY, Packed, Template, has_hidden_arrays, pack, template_of
from .demand import Demand, objects_in
from .paths import Reader, is_key, joined

Pairs = tuple[tuple[int, int], ...]


@dataclass(frozen=True, eq=False)
class Brought:
    """A value that comes out with an object."""

    key: Computed
    packed: Packed
    is_argument: bool
    number: int
    """Which of the objects in the arguments, or in the result."""
    name: str
    """For reports: its class and property."""
    is_supplied: bool = False
    """Whether the user put it there: it belongs to the object."""
    is_assigned: bool = False
    """And whether by assignment."""
    path: tuple[tuple[Any, int], ...] = ()
    """If that object is in a supplied value in its turn: which value, and which of the
    objects in it."""
    leaves: tuple[int, ...] = ()
    """Which leaves it came from, of the arguments or of the result. If it used no array
    of an argument: those of its object."""
    is_shared: bool = True
    """Whether all objects have the same one, and not each its own dictionary."""
    statics: Any = None
    """What else it depends on, and what of its object it used (`Given`)."""
    shape: tuple[Any, ...] = ()
    """That of its object (`Inputs`)."""
    traced: dict[int, int] = field(default_factory=dict)
    """Python numbers that the program takes as arrays: their places among the leaves,
    by position."""
    inputs: Inputs | None = None
    """If there are some: the inputs of its object, without the arrays and with zeros
    for these numbers."""

    def record(
        self, contents: Sequence[index.Contents], parts: tuple[Any, Any, Any]
    ) -> index.Record | None:
        """Given the arrays in the value, the numbers that were traced, and the object,
        weakly. None if the program took something else for numbers."""
        arrays, given, holder = parts
        statics, uses = self.statics, self.statics.uses
        if self.inputs is not None:
            numbers = dict(zip(self.traced, given, strict=True))
            zeros = self.inputs.arrays
            if any(type(x) is not type(zeros[i]) for i, x in numbers.items()):
                return None
            inputs = _with_numbers(self.inputs, numbers)
            self.key.learned.put(inputs, uses)
            statics = statics._replace(bits=uses.statics(inputs).bits)
        template = self.packed.template(arrays, self.is_shared)
        contents = contents if uses.positions else ()
        record = index.Record(self.key, contents, statics, template, holder=holder)
        packed = self.packed.with_arrays(arrays)
        record.packed = {False: packed, True: packed}  # there is nothing of numpy in it
        return record

    def code(
        self, name: str, arrays: str, reader: Reader, may_be_moved: bool
    ) -> list[str]:
        """Expressions that keep it, given one for its arrays, and a reader of the tree
        with its object, which `out_shardings` may move. `name` stands for `supply` or
        `record`."""
        if self.is_supplied:
            return [f"{name}(out, {arrays})"]
        self.key.learned.put_kind(self.shape, self.statics.uses)
        source = reader.constant(frozenset([index.token_of(self.key)]))
        leaves = [*map(reader.leaf, self.leaves)]
        has_used = bool(self.statics.uses.positions)
        used = joined(leaves) if has_used else "()"
        numbers = joined([*map(reader.leaf, self.traced.values())])
        # A value that used no array stays with any of those of its object.
        places = [used] if has_used else [f"({x},)" for x in leaves]
        is_kept = ""
        if has_several_devices() and self.is_argument:
            is_kept = f"in_place({arrays}, {used}, entry) and "
        elif has_several_devices() and may_be_moved:
            is_kept = f"are_alike({arrays}, {used}) and "
        parts = f"({arrays}, {numbers}, ref({reader.object(self.number)}))"
        return [
            f"{is_kept}put_later({place}, {name}, {source}, {parts})"
            for place in places
        ]

    def supply(self, out: Any, arrays: Any) -> None:
        """Put it on the object in the result."""
        obj = objects_in(out)[self.number]
        for key, number in self.path:
            obj = objects_in(key.read(obj))[number]
        self.supply_for(obj, self.packed.fill(arrays, ()))

    def supply_for(self, obj: Any, value: Any) -> None:
        """Put this value on an object, as the user did."""
        if self.is_assigned:
            self.key.__set__(obj, value)  # type: ignore[attr-defined]
        else:
            memo_of(obj).supply(self.key, value)


class Returned(NamedTuple):
    """An object of the result that is an object of the arguments."""

    number: int
    """In the result."""
    slot: int
    """Among the arguments."""
    is_same: bool
    """Whether it still has its fields."""
    assigned: frozenset[str]
    """Properties that the function has assigned or cleared."""


class About(int):
    """What a trace has learned about the result.

    A program has that of its first trace. A trace that differs returns its own with the
    result: a dictionary with this as its key, because JAX rebuilds that without any
    Python code. As numbers, all are equal: `out_shardings` has one too, for its place
    in the tree.
    """

    trees: tuple[Any, ...] = ()
    """The structures of the arguments and of the result, and which of their leaves are
    random keys: how to find the leaves depends on it."""
    has_arrays = False
    """Whether a program returns the arrays of values beside the result."""
    follows: Pairs = ()
    """Pairs of a leaf of the arguments and the leaf of the result that it is."""
    same: Pairs = ()
    """Pairs of leaves of the result that are the same."""
    returned: tuple["Returned", ...] = ()
    brought: tuple[Brought, ...] = ()
    _keep: Any = None
    """Keeps it all, given the arguments, the result and the arrays of the values."""

    @property
    def is_empty(self) -> bool:
        return not (self.follows or self.returned or self.brought)

    def is_like(self, other: "About") -> bool:
        """Whether both say the same. (Of values that come out, each has its own.)"""
        if self.is_empty and other.is_empty:
            return self.has_arrays == other.has_arrays
        mine, its = (
            (x.has_arrays, x.follows, x.same, x.returned, x.trees)
            for x in (self, other)
        )
        try:
            return mine == its and not (self.brought or other.brought)
        except Exception:  # of a static part that can't be compared
            return False

    def _prepare(self, entry: Any, args: Any, kwargs: Any, out: Any) -> None:
        """How to find all these leaves is found out once; see `paths.py`."""
        tree, _ = entry.options.static.take_out(args, kwargs)
        given: Reader = entry.reader(tree)
        returned = Reader((out,), layout_of((out,)), ("out",), given.names)
        its_leaves, out_leaves = jax.tree.leaves(tree), jax.tree.leaves(out)
        names: dict[str, Any] = {"put_later": index.put_later, "in_place": _in_place}
        names |= {"pass_on": _pass_on_supplied, "ref": weakref.ref}
        names |= {"all_objects_of": objects_in, "are_alike": _are_alike}
        code: dict[bool, list[str]] = {True: [], False: []}
        may_be_moved = "out_shardings" in entry.options.given
        start = 0
        for number, each in enumerate(self.brought):
            end = start + each.packed.form.holes
            arrays, start = f"arrays[{start}:{end}]", end
            reader = given if each.is_argument else returned
            name = f"brought_{number}"
            code[each.is_argument] += each.code(name, arrays, reader, may_be_moved)
            names[name] = each.supply if each.is_supplied else each.record

        of_objects = {i for span in entry.spans for i in span}

        def follow(
            pairs: Pairs, source: Reader, leaves: list[Any], owned: Container[int]
        ) -> Iterator[str]:
            for i, j in pairs:
                one, other = source.array(i, leaves), returned.array(j, out_leaves)
                yield f"follow({one}, {other}, {i in owned})"

        # What follows an argument may be known only when its values are.
        steps = [*code[True], *follow(self.follows, given, its_leaves, of_objects)]
        steps += [*code[False], *follow(self.same, returned, out_leaves, ())]
        owners = [entry.objects(tree)[x.slot] for x in self.returned]
        keys = (key for owner in owners for key in keys_of(type(owner)).values())
        if any(key.was_supplied for key in keys):
            names |= {"objects": self.returned, "supplied_for": supplied_for}
            slots = [given.object(x.slot) for x in self.returned]
            has_some = " or ".join(f"supplied_for({slot})" for slot in slots)
            steps.append(f"({has_some}) and pass_on(objects, entry, args, kwargs, out)")
        self._keep = given.function(steps, "out", "arrays", "entry", **names)

    def take(self, result: Any, entry: Any, args: Any, kwargs: Any) -> Any:
        """What the function returned, given what a program did. What came with it is
        kept."""
        if type(result) is dict and len(result) == 1:
            ((about, its_result),) = result.items()
            if type(about) is About:
                return about.take(its_result, entry, args, kwargs)
        out, arrays = result if self.has_arrays else (result, ())
        if trace_context.trace is not CONCRETE:
            tree, _ = entry.options.static.take_out(args, kwargs)
            _take_traced(self, out, arrays, jax.tree.leaves(tree))
            _pass_on_supplied(self.returned, entry, args, kwargs, out)
            return out
        if self._keep is None:
            self._prepare(entry, args, kwargs, out)
        self._keep(args, kwargs, out, arrays, entry)
        return out


def _in_place(values: list[Any], used: Sequence[Any], entry: Any) -> bool:
    """Whether values are where they would be computed outside; else, from now on, they
    are. (Where a program computes, and whether its results may be moved, depends on all
    of its arguments.)"""
    if used:
        first, others = used[0], (*used, *values)
        sharding = first.sharding
        is_same = all(  # most are equal: that is fast
            (x.sharding == sharding and x._committed == first._committed)
            or is_placed_like(x, first)
            for x in others
        )
    else:
        is_same = not any(x._committed for x in values)
    if not is_same and entry is not None:
        entry.compute_outside()
    return is_same


def _are_alike(values: Sequence[Any], used: Sequence[Any]) -> bool:
    """Whether values are spread over the devices like what they came from. (If it was
    moved since, they would be elsewhere if they were computed from it.)"""
    arrays = [*values, *used]
    shardings = {x.sharding for x in arrays}
    return len(shardings) == 1 or all(x.is_fully_replicated for x in arrays)


def _keys_among(leaves: Sequence[Any]) -> tuple[int, ...]:
    return tuple(i for i, leaf in enumerate(leaves) if is_key(leaf))


def bring_out(
    out: Any,
    structure: Structure,
    given: Sequence[Any],
    table: Table,
    arguments: Sequence[Any],
    inside: Demand | None,
) -> tuple[About, list[Any]]:
    """What comes out with the result of a trace, and the arrays in it. `structure` is
    that of the arguments. If values of `arguments` were computed inside, that is for
    the objects of this call."""
    leaves = jax.tree.leaves(out)
    places = {id(x): i for i, x in enumerate(given) if isinstance(x, Tracer)}
    origins = [id(table.origin(leaf)) for leaf in leaves]
    about = About()
    structures = (structure, Structure(jax.tree.structure(out)))
    about.trees = (*structures, *map(_keys_among, (given, leaves)))
    about.follows = tuple((places[x], i) for i, x in enumerate(origins) if x in places)
    found: list[tuple[Brought, Sequence[Any]]] = []
    for number, obj in enumerate(arguments if inside is not None else ()):
        found += _Target(obj, number, given, table, inside).values()
    origin = {} if has_several_devices() else {j: i for i, j in about.follows}
    known: Any = {(each.key, each.leaves): each.statics for each, _ in found}
    for number, obj in enumerate(objects_in(out)):
        for each, arrays in _Target(obj, number, leaves, table).values():
            place = (each.key, (*map(origin.get, each.leaves),))
            if known.get(place) != each.statics:  # it doesn't follow an argument
                found.append((each, arrays))
        slots = [slot for slot, argument in enumerate(arguments) if argument is obj]
        provider = memo_of(obj).provider
        is_same = provider is not None and provider.has_preset
        assigned = frozenset(names_of(type(obj)) & attributes(obj).keys())
        assigned |= frozenset() if provider is None else provider.but
        about.returned += tuple(Returned(number, x, is_same, assigned) for x in slots)
        found += () if slots else _supplied_in_result(obj, number)
    about.brought = tuple(brought for brought, _ in found)
    if any(each.leaves for each in about.brought):
        first = {id(x): i for i, x in reversed([*enumerate(leaves)])}
        pairs = [(first[id(x)], i) for i, x in enumerate(leaves)]
        about.same = tuple((i, j) for i, j in pairs if i != j)
    return about, [x for _, arrays in found for x in arrays]


class CannotComeOutError(Exception):
    """A value of an argument was computed inside, and would be lost."""


class _Target:
    """An object that values come out with: in the result, or an argument, if values of
    arguments were computed inside. `leaves` are those of the result, or of the
    arguments, and `inside` has the objects outside."""

    def __init__(
        self,
        obj: Any,
        number: int,
        leaves: Sequence[Any],
        table: Table,
        inside: Demand | None = None,
    ) -> None:
        self._obj = obj
        self._number = number
        self._table = table
        self._inside = inside
        self._places = {id(x): i for i, x in reversed([*enumerate(leaves)])}
        """Of each leaf, the first one."""
        self._types = [] if inside is None else [*map(type, inside.leaves)]
        kinds = enumerate(self._types)
        self._numbers = {id(leaves[i]): i for i, cls in kinds if cls in NUMBERS}
        """Those that are Python numbers outside."""

    def values(self) -> Iterator[tuple[Brought, Sequence[Any]]]:
        """What was computed in this trace and holds for the object, with its arrays."""
        inputs = _as_rebuilt(self._obj) if self._table.noted else None
        if inputs is None:
            return
        for noted in self._table.noted:
            if self._is_its(noted, inputs):
                brought = self._brought(noted, inputs)
                if brought is not None:
                    yield brought
                elif self._inside is not None:
                    raise CannotComeOutError

    def _is_its(self, noted: Noted, inputs: Inputs) -> bool:
        """Whether a value is that of the object, as it comes out."""
        uses = noted.statics.uses
        if noted.key in supplied_for(self._obj) or noted.statics.supplied:
            return False
        has_numbers = any(type(x) in NUMBERS for x in jax.tree.leaves(self._obj))
        loose = inputs.numbers if has_numbers else ()  # they may come out as arrays
        if any(inputs.parts[i] not in uses.unread for i in loose):
            return False
        return self._table.holds(noted, inputs)

    def _brought(
        self, noted: Noted, inputs: Inputs
    ) -> tuple[Brought, Sequence[Any]] | None:
        """None if the value can't come out."""
        key, value, uses = noted.key, noted.value, noted.statics.uses
        inside, number = self._inside, self._number
        if inside is not None and not inside.is_same_inside(number, inputs, uses):
            return None
        pairs = ((i, self._numbers.get(id(x))) for i, x in enumerate(inputs.arrays))
        traced = {i: place for i, place in pairs if place is not None}
        outside = inputs
        if traced:
            uses = _outside(uses, traced)
            zeros = {i: self._types[place]() for i, place in traced.items()}
            outside = _with_numbers(inputs, zeros)
        own = uses.arrays(inputs)
        is_argument = inside is not None
        holders = own or (inputs.arrays if is_argument and not traced else [])
        if not holders or not uses.is_shareable(inputs):
            return None
        if any(id(x) not in self._places for x in own):
            return None
        if is_argument and _has_computed_inside(value, self._table):
            return None
        template = _template_outside(value, own)
        if template is None:
            return None
        shaped = (template.leaves, template.structure)
        packed: Any = pack(value, key.of(self._obj), template=shaped)
        places = self._places
        brought = Brought(
            key,
            packed.with_arrays(()),  # no tracer goes out of the trace
            is_argument,
            number,
            key.of(self._obj),
            leaves=tuple(places[id(x)] for x in holders if id(x) in places),
            is_shared=template.whole is not None,
            statics=uses.statics(outside),
            shape=outside.shape,
            inputs=outside if traced else None,
            traced=traced,
        )
        return brought, packed.arrays


def _template_outside(value: Any, own: Sequence[Any]) -> Template | None:
    """What is kept of a value that was computed in a program from these arrays; None if
    it would be a different one outside."""
    if has_hidden_arrays(value) or any(map(has_supplied, walk(value))):
        return None
    template = template_of(value, own)
    if template is None or any(isinstance(x, NUMPY) for x in template.leaves):
        return None
    return template


def _has_computed_inside(value: Any, table: Table) -> bool:
    """Whether something was computed in this trace on an object in a value."""
    found = filter(None, map(inputs_of, objects_in(value)))
    return any(table.holds(noted, inputs) for inputs in found for noted in table.noted)


def _as_rebuilt(obj: Any) -> Inputs | None:
    """The inputs of `obj` as it comes out; None if they differ from those that it has,
    because the class drops something."""
    leaves, tree = tree_flatten(obj)
    try:
        is_same = survives(obj, Structure(tree), leaves)
    except Exception:  # a class that looks at what it is built from
        return None
    return inputs_of(obj) if is_same else None


def _outside(uses: Uses, traced: Container[int]) -> Uses:
    """The same for an object outside, where what is traced are Python numbers."""
    positions = tuple(i for i in uses.positions if i not in traced)
    return uses._replace(positions=positions)


def _with_numbers(inputs: Inputs, numbers: dict[int, Any]) -> Inputs:
    """The same with these numbers in place of arrays. No tracer is in it."""
    arrays = [x if type(x) in NUMBERS else None for x in inputs.arrays]
    for i, number in numbers.items():
        arrays[i] = number
    return replace(inputs, arrays=arrays)


def _supplied_in_result(
    obj: Any, number: int, path: tuple[Any, ...] = ()
) -> Iterator[tuple[Brought, Sequence[Any]]]:
    """Values that were supplied (`preset`) for an object that is returned, and is not
    an argument: the function supplied them, or it is a part of a value."""
    keys: Any = preset_keys(obj)
    for key in keys:
        value = key.read(obj)
        packed = pack(value, key.of(obj))
        if packed is not None:
            empty, name = packed.with_arrays(()), key.of(obj)
            is_assigned = key.is_assigned(obj)
            yield (
                Brought(key, empty, False, number, name, True, is_assigned, path),
                packed.arrays,
            )
            for place, inner in enumerate(objects_in(value)):
                yield from _supplied_in_result(inner, number, (*path, (key, place)))


def _pass_on_supplied(
    returned: Sequence[Returned],
    entry: Any,
    args: Any,
    kwargs: Any,
    out: Any,
) -> None:
    """An object that is returned as it is keeps the values that were assigned. Inside a
    trace, they are read from the argument."""
    tree, _ = entry.options.static.take_out(args, kwargs)
    is_traced = any(isinstance(x, Tracer) for x in jax.tree.leaves(tree))
    for number, slot, is_same, assigned in returned:
        new, owner = objects_in(out)[number], entry.objects(tree)[slot]
        if is_traced:
            inner = frozenset(attributes(owner).keys() & names_of(type(owner)))
            inner = inner - assigned if traces_in(owner) else frozenset()
            for name in inner:  # assigned in a trace that is still under way
                attributes(new)[name] = attributes(owner)[name]
            given = _supplied_for(owner, but=assigned | inner)
            memo_of(new).set_provider(given if is_same else given.assigned_only())
            continue
        for key, (_, is_assigned) in supplied_outside(owner).items():
            if key.attrname in assigned or not (is_same or is_assigned):
                continue
            value = key.peek(owner, None)
            if is_assigned:
                key.__set__(new, value)
            else:
                memo_of(new).supply(key, value)


def _supplied_for(owner: Any, but: frozenset[str]) -> Provider:
    """Gives what the user supplied for `owner`, except values of these names."""
    return Provider(
        provide=lambda key: key.read(owner),
        outside=lambda: supplied_outside(owner),
        but=but,
        has_computed=False,
    )


def _take_traced(
    about: About, out: Any, arrays: Sequence[Any], given: Sequence[Any]
) -> None:
    """The same for a call inside a trace: there, values stay with their objects."""
    leaves = jax.tree.leaves(out)
    table = table_of(traces_in(leaves))
    if table is not None:
        for source, place in about.follows:
            if leaves[place] is not given[source]:  # as it is in JAX 0.4
                table.passed[id(leaves[place])] = (leaves[place], given[source])
    remaining = iter(arrays)
    objects = objects_in(out)
    values: dict[Any, Any] = {}
    for each in about.brought:
        its = [*islice(remaining, each.packed.form.holes)]
        if each.is_argument:
            continue
        obj = objects[each.number]
        if each.is_supplied:
            value = values[each.number, each.path, each.key] = each.packed.fill(its, ())
            if each.path:
                key, place = each.path[-1]
                obj = objects_in(values[each.number, each.path[:-1], key])[place]
            if may_be_kept(value, obj):
                supplied = Supplied(value, each.is_assigned)
                memo_of(obj).provide_supplied(each.key, supplied)
            else:  # the object is at the level of the value then
                each.supply_for(obj, value)
            continue
        value = each.packed.fill(its, [leaves[i] for i in each.leaves])
        memo_of(obj).keep(each.key, value)
        inputs = inputs_of(obj)
        if table is not None and inputs is not None:
            statics = each.statics.uses.statics(inputs)
            statics = statics._replace(settings=each.statics.settings)
            table.note(each.key, inputs, statics, value)
