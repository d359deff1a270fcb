"""What calls with arguments of one structure take: which values, how these are found,
and which program."""

import types
import weakref
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

import jax

from .._compat import configured, settings
from .._core import index
from .._core.fields import BUILTIN_ATOMS, instance_dict, is_frozen, may_change, walk
from .._core.memo import has_memo, keys_of
from .._core.parts import NUMBERS, bits_of, identity_of, look_of
from .._core.recent import Recent
from .._core.sources import names_of
from .._core.values import Packed, is_hashable, static_identity
from .demand import Answers, Ask, Under, Value, by_object, packed_of
from .paths import Reader, joined

Read = Callable[[Any, Any], Any]
"""Reads something from the arguments of a call: `args` and `kwargs`."""


class Call(NamedTuple):
    """The arguments of a call: as a tree, with None for the static ones, its leaves,
    and as they are given."""

    tree: Any
    leaves: list[Any]
    args: Any
    kwargs: Any


class Need:
    """A value that a program takes, and how to find it in the arguments of a call."""

    def __init__(self, ask: Ask, value: Value, entry: Any, call: Call) -> None:
        self.ask = ask
        self.key: Any = ask[1]
        nothing: Any = None
        self.value = replace(value, packed=nothing)  # it would hold its arrays
        reader: Reader = entry.reader(call.tree)
        numbers = [f"bits({reader.leaf(i)})" for i in value.numbers]
        self._static_numpy = entry.static_numpy
        self._owner = reader.function(entry.object(ask[0], call.tree))
        self._arrays = reader.function([*map(reader.leaf, self.places)])
        arrays = [reader.array(i, call.leaves) for i in value.positions]
        self._contents = reader.function([f"{array}._cachax" for array in arrays])
        self._read_bits = reader.function(numbers)
        self._bits = self._read_bits(call.args, call.kwargs)
        bits = () if value.by_object else value.statics.bits
        self._has_leaves_only = self._bits == tuple(each for _, each in bits)
        """Whether all numbers that it depends on are leaves."""

    @property
    def reads(self) -> Sequence[tuple[Any, bool]]:
        """The values that the body read in its turn, and whether they are of the same
        object."""
        is_known = not self.value.by_object
        return self.value.statics.uses.reads if is_known else ()

    @property
    def is_ordered(self) -> bool:
        """Whether the order of dictionaries makes a difference."""
        return not self.value.by_object and self.value.statics.uses.is_ordered

    @property
    def places(self) -> tuple[int, ...]:
        """The leaves that the value is kept by."""
        return self.value.positions or self.value.holders

    def find(self, args: Any, kwargs: Any) -> Packed | None:
        """The value for these arguments, if it is known."""
        like = self.value
        if like.by_object:
            owner, slot = self._owner(args, kwargs), self.ask[0]
            is_under = type(slot) is Under
            with configured(slot.settings) if is_under else nullcontext():
                found = by_object(self.key, owner, self._static_numpy)
            return None if found is None else found.packed
        statics = like.statics
        if like.numbers:
            bits = self._read_bits(args, kwargs)
            if bits != self._bits:
                if not self._has_leaves_only:
                    return None
                numbers = zip((i for i, _ in statics.bits), bits, strict=True)
                statics = statics._replace(bits=(*numbers,))
        if like.holders:
            records = index.held_by(self._arrays(args, kwargs), self.key)
        else:
            records = index.candidates(self.key, self._contents(args, kwargs))
        for record in records:
            if record.statics == statics:
                break
        else:
            return None
        packed: Any = record.packed
        if packed is None:
            owner, arrays = self._owner(args, kwargs), self._arrays(args, kwargs)
            return packed_of(record, owner, arrays, self._static_numpy)
        return packed.get(self._static_numpy)  # type: ignore[no-any-return]

    def is_known(self, args: Any, kwargs: Any) -> bool:
        """Whether it is known for these arguments, to the arrays or to its object."""
        if self._has_leaves_only:
            try:
                if self.find(args, kwargs) is not None:
                    return True
            except AttributeError:  # nothing is known of an array
                pass
        owner = self._owner(args, kwargs)
        is_certain = self._has_leaves_only and self.has_same_types(args, kwargs)
        if is_certain and not has_memo(owner):
            return False
        return bool(self.key.is_known(owner))

    def has_same_types(self, args: Any, kwargs: Any) -> bool:
        """Whether there are arrays where it has used arrays, and numbers of the same
        type where it has read numbers: which arrays it uses depends on it. Then `find`
        finds the value, if it is known to the arrays."""
        if self.value.by_object or self.value.statics.settings != settings():
            return False
        pairs = zip(self._bits, self._read_bits(args, kwargs), strict=True)
        arrays = self._arrays(args, kwargs)
        return all(isinstance(x, jax.Array) for x in arrays) and all(
            x == y or (type(x) is type(y) is tuple and x[0] is y[0]) for x, y in pairs
        )


