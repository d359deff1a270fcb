"""What calls with arguments of one structure take: which values, how these are found,
and which program."""

import weakref
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple

import jax
import numpy as np

from .._compat import as_in_a_program
from .._core import index
from .._core.fields import instance_dict
from .._core.inputs import NUMBERS, bits_of, identity_of, look_of
from .._core.levels import UsesAxisError, not_run_here
from .._core.memo import keys_of
from .._core.recent import Recent
from .._core.sources import names_of
from .._core.values import Packed, is_hashable, static_identity
from .demand import Answers, Ask, Slot, Value, by_object, packed_of
from .paths import joined

Read = Callable[[Any, Any], Any]
"""Reads something from the arguments of a call: `args` and `kwargs`."""


_NOT_THERE = (KeyError, AttributeError, IndexError)
"""Nothing is known of an array, or an object is not where it was."""


class Call(NamedTuple):
    """The arguments of a call: as a tree, with None for the static ones, its leaves,
    and as they are given."""

    tree: Any
    leaves: list[Any]
    args: Any
    kwargs: Any


class Need:
    """A value that a program takes, and how to find it."""

    __slots__ = (
        "ask",
        "bits",
        "contents",
        "has_leaves_only",
        "holders",
        "inner",
        "is_supplied",
        "key",
        "numbers",
        "object",
        "own",
        "owner",
        "positions",
        "read_bits",
        "read_holders",
        "statics",
        "uses",
    )

    def __init__(self, ask: Ask, value: Value, entry: Any, call: Call) -> None:
        self.ask = ask
        self.key: Any = ask[1]
        self.is_supplied = value.is_supplied
        self.positions = value.positions
        self.holders = value.holders
        self.numbers = value.numbers
        self.statics = value.statics
        self.inner = value.inner
        self.uses = value.uses
        self.owner: Read | None = None
        """For a value that belongs to its object: finds that in the arguments."""
        if value.by_object:
            self.owner = entry.reading_object(ask[0], call.tree)
            return
        reader = entry.reader(call.tree)
        self.object = reader.function(reader.object(ask[0]))
        self.own = reader.function([*map(reader.leaf, value.positions)])
        arrays = [reader.array(i, call.leaves) for i in value.positions]
        self.contents = reader.function([f"{x}._cachax" for x in arrays])
        self.read_holders = reader.function([*map(reader.leaf, value.holders)])
        leaves = map(reader.leaf, value.numbers)
        self.read_bits = reader.function([f"bits({x})" for x in leaves])
        self.bits = self.read_bits(call.args, call.kwargs)
        self.has_leaves_only = self.bits == tuple(x for _, x in value.statics.bits)
        """Whether all numbers that it depends on are leaves."""

    @property
    def reads(self) -> list[tuple[Any, tuple[int, ...]]]:
        """Its key, those of the values that its body reads, and their positions."""
        return [(self.key, self.positions), *(self.inner or ())]

    def find(self, args: Any, kwargs: Any, static_numpy: bool) -> Packed | None:
        """The value for these arguments, if it is known."""
        if self.owner is not None:
            value = by_object(self.key, self.owner(args, kwargs), static_numpy)
            is_same = value is not None and value.is_supplied == self.is_supplied
            return value.packed if is_same else None  # type: ignore[union-attr]
        statics = self.statics
        if self.numbers:
            bits = self.read_bits(args, kwargs)
            if bits != self.bits:
                if not self.has_leaves_only:
                    return None
                positions = self.uses.numbers
                statics = statics._replace(bits=(*zip(positions, bits, strict=True),))
        if self.holders:
            records = index.held_by(self.read_holders(args, kwargs), self.key)
        else:
            records = index.candidates(self.key, self.contents(args, kwargs))
        for record in records:
            if record.uses == self.uses and record.statics == statics:
                break
        else:
            return None
        packed: Any = record.packed
        if packed is None:
            owner, own = self.object(args, kwargs), self.own(args, kwargs)
            return packed_of(record, owner, own, static_numpy)
        return packed.get(static_numpy)  # type: ignore[no-any-return]

    def compute(self, args: Any, kwargs: Any, static_numpy: bool) -> Packed | None:
        """The same, computed on the object of the caller if it is not there yet."""
        try:
            owner = (self.owner or self.object)(args, kwargs)
        except _NOT_THERE:
            return None
        if self.key.can_be_computed():
            try:
                with as_in_a_program(), not_run_here():
                    self.key.read(owner)
            except UsesAxisError:
                return None
        try:
            return self.find(args, kwargs, static_numpy)
        except _NOT_THERE:
            return None


