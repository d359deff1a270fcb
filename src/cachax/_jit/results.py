"""What comes out of a program besides the result.

Leaves that pass through unchanged come out as new arrays: the values that were known
for the old ones follow them. An object that is made inside comes out with the values
that were computed on it there.
"""

import weakref
from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import jax
from jax.tree_util import tree_flatten

from .._compat import (
    CONCRETE,
    Tracer,
    has_several_devices,
    trace_context,
)
from .._core import index
from .._core.computed import Computed, Table, holds, table_of
from .._core.function import CachedFunction
from .._core.inputs import NUMBERS, Inputs, inputs_of
from .._core.levels import traces_in
from .._core.memo import memo_of
from .._core.slots import layout_of
from .._core.sources import names_of
from .._core.uses import Uses
from .._core.values import (
    NUMPY,
    Packed,
    Template,
    has_hidden_arrays,
    pack,
    template_of,
)
from .paths import Reader, joined

Pairs = tuple[tuple[int, int], ...]


@dataclass(frozen=True, eq=False)
class Brought:
    """A value that comes out with an object."""

    key: Computed
    statics: Any
    packed: Packed
    positions: tuple[int, ...]
    """Which leaves it came from: of the arguments, or of the result."""
    is_argument: bool
    number: int
    """Which of the objects in the arguments, or in the result."""
    name: str
    """For reports: its class and property."""
    is_supplied: bool = False
    """Whether the user put it there: it belongs to the object."""
    is_shared: bool = True
    """Whether all objects have the same one, and not each its own dictionary."""
    holders: tuple[int, ...] = ()
    """If it used no array of an argument: those of its object, likewise."""
    uses: Any = None
    """What it used."""
    traced: "TracedNumbers | None" = None
    """Those that are leaves of an argument."""

    def record(
        self, contents: Sequence[index.Contents], parts: Any
    ) -> index.Record | None:
        """Given the arrays in the value, and the numbers that were traced, if there are
        some. None if the program took something else for numbers."""
        arrays, statics = parts, self.statics
        if self.traced is not None:
            arrays, numbers = parts
            inputs = self.traced.inputs(numbers)
            if inputs is None:
                return None
            self.key.learned.put(inputs, self.uses)
            statics = self.uses.statics(inputs)
        record = index.Record(
            self.key,
            contents,
            statics,
            self.packed.template(arrays, self.is_shared),
            self.uses,
        )
        packed = replace(self.packed, arrays=tuple(arrays))
        record.packed = {False: packed, True: packed}  # there is nothing of numpy in it
        return record

    def put(self, holders: Any, arrays: Any) -> None:
        """Keep a value that used no array."""
        template = self.packed.template(arrays, self.is_shared)
        holders = [x for x in holders if isinstance(x, jax.Array)]
        index.put(self.key, (), self.statics, template, self.uses, holders)

    def supply(self, out: Any, arrays: Any) -> None:
        """Put it on the object in the result."""
        obj = _returned(out)[self.number]
        memo_of(obj).supply(self.key, self.packed.fill(arrays, ()))


@dataclass(frozen=True, eq=False)
class TracedNumbers:
    """Python numbers of an object that are arrays inside a program."""

    inside: Inputs
    """What its inputs are there, without the arrays."""
    leaves: dict[int, int]
    """By the positions of the numbers: where they are among the leaves."""
    types: tuple[type, ...]

    def inputs(self, numbers: Sequence[Any]) -> Inputs | None:
        """Those of the object, with these numbers, as far as it counts."""
        if (*map(type, numbers),) != self.types:
            return None
        arrays = [*self.inside.arrays]
        for position, number in zip(self.leaves, numbers, strict=True):
            arrays[position] = number
        kinds = [*self.inside.numbers, *zip(self.leaves, self.types, strict=True)]
        return replace(self.inside, arrays=arrays, numbers=tuple(kinds))