class Ready:
    """A program, and the values it takes for certain arrays."""

    __slots__ = ("call", "contents", "program", "values")

    def __init__(self, call: Any, program: Any, values: Any) -> None:
        self.call = call
        self.program = program
        self.contents: Sequence[weakref.ref[index.Contents]] = ()
        """Of the arrays: when they are gone, or a value of them, so is this."""
        self.values = values


class ReadyCalls(dict[Any, Ready]):
    """What is ready, by the key of a call. Contents of arrays hold it weakly: it goes
    with its function."""

    __slots__ = ("__weakref__",)

    def keep(self, key: Any, ready: Ready, contents: Sequence[index.Contents]) -> None:
        self[key] = ready
        ready.contents = [*map(weakref.ref, contents)]
        for each in contents:
            calls = vars(each).setdefault("calls", {})  # at once: there are threads
            calls[id(self), key] = weakref.ref(self)

    def remove(self, key: Any) -> None:
        ready = self.pop(key, None)
        for ref in () if ready is None else ready.contents:
            contents = ref()
            if contents is not None and contents.calls:
                contents.calls.pop((id(self), key), None)

    def __del__(self) -> None:
        for key in [*self]:
            self.remove(key)


class Plan:
    """What calls take that are like one before: the values, and a program.

    It is replaced as a whole: threads may call a function at the same time.
    """

    program: Any = None
    """None if none can be relied on."""
    needs: tuple[Need, ...] = ()
    positions: Sequence[int] = ()
    """The leaves that a value was ever found by, and the numbers among them."""
    numbers: Sequence[int] = ()
    reads: dict[int, frozenset[str]] = {}
    """The objects that values were ever read from, by slot, and the names of these."""
    by_object = False
    """Whether a value belongs to an object, so that its arrays don't find it."""
    leaves: Mapping[int, frozenset[Any]] = types.MappingProxyType({})
    """Those that are new in calls for which this plan is; see `inside.New`."""
    unknown: Mapping[int, tuple[Any, ...]] = types.MappingProxyType({})
    """Values that such a call doesn't know."""
    supplied_code = "False"
    """Whether the user stored a value on an object that is found by its arrays."""
    key_code = "None"
    """What `ready` is looked up by."""

    def __init__(self) -> None:
        """A plan for nothing."""
        self.settings = settings()
        """Those of the call that this was learned from."""
        self.ready = ReadyCalls()
        self.key_of: Read = no_key
        self.find: Callable[[Any, Any], Ready] = no_key
        """What is ready for these arguments; an error if nothing is."""
        self.contents: Read = nothing
        """Those of the arrays that it is looked up by."""
        self.is_as_then: Read = nothing
        """Whether all but the arrays is as it was when this was learned, and the user
        stored no value on an object. No, if no values can be looked up."""
        self.applies: Read = nothing
        """The same, and whether what has to be new is."""
        self.launcher: Any = None
        """Instead of the program: a function of the arguments, given values, and what
        knows what comes out."""
        self._seen: dict[Any, bool] = Recent(10_000)
        """Keys of calls that are not in `ready` yet: as many as the objects of a data
        set that a program goes through again and again."""

    @property
    def asks(self) -> list[Ask]:
        return [need.ask for need in self.needs]

    def is_like(self, other: "Plan") -> bool:
        """Whether it is for calls in which the same is new."""
        one, two = ((x.program, x.leaves, x.unknown) for x in (self, other))
        return one == two

    def is_for(self, answers: Answers) -> bool:
        """Whether it finds the values of its program in the same way as these."""
        pairs = ((need.value, answers[need.ask]) for need in self.needs)
        return all(one.by_object == other.by_object for one, other in pairs)

    def look_up(self, args: Any, kwargs: Any) -> Ready | None:
        """What a call takes that is not ready; None if one of its values is not
        known."""
        values: list[Any] = []
        try:
            if not self.applies(args, kwargs):
                return None
            for need, form in zip(self.needs, self.program.forms, strict=True):
                packed = need.find(args, kwargs)
                if packed is None or (packed.form is not form and packed.form != form):
                    return None
                values += packed.arrays
        except Exception:  # nothing is known of an array, or it isn't where it was
            return None
        return self.keep(args, kwargs, values)

    def keep(self, args: Any, kwargs: Any, values: Any) -> Ready | None:
        """What a call with these values takes, which is ready from the second one on,
        as long as its arrays are there. (Most arrays that are used once are not used
        again.)"""
        program = self.program
        if program is None:
            return None
        if self.launcher is None:
            ready = Ready(program.bound(values), program, values)
        else:
            call, program = self.launcher(values)
            ready = Ready(call, program, values)
        try:
            key = self.key_of(args, kwargs)
        except Exception:  # nothing is known of an array, or it isn't where it was
            return ready
        if key is None:
            return ready
        if self.contents is nothing or self._seen.pop(key, False):
            self.ready.keep(key, ready, self.contents(args, kwargs))
        else:
            self._seen[key] = True
        return ready


