"""What an object contains, read from its fields without running any of its code.

Not `jax.tree.leaves`: a class's own flatten function may raise on a half-built object,
be slow, or read a cached property itself, and a class doesn't have to be a pytree to
hold arrays.
"""

import contextlib
import enum
import functools
import gc
import inspect
import logging
import sys
import types
import weakref
from array import array
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import PurePath
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import jax
import numpy as np

from .._compat import COMPILED, MODULES, TRACES, Tracer

Parts = Callable[[Any], list[Any]]
"""Lists what is directly inside an object, names and keys included."""

ATOMS = (str, bytes, int, float, complex, type(None), np.generic, np.dtype)
"""Types with nothing inside, compared by value."""

BUFFERS = (bytearray, memoryview, array)
"""Types whose objects change without notice."""

ARRAYS = (jax.Array, Tracer, np.ndarray)

_LEAVES = (jax.Array, Tracer, *ATOMS)
_SEALED = (
    *(*MODULES, COMPILED, "numpy.random", "numpy.dtypes", "flax.nnx.tracers"),
    *("flax.ids", "flax.linen.module", "cachax._core.reads", "typing"),
)
_SEALED_CLASSES = (logging.Logger, PurePath, enum.Enum)
"""Modules and classes whose objects count as one thing when looking for changes:
meshes, shardings, custom derivative rules, objects with internal bookkeeping."""

_IMMUTABLE = (tuple, frozenset, functools.partial, types.MethodType, types.FunctionType)

BUILTIN_ATOMS: frozenset[type] = frozenset(
    [str, bytes, int, float, complex, bool, type(None)]
)
"""The builtin ones, without their subclasses: there is never an array in them."""

plain_leaves: set[type] = {*BUILTIN_ATOMS}
"""Types known to have nothing inside, to check many parts at once in C. Only array
types and builtins are ever added, because a set keeps its classes alive."""


T = TypeVar("T")


def per_class(find: Callable[[type], T]) -> Callable[[type], T]:
    """Decorates a function whose results are kept for each class (in `known`), and
    don't hold it."""
    known: WeakKeyDictionary[type, T] = WeakKeyDictionary()

    @functools.wraps(find)
    def of(cls: type) -> T:
        try:
            return known[cls]
        except KeyError:
            found = known[cls] = find(cls)
            return found

    vars(of)["known"] = known
    return of


def walk(root: object) -> Iterator[Any]:
    """Everything that is reachable from `root`, itself first.

    Looks wherever a tracer, or the object itself, can hide: in closures, and through
    the garbage collector in objects without readable fields.
    """
    return reached(root, all_parts)


def all_parts(x: object) -> list[Any]:
    list_parts = parts_of(type(x))
    if list_parts is not None:
        return list_parts(x)
    return [] if type(x) in plain_leaves or _is_a_trace(type(x)) else _referents(x)


def _is_a_trace(cls: type) -> bool:
    """Or a note of one, which an nnx object has: it leads to all that is traced."""
    return issubclass(cls, TRACES) or cls.__module__ == "flax.nnx.tracers"


def made_locally(things: Iterable[Any]) -> list[Any]:
    """What is in the classes of these things, and in classes that their functions use,
    if the classes are made inside a function: they may close over something."""
    found: list[Any] = []
    seen: set[type] = set()
    stack = [*things]
    while stack:
        x = stack.pop()
        own = x.__mro__ if isinstance(x, type) else ()
        for cls in {*type(x).__mro__, *own} - seen:
            seen.add(cls)
            if "<locals>" in cls.__qualname__:
                parts = [*map(_function_in, vars(cls).values())]
                found += parts
                stack += walk(parts)
    return found


def _function_in(attribute: Any) -> Any:
    """The function of a property or a method; else the attribute itself."""
    for name in ("fget", "__func__", "body", "func"):
        with contextlib.suppress(AttributeError):
            attribute = object.__getattribute__(attribute, name)
    return attribute


def walk_fields(root: object) -> Iterator[Any]:
    """What `root` consists of, as far as a change of it can be detected."""
    return reached(root, fields_in)


def fields_in(x: object) -> list[Any]:
    list_parts = parts_of(type(x))
    if list_parts is None or (isinstance(x, types.FunctionType) and not is_local(x)):
        return []
    return list_parts(x)


def is_local(fun: types.FunctionType) -> bool:
    """Whether a function was made by another one: what it closes over may change."""
    return fun.__closure__ is not None or "<locals>" in fun.__qualname__


