"""Everything that the body of a cached property can use: arrays and static parts.

Two objects with equal static parts and the same arrays give the same value. Read from
the fields, not by `jax.tree.flatten`, for the reasons given in `fields.py`.
"""

import functools
import gc
import operator
import struct
import types
import weakref
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import jax
import numpy as np

from .._compat import (
    ArrayImpl,
    Tracer,
    aval_of_number,
    explicit_sharding,
    has_several_devices,
    is_ref,
    is_registered,
)
from .fields import (
    ATOMS,
    BUFFERS,
    UNSET,
    attributes,
    derived_names,
    fields_in,
    is_opaque,
    may_change,
    parts_of,
    per_class,
    plain_value,
    slot_value,
    slots_of,
)
from .reads import Held, watch
from .sources import names_of

PYTHON_NUMBERS = frozenset([bool, int, float, complex])
NUMBERS = PYTHON_NUMBERS | {np.dtype(code).type for code in "?bhilqBHILQefdFD"}
"""And those of numpy."""
_BY_VALUE = {str, bytes, type(None)}
_GETTERS = (operator.attrgetter, operator.itemgetter, operator.methodcaller)

_NNX_NOTES = "flax.nnx.tracers"
"""Which trace an nnx object was made in: different in every copy."""

_NNX_VARIABLES = "flax.nnx.variablelib"
"""Their metadata are a dictionary, in a different order in every copy."""

_KNOWN_HASH = ("FrozenDict", "_hash")
"""A slot of a class of flax: None until the hash is computed."""
_ADDED_BY_EQUINOX = {*functools.WRAPPER_ASSIGNMENTS, "__annotations__"}
"""By equinox up to 0.11, to the instances it rebuilds."""


class Same:
    """A static part that is compared by identity."""

    __slots__ = ("_hash", "_held")

    def __init__(self, thing: Any) -> None:
        self._hash = id(thing)
        try:
            self._held: Any = weakref.ref(thing)
        except TypeError:  # held, because an id is reused when its owner is gone
            self._held = lambda: thing

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Same) or self._hash != other._hash:
            return False
        thing = self._held()
        return thing is not None and thing is other._held()

    def __hash__(self) -> int:
        return self._hash