class About(int):
    """What was learned in the trace, and which comes out with the result: a dictionary
    with this as its key, because JAX rebuilds that without any Python code.

    As numbers, all are equal: `out_shardings` has one too, for its place in the tree.
    """

    follows: Pairs
    """Pairs of a leaf of the arguments and the leaf of the result that it is."""
    brought: tuple[Brought, ...]
    keep: Any = None
    """Keeps it all, given the arguments, the result and the arrays of the values."""

    def __new__(cls, follows: Pairs = (), brought: tuple[Brought, ...] = ()) -> "About":
        about = super().__new__(cls)
        about.follows = follows
        about.brought = brought
        return about

    def prepare(self, entry: Any, args: Any, kwargs: Any, out: Any) -> None:
        """How to find all these leaves is found out once; see `paths.py`."""
        tree, _ = entry.options.static.take_out(args, kwargs)
        given: Reader = entry.reader(tree)
        returned = Reader(out, None, ("out",), given.names)
        its_leaves, out_leaves = jax.tree.leaves(tree), jax.tree.leaves(out)
        weakly = weakref.ref(entry)  # which would hold itself
        names: dict[str, Any] = {
            "put_later": index.put_later,
            "in_place": _are_in_place,
            "give_up": lambda: _compute_outside(weakly()),
        }
        code: dict[bool, list[str]] = {True: [], False: []}
        start = 0
        for number, each in enumerate(self.brought):
            end = start + each.packed.form.holes
            its, start = f"arrays[{start}:{end}]", end
            values = its
            reader = given if each.is_argument else returned
            used = joined([*map(reader.leaf, each.positions)])
            name = f"brought_{number}"
            if each.is_supplied:
                names[name], its_code = each.supply, f"{name}(out, {its})"
            elif each.holders:
                holders = joined([*map(reader.leaf, each.holders)])
                names[name], its_code = each.put, f"{name}({holders}, {its})"
            else:
                if each.traced is not None:
                    numbers = map(reader.leaf, each.traced.leaves.values())
                    its = f"({its}, {joined([*numbers])})"
                names[name], its_code = each.record, f"put_later({used}, {name}, {its})"
            if each.is_argument and has_several_devices():
                its_code += f" if in_place({values}, {used}) else give_up()"
            code[each.is_argument].append(its_code)
        follow = [
            f"hasattr({given.array(i, its_leaves)}, '_cachax') and follow("
            f"{given.array(i, its_leaves)}, {returned.array(j, out_leaves)})"
            for i, j in self.follows
        ]
        # What follows an argument may be known only now.
        code_of_all = [*code[True], *follow, *code[False]]
        self.keep = given.function(code_of_all, "out", "arrays", **names)

    def take(self, result: Any, entry: Any, args: Any, kwargs: Any) -> Any:
        """What the function returned; what came with it is kept."""
        out, arrays = result
        if trace_context.trace is not CONCRETE:
            tree, _ = entry.options.static.take_out(args, kwargs)
            _take_traced(self, out, arrays, jax.tree.leaves(tree))
            return out
        if self.keep is None:
            self.prepare(entry, args, kwargs, out)
        self.keep(args, kwargs, out, arrays)
        return out


def _are_in_place(values: list[Any], used: Sequence[Any]) -> bool:
    """Whether values are where they would be computed outside. (Where a program
    computes, and whether its results may be moved, depends on all of its arguments.)"""
    if not used:
        return not any(x._committed for x in values)
    first, *others = used
    for x in others + values if others else values:
        if x._committed != first._committed or x.sharding != first.sharding:
            return False
    return True


def _compute_outside(entry: Any) -> None:
    if entry is not None:
        entry.compute_outside()


def take(out: dict[Any, Any], entry: Any, args: Any, kwargs: Any) -> Any:
    """What the function returned, given a dictionary that a program returned."""
    if len(out) != 1:
        return out
    ((about, result),) = out.items()
    if type(about) is not About:
        return out
    return about.take(result, entry, args, kwargs)


def bring_out(
    out: Any,
    given: Sequence[Any],
    table: Table,
    arguments: Sequence[Any],
    types: Sequence[type],
    keep: bool,
) -> Any:
    """The result of a trace with everything that comes out with it; `out` itself if
    there is nothing. `arguments` are objects whose values were computed inside, and
    `types` are those of the leaves outside. With `keep`, there is always something.
    """
    leaves = jax.tree.leaves(out)
    places = {id(x): i for i, x in enumerate(given) if isinstance(x, Tracer)}
    origins = [id(table.origin(leaf)) for leaf in leaves]
    follows = tuple((places[x], i) for i, x in enumerate(origins) if x in places)
    brought = [
        *_of_objects(arguments, given, table, True, types),
        *_of_objects(_returned(out), leaves, table, False, ()),
        *_supplied(_returned(out)),
    ]
    if not follows and not brought and not keep:
        return out
    arrays = [x for _, arrays in brought for x in arrays]
    return {About(follows, tuple(b for b, _ in brought)): (out, arrays)}


class CannotComeOutError(Exception):
    """A value of an argument was computed inside, and would be lost."""


def _returned(out: Any) -> list[Any]:
    layout = layout_of((out,))
    return [] if layout is None else layout.objects((out,))