def reached(root: object, list_parts: Parts) -> Iterator[Any]:
    """`root`, what `list_parts` lists of it, and so on. What is in several places may
    come several times."""
    yield root
    if type(root) not in plain_leaves:
        for _, parts in contents(root, list_parts):
            yield from parts


def contents(root: object, list_parts: Parts) -> Iterator[tuple[Any, list[Any]]]:
    """`root` and its parts, then the same for each of them, and so on; each thing once.

    Used for every read of an object with lists, dicts or unfrozen objects inside, so a
    wide container of arrays costs a C loop over its items and no more.
    """
    seen = {id(root)}
    stack = [root]
    while stack:
        thing = stack.pop()
        parts = list_parts(thing)
        yield thing, parts
        if not plain_leaves.issuperset(map(type, parts)):
            for part in reversed(parts):
                if type(part) not in plain_leaves and id(part) not in seen:
                    seen.add(id(part))
                    stack.append(part)


@per_class
def is_frozen(cls: type) -> bool:
    """Whether the direct contents of a `cls` object can't be reassigned."""
    if issubclass(cls, _IMMUTABLE):
        return cls in _IMMUTABLE or cls.__dictoffset__ == 0
    dataclass = vars(cls).get("__dataclass_params__")  # frozen is not inherited
    if dataclass is not None and dataclass.frozen:
        return True
    if cls.__setattr__.__name__ == "_frozen_setattrs":  # attrs
        return True
    # Others freeze their dataclasses differently.
    modules = (sys.modules.get(name) for name in ("equinox", "flax.linen"))
    return any(issubclass(cls, getattr(module, "Module", ())) for module in modules)


def is_open(part: object) -> bool:
    """Whether something in `part` itself can be reassigned."""
    cls = type(part)
    if cls in plain_leaves or isinstance(part, np.ndarray):
        return False
    return parts_of(cls) is not None and not is_frozen(cls)


def may_change(thing: object) -> bool:
    """Whether something inside `thing` can be reassigned."""
    return any(map(is_open, walk_fields(thing)))


@per_class
def parts_of(cls: type) -> Parts | None:
    """How to list the parts of a `cls` object; None if it counts as one thing."""
    if issubclass(cls, type | types.ModuleType):
        return None
    if issubclass(cls, _LEAVES):
        return _parts_of_leaf(cls)
    if issubclass(cls, np.ndarray):
        return lambda x: x.ravel().tolist() if x.dtype.hasobject else []
    for base, list_items in _CONTAINERS.items():
        if issubclass(cls, base):
            return _with_fields(cls, list_items)
    if cls in WEAK or issubclass(cls, weakref.ref):
        return lambda x: [_target(x)]
    if _is_sealed(cls):
        return None
    fields = _fields(cls)
    if cls.__flags__ & _MADE_IN_PYTHON and has_nothing(cls):
        return lambda x: []
    if issubclass(cls, BaseException) or (
        fields is None and cls.__weakrefoffset__ == 0
    ):
        return _referents  # a slice, a mapping proxy: no fields, no weak reference
    return fields


WEAK = weakref.ProxyTypes


def _target(reference: Any) -> Any:
    """What a weak reference is to, or a proxy, of which only methods say it."""
    try:
        is_proxy = type(reference) in WEAK
        return reference.__repr__.__self__ if is_proxy else reference()
    except ReferenceError:
        return None


def _parts_of_leaf(cls: type) -> Parts | None:
    """Arrays and atoms have no parts, except the fields of a subclass written in
    Python: `class Metres(float)` with a unit."""
    if cls.__module__ == "numpy" or issubclass(cls, jax.Array | Tracer):
        plain_leaves.add(cls)
        return None
    is_plain = _is_sealed(cls) or not cls.__flags__ & _MADE_IN_PYTHON
    return None if is_plain else _fields(cls)


def plain_value(thing: Any) -> tuple[Any, ...]:
    """The value of an atom, also of a subclass, whose code doesn't run. Empty for
    anything else."""
    bases: Any = (str, bytes, int, float, complex)
    return next((x.__getnewargs__(thing) for x in bases if isinstance(thing, x)), ())


def _items(iterate: Callable[[Any], Iterator[Any]], x: Any) -> list[Any]:
    """By the base class's own iterator: a subclass's is the user's code."""
    while True:
        with contextlib.suppress(RuntimeError):  # changed by another thread meanwhile
            return [*iterate(x)]


def _is_sealed(cls: type) -> bool:
    if issubclass(cls, _SEALED_CLASSES) or hasattr(cls, "_is_jitted_state"):
        return True
    return any(f"{cls.__module__}.".startswith(f"{sealed}.") for sealed in _SEALED)