@dataclass(frozen=True, slots=True)
class Inputs:
    """The arrays of an object by identity, and its static parts.

    Python numbers count as arrays, because inside `jit` they are: whether a body
    needs the number itself is learned (`uses.py`).
    """

    arrays: list[Any]
    """Arrays and Python numbers, in an order that depends on the static parts alone."""
    parts: tuple[int, ...]
    """The numbers of these among all parts."""
    statics: tuple[Any, ...]
    """All parts, in the same order: what a body can see of an array without using its
    contents, `Fields` for what is taken apart, and else what distinguishes a part from
    others."""
    shape: tuple[Any, ...]
    """The same with `ARRAY` for an array, and without what distinguishes a part from
    others of its kind: which numbers the parts have."""
    orders: tuple[Any, ...]
    """The orders of the keys of dictionaries; None where they are sorted, as they are
    in a dictionary that JAX has rebuilt."""
    writable: frozenset[int]
    """Which of the arrays are numpy's: a change of their contents can't be detected."""
    in_keys: frozenset[int]
    """Which of the arrays are in objects that are equal to others: a body gets these
    objects as they are, because a table may be keyed by them."""
    supplied: tuple[tuple[int, Any, Any], ...]
    """Values that the user supplied: which part the object is (0 for the outermost),
    the property, and what distinguishes the value."""

    @property
    def numbers(self) -> set[int]:
        """Which of the arrays are Python numbers."""
        return {i for i, x in enumerate(self.arrays) if type(x) in NUMBERS}

    @property
    def holders(self) -> list[Any]:
        """The arrays that values can stay with."""
        others = self.numbers | self.writable
        arrays = (x for i, x in enumerate(self.arrays) if i not in others)
        return [x for x in arrays if not isinstance(x, Tracer)]

    @property
    def is_sorted(self) -> bool:
        """Whether all dictionaries are as JAX would rebuild them."""
        return not any(self.orders)

    @property
    def exactly(self) -> "Given":
        """All that a body can see without using the contents of an array."""
        return self.given((), True, ())._replace(supplied=self.supplied)

    @property
    def identity(self) -> tuple[Any, ...]:
        """What distinguishes an object with these inputs from others."""
        arrays = (Same(x) for x in self.arrays if type(x) not in NUMBERS)
        return (self.exactly, *arrays)

    def given(
        self,
        used: Container[int],
        is_ordered: bool,
        unread: Container[int],
        reads: Container[Any] = (),
    ) -> "Given":
        """The same for a body that uses the contents of some of the arrays, to which
        the order of dictionaries matters or not, which doesn't read these parts, and
        which reads these values, of the object itself or also of others (`Uses`)."""
        pairs = zip(self.statics, self.shape, strict=True)
        statics = [y if i in unread else x for i, (x, y) in enumerate(pairs)]
        bits: list[Any] = []
        for i, (array, part) in enumerate(zip(self.arrays, self.parts, strict=True)):
            if part in unread or i in used:
                continue
            look = statics[part]
            if not look[0]:  # it has no shape
                bits.append((i, bits_of(array)))
            if getattr(array, "_committed", False) and has_several_devices():
                statics[part] = (*look, array.sharding)  # what it makes is there
        orders = self.orders if is_ordered else ()
        supplied = self.supplied and tuple(
            (number, key, value)
            for number, key, value in self.supplied
            if (key, False) in reads or (number == 0 and (key, True) in reads)
        )
        return Given(tuple(statics), tuple(bits), orders, supplied)

    def is_like(self, other: "Inputs", unread: Container[int] = ()) -> bool:
        """Whether all that is read is the same except the arrays, and numbers that are
        arrays in the other one, and the orders of dictionaries."""
        if self.shape != other.shape:
            return False
        pairs = enumerate(zip(self.statics, other.statics, strict=True))
        statics = [(x, y) for i, (x, y) in pairs if self._is_static(i, unread)]
        arrays = zip(self.parts, self.arrays, other.arrays, strict=True)
        return all(x == y for x, y in statics) and all(
            i in unread or type(y) not in NUMBERS or bits_of(x) == bits_of(y)
            for i, x, y in arrays
        )

    def _is_static(self, part: int, unread: Container[int]) -> bool:
        return self.shape[part] is not ARRAY and part not in unread

    def positions(self, parts: Container[int]) -> set[int]:
        """Which of the arrays are among these parts."""
        return {i for i, part in enumerate(self.parts) if part in parts}


class Given(NamedTuple):
    """What a value depends on besides the contents of arrays."""

    statics: tuple[Any, ...]
    """Of a part that makes no difference, only the shape (`Inputs.shape`)."""
    bits: tuple[Any, ...]
    """Of numbers, by position; None for an array that could be one: for JAX, both are
    the same."""
    orders: tuple[Any, ...]
    supplied: tuple[Any, ...]
    """Values that the user supplied and the body reads."""
    settings: tuple[Any, ...] = ()
    """The configuration of JAX, if the value is kept."""
    uses: Any = None
    """And what the body used (`Uses`)."""


def bits_of(number: Any) -> Any:
    """A number as something that tells 2 from 2.0 and 0.0 from -0.0. None for an
    array."""
    cls = type(number)
    if cls not in NUMBERS:
        return None
    if cls is float:
        return (cls, double(number))
    return (cls, number.tobytes() if isinstance(number, np.generic) else repr(number))


double = struct.Struct("d").pack


