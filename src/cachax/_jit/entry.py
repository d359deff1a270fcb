"""What a function has learned about arguments of one structure: which values it uses,
and how to find them."""

import threading
import weakref
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import jax
from jax.tree_util import tree_flatten
from numpy import ndim

from .._compat import CONCRETE, has_processes, settings, trace_context
from .._core import index
from .._core.fields import instance_dict
from .._core.inputs import NUMBERS, bits_of, double, identity_of, look_of
from .._core.memo import (
    contents_of_object,
    has_preset,
    has_values,
    keys_of,
    may_have_values,
    supplied_on,
)
from .._core.recent import Recent
from .._core.slots import layout_of
from .._core.sources import names_of
from .._core.spread import are_global
from .._core.values import Packed, is_hashable, pack, static_identity
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
from .inside import New, kind_code, kind_of
from .options import Options
from .paths import Reader, joined
from .results import take

Read = Callable[[Any, Any], Any]
"""Reads something from the arguments of a call: `args` and `kwargs`."""


class Need:
    """A value that a program takes, and how to find it."""

    __slots__ = (
        "ask",
        "bits",
        "contents",
        "holders",
        "inner",
        "is_of_jax",
        "is_supplied",
        "key",
        "numbers",
        "owner",
        "positions",
        "read_bits",
        "read_holders",
        "statics",
    )

    def __init__(
        self, ask: Ask, value: Value, entry: "Entry", tree: Any, args: Any, kwargs: Any
    ) -> None:
        self.ask = ask
        self.key = ask[1]
        self.is_supplied = value.is_supplied
        self.is_of_jax = value.packed.is_of_jax
        self.positions = value.positions
        self.holders = value.holders
        self.numbers = value.numbers
        self.statics = value.statics
        self.inner = value.inner
        self.owner: Read | None = None
        """For a value that belongs to its object: finds that in the arguments."""
        if value.by_object:
            self.owner = entry.reading_object(ask[0], tree)
            return
        reader = entry.reader(tree)
        found = jax.tree.leaves(tree)
        arrays = [reader.array(i, found) for i in value.positions]
        self.contents = reader.function([f"{x}._cachax" for x in arrays])
        self.read_holders = reader.function([*map(reader.leaf, value.holders)])
        leaves = map(reader.leaf, value.numbers)
        self.read_bits = reader.function([f"bits({x})" for x in leaves])
        self.bits = self.read_bits(args, kwargs)

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
        if self.numbers and self.bits != self.read_bits(args, kwargs):
            return None
        if self.holders:
            records = index.held_by(self.read_holders(args, kwargs), self.key)
        else:
            records = index.candidates(self.key, self.contents(args, kwargs))
        for record in records:
            if record.statics == self.statics:
                break
        else:
            return None
        if record.packed is None:
            whole = record.template.whole
            if whole is None or not isinstance(whole[0], jax.Array):
                return None
            packed = pack(whole[0], "")
            record.packed = {False: packed, True: packed}
        found: Packed | None = record.packed.get(static_numpy)
        return found


