"""Read leaves of a tree without flattening it.

Flattening runs the code of every class in the tree, and JAX does it already. A path is
how to get from a tree to one of its leaves, or to an object in it, by items and fields;
it holds for all trees of one structure. Paths are compiled to one Python expression.
"""

import functools
import keyword
import re
import types
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from .._compat import base_of
from .._core.fields import is_opaque, slot_value, slots_of
from .._core.inputs import (
    NUMBERS,
    Copy,
    Fields,
    Inputs,
    in_order,
    inputs_of,
    is_array,
    is_whole,
    take_apart,
)
from .._core.memo import may_have_values, memo_of
from .._core.slots import Layout

_FILE = f"{__file__}: compiled"
"""Where tracebacks and profilers say that compiled code is."""

Path = tuple[tuple[str, Any], ...]
"""Steps: the kind of each, and what it takes."""


class _Paths:
    """How to get to the leaves of a tree, and to the objects in it."""

    def __init__(self, tree: Any, layout: Layout | None) -> None:
        self.leaves: dict[int, Path] = {}
        """By number; those that aren't fields are missing."""
        self.objects: dict[int, Path] = {}
        leaves: list[Any]
        structure: Any
        leaves, structure = jax.tree.flatten(tree)
        numbers = {id(x) for x in leaves if type(x) in NUMBERS}
        for marked_numbers in (numbers, set[int]()):
            try:
                marked = _Marked(tree, marked_numbers)
                found, same = jax.tree.flatten(marked.tree)
                objects = [] if layout is None else layout.objects(marked.tree)
            except Exception:  # whatever a class does with a mark; or it is too deep
                continue
            if same == structure and len(found) == len(leaves):
                marks = enumerate(found)
                self.leaves = {i: x.path for i, x in marks if type(x) is _Mark}
                paths = enumerate(marked.objects.get(id(obj)) for obj in objects)
                self.objects = {i: path for i, path in paths if path is not None}
                return


class _Mark:
    """In place of an array, to see which leaf it is."""

    def __init__(self, path: Path) -> None:
        self.path = path


def _provide_values(copy: Any) -> None:
    """A class may read a value to be flattened."""
    if may_have_values(type(copy)) and type(copy).__weakrefoffset__:
        memo_of(copy).provider = lambda key: object()


class _Marked:
    """A copy of a tree with marks for arrays. What is in it twice is there twice."""

    def __init__(self, tree: Any, numbers: set[int]) -> None:
        self._numbers = numbers
        """The ids of those that are leaves. Some that are static may have them too."""
        self._around: set[int] = set()
        self.objects: dict[int, Path] = {}
        self.tree = self._copy(tree, ())

    def _copy(self, thing: Any, path: Path) -> Any:
        if is_array(thing):
            is_kept = type(thing) in NUMBERS and id(thing) not in self._numbers
            return thing if is_kept else _Mark(path)
        if is_whole(thing) or is_opaque(type(thing)) or id(thing) in self._around:
            return thing
        taken = take_apart(thing)
        steps = _steps(thing, taken.names)
        if taken.rebuild is None or steps is None:
            return thing
        self._around.add(id(thing))
        pairs = zip(taken.parts, steps, strict=True)
        parts = [self._copy(part, (*path, step)) for part, step in pairs]
        self._around.discard(id(thing))
        try:
            new = taken.rebuild(parts)
        except Exception:  # a class that looks at what it is built from
            return thing
        _provide_values(new)
        self.objects[id(new)] = path
        return new


def _steps(thing: Any, names: Sequence[Any]) -> list[tuple[str, Any]] | None:
    """From a thing to each of its parts."""
    cls = type(thing)
    if cls is OrderedDict:
        return [("item", key) for key in thing]
    if cls is dict:
        return [("item", key) for key in in_order(thing)]
    if isinstance(thing, list | tuple):
        return [("item", i) for i in range(len(thing))]
    if not names or any(type(name) is not str for name in names):
        return None
    slots = slots_of(cls)
    return [_step(cls, name, name in slots) for name in names]


def _step(cls: type, name: str, is_slot: bool) -> tuple[str, Any]:
    getter: Any = cls.__getattribute__
    is_name = name.isidentifier() and not keyword.iskeyword(name)
    is_plain = getter is object.__getattribute__ and is_name
    attribute = getattr(cls, name, None)
    if is_plain and (is_slot or not hasattr(type(attribute), "__set__")):
        return ("attribute", name)
    return ("slot" if is_slot else "field", name)


@dataclass(frozen=True, slots=True)
class Map:
    """For each array of an object, its place among the leaves."""

    places: list[int | None]
    """None for a number that is a static part."""
    statics: tuple[int, ...]
    """Which of the leaves are static parts."""
    fields: tuple[Any, ...]
    """The classes, the names of their fields and the places of arrays it is for."""

    def fits(self, inputs: Inputs) -> bool:
        return self.fields == _fields(inputs)


def _fields(inputs: Inputs) -> tuple[Any, ...]:
    return (*(x for x in inputs.statics if type(x) is Fields), *inputs.places)