def inputs_in_fields(
    obj: Any, supplied_on: Callable[[Any], Iterable[tuple[Any, Any]]] | None = None
) -> Inputs | None:
    """The inputs of `obj`; None if identity can't describe them: references, buffers,
    and containers with hidden state. `supplied_on` lists the values that the user
    supplied for one of the objects (`inputs_of`)."""
    statics: list[Any] = []
    shape: list[Any] = []
    arrays: list[Any] = []
    orders: list[Any] = []
    seen: dict[int, int] = {}
    around: set[int] = set()
    keys_around = 0
    is_in_a_key_too = False
    unordered: set[int] = set()
    writable: set[int] = set()
    in_keys: set[int] = set()
    supplied: list[Any] = []
    stack = [obj]
    while stack:
        thing = stack.pop()
        cls = type(thing)
        part: Any = None
        kind: Any = None
        if cls is _End:
            around.discard(thing.id)
            keys_around -= thing.is_key
            if thing.is_key:
                in_keys.update(range(thing.start, len(arrays)))
            continue
        if cls is not ArrayImpl and is_ref(thing):
            return None
        if cls is ArrayImpl or is_array(thing):
            kind = ARRAY
            if cls in NUMBERS:
                part = aval_of_number(thing)
            elif isinstance(thing, np.ndarray):
                writable.add(len(arrays))
                part = (thing.shape, thing.dtype, cls)
            else:
                part = look_of(thing)
            arrays.append(thing)
        elif not _is_describable(thing):
            return None
        elif is_whole(thing):
            if cls in (set, frozenset) and any(map(may_change, thing)):
                return None
            part = identity_of(thing)
            if part is cls:  # each is as good as another
                kind = part
            if isinstance(thing, types.FunctionType):
                inside = _identities_inside(thing)
                if inside is None:
                    return None
                part = (part, *inside)
        elif id(thing) in seen and (id(thing) in around or not is_rebuilt(thing)):
            part = kind = seen[id(thing)]
            is_in_a_key_too |= keys_around > 0
        else:
            if supplied_on is not None:
                supplied += [(len(statics), *each) for each in supplied_on(thing)]
            seen[id(thing)] = len(statics)
            taken = take_apart(thing)
            more: list[Any] = []
            if issubclass(cls, ATOMS):
                more += map(identity_of, plain_value(thing))
            if cls is defaultdict:
                more.append(identity_of(thing.default_factory))
            if _has_hidden_state(cls) or (thing is not obj and _is_one_of_a_kind(cls)):
                if cls.__weakrefoffset__ == 0 and taken.parts:
                    return None  # it would be held, with the arrays in it
                more.append(Same(thing))
            kind = Fields(cls, taken.names, len(taken.parts))
            part = kind._replace(more=tuple(more)) if more else kind
            is_dict = cls in (dict, defaultdict)
            if is_dict and any(map(may_change, thing)):
                return None
            if is_dict and len(thing) > 1 and id(thing) not in unordered:
                order = (*map(identity_of, thing),)
                orders.append(None if order == taken.names else order)
            if any(base.__module__ == _NNX_VARIABLES for base in cls.__mro__):
                unordered.update(map(id, taken.parts))
            around.add(id(thing))
            is_key = _may_be_a_key(thing)
            keys_around += is_key
            stack.append(_End(id(thing), len(arrays), is_key))
            stack += reversed(taken.parts)
        statics.append(part)
        shape.append(kind)
    if is_in_a_key_too:  # and somewhere else
        in_keys = {*range(len(arrays))}
    return Inputs(
        arrays,
        tuple([i for i, kind in enumerate(shape) if kind is ARRAY]),
        tuple(statics),
        tuple(shape),
        tuple(orders),
        frozenset(writable),
        frozenset(i for i in in_keys if type(arrays[i]) not in NUMBERS),
        tuple(supplied),
    )


ARRAY: Any = object()
"""In a shape: the place of an array."""


class Fields(NamedTuple):
    """Among the static parts: a thing that is taken apart."""

    cls: type
    names: tuple[Any, ...]
    parts: int
    """How many."""
    more: tuple[Any, ...] = ()
    """What else distinguishes it from others."""


class _End(NamedTuple):
    """Stands for the end of a thing whose arrays begin at `start`."""

    id: int
    start: int
    is_key: bool


def is_rebuilt(thing: Any) -> bool:
    """Whether JAX makes a new one of it wherever it is: if it is in an object twice,
    that makes no difference."""
    return type(thing) in (list, tuple, dict) or is_registered(type(thing))