class Ready:
    """A program, and the values it takes for certain arrays."""

    __slots__ = ("call", "contents", "held", "program", "values")

    def __init__(self, program: Any, values: Any, held: Any) -> None:
        self.program = program
        self.held = held
        """Static parts whose ids it is found by."""
        self.contents: Sequence[weakref.ref[index.Contents]] = ()
        """Of the arrays: when they are gone, or a value of them, so is this."""
        self.call = program.call
        self.values = values


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
    """What calls with arguments of one structure take, as it was last learned. It is
    replaced as a whole: threads may call a function at the same time."""

    program: Any = None
    """None if none can be relied on."""
    needs: tuple[Need, ...] = ()
    positions: tuple[int, ...] = ()
    """The leaves that a value was ever found by, and the numbers among them."""
    numbers: tuple[int, ...] = ()
    leaf_kinds: Any = None
    """The types of leaves that may be numbers or arrays, which is the same for JAX."""
    by_object = False
    """Whether a value belongs to an object, so that its arrays don't find it."""
    owners: tuple[Slot, ...] = ()
    """The objects that values belong to."""
    has_key = True
    """Whether calls can be ready."""
    static_numpy = False
    settings: Any = None
    """Of JAX, when it was learned."""
    fields: tuple[str, ...] = ()
    """Expressions for fields that may hold numbers that are static parts: for JAX, 2
    and 2.0 are the same structure."""
    static_numbers: Any = None
    """What these fields hold."""
    supplied_code = "False"
    key_code: Any = None
    find_code = ""

    def __init__(self) -> None:
        self.ready = ReadyCalls()
        self.key_of: Read = _no_key
        """What `ready` is looked up by; KeyError if nothing is known of an array."""
        self.find: Callable[[Any, Any], Ready] = _no_key
        """What is ready for these arguments; KeyError if nothing is."""
        self.contents: Read = _nothing
        """Those of the arrays that it is looked up by."""
        self.read_fields: Read = _nothing
        self.supplied: dict[int, dict[str | None, None]] = {}
        """By slot: names of values that the user may have stored on the objects."""
        self.names: dict[str, Any] = {}
        """Functions in the code of `find`."""
        self.is_supplied: Read = _nothing
        """Whether the user stored a value on an object, except the owners."""
        self.read_kinds: Read = _nothing
        self.kinds: Any = ()
        """What `leaf_kinds` are found by, and what is found."""
        self.on_owners: list[Any] = []
        """Functions that find what is supplied on each owner, and what was."""
        self._seen: dict[Any, bool] = Recent(10_000)
        """Keys of calls that are not in `ready` yet: as many as the objects of a data
        set that a program goes through again and again."""

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
            if self.is_supplied(args, kwargs):
                return None
            if self.read_kinds(args, kwargs) != self.kinds:
                return None
            for find, before in self.on_owners:
                if supplied_on(find(args, kwargs)) != before:
                    return None
            if self.fields:
                fields = [*map(_identity, self.read_fields(args, kwargs))]
                if fields != self.static_numbers:
                    return None
            for need, form in zip(self.needs, self.program.forms, strict=True):
                packed = need.find(args, kwargs, self.static_numpy)
                if packed is None or (packed.form is not form and packed.form != form):
                    return None
                values += packed.arrays
        except (KeyError, AttributeError, IndexError):
            return None
        return values

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


