"""What an object is made of, seen without running any of its code.

Not `jax.tree.leaves`: a class's own flatten function may raise on a half-built
object, be slow, or read a cached property itself, and a class need not be a pytree
to hold arrays. Fields are read straight from the instance.
"""

import contextlib
import functools
import gc
import logging
import operator
import sys
import types
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import PurePath
from typing import Any
from weakref import WeakKeyDictionary

import jax
import numpy as np

from ._compat import COMPILED, MODULES, Tracer

Parts = Callable[[Any], list[Any]]
"""Lists what is directly inside an object, names and keys included."""

ATOMS = (str, bytes, int, float, complex, type(None), np.generic, np.dtype)
"""What has nothing inside, and is told from another by its value."""

_LEAVES = (jax.Array, Tracer, *ATOMS)
_COMPILED = (COMPILED, "cachax._programs")
"""Where the classes of compiled functions are: only what they wrap is a part."""

_SEALED = (*MODULES, *_COMPILED, "numpy.random", "numpy.dtypes", "flax.nnx.tracers")
_SEALED_CLASSES = (logging.Logger, PurePath)
"""Modules and classes whose objects count as one thing when looking for changes:
meshes, shardings, custom derivative rules; what only keeps notes for itself."""

_SEQUENCES: tuple[Any, ...] = (list, tuple, set, frozenset, deque)
_IMMUTABLE = (tuple, frozenset, functools.partial, types.MethodType, types.FunctionType)

plain_leaves: set[type] = {str, bytes, int, float, complex, bool, type(None)}
"""Types known to have nothing inside, for a check of many parts at once in C. Only
array types and Python's own are ever added: a set keeps its classes alive."""

_parts: WeakKeyDictionary[type, Parts | None] = WeakKeyDictionary()
_frozen: WeakKeyDictionary[type, bool] = WeakKeyDictionary()


def parts_of(cls: type) -> Parts | None:
    """How to list the parts of a `cls` object; None if it is taken as one thing."""
    try:
        return _parts[cls]
    except KeyError:
        found = _parts[cls] = _find_parts(cls)
        return found


def walk(root: object) -> Iterator[Any]:
    """Everything that can be reached from `root`, itself first, each thing once.

    Goes everywhere a tracer, or the object itself, may hide: through closures, and
    with the garbage collector's eyes through what has no fields to be read.
    """
    return reached(root, all_parts)


def all_parts(x: object) -> list[Any]:
    list_parts = parts_of(type(x))
    if list_parts is not None:
        return list_parts(x)
    return [] if type(x) in plain_leaves else _referents(x)


def walk_fields(root: object) -> Iterator[Any]:
    """What `root` is made of, as far as a change of it can be seen."""
    return reached(root, fields_in)


def fields_in(x: object) -> list[Any]:
    list_parts = parts_of(type(x))
    is_whole = list_parts is None or isinstance(x, types.FunctionType)
    return [] if is_whole else list_parts(x)  # type: ignore[misc]


def reached(root: object, list_parts: Parts) -> Iterator[Any]:
    """`root`, what `list_parts` lists of it, of that, and so on: each thing once."""
    seen = {id(root)}
    stack = [root]
    while stack:
        thing = stack.pop()
        yield thing
        if type(thing) not in plain_leaves:
            for part in reversed(list_parts(thing)):
                if id(part) not in seen:
                    seen.add(id(part))
                    stack.append(part)


def is_frozen(cls: type) -> bool:
    """Whether what is directly inside a `cls` object stays as it is."""
    try:
        return _frozen[cls]
    except KeyError:
        found = _frozen[cls] = _find_frozen(cls)
        return found


def _find_frozen(cls: type) -> bool:
    if issubclass(cls, _IMMUTABLE):
        return cls in _IMMUTABLE or cls.__dictoffset__ == 0
    dataclass = vars(cls).get("__dataclass_params__")  # not inherited: nor is frozen
    if dataclass is not None and dataclass.frozen:
        return True
    if cls.__setattr__.__name__ == "_frozen_setattrs":  # attrs
        return True
    equinox = sys.modules.get("equinox")  # its dataclasses are frozen in another way
    return equinox is not None and issubclass(cls, equinox.Module)


def _find_parts(cls: type) -> Parts | None:
    if issubclass(cls, type | types.ModuleType):
        return None
    if issubclass(cls, _LEAVES):
        if cls.__module__ == "numpy" or issubclass(cls, jax.Array | Tracer):
            plain_leaves.add(cls)
        return None
    if issubclass(cls, np.ndarray):
        return lambda x: x.ravel().tolist() if x.dtype.hasobject else []
    if issubclass(cls, dict):
        return _with_fields(cls, lambda x: [*dict.keys(x), *dict.values(x)])
    for base in _SEQUENCES:
        if issubclass(cls, base):
            return _with_fields(cls, functools.partial(_items, base.__iter__))
    if issubclass(cls, functools.partial):
        return lambda x: [x.func, x.args, x.keywords]
    if issubclass(cls, types.MethodType):
        return lambda x: [x.__self__, x.__func__]
    if issubclass(cls, types.FunctionType):
        return _closure
    if _is_sealed(cls):
        return None
    fields = _fields(cls)
    if issubclass(cls, BaseException) or (
        fields is None and cls.__weakrefoffset__ == 0
    ):
        return _referents  # a slice, a mapping proxy: no fields, and no weak reference
    return fields


def _items(iterate: Callable[[Any], Iterator[Any]], x: Any) -> list[Any]:
    """By the base class's own iterator: a subclass's is the user's code."""
    while True:
        with contextlib.suppress(RuntimeError):  # another thread has just changed it
            return [*iterate(x)]


