"""What a function has learned about arguments of one structure: which values it uses,
and how to find them."""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import jax
from jax.tree_util import tree_flatten

from .._compat import settings
from .._core import index
from .._core.fields import instance_dict
from .._core.inputs import NUMBERS, bits_of, identity_of, look_of
from .._core.recent import Recent
from .._core.slots import layout_of
from .._core.spread import are_global
from .._core.values import Packed, static_identity
from .demand import (
    Answers,
    Ask,
    Course,
    Map,
    Slot,
    Value,
    by_object,
    map_of,
    may_get_fields,
    objects_in,
)
from .options import Options
from .paths import Reader, joined
from .results import Result

Read = Callable[[Any, Any], Any]
"""Reads something from the arguments of a call: `args` and `kwargs`."""


class Need:
    """A value that a program takes, and how to find it."""

    __slots__ = (
        "ask",
        "bits",
        "contents",
        "inner",
        "is_supplied",
        "key",
        "numbers",
        "owner",
        "positions",
        "read_bits",
        "statics",
    )

    def __init__(
        self, ask: Ask, value: Value, entry: "Entry", tree: Any, args: Any, kwargs: Any
    ) -> None:
        self.ask = ask
        self.key = ask[1]
        self.is_supplied = value.is_supplied
        self.positions = value.positions
        self.numbers = value.numbers
        self.statics = value.statics
        self.inner = value.inner
        self.owner: Read | None = None
        """For a value that belongs to its object: finds that in the arguments."""
        if value.by_object:
            self.owner = entry.reading_object(ask[0], tree)
            return
        reader = entry.reader(tree)
        leaves = map(reader.leaf, value.positions)
        self.contents = reader.function([f"contents[id({x})]" for x in leaves])
        leaves = map(reader.leaf, value.numbers)
        self.read_bits = reader.function([f"bits({x})" for x in leaves])
        self.bits = self.read_bits(args, kwargs)

    def find(self, args: Any, kwargs: Any, static_numpy: bool) -> Packed | None:
        """The value for these arguments, if it is known."""
        if self.owner is not None:
            value = by_object(self.key, self.owner(args, kwargs), static_numpy)
            is_same = value is not None and value.is_supplied == self.is_supplied
            return value.packed if is_same else None  # type: ignore[union-attr]
        if self.numbers and self.bits != self.read_bits(args, kwargs):
            return None
        record = index.find(self.key, self.contents(args, kwargs), self.statics)
        if record is None or record.packed is None:
            return None
        packed: Packed | None = record.packed.get(static_numpy)
        return packed


class Ready:
    """A program, and the values it takes for certain arrays."""

    __slots__ = ("call", "held", "program", "values")

    def __init__(self, program: Any, values: Any, held: Any) -> None:
        self.program = program
        self.held = held
        """Static parts whose ids it is found by."""
        self.call = program.call
        self.values = values