class Ready:
    """A program, and the values it takes for certain arrays."""

    __slots__ = ("call", "contents", "held", "program", "values")

    def __init__(self, program: Any, values: Any, held: Any) -> None:
        self.program = program
        self.held = held
        """Static parts whose ids it is found by."""
        self.contents: Sequence[weakref.ref[index.Contents]] = ()
        """Of the arrays: when they are gone, or a value of them, so is this."""
        self.values = values
        self.call = program.bound(values)


class ReadyCalls(dict[Any, Ready]):
    """What is ready, by the key of a call. Contents of arrays hold it weakly: it goes
    with its function."""

    __slots__ = ("__weakref__",)

    def keep(self, key: Any, ready: Ready, contents: Sequence[index.Contents]) -> None:
        self[key] = ready
        ready.contents = [*map(weakref.ref, contents)]
        for each in contents:
            each.calls = each.calls or {}
            each.calls[id(self), key] = weakref.ref(self)

    def remove(self, key: Any) -> None:
        ready = self.pop(key, None)
        for ref in () if ready is None else ready.contents:
            contents = ref()
            if contents is not None and contents.calls:
                contents.calls.pop((id(self), key), None)

    def remove_all(self) -> None:
        for key in [*self]:
            self.remove(key)

    __del__ = remove_all


