"""Everything that the body of a cached property can use: arrays and static parts.

Two objects with equal static parts and the same arrays give the same value. Read from
the fields, not by `jax.tree.flatten`, for the reasons given in `fields.py`.
"""

import gc
import operator
import types
from collections import defaultdict, deque
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from .._compat import (
    ArrayImpl,
    Tracer,
    aval_of_number,
    has_several_devices,
    is_ref,
)
from .fields import ATOMS, BUFFERS, fields_in, is_opaque, may_change, plain_value
from .parts import (
    BY_VALUE,
    NUMBERS,
    Same,
    Taken,
    bits_of,
    has_hidden_state,
    identity_of,
    is_array,
    is_one_of_a_kind,
    is_rebuilt,
    is_whole,
    look_of,
    take_apart,
)

_GETTERS = (operator.attrgetter, operator.itemgetter, operator.methodcaller)

_NNX_VARIABLES = "flax.nnx.variablelib"
"""Their metadata are a dictionary, in a different order in every copy."""


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
    supplied: tuple[tuple[int, Any, Any], ...]
    """Values that the user supplied: which part the object is (0 for the outermost),
    the property, and what distinguishes the value."""
    _given: dict[Any, "Given"] = field(default_factory=dict, init=False, compare=False)
    """What `given` has found."""

    @property
    def numbers(self) -> set[int]:
        """Which of the arrays are Python numbers."""
        return {i for i, x in enumerate(self.arrays) if type(x) in NUMBERS}

    @property
    def every_part(self) -> frozenset[int]:
        """The numbers of all parts, and `ORDER`."""
        return frozenset(range(ORDER, len(self.statics)))

    @property
    def atoms(self) -> set[int]:
        """Which parts are numbers, strings or None."""
        found = {self.parts[i] for i in self.numbers}
        parts = enumerate(self.statics)
        return found | {i for i, x in parts if type(x) is tuple and x[0] in BY_VALUE}

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
        return self.given(())._replace(supplied=self.supplied)

    def without(self, numbers: Container[int]) -> "Given":
        """The same whatever these numbers are."""
        exactly = self.exactly
        return exactly._replace(
            bits=tuple(x for x in exactly.bits if x[0] not in numbers)
        )

    @property
    def identity(self) -> tuple[Any, ...]:
        """What distinguishes an object with these inputs from others."""
        arrays = (Same(x) for x in self.arrays if type(x) not in NUMBERS)
        return (self.exactly, *arrays)

    def given(
        self,
        used: tuple[int, ...],
        unread: frozenset[int] = frozenset(),
        reads: tuple[Any, ...] = (),
    ) -> "Given":
        """The same for a body that uses the contents of some of the arrays, which
        doesn't read these parts, and which reads these values, of the object itself or
        also of others (`Uses`)."""
        kind = (used, unread, reads)
        if kind not in self._given:
            self._given[kind] = self._find_given(*kind)
        return self._given[kind]

    def _find_given(
        self, used: Container[int], unread: Container[int], reads: Container[Any]
    ) -> "Given":
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
        orders = () if ORDER in unread else self.orders
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


def inputs_in_fields(
    obj: Any, supplied_on: Callable[[Any], Iterable[tuple[Any, Any]]] | None = None
) -> Inputs | None:
    """The inputs of `obj`; None if identity can't describe them: references, buffers,
    and containers with hidden state. `supplied_on` lists the values that the user
    supplied for one of the objects (`inputs_of`)."""
    try:
        return _Listing(obj, supplied_on).inputs()
    except _NotDescribedError:
        return None


class _NotDescribedError(Exception):
    """Identity can't describe a part."""