def plan_for(
    entry: Any,
    call: Call,
    answers: Answers,
    program: Any,
    before: Plan,
    new: Any = None,
) -> Plan:
    """A plan to take these values and this program, as a call did. It replaces the one
    before. If the program computes values inside, `new` is what was new."""
    plan, reader = Plan(), entry.reader(call.tree)
    objects = entry.objects(call.tree)
    may_have_more = any(key.was_supplied for _, key in entry.inside_asks)
    owned = {ask: value for ask, value in answers.items() if value.by_object}
    plan.by_object = bool(owned) or may_have_more
    plan.program = None if may_have_more else program
    plan.needs = tuple(Need(ask, x, entry, call) for ask, x in answers.items())
    if new is not None:
        plan.leaves, plan.unknown = new.leaves, new.unknown
    _choose_parts(plan, before, objects, has_owners=bool(owned))

    owners = {slot: entry.object(slot, call.tree) for slot, _ in owned}
    plan.supplied_code = _supplied_code(plan, reader, objects, owners)
    has_shardings = bool(entry.options.in_shardings(call.tree))
    same = _same_codes(plan, entry, reader, objects, owners, new, has_shardings)
    supplied = (f"supplied_on({owner})" for owner in owners.values())
    now = joined(["settings()", *same, *supplied])
    is_apart = not (plan.by_object and entry.options.donates)
    if plan.program is not None and is_apart:
        then = reader.function(now)(call.args, call.kwargs)
        code = f"not ({plan.supplied_code}) and {now} == then"
        plan.is_as_then = reader.function(code, then=then)
        plan.applies = plan.is_as_then if new is None else nothing  # not known yet
    if not may_have_more and all(x.is_fixed for x in owned.values()):
        others = [*same, *entry.distinctions]
        _find_ready(plan, before, call, reader, answers, owners, others)
    return plan


def _same_codes(
    plan: Plan,
    entry: Any,
    reader: Reader,
    objects: Sequence[Any],
    owners: Mapping[Any, str],
    new: Any,
    has_shardings: bool,
) -> list[str]:
    """What has to be as it was, apart from arrays and their numbers."""
    same = [f"type({reader.leaf(i)})" for i in (() if new is None else new.types)]
    needs = (*plan.needs, *(() if new is None else entry.plan.needs))
    same += _fields(plan, needs, reader, objects)
    if has_shardings:
        places = {i for span in entry.spans for i in span}
        same += [f"sharding_of({reader.leaf(i)})" for i in sorted(places)]
    for slot in {need.ask[0]: None for need in needs if need.is_ordered}:
        number = slot.slot if type(slot) is Under else slot
        same += reader.orders(reader.object(number), objects[number])
    for slot, obj in enumerate(objects):
        if slot not in owners and slot not in plan.reads and _was_supplied(obj):
            same.append(f"supplied_on({reader.object(slot)})")
    return same


def _find_ready(
    plan: Plan,
    before: Plan,
    call: Call,
    reader: Reader,
    answers: Answers,
    owners: Mapping[Any, str],
    others: Sequence[str],
) -> None:
    """What is ready is found by the contents of the arrays, the numbers, the objects
    that values belong to, and these other things."""
    arrays = [reader.array(i, call.leaves) for i in plan.positions]
    contents = [f"{array}._cachax" for array in arrays]
    serials = [f"{each}.serial" for each in contents]
    found = reader.function([*owners.values()])(call.args, call.kwargs)
    for (slot, owner), obj in zip(owners.items(), found, strict=True):
        contents.append(f"contents_of({owner})")
        if not _is_part(slot, obj, answers):
            serials.append(f"{contents[-1]}.serial")
    bits = [_bits_code(reader.leaf(i), call.leaves[i]) for i in plan.numbers]
    parts = [*serials, *bits, *others]
    code = parts[0] if len(parts) == len(serials) == 1 else joined(parts)
    # (Where that is `False`, Python compiles `code` alone.)
    code = plan.key_code = f"None if {plan.supplied_code} else {code}"
    plan.contents = reader.function(contents) if contents else nothing
    if code == before.key_code:
        plan.ready, plan.key_of, plan.find = before.ready, before.key_of, before.find
        plan._seen = before._seen
        return
    plan.key_of = reader.function(code)
    # Not a name of the reader, which JAX holds by what it knows of results (`About`):
    # a program would hold itself.
    plan.find = reader.function(f"ready[{code}]", ready=plan.ready)