class Plan:
    """It is replaced as a whole: threads may call a function at the same time."""

    program: Any = None
    """None if none can be relied on."""
    needs: tuple[Need, ...] = ()
    order: Sequence[int] = ()
    """That of the needs when the function is traced."""
    signature: Any = None
    """Shapes and dtypes of the arguments."""
    positions: tuple[int, ...] = ()
    """The leaves that a value was ever found by, and the numbers among them."""
    numbers: tuple[int, ...] = ()
    typed: Sequence[int] = ()
    """Leaves whose types count: they may be numbers or arrays, which is the same for
    JAX."""
    by_object = False
    """Whether a value belongs to an object, so that its arrays don't find it."""
    owners: tuple[Slot, ...] = ()
    """The objects that values belong to."""
    has_key = True
    """Whether calls can be ready."""
    static_numpy = False
    fields: Sequence[str] = ()
    """Expressions for fields that may hold numbers that are static parts: for JAX, 2
    and 2.0 are the same structure."""
    supplied_code = "False"
    key_code: Any = None
    find_code = "None"

    def __init__(self) -> None:
        """A plan for nothing."""
        self.ready = ReadyCalls()
        self.key_of: Read = no_key
        """What `ready` is looked up by; KeyError if nothing is known of an array."""
        self.find: Callable[[Any, Any], Ready] = no_key
        """What is ready for these arguments; KeyError if nothing is."""
        self.contents: Read = nothing
        """Those of the arrays that it is looked up by."""
        self.read_fields: Read = nothing
        self.supplied: dict[int, dict[str | None, None]] = {}
        """By slot: names of values that the user may have stored on the objects."""
        self.names: dict[str, Any] = {}
        """Functions in the code of `find`."""
        self.is_supplied: Read = nothing
        """Whether the user stored a value on an object, except the owners."""
        self.is_as_then: Read = nothing
        """Whether all but the arrays is as it was when this was learned, and the user
        stored no value on an object. No, if no program can be relied on."""
        self._seen: dict[Any, bool] = Recent(10_000)
        """Keys of calls that are not in `ready` yet: as many as the objects of a data
        set that a program goes through again and again."""

    # What a call takes.

    def key(self, args: Any, kwargs: Any) -> Any:
        """Of a call; None if it can't be found in `ready`."""
        try:
            return self.key_of(args, kwargs)
        except Exception:  # nothing is known of an array, or it isn't where it was
            return None

    def look_up(self, args: Any, kwargs: Any) -> list[Any] | None:
        """The values for these arguments; None if one of them is not known."""
        values: list[Any] = []
        try:
            if not self.is_as_then(args, kwargs):
                return None
            static_numpy = self.static_numpy
            for need, form in zip(self.needs, self.program.forms, strict=True):
                packed = need.find(args, kwargs, static_numpy)
                if packed is None or (packed.form is not form and packed.form != form):
                    return None
                values += packed.arrays
        except _NOT_THERE:
            return None
        return values

    def compute(self, call: Call) -> list[Any] | None:
        """The same. Those that are not known are computed, one after another as the
        function uses them: which it uses may depend on those before, and on shapes."""
        args, kwargs = call.args, call.kwargs
        if self.signature != signature_of(call.leaves):
            return None
        try:
            if not self.is_as_then(args, kwargs):
                return None
        except _NOT_THERE:
            return None
        for i in self.order:
            packed = self.needs[i].compute(args, kwargs, self.static_numpy)
            if packed is None or packed.form != self.program.forms[i]:
                return None
        return self.look_up(args, kwargs)

    def known(self, args: Any, kwargs: Any) -> Ready | None:
        """What a call takes that is the first one with these arrays, if its values are
        known. (The second one has them ready for all others.)"""
        key = self.key(args, kwargs)
        if key is None or self.by_object or not self.positions or key in self._seen:
            return None
        values = self.look_up(args, kwargs)
        if values is None:
            return None
        self._seen[key] = True
        return Ready(self.program, values, ())

    def keep(self, args: Any, kwargs: Any, values: Any) -> None:
        """Have the values for these arrays ready, as long as the arrays are there. Only
        if they are used twice: otherwise, many would be kept that are not used."""
        key = self.key(args, kwargs)
        if key is None or self.program is None:
            return
        if (self.positions or self.owners) and not self._seen.pop(key, False):
            self._seen[key] = True
            return
        ready = Ready(self.program, values, self.read_fields(args, kwargs))
        self.ready.keep(key, ready, self.contents(args, kwargs))

    # How it is made.

    def find_by(
        self,
        entry: Any,
        call: Call,
        answers: Answers,
        before: "Plan",
        new: dict[int, None] | None = None,
        order: Iterable[Ask] | None = None,
    ) -> None:
        """Take these values, as a call did. `before` is the plan that this replaces. If
        it is for a program that computes values of leaves that are `new`, `typed` is
        given. `order` is that in which the function uses them."""
        self.static_numpy = entry.static_numpy
        self.signature = signature_of(call.leaves)
        numbers_of = {ask: i for i, ask in enumerate(answers)}
        self.order = [numbers_of[ask] for ask in order or answers]
        self.needs = tuple(Need(ask, x, entry, call) for ask, x in answers.items())
        positions = {*chain(*(need.positions for need in self.needs))}
        if not self.owners:  # by which everything on them is found
            positions.update(before.positions)
        for need in self.needs:  # what is ready has to go with one of its arrays
            stay = [i for i in need.holders if i not in (new or ())]
            if positions.isdisjoint(stay):
                positions.update(stay[:1])
        numbers = {*chain(*(need.numbers for need in self.needs))}
        if {need.ask for need in self.needs} != {need.ask for need in before.needs}:
            numbers.update(before.numbers)
        self.positions, self.numbers = tuple(sorted(positions)), tuple(numbers)
        if new is None:
            spans = [entry.spans[slot] for slot, _ in answers if type(slot) is int]
            places = {i for x in spans for i in range(x.start, x.stop)}
            others = sorted(places - positions - numbers)
            self.typed = [i for i in others if not np.ndim(call.leaves[i])]
        self._note_supplied(entry, call, before)
        self._note_fields(entry, call, answers)
        self._note_key(entry, call, before)

    def _note_supplied(self, entry: Any, call: Call, before: "Plan") -> None:
        """A user may have put a value into the `__dict__` of an object, of which cachax
        learns nothing. (Objects that can get fields have these in the key.) And an
        object may have a value from `preset`, if there ever was one."""
        reader, objects = entry.reader(call.tree), entry.objects(call.tree)
        names: dict[int, dict[str | None, None]] = {
            slot: {**its_names} for slot, its_names in before.supplied.items()
        }  # or calls that use different values in turn would be ready never
        for need in self.needs:
            slot, key = need.ask
            if need.inner is None or not isinstance(slot, int):  # of any object
                names = {
                    i: dict.fromkeys(names_of(type(x))) for i, x in enumerate(objects)
                }
                break
            keys = [key, *(key for key, _ in need.inner)]
            names.setdefault(slot, {}).update(dict.fromkeys(k.attrname for k in keys))
        self.supplied, code = names, []
        for slot, its_names in names.items():
            if slot in self.owners:  # it is in the key, with all that is on it
                continue
            if its_names and type(objects[slot]).__dictoffset__:
                fields = reader.fields(reader.object(slot), objects[slot])
                are_in = [f"{name!r} in {fields}" for name in its_names]
                if len(are_in) > 2:
                    names_in = reader.constant(frozenset(its_names))
                    are_in = [f"not {names_in}.isdisjoint({fields})"]
                code += are_in
            if any(key.was_supplied for key in keys_of(type(objects[slot])).values()):
                code.append(f"has_preset({reader.object(slot)})")
        self.supplied_code = " or ".join(code) or "False"
        self.is_supplied = reader.function(self.supplied_code)

    def _note_fields(self, entry: Any, call: Call, answers: Answers) -> None:
        reader, objects = entry.reader(call.tree), entry.objects(call.tree)
        found: list[str] = []
        for slot in dict.fromkeys(slot for slot, _ in answers if type(slot) is int):
            asked = [x for (other, _), x in answers.items() if other == slot]
            obj = reader.object(slot)
            if entry.is_open[slot]:  # which fields it has
                found.append(f"*{reader.fields(obj, objects[slot])}, None")
            if any(x.has_static_numbers for x in asked):
                names = _static_names(objects[slot])
                found += [reader.field(obj, x, objects[slot]) for x in names]
        self.fields = found
        self.read_fields = reader.function(found)

    def _note_key(self, entry: Any, call: Call, before: "Plan") -> None:
        """By the contents of the arrays; by other things only where they count."""
        reader = entry.reader(call.tree)
        owners = [f"owner_{n}(args, kwargs)" for n in range(len(self.owners))]
        reads = [entry.reading_object(slot, call.tree) for slot in self.owners]
        self.names = {f"owner_{n}": read for n, read in enumerate(reads)}
        types = [f"type({reader.leaf(i)})" for i in self.typed]
        state = ["settings()", *types, *(f"supplied_on({owner})" for owner in owners)]
        if self.fields:
            state.append(f"*map(identity, [{', '.join(self.fields)}])")
        now, names = joined(state), self.names
        then = reader.function(now, **names)(call.args, call.kwargs)
        code = f"not ({self.supplied_code}) and {now} == then"
        if self.program is not None:
            self.is_as_then = reader.function(code, then=then, **names)
        if not self.has_key:
            return
        arrays = [reader.array(i, call.leaves) for i in self.positions]
        contents = [f"{array}._cachax" for array in arrays]
        contents += [f"contents_of({owner})" for owner in owners]
        parts = [f"{each}.serial" for each in contents]
        more = [_bits_code(reader.leaf(i), call.leaves[i]) for i in self.numbers]
        more += types
        more += [x if x[0] == "*" else f"id({x})" for x in self.fields]
        more += ["*signature(args, kwargs)"] if entry.by_signature else []
        key = joined(parts[0] if len(parts) == 1 and not more else tuple(parts + more))
        self.key_code = (key, self.supplied_code, self.owners)
        self.contents = reader.function(contents, **self.names)
        if self.key_code == before.key_code:
            self.ready, self.find_code = before.ready, before.find_code
            self.key_of, self.find = before.key_of, before.find
            self._seen = before._seen
            return
        self.key_of = reader.function(key, **self.names)
        if self.supplied_code != "False":
            key = f"None if {self.supplied_code} else {key}"
        self.find_code = key
        # Not a name of the reader, which JAX holds by what it knows of results
        # (`About`): a program would hold itself.
        self.find = reader.function(f"ready[{key}]", ready=self.ready, **self.names)


