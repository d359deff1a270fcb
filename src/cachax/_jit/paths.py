"""Read leaves of a tree without flattening it.

Flattening runs the code of every class in the tree, and JAX does it already. A path is
how to get from a tree to one of its leaves, or to an object in it, by items and fields;
it holds for all trees of one structure. Paths are compiled to one Python expression.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import jax

from .._core.fields import is_opaque, slot_value, slots_of
from .._core.inputs import NUMBERS, in_order, is_array, is_whole, take_apart
from .._core.memo import may_have_values, memo_of
from .._core.slots import Layout

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
        for also_numbers in (True, False):
            try:
                marked = _Marked(tree, also_numbers)
                found, same = jax.tree.flatten(marked.tree)
                objects = [] if layout is None else layout.objects(marked.tree)
            except Exception:  # whatever a class does with a mark; or it is too deep
                continue
            if same == structure and len(found) == len(leaves):
                for number, leaf in enumerate(found):
                    if type(leaf) is _Mark:
                        self.leaves[number] = leaf.path
                for number, obj in enumerate(objects):
                    if id(obj) in marked.objects:
                        self.objects[number] = marked.objects[id(obj)]
                return


class _Mark:
    """In place of an array, to see which leaf it is."""

    def __init__(self, path: Path) -> None:
        self.path = path


class _Marked:
    """A copy of a tree with marks for arrays. What is in it twice is there twice."""

    def __init__(self, tree: Any, also_numbers: bool) -> None:
        self._also_numbers = also_numbers
        self._around: set[int] = set()
        self.objects: dict[int, Path] = {}
        self.tree = self._copy(tree, ())

    def _copy(self, thing: Any, path: Path) -> Any:
        if is_array(thing):
            is_kept = type(thing) in NUMBERS and not self._also_numbers
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
        if may_have_values(type(new)) and type(new).__weakrefoffset__:
            memo_of(new).provider = lambda key: object()  # a flatten may read a value
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
    is_plain = getter is object.__getattribute__ and name.isidentifier()
    attribute = getattr(cls, name, None)
    if is_plain and (is_slot or not hasattr(type(attribute), "__set__")):
        return ("attribute", name)
    return ("slot" if is_slot else "field", name)


class Reader:
    """Compiles functions that read leaves and objects of trees of one structure.

    `parameters` are what the functions take: names of the parts of the tree if there
    are several, else of the tree.
    """

    def __init__(
        self,
        tree: Any,
        layout: Layout | None,
        parameters: tuple[str, ...],
        **names: Any,
    ) -> None:
        self._parameters = parameters
        self._paths = _Paths(tree, layout)
        self._names = names | {"get": object.__getattribute__, "slot_value": slot_value}

    def leaf(self, number: int) -> str:
        """The expression for a leaf."""
        path = self._paths.leaves.get(number)
        return self._call("leaves", number) if path is None else self._at(path)

    def object(self, number: int) -> str:
        path = self._paths.objects.get(number)
        return self._call("objects", number) if path is None else self._at(path)

    def function(self, expressions: Sequence[str] | str) -> Callable[..., Any]:
        """Of one expression, or a tuple of several."""
        if not isinstance(expressions, str):
            expressions = f"({''.join(f'{each}, ' for each in expressions)})"
        code = f"lambda {', '.join(self._parameters)}: {expressions}"
        made: Callable[..., Any] = eval(code, self._names)
        return made

    def constant(self, thing: Any) -> str:
        """A name for a thing, in expressions."""
        name = f"constant_{len(self._names)}"
        self._names[name] = thing
        return name

    def _call(self, name: str, number: int) -> str:
        return f"{name}({', '.join(self._parameters)})[{number}]"

    def _at(self, path: Path) -> str:
        code = self._parameters[0]
        if len(self._parameters) > 1:
            (_, part), *path = path  # type: ignore[assignment]
            code = self._parameters[part]
        for kind, name in path:
            if kind == "attribute":
                code = f"{code}.{name}"
            elif kind == "field":
                code = f"get({code}, '__dict__')[{name!r}]"
            elif kind == "slot":
                code = f"slot_value({code}, {name!r})"
            else:
                is_literal = type(name) in (int, str)
                code += f"[{repr(name) if is_literal else self.constant(name)}]"
        return code