def _is_sealed(cls: type) -> bool:
    if issubclass(cls, _SEALED_CLASSES):
        return True
    return any(f"{cls.__module__}.".startswith(f"{sealed}.") for sealed in _SEALED)


def _closure(fun: Any) -> list[Any]:
    cells = [cell.cell_contents for cell in fun.__closure__ or () if _is_full(cell)]
    defaults = [*(fun.__defaults__ or ()), *(fun.__kwdefaults__ or {}).values()]
    return cells + defaults + [*vars(fun).values()]


def _is_full(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018 (the read is the test)
    except ValueError:
        return False
    return True


def _referents(x: object) -> list[Any]:
    """What the garbage collector knows to be inside, less classes and globals."""
    if isinstance(x, type | types.ModuleType | types.CodeType):
        return []
    if type(x).__module__.startswith(_COMPILED):  # leads to all of JAX
        return [x.__wrapped__] if hasattr(x, "__wrapped__") else []
    return [
        part
        for part in gc.get_referents(x)
        if not isinstance(part, type | types.ModuleType)
        and not (type(part) is dict and "__builtins__" in part)
    ]


def _with_fields(cls: type, contents: Parts) -> Parts:
    """The contents of a container, and the fields if it is a subclass that has some."""
    fields = _fields(cls)
    if fields is None:
        return contents
    return lambda x: contents(x) + fields(x)


def _fields(cls: type) -> Parts | None:
    """The names and values in the instance's `__dict__` and `__slots__`.

    A value that `functools.cached_property` has put there is no field: it is
    derived from them, and appears without anything having changed.
    """
    # By name: a slot's descriptor holds its class, and so would this cache for ever.
    slots = slots_of(cls)
    derived = frozenset(
        name
        for base in cls.__mro__
        for name, attribute in vars(base).items()
        if isinstance(attribute, functools.cached_property)
    )
    has_dict = cls.__dictoffset__ != 0
    if has_dict and not slots and not derived and not _gives_another_dict(cls):
        return dict_fields
    if not has_dict and not slots:
        return None

    def all_fields(x: Any) -> list[Any]:
        instance = instance_dict(x, "__dict__") if has_dict else {}
        names = [name for name in instance if name not in derived]
        return [
            *names,
            *(instance[name] for name in names),
            *(_slot(x, name) for name in slots),
        ]

    return all_fields


def _gives_another_dict(cls: type) -> bool:
    """Whether it has a `__dict__` of its own making: a property, which may return
    something else each time."""
    dicts = [vars(base)["__dict__"] for base in cls.__mro__ if "__dict__" in vars(base)]
    return not all(isinstance(each, types.GetSetDescriptorType) for each in dicts)


def dict_fields(x: Any) -> list[Any]:
    fields = instance_dict(x, "__dict__")
    return [*fields, *fields.values()]


def is_weak(array: Any) -> bool:
    """Whether its dtype gives way to others. An array of random keys cannot say."""
    return bool(getattr(array, "weak_type", False))


def is_simple(obj: Any) -> bool:
    """Frozen, with nothing but arrays, numbers and strings for fields."""
    cls = type(obj)
    if not is_frozen(cls) or parts_of(cls) is not dict_fields:
        return False
    kinds = {*map(type, instance_dict(obj, "__dict__").values())}
    if not plain_leaves.issuperset(kinds):
        for kind in kinds:
            parts_of(kind)  # if it is one, it is known to be from now on
    return plain_leaves.issuperset(kinds)


instance_dict: Callable[[Any, str], dict[str, Any]] = object.__getattribute__
"""Not `x.__dict__`, which runs a class's own `__getattribute__`, if it has one:
equinox has, and it takes a microsecond."""


def reading_dicts_of(cls: type) -> Callable[[Any], dict[str, Any]]:
    """The fastest way to what `instance_dict` finds."""
    reads: Any = cls.__getattribute__
    return _usual_dict if reads is object.__getattribute__ else _bare_dict


_usual_dict = operator.attrgetter("__dict__")


def _bare_dict(x: Any) -> dict[str, Any]:
    return instance_dict(x, "__dict__")


def values_in_order(dicts: Sequence[dict[str, Any]]) -> list[Any]:
    """Those of many dictionaries, as their names are."""
    return [*chain.from_iterable(map(dict.values, dicts))]


def _values_at_once(dicts: Sequence[dict[str, Any]]) -> list[Any]:
    return gc.get_referents(*dicts)


def _sees_fields() -> bool:
    """Whether the collector sees all fields of an object in its `__dict__`. That is not
    laid down: from Python 3.13 on it sees them in the object itself."""

    class Sample:
        def __init__(self) -> None:
            self.number, self.text, self.none, self.list = 10**9, "text", None, [1]

    samples = [Sample(), Sample()]  # alive: the dictionary of one that is gone has all
    dicts = [*map(vars, samples)]
    return _values_at_once(dicts) == values_in_order(dicts)


values_in_any_order = _values_at_once if _sees_fields() else values_in_order
"""In the same one, as long as no name comes or goes: in a quarter of the time."""


def is_opaque(cls: type) -> bool:
    """Whether only the garbage collector can see what is inside a `cls` object."""
    return parts_of(cls) is _referents


def slots_of(cls: type) -> list[str]:
    return [name for base in cls.__mro__ for name in _slots(base)]


def _slots(cls: type) -> list[str]:
    if not cls.__flags__ & _MADE_IN_PYTHON:
        return []
    attributes = vars(cls).items()
    return [n for n, a in attributes if isinstance(a, types.MemberDescriptorType)]


_MADE_IN_PYTHON = 1 << 9  # Py_TPFLAGS_HEAPTYPE: other classes have C members
_UNSET = "unset"


def _slot(x: object, name: str) -> Any:
    try:
        return object.__getattribute__(x, name)
    except AttributeError:
        return _UNSET