def _may_be_a_key(thing: Any) -> bool:
    """Whether a copy could be taken for `thing` by `functools.lru_cache`, or by
    `jax.jit` as a static argument: the class says how it is hashed and compared."""
    cls: Any = type(thing)
    compares, hashes = cls.__eq__, cls.__hash__
    if compares is object.__eq__ or not isinstance(hashes, types.FunctionType):
        return False
    if is_registered(cls) or issubclass(cls, _CONTAINERS):
        return False
    file = hashes.__code__.co_filename
    if file == "<string>" or file.startswith("<attrs"):  # made from its fields
        try:
            hash(thing)
        except TypeError:  # an array is among them
            return False
    return True


def _is_one_of_a_kind(cls: type) -> bool:
    """Whether an object of this class is a different one than all others: it is not
    equal to any, and JAX doesn't rebuild it."""
    equals: Any = cls.__eq__
    return equals is object.__eq__ and not is_registered(cls)


def is_array(thing: Any) -> bool:
    """Whether it is among the arrays of `Inputs`. (A tracer too.)"""
    if isinstance(thing, np.ndarray):
        return thing.dtype.kind in "biufc"
    return type(thing) in NUMBERS or isinstance(thing, jax.Array)


def _is_describable(thing: Any) -> bool:
    if isinstance(thing, (np.ndarray, *BUFFERS, deque)):
        return False  # a length is not among the parts
    if isinstance(thing, defaultdict) and type(thing) is not defaultdict:
        return False
    is_open = is_opaque(type(thing)) and gc.is_tracked(thing)  # a mapping proxy
    return not is_open or isinstance(thing, _GETTERS)


def _identities_inside(fun: Any) -> list[Any] | None:
    """What a function closes over: lists and dictionaries by what is in them, and the
    rest by identity too. None if that doesn't describe it."""
    identities: list[Any] = []
    numbers = {id(fun): 0}
    things = [fun]
    for thing in things:  # which grows
        if is_ref(thing) or isinstance(thing, BUFFERS):
            return None
        parts = fields_in(thing)
        for part in parts:
            if id(part) not in numbers:
                numbers[id(part)] = len(things)
                things.append(part)
        inside = tuple([numbers[id(part)] for part in parts])
        is_weak = type(thing).__weakrefoffset__ != 0  # else it may hold an array
        value = Same(thing) if is_weak else (*map(identity_of, plain_value(thing)),)
        whole = (type(thing), value, inside) if parts else identity_of(thing)
        identities.append(whole)
    return identities


def is_whole(thing: Any) -> bool:
    """Whether `thing` is one static part, with nothing in it to be looked at."""
    cls = type(thing)
    return (
        parts_of(cls) is None
        or cls.__module__ == _NNX_NOTES
        or is_opaque(cls)
        or isinstance(thing, types.FunctionType | set | frozenset)
    )


def identity_of(thing: Any) -> Any:
    """What distinguishes a static part from others: the type and the bits of a number,
    the value of a string, and the identity of everything else."""
    cls = type(thing)
    if cls in NUMBERS:
        return bits_of(thing)
    if cls in _BY_VALUE or isinstance(thing, np.dtype):
        return (cls, thing)
    if isinstance(thing, np.generic):
        return (cls, thing.dtype, thing.tobytes())
    if cls in (set, frozenset):
        return (cls, frozenset(map(identity_of, thing)))
    if cls.__module__ == _NNX_NOTES:
        return cls
    return Same(thing)


def look_of(array: Any) -> tuple[Any, ...]:
    """What a body can see of an array without using its contents."""
    look = (array.shape, array.dtype, bool(getattr(array, "weak_type", False)))
    sharding = explicit_sharding(array)
    return look if sharding is None else (*look, sharding)


@per_class
def _has_hidden_state(cls: type) -> bool:
    """Whether a base written in C has state that is not in the fields: an open file, a
    random generator, a date. Its objects are larger than their fields."""
    if cls.__basicsize__ <= object.__basicsize__ + 8:
        return False
    pointers = len(slots_of(cls)) + (cls.__dictoffset__ > 0)
    pointers += cls.__weakrefoffset__ > 0
    size = object.__basicsize__ + 8 * pointers
    return cls.__basicsize__ > size and not issubclass(cls, _CONTAINERS)