def map_of(obj: Any, start: int) -> Map | None:
    """Where the arrays of `obj` are among leaves that begin with number `start`.

    Found by flattening copies with marks in place of its parts, so that one array in
    two fields makes no difference. None if the class drops or makes something when it
    is flattened.
    """
    inputs = inputs_of(obj)
    if inputs is None:
        return None
    numbers = {i for i, _ in inputs.numbers}
    arrays = [x if i in numbers else object() for i, x in enumerate(inputs.arrays)]
    try:
        count, leaves, structure = _flattened(obj, arrays)
    except Exception:  # whatever the class's own code does with a mark
        return None

    def place_of(mark: object, arrays: Any, instead: Any = None) -> int | None:
        """Where a part is among the leaves; None if it is in the structure, -1 if it is
        dropped."""
        try:
            _, leaves, changed = _flattened(obj, arrays, instead)
        except Exception:  # the class makes use of this part
            return None
        places = (place for place, leaf in enumerate(leaves) if leaf is mark)
        return next(places, -1) if changed == structure else None

    found = {id(x): place for place, x in enumerate(leaves)}
    places: list[int | None] = [found.get(id(x), -1) for x in arrays]
    for i in numbers:
        mark = object()
        places[i] = place_of(mark, [*arrays[:i], mark, *arrays[i + 1 :]])
    marks = [object() for _ in range(count)]
    statics = [place_of(x, arrays, (n, x)) for n, x in enumerate(marks)]
    if {*places, *statics} - {None} != {*range(len(leaves))}:
        return None
    return Map(
        [None if i is None else start + i for i in places],
        tuple(start + i for i in statics if i is not None),
        _fields(inputs),
    )


def _flattened(obj: Any, arrays: Any, instead: Any = None) -> tuple[int, Any, Any]:
    """How many static parts `obj` has; and a copy with other arrays, flattened. With
    `instead`, one of the static parts is replaced."""
    copy = Copy(obj, arrays, instead=instead)
    for new, _ in copy.originals.values():
        _provide_values(new)
    return (copy.statics, *jax.tree.flatten(copy.obj))


class Reader:
    """Compiles functions that read leaves and objects of trees of one structure.

    `parameters` are what the functions take: names of the parts of the tree if there
    are several, else of the tree. `leaves` and `objects` find what has no path.
    """

    def __init__(
        self,
        tree: Any,
        layout: Layout | None,
        parameters: tuple[str, ...],
        names: dict[str, Any],
        leaves: Callable[..., Sequence[Any]] = jax.tree.leaves,
        objects: Callable[..., Sequence[Any]] | None = None,
    ) -> None:
        self.names = names
        self._parameters = parameters
        self._paths = _Paths(tree, layout)
        names |= {"get": object.__getattribute__, "slot_value": slot_value}
        names["base_of"] = base_of
        self._leaves, self._objects = self.constant(leaves), self.constant(objects)
        for name in (self._leaves, self._objects):
            names[f"call_{name}"] = f"{name}({', '.join(parameters)})"

    def leaf(self, number: int) -> str:
        """The expression for a leaf."""
        return self._part(self._paths.leaves, self._leaves, number)

    def array(self, number: int, leaves: Sequence[Any]) -> str:
        """The expression for the array that has the contents of a leaf, given leaves of
        this dtype: random keys or their data may be in the same place."""
        leaf = self.leaf(number)
        return f"base_of({leaf})" if _is_key(leaves[number]) else leaf

    def object(self, number: int) -> str:
        return self._part(self._paths.objects, self._objects, number)

    def function(
        self, expressions: Sequence[str] | str, *also: str, **names: Any
    ) -> Callable[..., Any]:
        """Of one expression, or a tuple of several. `also` are further parameters, and
        `names` are known to this function alone."""
        code = joined(expressions)
        for found in dict.fromkeys(re.findall(r"found_(constant_\d+)", code)):
            # All leaves, or all objects, are found once.
            code = f"(lambda found_{found}: {code})({self.names[f'call_{found}']})"
        code = f"lambda {', '.join((*self._parameters, *also))}: {code}"
        known = self.names | names if names else self.names
        made: Callable[..., Any] = eval(_compiled(code), known)
        return made

    def field(self, code: str, name: str, obj: Any) -> str:
        """The expression for a field of an object, whose expression is `code`."""
        return self._after(code, _step(type(obj), name, is_slot=False))

    def fields(self, code: str, obj: Any) -> str:
        """The expression for the `__dict__` of an object."""
        getter: Any = type(obj).__getattribute__
        is_plain = getter is object.__getattribute__
        return f"{code}.__dict__" if is_plain else f"get({code}, '__dict__')"

    def constant(self, thing: Any) -> str:
        """A name for a thing, in expressions."""
        for name, known in self.names.items():
            if known is thing or (
                type(known) is type(thing) is frozenset and known == thing
            ):
                return name
        name = f"constant_{len(self.names)}"
        self.names[name] = thing
        return name

    def _part(self, paths: dict[int, Path], find: str, number: int) -> str:
        path = paths.get(number)
        if path is None:
            return f"found_{find}[{number}]"
        code = self._parameters[0]
        if len(self._parameters) > 1:
            (_, part), *path = path  # type: ignore[assignment]
            code = self._parameters[part]
        for step in path:
            code = self._after(code, step)
        return code

    def _after(self, code: str, step: tuple[str, Any]) -> str:
        kind, name = step
        if kind == "attribute":
            return f"{code}.{name}"
        if kind == "field":
            return f"get({code}, '__dict__')[{name!r}]"
        if kind == "slot":
            return f"slot_value({code}, {name!r})"
        is_literal = type(name) in (int, str)
        return f"{code}[{repr(name) if is_literal else self.constant(name)}]"


@functools.lru_cache(1000)
def _compiled(code: str) -> types.CodeType:
    return compile(code, _FILE, "eval")


def _is_key(leaf: Any) -> bool:
    """Whether it is an array of random keys."""
    is_array = hasattr(leaf, "dtype")
    return is_array and bool(jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key))


def joined(expressions: Sequence[str] | str) -> str:
    """A tuple of expressions, or the one."""
    if isinstance(expressions, str):
        return expressions
    return f"({''.join(f'{each}, ' for each in expressions)})"