class Entry:
    """For one structure of arguments, or for all without objects. `tree` is of that
    structure: the arguments, with None for the static ones."""

    def __init__(self, options: Options, tree: Any) -> None:
        self.options = options
        self.is_global = are_global(jax.tree.leaves(tree))
        """Whether it is for calls with global arrays. What a process does with its own
        arrays must make no difference to what it launches together with others."""
        self.layout = layout_of(tree)
        self.maps: list[Map | None] = []
        self.spans: list[slice] = []
        """For each object, which of the leaves are in it."""
        self.is_open: list[bool] = []
        """Which objects can get fields that are not in their tree structure."""
        if self.layout is not None:
            objects = self.layout.objects(tree)
            self.spans = self.layout.spans(tree)
            pairs = zip(objects, self.spans, strict=True)
            self.maps = [map_of(obj, span.start) for obj, span in pairs]
            self.is_open = [may_get_fields(obj) for obj in objects]
        self._reader: Reader | None = None
        self.courses: dict[Any, Course] = Recent()
        self.programs: dict[Any, Any] = Recent(64)
        self.plan = Plan()
        self.inside_plan = Plan()
        """The same for calls that compute values inside."""
        self.find = self.plan.find
        self.by_signature = False
        """Whether calls with the same arrays take different programs."""
        self.mistaken = False
        """Whether the last call was first tried with a wrong program."""
        self.static_numpy = False
        self.inside_asks: dict[Ask, None] = {}
        """What can't be an input, unless the user supplies a value that can."""
        self.new_calls = 0
        """For which values had to be computed."""
        self.lock = threading.RLock()
        """While one thread computes values of new arrays, the others wait."""
        self.new = New()
        """What was, when a program computed values inside."""
        self.is_new: Read = _nothing
        """Whether it is."""
        self.inside: Any = None
        """A program that computes the values itself."""

    # How to read the arguments.

    def reader(self, tree: Any) -> Reader:
        if self._reader is None or self.layout is None:
            take_out, layout = self.options.static.take_out, self.layout
            names = {
                "bits": _bits,
                "contents_of": contents_of_object,
                "double": double,
                "whole": int.__pos__,
                "follow": index.follow,
                "has_preset": has_preset,
                "has_values": has_values,
                "signature": lambda *call: (*signature_of(leaves(*call)), settings()),
            }

            def leaves(args: Any, kwargs: Any) -> list[Any]:
                return tree_flatten(take_out(args, kwargs)[0])[0]

            def objects(args: Any, kwargs: Any) -> list[Any]:
                tree, _ = take_out(args, kwargs)
                return [] if layout is None else layout.objects(tree)

            arguments = ("args", "kwargs")
            self._reader = Reader(tree, layout, arguments, names, leaves, objects)
        return self._reader

    def reading_object(self, slot: Slot, tree: Any) -> Read:
        """A function that finds the object of a slot."""
        reader = self.reader(tree)
        if isinstance(slot, int):
            return reader.function(reader.object(slot))
        (outer, key), number = slot  # in a value
        read = self.reading_object(outer, tree)

        def object_in(args: Any, kwargs: Any) -> Any:
            value = key.read(read(args, kwargs))
            if number == 0 and may_have_values(type(value)):
                return value
            return objects_in(value)[number]

        return object_in

    def launch(self, program: Any, values: Any, args: Any, kwargs: Any) -> Any:
        """Run a program with these values, traced and compiled first if need be.

        (Not a method of `Program`: an error at run time may show the line, and one in
        `program.py` is taken for one of JAX about the arguments.)
        """
        out = program.call(values, *args, **kwargs)
        return take(out, self, args, kwargs) if type(out) is dict else out

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
    ) -> Plan:
        """What a call used, and which program it took."""
        may_have_more = any(key.was_supplied for _, key in self.inside_asks)
        passes_on = program is not None and program.passes_on(self.objects(tree))
        if self.mistaken and not traced:  # there was a program, and not that one
            self.by_signature = True
        self.mistaken = False
        plan = Plan()
        owned = {ask: x for ask, x in answers.items() if x.by_object}
        plan.by_object = bool(owned) or may_have_more or passes_on
        plan.has_key = not (may_have_more or passes_on)
        plan.has_key &= all(value.is_fixed for value in owned.values())
        if plan.has_key:
            plan.owners = tuple(dict.fromkeys(slot for slot, _ in owned))
        plan.program = None if may_have_more else program
        self._complete(plan, self.plan, answers, tree, args, kwargs)
        self.plan = plan
        self._set_find(tree)
        return plan

    def _complete(
        self,
        plan: Plan,
        before: Plan,
        answers: Answers,
        tree: Any,
        args: Any,
        kwargs: Any,
        new: Sequence[int] = (),
    ) -> None:
        """How to find the values that its program takes. Some leaves are new in every
        call."""
        plan.settings = settings()
        plan.static_numpy = self.static_numpy
        needs = tuple(
            Need(ask, x, self, tree, args, kwargs) for ask, x in answers.items()
        )
        plan.needs = needs
        positions = {*chain(*(need.positions for need in needs))}
        if not plan.owners:  # by which everything on them is found
            positions.update(before.positions)
        for need in needs:  # what is ready has to go with one of its arrays
            stay = [i for i in need.holders if i not in new]
            if positions.isdisjoint(stay):
                positions.update(stay[:1])
        numbers = {*chain(*(need.numbers for need in needs))}
        if {need.ask for need in needs} != {need.ask for need in before.needs}:
            numbers.update(before.numbers)
        plan.positions, plan.numbers = tuple(sorted(positions)), tuple(numbers)
        leaves = jax.tree.leaves(tree)
        if plan.leaf_kinds is None:
            spans = [self.spans[slot] for slot, _ in answers if isinstance(slot, int)]
            scalars = {i for x in spans for i in range(x.start, x.stop)}
            scalars = {i for i in scalars - positions - numbers if not ndim(leaves[i])}
            plan.leaf_kinds = [(i, kind_of(leaves[i])) for i in sorted(scalars)]
        reader, kinds = self.reader(tree), plan.leaf_kinds
        code = [kind_code(reader.leaf(i), kind) for i, kind in kinds]
        plan.read_kinds = reader.function(code)
        plan.kinds = plan.read_kinds(args, kwargs)
        self._note_supplied(plan, before, tree)
        self._note_static_numbers(plan, answers, tree)
        plan.static_numbers = [*map(_identity, plan.read_fields(args, kwargs))]
        self._note_key(plan, before, tree, args, kwargs)

    def _note_supplied(self, plan: Plan, before: Plan, tree: Any) -> None:
        """A user may have put a value into the `__dict__` of an object, of which cachax
        learns nothing. (Objects that can get fields have these in the key.) And an
        object may have a value from `preset`, if there ever was one."""
        reader, objects = self.reader(tree), self.objects(tree)
        names: dict[int, dict[str | None, None]] = {
            slot: {**its_names} for slot, its_names in before.supplied.items()
        }  # or calls that use different values in turn would be ready never
        for need in plan.needs:
            slot, key = need.ask
            if need.inner is None or not isinstance(slot, int):  # of any object
                names = {
                    i: dict.fromkeys(names_of(type(x))) for i, x in enumerate(objects)
                }
                break
            keys = [key, *(key for key, _ in need.inner)]
            names.setdefault(slot, {}).update(dict.fromkeys(k.attrname for k in keys))
        plan.supplied, code = names, []
        for slot, its_names in names.items():
            is_keyed = slot in plan.owners  # with all that is on it
            if its_names and type(objects[slot]).__dictoffset__ and not is_keyed:
                fields = reader.fields(reader.object(slot), objects[slot])
                are_in = [f"{name!r} in {fields}" for name in its_names]
                if len(are_in) > 2:
                    names_in = reader.constant(frozenset(its_names))
                    are_in = [f"not {names_in}.isdisjoint({fields})"]
                code += are_in
            its_keys = keys_of(type(objects[slot])).values()
            if any(key.was_supplied for key in its_keys) and not is_keyed:
                code.append(f"has_preset({reader.object(slot)})")
        plan.supplied_code = " or ".join(code) or "False"
        plan.is_supplied = reader.function(plan.supplied_code)

    def _note_static_numbers(self, plan: Plan, answers: Answers, tree: Any) -> None:
        reader = self.reader(tree)
        objects = self.objects(tree)
        found: list[str] = []
        for slot in dict.fromkeys(slot for slot, _ in answers if type(slot) is int):
            asked = [x for (other, _), x in answers.items() if other == slot]
            if self.is_open[slot] or any(x.has_static_numbers for x in asked):
                obj, names = reader.object(slot), _static_names(objects[slot])
                if self.is_open[slot]:  # which fields it has
                    found.append(f"*{reader.fields(obj, objects[slot])}")
                if any(x.has_static_numbers for x in asked):
                    found += [reader.field(obj, x, objects[slot]) for x in names]
        plan.fields = tuple(found)
        plan.read_fields = reader.function(plan.fields)

    def _note_key(
        self, plan: Plan, before: Plan, tree: Any, args: Any, kwargs: Any
    ) -> None:
        """By the contents of the arrays; by other things only where they count."""
        if not plan.has_key:
            return
        reader = self.reader(tree)
        leaves = jax.tree.leaves(tree)
        contents = [f"{reader.array(i, leaves)}._cachax" for i in plan.positions]
        numbers = range(len(plan.owners))
        contents += [f"contents_of(owner_{n}(args, kwargs))" for n in numbers]
        reads = [self.reading_object(x, tree) for x in plan.owners]
        plan.names = {f"owner_{n}": read for n, read in enumerate(reads)}
        plan.on_owners = [(read, supplied_on(read(args, kwargs))) for read in reads]
        parts = [f"{each}.serial" for each in contents]
        more = [_bits_code(reader.leaf(i), leaves[i]) for i in plan.numbers]
        more += [kind_code(reader.leaf(i), kind) for i, kind in plan.leaf_kinds]
        more += [x if x[0] == "*" else f"id({x})" for x in plan.fields]
        more += ["*signature(args, kwargs)"] if self.by_signature else []
        key = joined(parts[0] if len(parts) == 1 and not more else tuple(parts + more))
        plan.key_code = (key, plan.supplied_code, plan.owners)
        plan.contents = reader.function(contents, **plan.names)
        if plan.key_code == before.key_code:
            plan.ready, plan.key_of, plan.find = (
                before.ready,
                before.key_of,
                before.find,
            )
            plan._seen, plan.find_code = before._seen, before.find_code
            return
        plan.key_of = reader.function(key, **plan.names)
        if plan.supplied_code != "False":
            key = f"None if {plan.supplied_code} else {key}"
        plan.find_code = key
        # Not a name of the reader, which JAX holds by what it knows of results
        # (`About`): a program would hold itself.
        plan.find = reader.function(f"ready[{key}]", ready=plan.ready, **plan.names)

    def note_inside(
        self,
        answers: Answers,
        program: Any,
        values: Any,
        new: New,
        tree: Any,
        args: Any,
        kwargs: Any,
    ) -> None:
        """A call took a program that computes values itself, because something was new.
        Otherwise calls take what is planned."""
        inside = Plan()
        inside.program, inside.leaf_kinds = program, new.kinds
        self._complete(
            inside, self.inside_plan, answers, tree, args, kwargs, [*new.leaves]
        )
        inside.keep(args, kwargs, values)
        self.inside_plan, self.new = inside, new
        self._set_find(tree)
        ready = inside.ready.get(inside.key(args, kwargs))
        if ready is not None:
            ready.call = self._one_thread(program)

    def _set_find(self, tree: Any) -> None:
        """What is ready for a call: as it is planned, or for new arrays."""
        plan, inside, reader = self.plan, self.inside_plan, self._reader
        new = self.new
        if reader is None or not (new.leaves or new.objects):
            self.find = plan.find
            return
        leaves = [*map(reader.leaf, new.leaves)]
        found = jax.tree.leaves(tree)
        arrays = [reader.array(i, found) for i in new.leaves]
        conditions = [f"'_cachax' not in {array}.__dict__" for array in arrays]
        conditions += [f"not has_values({reader.object(i)})" for i in new.objects]
        if plan.supplied_code != "False":
            conditions.append(f"not ({plan.supplied_code})")
        conditions.append("here.trace is concrete")
        if has_processes():
            conditions.append(f"are_global({joined(leaves)}) is {self.is_global}")
        arrays_of: dict[Any, dict[Any, str]] = {}
        for need in plan.needs:
            slot = need.ask[0]
            if slot in new.objects:
                its = f"id({reader.object(slot)})"
                arrays_of.setdefault(need.key, {})[slot] = its
            elif not {*need.positions}.isdisjoint(new.leaves):
                for key, places in need.reads:
                    ids = [f"id({reader.leaf(i)})" for i in places]
                    arrays_of.setdefault(key, {})[slot] = joined(ids)
        for each in arrays_of.values():  # inside, one object in two places is two
            if len(each) > 1:
                codes = ", ".join(each.values())
                conditions.append(f"len({{{codes}}}) == {len(each)}")
        is_new = " and ".join(conditions)
        names = {"here": trace_context, "concrete": CONCRETE, "are_global": are_global}
        self.is_new = reader.function(is_new, **names)
        self.find = reader.function(
            f"ready_inside[{inside.find_code or None}] if {is_new} "
            f"else ready[{plan.find_code or None}]",
            ready_inside=inside.ready,
            ready=plan.ready,
            **names,
            **plan.names,
        )

    def _one_thread(self, program: Any) -> Callable[..., Any]:
        """A program for new arrays: of threads that call it with the same ones, the
        first computes the value."""

        is_new, lock, launch = self.is_new, self.lock, program.call
        weakly = weakref.ref(self)  # which has what is ready

        def call(values: Any, /, *args: Any, **kwargs: Any) -> Any:
            is_alone = lock.acquire(timeout=1)  # it may wait for this thread
            try:
                if not is_new(args, kwargs):
                    raise NoLongerNew
                out = launch(values, *args, **kwargs)
                return take(out, weakly(), args, kwargs) if type(out) is dict else out
            finally:
                if is_alone:
                    lock.release()

        return call


class NoLongerNew(BaseException):
    """The value was computed meanwhile, in a different thread."""


def _no_key(args: Any, kwargs: Any) -> Any:
    raise KeyError


def _nothing(args: Any, kwargs: Any) -> tuple[Any, ...]:
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


def _identity(field: Any) -> Any:
    """Of a field that may hold static numbers. It doesn't if it can't be hashed."""
    return static_identity(field) if is_hashable(field) else type(field)


def _bits(leaf: Any) -> Any:
    if type(leaf) in NUMBERS:
        return bits_of(leaf)
    return None if isinstance(leaf, jax.Array) else identity_of(leaf)


def _bits_code(code: str, leaf: Any) -> str:
    """An expression for what `_bits` distinguishes, as fast as can be for leaves of
    this type."""
    find = {float: "double", int: "whole", bool: "whole"}.get(type(leaf))
    return f"bits({code})" if find is None else f"type({code}), {find}({code})"


def signature_of(leaves: Sequence[Any]) -> Any:
    """What of the leaves a trace can see: shapes and dtypes."""
    return tuple(
        look_of(x) if hasattr(x, "shape") and hasattr(x, "dtype") else type(x)
        for x in leaves
    )
