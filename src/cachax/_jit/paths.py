"""Read leaves of a tree without flattening it.

Flattening runs the code of every class in the tree, and JAX does it already. How to get
from a tree to one of its leaves, or to an object in it, by items and fields, is a
Python expression, like `args[0].x`. It holds for all trees of one structure.
"""

import functools
import keyword
import operator
import re
import types
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from .._compat import base_of
from .._core.fields import (
    is_opaque,
    slot_value,
    slots_of,
    walk_fields,
)
from .._core.parts import identity_of, in_order, is_array, is_whole, take_apart
from .._core.slots import Layout
from .map import mark_for, provide_anything

_FILE = f"{__file__}: compiled"
"""Where tracebacks and profilers say that compiled code is."""


class _Marked:
    """A copy of a tree with marks for arrays. What is in it twice is there twice."""

    def __init__(
        self, tree: tuple[Any, ...], reader: "Reader", marked: set[int]
    ) -> None:
        self._reader = reader
        self._marked = marked
        """The ids of leaves. Some that are static parts may have them too."""
        self._around: set[int] = set()
        self._codes: dict[int, str | None] = {}
        """Expressions for the things in the tree, by the ids of their copies and marks.
        None for a thing that isn't copied and is there twice."""
        self._marks: list[Any] = []
        self.tree = tuple(map(self._copy, tree, reader.parameters))

    def _copy(self, thing: Any, code: str) -> Any:
        if is_array(thing):
            if id(thing) not in self._marked:
                return thing
            self._marks.append(mark_for(thing))
            return self._noted(self._marks[-1], code)
        if is_whole(thing) or is_opaque(type(thing)) or id(thing) in self._around:
            return self._noted(thing, code)
        taken = take_apart(thing)
        codes = self._reader.parts(code, thing, taken.names)
        if taken.rebuild is None or codes is None:
            return thing
        self._around.add(id(thing))
        parts = [*map(self._copy, taken.parts, codes)]
        self._around.discard(id(thing))
        if all(map(operator.is_, parts, taken.parts)):  # a static part, maybe
            return self._noted(thing, code)
        try:
            new = taken.rebuild(parts)
        except Exception:  # a class that looks at what it is built from
            return thing
        provide_anything(new)
        return self._noted(new, code)

    def _noted(self, thing: Any, code: str) -> Any:
        self._codes[id(thing)] = None if id(thing) in self._codes else code
        return thing

    def codes(self, things: Sequence[Any]) -> dict[int, str]:
        """Expressions for things in the copy, by their numbers."""
        codes = (self._codes.get(id(x)) for x in things)
        return {i: code for i, code in enumerate(codes) if code is not None}