_CONTAINERS = (list, tuple, dict, functools.partial, types.MethodType)


@dataclass(frozen=True, slots=True)
class Taken:
    """A thing taken apart."""

    names: tuple[Any, ...]
    parts: list[Any]
    rebuild: Callable[[list[Any]], Any] | None
    """Puts it together again from other parts; None if that isn't possible."""


def take_apart(thing: Any) -> Taken:
    """The parts of a thing by name, in sorted order: code that rebuilds an object may
    set its fields in any order, and JAX sorts the keys of a dictionary."""
    cls = type(thing)
    if cls in (dict, defaultdict) or (cls is OrderedDict and not vars(thing)):
        keys = [*thing] if cls is OrderedDict else in_order(thing)
        make: Any = cls
        if cls is defaultdict:
            make = functools.partial(cls, thing.default_factory)

        def rebuild_dict(parts: list[Any]) -> Any:
            new = dict(zip(keys, parts, strict=True))
            return make((key, new[key]) for key in thing)

        names = tuple(map(identity_of, keys))
        return Taken(names, [thing[key] for key in keys], rebuild_dict)
    if cls is list:
        return Taken((), thing, list)
    if issubclass(cls, tuple) and not cls.__dictoffset__:
        return Taken((), [*thing], lambda parts: tuple.__new__(cls, parts))
    if issubclass(cls, functools.partial) and not vars(thing):
        new = functools.partial(functools.partial.__new__, cls)
        parts = [thing.func, thing.args, thing.keywords]
        return Taken((), parts, lambda x: new(x[0], *x[1], **x[2]))
    if cls is types.MethodType:
        return Taken((), [thing.__func__, thing.__self__], lambda x: cls(*x))
    if _has_hidden_state(cls) or issubclass(cls, (*_CONTAINERS, *ATOMS, np.ndarray)):
        return Taken((), fields_in(thing), None)
    return _take_apart_object(thing)


def _take_apart_object(thing: Any) -> Taken:
    cls = type(thing)
    fields = attributes(thing)
    derived = derived_names(cls)
    supplied = {*names_of(cls)}  # by the user, in the `__dict__`
    names = sorted(fields.keys() - derived - supplied - _ADDED_BY_EQUINOX)
    slots = slots_of(cls)
    if cls.__name__ == _KNOWN_HASH[0]:
        slots = [name for name in slots if name != _KNOWN_HASH[1]]
    parts = [fields[name] for name in names]
    parts += [slot_value(thing, name) for name in slots]

    def rebuild(parts: list[Any]) -> Any:
        new = object.__new__(cls)
        now = {**fields, **dict(zip(names, parts, strict=False))}
        kept = {name: x for name, x in now.items() if name not in derived}
        attributes(new).update(kept)
        for name, part in zip(slots, parts[len(names) :], strict=True):
            if part is not UNSET:
                object.__setattr__(new, name, part)
        if len(slots) < len(slots_of(cls)):
            object.__setattr__(new, _KNOWN_HASH[1], None)
        return new

    return Taken((*names, *slots), parts, rebuild)


def in_order(keys: Iterable[Any]) -> list[Any]:
    try:
        return sorted(keys)
    except TypeError:
        return [*keys]


def parts_in(obj: Any, shape: Sequence[Any]) -> list[Any]:
    """The parts of an object, which has this shape."""
    found: list[Any] = []
    stack = [obj]
    for kind in shape:
        found.append(stack.pop())
        if type(kind) is Fields:
            stack += reversed(take_apart(found[-1]).parts)
    return found


class CannotRebuildError(Exception):
    """A thing in an object can't be copied with other arrays in it."""