def _of_objects(
    objects: Sequence[Any],
    leaves: Sequence[Any],
    table: Table,
    is_argument: bool,
    types: Sequence[type],
) -> list[tuple[Brought, tuple[Any, ...]]]:
    places = {id(x): i for i, x in enumerate(leaves)}
    numbers: dict[int, type] = {i: x for i, x in enumerate(types) if x in NUMBERS}
    found = []
    for number, obj in enumerate(objects):
        for key, inputs, uses, value in _values_of(obj, table):
            traced = _traced_numbers(inputs, places, numbers)
            if traced is not None:
                uses = _with_numbers(uses, traced.leaves)
            used = uses.arrays(inputs)
            holders = () if used or not is_argument or traced else inputs.arrays
            packed = template = None
            if (used or holders) and all(id(x) in places for x in used):
                hides = has_hidden_arrays(value)
                template = None if hides else template_of(value, used)
            if template is not None and _comes_out_the_same(template):
                shaped = (template.leaves, template.structure)
                packed = pack(value, key.of(obj), template=shaped)
            if template is None or packed is None or not uses.is_shareable(inputs):
                if is_argument:
                    raise CannotComeOutError
            else:
                about = Brought(
                    key,
                    uses.statics(inputs),
                    replace(packed, arrays=()),  # no tracer goes out of the trace
                    tuple(places[id(x)] for x in used),
                    is_argument,
                    number,
                    key.of(obj),
                    is_shared=template.whole is not None,
                    holders=tuple(places[id(x)] for x in holders if id(x) in places),
                    uses=uses,
                    traced=traced,
                )
                found.append((about, packed.arrays))
    return found


def _with_numbers(uses: Uses, traced: Container[int]) -> Uses:
    """The same for an object outside, where what is traced are Python numbers."""
    numbers = {i for i in uses.positions if i in traced}
    positions = tuple(i for i in uses.positions if i not in numbers)
    read = tuple(sorted(numbers.union(uses.numbers)))
    return replace(uses, positions=positions, numbers=read)


def _traced_numbers(
    inputs: Inputs, places: dict[int, int], numbers: dict[int, type]
) -> TracedNumbers | None:
    """Those among the inputs of an object, if there are any."""
    at = {i: places.get(id(x)) for i, x in enumerate(inputs.arrays)}
    leaves = {i: place for i, place in at.items() if place in numbers}
    if not leaves:
        return None
    arrays = [x if type(x) in NUMBERS else None for x in inputs.arrays]
    types = tuple(numbers[place] for place in leaves.values())
    return TracedNumbers(replace(inputs, arrays=arrays), leaves, types)


def _supplied(objects: Sequence[Any]) -> list[tuple[Brought, tuple[Any, ...]]]:
    """Values that the function itself supplied (`preset`) for objects it returns."""
    found = []
    for number, obj in enumerate(objects):
        keys: Any = memo_of(obj).supplied
        for key in keys:
            packed = pack(key.peek(obj, None), key.of(obj))
            if packed is not None:
                about = Brought(
                    key,
                    None,
                    replace(packed, arrays=()),
                    (),
                    False,
                    number,
                    key.of(obj),
                    True,
                )
                found.append((about, packed.arrays))
    return found


def _values_of(obj: Any, table: Table) -> list[Any]:
    """What was computed in this trace and holds for `obj`, as it comes out."""
    if not table.records:
        return []
    try:
        inputs = inputs_of(jax.tree.unflatten(*reversed(tree_flatten(obj))))
        before = inputs_of(obj)
    except Exception:  # a class that looks at what it is built from
        return []
    if inputs is None or before is None or inputs.exactly != before.exactly:
        return []  # the class drops something; a number comes out as an array
    if any(x is not y for x, y in zip(inputs.arrays, before.arrays, strict=True)):
        return []
    if inputs.numbers and any(type(x) in NUMBERS for x in jax.tree.leaves(obj)):
        return []
    names = names_of(type(obj))
    return [
        (key, inputs, uses, value)
        for key, its, uses, value in table.records
        if _belongs(key, names, obj) and holds(uses, inputs, its, table)
    ]


def _belongs(key: Computed, names: Sequence[str], obj: Any) -> bool:
    source: Any = key
    while hasattr(source, "source"):  # of a batch, of a method
        source = source.source
    if isinstance(source, CachedFunction):
        return True
    classes = type(obj).__mro__  # `super()` reads what a class overrides
    return any(vars(cls).get(name) is source for name in names for cls in classes)


def _comes_out_the_same(template: Template) -> bool:
    """Not what numpy computed."""
    return not any(isinstance(x, NUMPY) for x in template.leaves)


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
    objects = _returned(out)
    for each in about.brought:
        its = [*islice(remaining, each.packed.form.holes)]
        if not each.is_argument:
            used = [leaves[i] for i in each.positions]
            memo = memo_of(objects[each.number])
            value = each.packed.fill(its, used)
            if each.is_supplied:
                memo.supply(each.key, value)
                continue
            memo.keep(each.key, value)
            inputs = inputs_of(objects[each.number])
            if table is None or inputs is None:
                continue
            uses = each.key.learned.get(inputs)
            if uses is not None:
                table.records.append((each.key, inputs, uses, value))