def _closure(fun: Any) -> list[Any]:
    parts: list[Any] = []
    for cell in fun.__closure__ or ():
        with contextlib.suppress(ValueError):  # it is empty
            parts.append(cell.cell_contents)
    return [*parts, *(fun.__defaults__ or ()), *(fun.__kwdefaults__ or {}).values()]


_CONTAINERS: dict[type, Parts] = {
    defaultdict: lambda x: [x.default_factory, *dict.keys(x), *dict.values(x)],
    OrderedDict: lambda x: [*OrderedDict.keys(x), *OrderedDict.values(x)],
    dict: lambda x: [*dict.keys(x), *dict.values(x)],
    **{
        base: functools.partial(_items, base.__iter__)
        for base in (list, tuple, set, frozenset, deque)
    },
    functools.partial: lambda x: [x.func, x.args, x.keywords],
    types.MethodType: lambda x: [x.__self__, x.__func__],
    types.FunctionType: _closure,
}
"""What is in a container, and in objects of its subclasses beside their fields."""


def _referents(x: object) -> list[Any]:
    """What the garbage collector finds inside, except classes and globals."""
    if isinstance(x, type | types.ModuleType | types.CodeType):
        return []
    is_compiled = type(x).__module__.startswith(COMPILED)
    if is_compiled or hasattr(type(x), "_is_jitted_state"):  # leads to all of JAX
        return [x.__wrapped__] if hasattr(x, "__wrapped__") else []
    return [
        part
        for part in gc.get_referents(x)
        if not isinstance(part, type | types.ModuleType)
        and not (type(part) is dict and "__builtins__" in part)
    ]


def _with_fields(cls: type, list_items: Parts) -> Parts:
    """The contents of a container, and its fields if it is a subclass that has some."""
    fields = _fields(cls)
    if fields is None:
        return list_items
    return lambda x: list_items(x) + fields(x)


def _fields(cls: type) -> Parts | None:
    """The names and values in the instance's `__dict__` and `__slots__`."""
    # By name: a slot's descriptor holds its class, and so would this table.
    slots = slots_of(cls)
    derived = derived_names(cls)
    has_dict = cls.__dictoffset__ != 0
    if has_dict and not slots and not derived:
        return dict_fields
    if not has_dict and not slots:
        return None

    def all_fields(x: Any) -> list[Any]:
        instance = attributes(x)
        names = [name for name in instance if name not in derived]
        return [
            *names,
            *(instance[name] for name in names),
            *(slot_value(x, name) for name in slots),
        ]

    return all_fields


@per_class
def derived_names(cls: type) -> frozenset[str]:
    """Names under which `functools.cached_property` stores values in the `__dict__`.

    They aren't fields: they are derived from them, and appear without any change. A
    subclass that declares a field of that name has a field.
    """
    names: set[str] = set()
    for base in reversed(cls.__mro__):
        for name, attribute in vars(base).items():
            is_derived = isinstance(attribute, functools.cached_property)
            names.add(name) if is_derived else names.discard(name)
        names -= inspect.get_annotations(base).keys()
    return frozenset(names)


def has_nothing(cls: type) -> bool:
    """Whether objects of `cls` have no fields: `__slots__ = ()`."""
    is_large = cls.__basicsize__ > object.__basicsize__ or cls.__itemsize__
    return not (is_large or cls.__dictoffset__)  # (not in its size from 3.12 on)


def dict_fields(x: Any) -> list[Any]:
    fields = instance_dict(x, "__dict__")
    return [*fields, *fields.values()]


instance_dict: Callable[[Any, str], dict[str, Any]] = object.__getattribute__
"""Not `x.__dict__`, which runs a class's own `__getattribute__`: equinox's takes a
microsecond."""


def attributes(x: Any) -> dict[str, Any]:
    """What is in the `__dict__` of `x`; nothing if it has none."""
    return instance_dict(x, "__dict__") if type(x).__dictoffset__ else {}


def is_opaque(cls: type) -> bool:
    """Whether only the garbage collector can see what is inside a `cls` object."""
    return parts_of(cls) is _referents


@per_class
def slots_of(cls: type) -> list[str]:
    return [
        name
        for base in cls.__mro__
        if "__slots__" in vars(base)  # in C, members may be anything
        for name, attribute in vars(base).items()
        if isinstance(attribute, types.MemberDescriptorType)
    ]


_MADE_IN_PYTHON = 1 << 9  # Py_TPFLAGS_HEAPTYPE: other classes have C members
UNSET = "unset"


def slot_value(x: object, name: str) -> Any:
    try:
        return object.__getattribute__(x, name)
    except AttributeError:
        return UNSET