class Copy:
    """A copy of an object with other arrays in it, made without running its code."""

    def __init__(
        self,
        obj: Any,
        arrays: Iterable[Any],
        order: Callable[[list[Any]], list[Any]] | None = None,
        instead: dict[int, tuple[Any, int, int]] | None = None,
        keep_keys: bool = True,
        notes_reads: bool = False,
        is_written: bool = True,
    ) -> None:
        """With `order`, the keys of dictionaries are in a different order. `instead`
        has others for some of the parts, by number, with how many parts and how many
        arrays these stand for. With `notes_reads`, it notes which of its fields are
        read from then on. If it `is_written` to, it has its own lists and dictionaries,
        with arrays in them or not."""
        self._keep_keys = keep_keys
        self._is_written = is_written
        self._notes_reads = notes_reads
        self._arrays = iter(arrays)
        self._instead = instead or {}
        self._order = order
        self._copies: dict[int, tuple[Any, Held]] = {}
        self._around: set[int] = set()
        self._arrays_seen = 0
        self._parts = 0
        self.numbered: dict[int, Any] = {}
        """The copies of things that are taken apart, by their numbers."""
        self.read = Held()
        """What was read since."""
        self.originals: dict[int, tuple[Any, Any]] = {}
        """The objects in it, by id, with what they are copies of."""
        self.obj, held = self._copy(obj)
        self.read.add(held)

    def is_copy(self, thing: Any) -> bool:
        found = self.originals.get(id(thing))
        return found is not None and found[0] is thing

    def original(self, thing: Any) -> Any:
        """What `thing` is a copy of; itself if it isn't one."""
        return self.originals[id(thing)][1] if self.is_copy(thing) else thing

    def _copy(self, thing: Any) -> tuple[Any, Held]:
        """A copy of a part, and what is read with the field that the part is in. (Parts
        are numbered as in `inputs_in_fields`.)"""
        held, number = Held(), self._parts
        held.parts.add(number)
        if number in self._instead:
            mark, count, arrays = self._instead[number]
            self._parts += count
            deque(islice(self._arrays, arrays), 0)
            return mark, held
        self._parts += 1
        if is_array(thing):
            self._arrays_seen += type(thing) not in NUMBERS
            return next(self._arrays), held
        if is_whole(thing):
            return thing, held
        if id(thing) in self._copies and not is_rebuilt(thing):
            copy, its = self._copies[id(thing)]
            held.add(its)
            return copy, held
        if id(thing) in self._around:
            raise CannotRebuildError
        taken = take_apart(thing)
        self._around.add(id(thing))
        before = self._arrays_seen
        parts: list[Any] = []
        inside: list[Held] = []
        for part in taken.parts:
            copy, its = self._copy(part)
            parts.append(copy)
            inside.append(its)
        self._around.discard(id(thing))
        new = thing
        has_arrays = self._arrays_seen > before
        is_kept = self._keep_keys and (
            _may_be_a_key(thing)
            if has_arrays
            else _is_one_of_a_kind(type(thing)) and not names_of(type(thing))
        )
        is_watched = False
        if not is_kept and self._is_changed(thing, parts, taken):
            if taken.rebuild is None or hasattr(type(thing), "__del__"):
                raise CannotRebuildError
            new = taken.rebuild(parts)
            if self._order is not None and type(thing) in (dict, defaultdict):
                items = {key: new[key] for key in self._order([*new])}
                new.clear()
                new.update(items)
            has_fields = type(thing).__dictoffset__ != 0
            if self._notes_reads and has_fields and not isinstance(thing, _CONTAINERS):
                fields = dict(zip(taken.names, inside, strict=True))
                is_watched = watch(new, fields, self.read)
            self.originals[id(new)] = (new, thing)
        if not is_watched:  # to read the field that it is in is to read all of it
            held.has_dictionary = type(thing) in (dict, defaultdict) and len(thing) > 1
            for each in inside:
                held.add(each)
        self._copies[id(thing)] = new, held
        self.numbered[number] = new
        return new, held

    def _is_changed(self, thing: Any, parts: list[Any], taken: Taken) -> bool:
        """Whether a copy is needed. What has no arrays in it is shared, because a body
        may ask which object it is; but a body may put something into a list."""
        if not all(map(operator.is_, parts, taken.parts)):
            return True
        if type(thing) in (list, dict, defaultdict):
            return self._is_written
        return bool(names_of(type(thing))) and type(thing).__weakrefoffset__ != 0