class Entry:
    """For one structure of arguments. `tree` is of that structure: the arguments, with
    None for the static ones."""

    def __init__(self, options: Options, tree: Any) -> None:
        self.options = options
        self.is_global = are_global(jax.tree.leaves(tree))
        """Whether it is for calls with global arrays. What a process does with its own
        arrays must make no difference to what it launches together with others."""
        self.layout = layout_of(tree)
        self.maps: list[Map | None] = []
        self.is_open: list[bool] = []
        """Which objects can get fields that are not in their tree structure."""
        if self.layout is not None:
            objects = self.layout.objects(tree)
            pairs = zip(objects, self.layout.spans(tree), strict=True)
            self.maps = [map_of(obj, span.start) for obj, span in pairs]
            self.is_open = [may_get_fields(obj) for obj in objects]
        self._reader: Reader | None = None
        self.courses: dict[Any, Course] = Recent()
        self.programs: dict[Any, Any] = Recent(64)
        self.needs: tuple[Need, ...] = ()
        self.by_object = False
        """Whether a value belongs to an object, so that its arrays don't find it."""
        self.program: Any = None
        """The one that the last call took; None if it can't be relied on."""
        self.settings: Any = None
        """Of the last call that was looked at closely."""
        self.ready: dict[Any, Ready] = {}
        self.key_of: Read = _no_key
        """What `ready` is looked up by; KeyError if nothing is known of an array."""
        self.find: Callable[[Any, Any], Ready] = _no_key
        """What is ready for these arguments; KeyError if nothing is."""
        self._key_code: Any = None
        self._seen: dict[Any, bool] = Recent(64)
        """Keys of calls that are not in `ready` yet."""
        self._positions: tuple[int, ...] = ()
        self._numbers: tuple[int, ...] = ()
        self._fields: list[str] = []
        """Expressions for fields that may hold numbers that are static parts: for JAX,
        2 and 2.0 are the same structure."""
        self._read_fields: Read = _nothing
        self._static_numbers: Any = None
        self.by_signature = False
        """Whether calls with the same arrays take different programs."""
        self.mistaken = False
        """Whether the last call was first tried with a wrong program."""
        self.static_numpy = False
        self.inside_asks: dict[Ask, None] = {}
        """What can't be an input, unless the user supplies a value that can."""
        self.new_in_a_row = 0
        self.inside: Any = None
        """A program that computes the values itself."""
        self.is_new: Read = is_never_new
        """Whether `inside` is for these arguments: nothing is known of their arrays."""

    # How to read the arguments.

    def reader(self, tree: Any) -> Reader:
        if self._reader is None:
            take_out = self.options.static.take_out
            names = {
                "bits": _bits,
                "contents": index.contents_by_id,
                "fields": _fields,
                "follow": index.follow,
                "signature": lambda *call: signature_of(leaves(*call)),
            }

            def leaves(args: Any, kwargs: Any) -> list[Any]:
                return tree_flatten(take_out(args, kwargs)[0])[0]

            def objects(args: Any, kwargs: Any) -> list[Any]:
                return self.objects(take_out(args, kwargs)[0])

            arguments = ("args", "kwargs")
            self._reader = Reader(tree, self.layout, arguments, names, leaves, objects)
        return self._reader

    def reading_object(self, slot: Slot, tree: Any) -> Read:
        """A function that finds the object of a slot."""
        reader = self.reader(tree)
        if isinstance(slot, int):
            return reader.function(reader.object(slot))
        (outer, key), number = slot  # in a value
        read = self.reading_object(outer, tree)
        return lambda *call: objects_in(key.read(read(*call)))[number]

    def launch(self, program: Any, values: Any, args: Any, kwargs: Any) -> Any:
        """Run a program with these values, traced and compiled first if need be.

        (Not a method of `Program`: an error at run time may show the line, and one in
        `program.py` is taken for one of JAX about the arguments.)
        """
        out = program.call(values, *args, **kwargs)
        return out.take(self, args, kwargs) if type(out) is Result else out

    def objects(self, tree: Any) -> list[Any]:
        """Those that may have values, by slot."""
        return [] if self.layout is None else self.layout.objects(tree)

    # What calls take.

    def note(
        self,
        answers: Answers,
        program: Any,
        traced: bool,
        tree: Any,
        args: Any,
        kwargs: Any,
    ) -> None:
        """What a call used, and which program it took."""
        may_have_more = any(key.was_supplied for _, key in self.inside_asks)
        passes_on = program is not None and program.passes_on(self.objects(tree))
        if self.mistaken and not traced:  # there was a program, and not that one
            self.by_signature = True
        self.mistaken = False
        self.is_new = is_never_new
        by_object = any(answer.by_object for answer in answers.values())
        self.by_object = by_object or may_have_more or passes_on
        self.program = None if may_have_more else program
        self.settings = settings()
        needs = tuple(
            Need(ask, x, self, tree, args, kwargs) for ask, x in answers.items()
        )
        self.needs = needs
        positions = {*self._positions, *chain.from_iterable(n.positions for n in needs)}
        numbers = {*self._numbers, *chain.from_iterable(n.numbers for n in needs)}
        self._positions, self._numbers = tuple(sorted(positions)), tuple(numbers)
        self._note_static_numbers(answers, tree)
        self._static_numbers = [*map(static_identity, self._read_fields(args, kwargs))]
        self._note_key(tree)

    def _note_static_numbers(self, answers: Answers, tree: Any) -> None:
        reader = self.reader(tree)
        objects = self.objects(tree)
        self._fields = []
        for slot in dict.fromkeys(slot for slot, _ in answers if type(slot) is int):
            asked = [x for (other, _), x in answers.items() if other == slot]
            if self.is_open[slot] or any(x.has_static_numbers for x in asked):
                obj, names = reader.object(slot), _static_names(objects[slot])
                if self.is_open[slot]:
                    self._fields.append(f"*fields({obj}, {names!r})")
                else:
                    self._fields += [reader.field(obj, x, objects[slot]) for x in names]
        self._read_fields = reader.function(self._fields)

    def _note_key(self, tree: Any) -> None:
        """By the contents of the arrays; by other things only where they count."""
        if self.by_object:
            self.key_of = self.find = _no_key
            self._key_code = None
            return
        reader = self.reader(tree)
        parts = [f"contents[id({reader.leaf(i)})]" for i in self._positions]
        more = [f"bits({reader.leaf(i)})" for i in self._numbers]
        more += [
            f"*map(id, {x[1:]})" if x[0] == "*" else f"id({x})" for x in self._fields
        ]
        more += ["*signature(args, kwargs)"] if self.by_signature else []
        code = parts[0] if len(parts) == 1 and not more else tuple(parts + more)
        if code != self._key_code:
            self._key_code = code
            self.key_of = reader.function(code)
            self.ready = {}
            ready = reader.constant(self.ready)
            self.find = reader.function(f"{ready}[{joined(code)}]")

    def note_inside(self, tree: Any) -> None:
        """A call took the program that computes the values itself."""
        reader, code = self.reader(tree), []
        for need in self.needs:
            slot, key = need.ask
            inner = [places for _, places in need.inner or ()]
            leaves = dict.fromkeys(chain(need.positions, *inner))
            code += [f"id({reader.leaf(i)}) not in contents" for i in leaves]
            if type(self.objects(tree)[slot]).__dictoffset__:
                fields = f"get({reader.object(slot)}, '__dict__')"
                code.append(f"{key.attrname!r} not in {fields}")  # nor supplied
        self.is_new = reader.function(" and ".join(dict.fromkeys(code)))

    def key(self, args: Any, kwargs: Any) -> Any:
        """Of a call; None if it can't be found in `ready`."""
        try:
            return self.key_of(args, kwargs)
        except Exception:  # nothing is known of an array, or it isn't where it was
            return None

    def look_up(self, args: Any, kwargs: Any) -> list[Any] | None:
        """The values for these arguments; None if one of them is not known."""
        if self.program is None or self.settings != settings():
            return None
        values: list[Any] = []
        try:
            if self._fields:
                fields = [*map(static_identity, self._read_fields(args, kwargs))]
                if fields != self._static_numbers:
                    return None
            for need, form in zip(self.needs, self.program.forms, strict=True):
                packed = need.find(args, kwargs, self.static_numpy)
                if packed is None or (packed.form is not form and packed.form != form):
                    return None
                values += packed.arrays
        except (KeyError, AttributeError, IndexError):
            return None
        return values

    def keep(self, args: Any, kwargs: Any, key: Any, values: Any) -> None:
        """Have the values for these arrays ready, as long as the arrays are there. Only
        if they are used twice: otherwise, many would be kept that are not used."""
        if key is None or self.program is None:
            return
        if self._positions and not self._seen.pop(key, False):
            self._seen[key] = True
            return
        self.ready[key] = Ready(self.program, values, self._read_fields(args, kwargs))
        parts = (key if isinstance(key, tuple) else (key,))[: len(self._positions)]
        token, remove = _removing(self.ready, key, parts)
        for contents in parts:
            contents.calls[token] = remove


