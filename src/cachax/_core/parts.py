"""What an object consists of, part by part: arrays, things that are taken apart, and
parts that count as one thing. Read from the fields, not by `jax.tree.flatten`, for the
reasons given in `fields.py`.
"""

import functools
import struct
import types
import weakref
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from .._compat import explicit_sharding, is_registered
from .fields import (
    ATOMS,
    UNSET,
    attributes,
    derived_names,
    fields_in,
    is_opaque,
    parts_of,
    per_class,
    slot_value,
    slots_of,
)
from .sources import names_of

PYTHON_NUMBERS = frozenset([bool, int, float, complex])
NUMBERS = PYTHON_NUMBERS | {np.dtype(code).type for code in "?bhilqBHILQefdFD"}
"""And those of numpy."""
BY_VALUE = {str, bytes, type(None)}

_NNX_NOTES = "flax.nnx.tracers"
"""Which trace an nnx object was made in: different in every copy."""

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


def is_one_of_a_kind(cls: type) -> bool:
    """Whether an object of this class is a different one than all others: it is not
    equal to any, and JAX doesn't rebuild it."""
    equals: Any = cls.__eq__
    return equals is object.__eq__ and not is_registered(cls)


def is_array(thing: Any) -> bool:
    """Whether it is among the arrays of `Inputs`. (A tracer too.)"""
    if isinstance(thing, np.ndarray):
        return thing.dtype.kind in "biufc"
    return type(thing) in NUMBERS or isinstance(thing, jax.Array)


def is_rebuilt(thing: Any) -> bool:
    """Whether JAX makes a new one of it wherever it is: if it is in an object twice,
    that makes no difference."""
    return type(thing) in (list, tuple, dict) or is_registered(type(thing))


def may_be_a_key(thing: Any) -> bool:
    """Whether a copy could be taken for `thing` by `functools.lru_cache`, or by
    `jax.jit` as a static argument: the class says how it is hashed and compared."""
    cls: Any = type(thing)
    compares, hashes = cls.__eq__, cls.__hash__
    if compares is object.__eq__ or not isinstance(hashes, types.FunctionType):
        return False
    if is_registered(cls) or issubclass(cls, CONTAINERS):
        return False
    file = hashes.__code__.co_filename
    if file == "<string>" or file.startswith("<attrs"):  # made from its fields
        try:
            hash(thing)
        except TypeError:  # an array is among them
            return False
    return True


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
    if cls in BY_VALUE or isinstance(thing, np.dtype):
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
def has_hidden_state(cls: type) -> bool:
    """Whether a base written in C has state that is not in the fields: an open file, a
    random generator, a date. Its objects are larger than their fields."""
    if cls.__basicsize__ <= object.__basicsize__ + 8:
        return False
    pointers = len(slots_of(cls)) + (cls.__dictoffset__ > 0)
    pointers += cls.__weakrefoffset__ > 0
    size = object.__basicsize__ + 8 * pointers
    return cls.__basicsize__ > size and not issubclass(cls, CONTAINERS)


CONTAINERS = (list, tuple, dict, functools.partial, types.MethodType)


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
    if has_hidden_state(cls) or issubclass(cls, (*CONTAINERS, *ATOMS, np.ndarray)):
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