def _is_part(slot: Any, obj: Any, answers: Answers) -> bool:
    """Whether an object is a part of a value that is found by arrays, and nothing in it
    can be changed: it is found by these arrays too."""
    if type(slot) is int or may_change(obj):
        return False
    ask, _ = slot
    is_by_arrays = ask in answers and not answers[ask].by_object
    return is_by_arrays and not _was_supplied(obj)


def _choose_parts(
    plan: Plan, before: Plan, objects: Sequence[Any], has_owners: bool
) -> None:
    """By which leaves and objects the values are found. Those of the plan before are
    among them, or calls that use different values in turn would never be ready."""
    positions = {*chain(*(need.value.positions for need in plan.needs))}
    if not has_owners:  # by which everything on them is found
        positions.update(before.positions)
    for need in plan.needs:  # what is ready has to go with one of its arrays
        stay = [i for i in need.value.holders if i not in plan.leaves]
        if positions.isdisjoint(stay):
            positions.update(stay[:1])
    numbers = {*chain(*(need.value.numbers for need in plan.needs))}
    if {need.ask for need in plan.needs} != {need.ask for need in before.needs}:
        numbers.update(before.numbers)
    plan.positions, plan.numbers = sorted(positions), sorted(numbers)
    plan.reads = {**before.reads}
    for need in plan.needs:
        slot = need.ask[0]
        are_its_own = all(is_same for _, is_same in need.reads)
        if not are_its_own or type(slot) is not int:  # it may have read any object
            names = [frozenset(names_of(type(x))) for x in objects]
            plan.reads = dict(enumerate(names))
            return
        its_names = [key.attrname for key in (need.key, *(x for x, _ in need.reads))]
        plan.reads[slot] = plan.reads.get(slot, frozenset()).union(its_names)


def _supplied_code(
    plan: Plan, reader: Reader, objects: Sequence[Any], owners: Container[Any]
) -> str:
    """A user may have put a value into the `__dict__` of an object, of which cachax
    learns nothing. (Those that a value belongs to are looked at themselves.) And an
    object may have a value from `preset`, if there ever was one."""
    code = []
    for slot, names in plan.reads.items():
        if slot in owners:
            continue
        obj, its_code = objects[slot], reader.object(slot)
        fields = reader.fields(its_code, obj)
        if type(obj).__dictoffset__ and len(names) > 2:
            code.append(f"not {reader.constant(names)}.isdisjoint({fields})")
        elif type(obj).__dictoffset__:
            code += [f"{name!r} in {fields}" for name in sorted(names)]
        if _was_supplied(obj):
            code.append(f"has_preset({its_code})")
    return " or ".join(code) or "False"


def _was_supplied(obj: Any) -> bool:
    """Whether a value was ever supplied for an object of its class."""
    return any(key.was_supplied for key in keys_of(type(obj)).values())


def _fields(
    plan: Plan, needs: Sequence[Need], reader: Reader, objects: Sequence[Any]
) -> Iterator[str]:
    """Expressions for the names of fields, where there may be more of them than in the
    tree structure; and for static parts that are not in it, or are numbers: for JAX, 2
    and 2.0 are the same structure."""
    slots = [x.ask[0].slot if type(x.ask[0]) is Under else x.ask[0] for x in needs]
    pairs = zip(slots, needs, strict=True)
    numbered = {slot for slot, need in pairs if need.value.has_atoms}
    its_slots = (slot for slot in slots if type(slot) is int)
    for slot in {**plan.reads, **dict.fromkeys(its_slots)}:
        obj, code = objects[slot], reader.object(slot)
        if not type(obj).__dictoffset__:
            continue
        if not is_frozen(type(obj)):
            yield f"*{reader.fields(code, obj)}, None"
        if slot in numbered:
            for name, part in instance_dict(obj, "__dict__").items():
                field = reader.field(code, name, obj)
                if type(part) in NUMBERS:
                    yield _bits_code(field, part)
                elif type(part) in BUILTIN_ATOMS:
                    yield f"type({field}), {field}"
                elif type(part) is tuple and is_hashable(part):
                    yield _identity_code(reader, field, part)


def _identity_code(reader: Reader, code: str, field: tuple[Any, ...]) -> str:
    """An expression for the identity of a tuple. Most objects of a class have the same
    one: the shape of something, names of axes."""
    if not all(type(x) in (tuple, *BUILTIN_ATOMS) for x in walk(field)):
        return f"identity({code})"
    same = reader.constant(field)
    reader.names.setdefault(f"{same}_identity", identity(field))
    return f"({same}_identity if {code} is {same} else identity({code}))"


def no_key(args: Any, kwargs: Any) -> Any:
    raise KeyError


def nothing(args: Any, kwargs: Any) -> tuple[Any, ...]:
    return ()


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