def _removing(
    ready: dict[Any, Any], key: Any, parts: Sequence[index.Contents]
) -> tuple[Any, Callable[[], None]]:
    token = (id(ready), key)

    def remove() -> None:
        ready.pop(key, None)
        for contents in parts:
            contents.calls.pop(token, None)

    return token, remove


def _no_key(args: Any, kwargs: Any) -> Any:
    raise KeyError


def is_never_new(args: Any, kwargs: Any) -> bool:
    return False


def _nothing(args: Any, kwargs: Any) -> tuple[Any, ...]:
    return ()


def _static_names(obj: Any) -> list[str]:
    """The fields of an object that may hold static numbers."""
    if not type(obj).__dictoffset__:
        return []
    fields = instance_dict(obj, "__dict__")
    return [n for n, x in fields.items() if type(x) in (*NUMBERS, tuple)]


def _fields(obj: Any, names: Sequence[str]) -> list[Any]:
    """Which fields an object has, and the contents of some."""
    fields = instance_dict(obj, "__dict__")
    return [*fields, *map(fields.get, names)]


def _bits(leaf: Any) -> Any:
    if type(leaf) in NUMBERS:
        return bits_of(leaf)
    return None if isinstance(leaf, jax.Array) else identity_of(leaf)


def signature_of(leaves: Sequence[Any]) -> Any:
    """What of the leaves a trace can see: shapes and dtypes."""
    return tuple(
        look_of(x) if hasattr(x, "shape") and hasattr(x, "dtype") else type(x)
        for x in leaves
    )