def no_key(args: Any, kwargs: Any) -> Any:
    raise KeyError


def nothing(args: Any, kwargs: Any) -> tuple[Any, ...]:
    return ()


def _static_names(obj: Any) -> list[str]:
    """The fields of an object that may hold static numbers."""
    if not type(obj).__dictoffset__:
        return []
    fields = instance_dict(obj, "__dict__")
    return [
        name
        for name, x in fields.items()
        if type(x) in NUMBERS or (type(x) is tuple and is_hashable(x))
    ]


def identity(field: Any) -> Any:
    """Of a field that may hold static numbers. It doesn't if it can't be hashed."""
    return static_identity(field) if is_hashable(field) else type(field)


def bits(leaf: Any) -> Any:
    """What distinguishes a leaf that may be a number."""
    if type(leaf) in NUMBERS:
        return bits_of(leaf)
    return None if isinstance(leaf, jax.Array) else identity_of(leaf)


def _bits_code(code: str, leaf: Any) -> str:
    """An expression for what `bits` distinguishes, as fast as can be for leaves of
    this type."""
    find = {float: "double", int: "whole", bool: "whole"}.get(type(leaf))
    return f"bits({code})" if find is None else f"type({code}), {find}({code})"


def signature_of(leaves: Sequence[Any]) -> Any:
    """What of the leaves a trace can see: shapes and dtypes."""
    return tuple(
        look_of(x) if hasattr(x, "shape") and hasattr(x, "dtype") else type(x)
        for x in leaves
    )