class _Listing:
    """Goes through all parts of an object."""

    def __init__(self, obj: Any, supplied_on: Any) -> None:
        self._root = obj
        self._supplied_on = supplied_on
        self._statics: list[Any] = []
        self._shape: list[Any] = []
        self._arrays: list[Any] = []
        self._orders: list[Any] = []
        self._writable: set[int] = set()
        self._supplied: list[Any] = []
        self._numbers: dict[int, int] = {}
        """Of the parts that were taken apart, by id."""
        self._around: set[int] = set()
        """The ids of those that the next part is in."""
        self._unordered: set[int] = set()
        self._stack = [obj]
        while self._stack:
            thing = self._stack.pop()
            if type(thing) is _End:
                self._around.discard(thing.id)
            else:
                part, kind = self._part(thing)
                self._statics.append(part)
                self._shape.append(kind)

    def inputs(self) -> Inputs:
        return Inputs(
            self._arrays,
            tuple([i for i, kind in enumerate(self._shape) if kind is ARRAY]),
            tuple(self._statics),
            tuple(self._shape),
            tuple(self._orders),
            frozenset(self._writable),
            tuple(self._supplied),
        )

    def _part(self, thing: Any) -> tuple[Any, Any]:
        """What goes into `Inputs.statics`, and into `Inputs.shape`."""
        if type(thing) is ArrayImpl:
            self._arrays.append(thing)
            return look_of(thing), ARRAY
        if is_ref(thing):
            raise _NotDescribedError
        if is_array(thing):
            return self._array(thing), ARRAY
        if not _is_describable(thing):
            raise _NotDescribedError
        if is_whole(thing):
            return self._whole(thing)
        number = self._numbers.get(id(thing))
        if number is None or not (id(thing) in self._around or not is_rebuilt(thing)):
            return self._enter(thing)
        return number, number

    def _array(self, thing: Any) -> Any:
        position = len(self._arrays)
        self._arrays.append(thing)
        if type(thing) in NUMBERS:
            return aval_of_number(thing)
        if not isinstance(thing, np.ndarray):
            return look_of(thing)
        self._writable.add(position)
        return (thing.shape, thing.dtype, type(thing))

    def _whole(self, thing: Any) -> tuple[Any, Any]:
        if type(thing) in (set, frozenset) and any(map(may_change, thing)):
            raise _NotDescribedError
        part = identity_of(thing)
        if isinstance(thing, types.FunctionType):
            return (part, *_identities_inside(thing)), None
        is_one_of_many = part is type(thing)  # each is as good as another
        return part, part if is_one_of_many else None

    def _enter(self, thing: Any) -> tuple[Any, Any]:
        """Take a thing apart: its parts are next."""
        cls, number = type(thing), len(self._statics)
        if self._supplied_on is not None:
            self._supplied += [(number, *each) for each in self._supplied_on(thing)]
        self._numbers[id(thing)] = number
        taken = take_apart(thing)
        more = self._more(thing, taken)
        if cls in (dict, defaultdict):
            self._note_order(thing, taken)
        if any(base.__module__ == _NNX_VARIABLES for base in cls.__mro__):
            self._unordered.update(map(id, taken.parts))
        self._around.add(id(thing))
        self._stack.append(_End(id(thing)))
        self._stack += reversed(taken.parts)
        kind = Fields(cls, taken.names, len(taken.parts))
        return kind._replace(more=more) if more else kind, kind

    def _more(self, thing: Any, taken: Taken) -> tuple[Any, ...]:
        """What distinguishes it from others, beside its class and its parts."""
        cls = type(thing)
        more: list[Any] = []
        if issubclass(cls, ATOMS):
            more += map(identity_of, plain_value(thing))
        if cls is defaultdict:
            more.append(identity_of(thing.default_factory))
        is_inside = thing is not self._root
        if has_hidden_state(cls) or (is_inside and is_one_of_a_kind(cls)):
            if cls.__weakrefoffset__ == 0 and taken.parts:
                raise _NotDescribedError  # it would be held, with the arrays in it
            more.append(Same(thing))
        return tuple(more)

    def _note_order(self, thing: Any, taken: Taken) -> None:
        if any(map(may_change, thing)):
            raise _NotDescribedError
        if len(thing) > 1 and id(thing) not in self._unordered:
            order = (*map(identity_of, thing),)
            self._orders.append(None if order == taken.names else order)


ARRAY: Any = object()
"""In a shape: the place of an array."""

ORDER = -1
"""Where parts are numbered: the order of the keys of all dictionaries."""


class Fields(NamedTuple):
    """Among the static parts: a thing that is taken apart."""

    cls: type
    names: tuple[Any, ...]
    parts: int
    """How many."""
    more: tuple[Any, ...] = ()
    """What else distinguishes it from others."""


class _End(NamedTuple):
    """Stands for the end of a thing."""

    id: int


def _is_describable(thing: Any) -> bool:
    if isinstance(thing, (np.ndarray, *BUFFERS, deque)):
        return False  # a length is not among the parts
    if isinstance(thing, defaultdict) and type(thing) is not defaultdict:
        return False
    is_open = is_opaque(type(thing)) and gc.is_tracked(thing)  # a mapping proxy
    return not is_open or isinstance(thing, _GETTERS)


def _identities_inside(fun: Any) -> list[Any]:
    """What a function closes over: lists and dictionaries by what is in them, and the
    rest by identity too."""
    identities: list[Any] = []
    numbers = {id(fun): 0}
    things = [fun]
    for thing in things:  # which grows
        if is_ref(thing) or isinstance(thing, BUFFERS):
            raise _NotDescribedError
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


def parts_in(obj: Any, shape: Sequence[Any]) -> list[Any]:
    """The parts of an object, which has this shape."""
    found: list[Any] = []
    stack = [obj]
    for kind in shape:
        found.append(stack.pop())
        if type(kind) is Fields:
            stack += reversed(take_apart(found[-1]).parts)
    return found
