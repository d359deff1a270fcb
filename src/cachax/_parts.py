"""What an object is made of, seen without running any of its code.

Not `jax.tree.leaves`: a class's own flatten function may raise on a half-built
object, be slow, or read a cached property itself, and a class need not be a pytree
to hold arrays. Fields are read straight from the instance.
"""

import dataclasses
import functools
import sys
import types
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakKeyDictionary

import jax
import numpy as np

from ._compat import Tracer

Parts = Callable[[Any], list[Any]]
"""Lists what is directly inside an object, names and keys included."""

_ARRAYS = (jax.Array, Tracer, np.ndarray, np.generic)
_ATOMS = (str, bytes, int, float, complex, type(None), type, types.ModuleType, np.dtype)
_SEALED = ("jaxlib", "jax._src", "jax.sharding", "numpy", "builtins", "logging")
"""Modules whose objects are looked at from outside only: meshes, dtypes, devices."""

_IMMUTABLE = (tuple, frozenset, functools.partial, types.MethodType, types.FunctionType)

plain_leaves: set[type] = {str, bytes, int, float, complex, bool, type(None)}
"""Types known to have nothing inside, for a check of many parts at once in C. Only
JAX's, numpy's and Python's own types are ever added: a set keeps its classes alive."""

_parts: WeakKeyDictionary[type, Parts | None] = WeakKeyDictionary()
_frozen: WeakKeyDictionary[type, bool] = WeakKeyDictionary()


def parts_of(cls: type) -> Parts | None:
    """How to list the parts of a `cls` object; None if it has none."""
    try:
        return _parts[cls]
    except KeyError:
        found = _parts[cls] = _find_parts(cls)
        return found


def walk(root: object, *, into_functions: bool = True) -> Iterator[Any]:
    """Everything reached from `root`, itself first, each thing once."""
    seen = {id(root)}
    stack = [root]
    while stack:
        thing = stack.pop()
        yield thing
        cls = type(thing)
        if cls in plain_leaves or (cls is types.FunctionType and not into_functions):
            continue
        list_parts = parts_of(cls)
        if list_parts is not None:
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
        return "__dict__" not in dir(cls) or issubclass(cls, _IMMUTABLE[2:])
    if dataclasses.is_dataclass(cls) and cls.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        return True
    if cls.__setattr__.__name__ == "_frozen_setattrs":  # attrs
        return True
    equinox = sys.modules.get("equinox")  # its dataclasses are frozen in another way
    return equinox is not None and issubclass(cls, equinox.Module)


def _find_parts(cls: type) -> Parts | None:
    if issubclass(cls, _ARRAYS):
        plain_leaves.add(cls)
        return None
    if issubclass(cls, dict):
        return _with_fields(cls, _dict_parts)
    if issubclass(cls, list | tuple | set | frozenset | deque):
        return _with_fields(cls, list)
    if issubclass(cls, functools.partial):
        return lambda x: [x.func, x.args, x.keywords]
    if issubclass(cls, types.MethodType):
        return lambda x: [x.__self__, x.__func__]
    if issubclass(cls, types.FunctionType):
        return _closure
    if issubclass(cls, _ATOMS):
        return None
    if hasattr(cls, "__wrapped__") or cls.__name__ == "PjitFunction":
        return lambda x: [x.__wrapped__]
    if any(f"{cls.__module__}.".startswith(f"{sealed}.") for sealed in _SEALED):
        return None
    return _fields(cls)


def _dict_parts(x: dict[Any, Any]) -> list[Any]:
    return [*x, *x.values()]


def _closure(fun: types.FunctionType) -> list[Any]:
    cells = [cell.cell_contents for cell in fun.__closure__ or () if _is_full(cell)]
    return cells + list(fun.__defaults__ or ())


def _is_full(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018 (the read is the test)
    except ValueError:
        return False
    return True


def _with_fields(cls: type, contents: Parts) -> Parts:
    """The contents of a container, and the fields if it is a subclass that has some."""
    fields = None if cls.__module__ == "builtins" else _fields(cls)
    if fields is None:
        return contents
    return lambda x: contents(x) + fields(x)


def _fields(cls: type) -> Parts | None:
    """The names and values in the instance's `__dict__` and `__slots__`.

    A value that `functools.cached_property` has put there is no field: it is
    derived from them, and appears without anything having changed.
    """
    slots = [s for base in cls.__mro__ for s in _slots(base)]
    derived = frozenset(
        name
        for base in cls.__mro__
        for name, attribute in vars(base).items()
        if isinstance(attribute, functools.cached_property)
    )
    has_dict = cls.__dictoffset__ != 0
    if has_dict and not slots and not derived:
        return _dict_fields
    if not has_dict and not slots:
        return None

    def all_fields(x: Any) -> list[Any]:
        instance = x.__dict__ if has_dict else {}
        names = [name for name in instance if name not in derived]
        found = [s.__get__(x) for s in slots if _is_set(s, x)]
        return [*names, *(instance[name] for name in names), *found]

    return all_fields


def _dict_fields(x: Any) -> list[Any]:
    fields = x.__dict__
    return [*fields, *fields.values()]


def _slots(cls: type) -> list[Any]:
    return [m for m in vars(cls).values() if isinstance(m, types.MemberDescriptorType)]


def _is_set(slot: Any, x: object) -> bool:
    try:
        slot.__get__(x)
    except AttributeError:
        return False
    return True