class Reader:
    """Compiles functions that read leaves and objects of trees of one structure.

    `tree` is a tuple, and `parameters` are names for its parts, which the functions
    take. `names` are known to the functions. Of these, `all_leaves` and `all_objects`,
    with this suffix, find what has no expression.
    """

    def __init__(
        self,
        tree: tuple[Any, ...],
        layout: Layout | None,
        parameters: tuple[str, ...],
        names: dict[str, Any],
        suffix: str = "_of",
    ) -> None:
        self.names = names
        self.parameters = parameters
        names |= {"get": object.__getattribute__, "slot_value": slot_value}
        names |= {"orders_in": _orders_in, "identity_of": identity_of}
        names |= {"base_of": base_of, "all_leaves_of": jax.tree.leaves}
        self._constants: dict[Any, str] = {}
        self._leaves = f"all_leaves{suffix}({', '.join(parameters)})"
        self._objects = f"all_objects{suffix}({', '.join(parameters)})"
        self._codes: dict[int, str] = {}
        self._codes_of_objects: dict[int, str] = {}
        self._find_codes(tree, layout)

    def _find_codes(self, tree: tuple[Any, ...], layout: Layout | None) -> None:
        """By flattening a copy with marks. What isn't a field has no expression."""
        structure: Any
        leaves, structure = jax.tree.flatten(tree)
        try:
            marked = _Marked(tree, self, {*map(id, leaves)})
            found, same = jax.tree.flatten(marked.tree)
            objects = [] if layout is None else layout.objects(marked.tree)
            is_same = same == structure
        except Exception:  # whatever a class does with a mark; or it is too deep
            return
        if is_same:
            self._codes = marked.codes(found)
            self._codes_of_objects = marked.codes(objects)

    def leaf(self, number: int) -> str:
        """The expression for a leaf."""
        return self._codes.get(number, f"{self._leaves}[{number}]")

    def array(self, number: int, leaves: Sequence[Any]) -> str:
        """The expression for the array that has the contents of a leaf, given leaves of
        this dtype: random keys or their data may be in the same place."""
        leaf = self.leaf(number)
        return f"base_of({leaf})" if is_key(leaves[number]) else leaf

    def object(self, number: int) -> str:
        """The expression for an object."""
        return self._codes_of_objects.get(number, f"{self._objects}[{number}]")

    def function(
        self, expressions: Sequence[str] | str, *also: str, **names: Any
    ) -> Callable[..., Any]:
        """Of one expression, or a tuple of several. `also` are further parameters, and
        `names` are known to this function alone."""
        code = joined(expressions)
        for find in dict.fromkeys(re.findall(r"all_\w+\([\w, ]+\)", code)):
            found, _, _ = find.partition("(")  # once, for the whole function
            code = f"(lambda {found}: {code.replace(find, found)})({find})"
        code = f"lambda {', '.join((*self.parameters, *also))}: {code}"
        known = self.names | names if names else self.names
        made: Callable[..., Any] = eval(_compiled(code), known)
        return made

    def parts(self, code: str, thing: Any, names: Sequence[Any]) -> list[str] | None:
        """The expressions for the parts of a thing, whose expression is `code`."""
        cls = type(thing)
        if cls in (dict, OrderedDict):
            keys = thing if cls is OrderedDict else in_order(thing)
            return [f"{code}[{self._key(key)}]" for key in keys]
        if isinstance(thing, list | tuple):
            return [f"{code}[{i}]" for i in range(len(thing))]
        if isinstance(thing, functools.partial):
            return [f"{code}.{name}" for name in ("func", "args", "keywords")]
        if not names or any(type(name) is not str for name in names):
            return None
        return [self.field(code, name, thing) for name in names]

    def _key(self, key: Any) -> str:
        """The expression for a key of a dictionary."""
        is_name = type(key) is str and key.isidentifier()
        return repr(key) if is_name or type(key) is int else self.constant(key)

    def field(self, code: str, name: str, obj: Any) -> str:
        """The expression for a field of an object, whose expression is `code`."""
        cls = type(obj)
        is_slot = name in slots_of(cls)
        is_name = name.isidentifier() and not keyword.iskeyword(name)
        is_set = hasattr(type(getattr(cls, name, None)), "__set__") and not is_slot
        if _is_plain(cls) and is_name and not is_set:
            return f"{code}.{name}"
        if is_slot:
            return f"slot_value({code}, {name!r})"
        return f"get({code}, '__dict__')[{name!r}]"

    def fields(self, code: str, obj: Any) -> str:
        """The expression for the `__dict__` of an object."""
        is_plain = _is_plain(type(obj))
        return f"{code}.__dict__" if is_plain else f"get({code}, '__dict__')"

    def orders(self, code: str, thing: Any) -> list[str]:
        """Expressions for the orders of the dictionaries in an object."""
        try:
            return [*self._orders(code, thing)]
        except (TypeError, RecursionError):  # it has a part without an expression
            return [f"*orders_in({code})"]

    def _orders(self, code: str, thing: Any) -> Iterator[str]:
        if not any(type(x) is dict and len(x) > 1 for x in walk_fields(thing)):
            return
        if type(thing) is dict and len(thing) > 1:
            has_names = all(type(key) is str for key in thing)  # 1 and True are equal
            yield f"*{code}, None" if has_names else f"*map(identity_of, {code}), None"
        taken = take_apart(thing)
        codes: Any = self.parts(code, thing, taken.names) if taken.parts else ()
        for part, its_code in zip(taken.parts, codes, strict=True):
            yield from self._orders(its_code, part)

    def constant(self, thing: Any) -> str:
        """A name for a thing, in expressions."""
        known = thing if type(thing) is frozenset else id(thing)
        if known not in self._constants:
            name = self._constants[known] = f"constant_{len(self.names)}"
            self.names[name] = thing
        return self._constants[known]


def _orders_in(obj: Any) -> list[Any]:
    return [(*map(identity_of, x),) for x in walk_fields(obj) if type(x) is dict]


def _is_plain(cls: Any) -> bool:
    """Whether attributes of its objects are read as Python does it."""
    return cls.__getattribute__ is object.__getattribute__


@functools.lru_cache(1000)
def _compiled(code: str) -> types.CodeType:
    return compile(code, _FILE, "eval")


def is_key(leaf: Any) -> bool:
    """Whether it is an array of random keys."""
    is_array = hasattr(leaf, "dtype")
    return is_array and bool(jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key))


def joined(expressions: Sequence[str] | str) -> str:
    """A tuple of expressions, or the one."""
    if isinstance(expressions, str):
        return expressions
    return f"({''.join(f'{each}, ' for each in expressions)})"
