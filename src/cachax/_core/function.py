"""A function whose value is kept for what it is called on."""

import functools
import inspect
import threading
import types
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar
from weakref import WeakKeyDictionary, WeakValueDictionary

import jax
import numpy as np

from .._compat import Tracer
from .._errors import argument_not_kept, warn_once
from .arguments import Arguments, NotKeptError
from .body import NewSubject, carrying_body
from .computed import CallKey, tables
from .fields import ATOMS, is_open, walk
from .levels import level_of, traces_in
from .memo import becomes_subject
from .recent import Recent
from .slots import is_pytree
from .values import Template, is_hashable, static_identity, template_of

P = ParamSpec("P")
R = TypeVar("R")

_ARRAYS = (jax.Array, Tracer, np.ndarray)


def cache(fun: Callable[P, R]) -> "CachedFunction[P, R]":
    """Cache a function: it is computed once for the objects or arrays it is called on.

    Use it for classes that you can't change. A value is cached for the arrays in the
    arguments, by identity, and for everything else in them, by value. It is freed with
    the arrays. Inside a `cachax.jit` function, a value for one object among the
    arguments is computed outside and passed in. One for an array, or for several
    objects, is computed inside.

    A value for several objects, or for a list, is cached if it can't be changed: JAX
    arrays, numbers, strings, tuples of them, frozen objects.

    Args:
        fun: The function. Its arguments can be objects, arrays and hashable values.

    Returns:
        A function with the same signature.

    Warns:
        NotKeptWarning: In a call: an argument is a NumPy array, which can be changed in
            place. The value is not cached.

    Example:
        >>> import dataclasses, jax, jax.numpy as jnp, cachax
        >>> @jax.tree_util.register_dataclass
        ... @dataclasses.dataclass(frozen=True)
        ... class Mesh:
        ...     points: jax.Array
        ...     density: jax.Array
        >>> @cachax.cache
        ... def distances(mesh):
        ...     jax.debug.print("computing")
        ...     return jnp.abs(mesh.points[:, None] - mesh.points)
        >>> mesh = Mesh(jnp.array([1.0, 3.0]), density=jnp.ones(2))
        >>> cachax.jit(lambda m: distances(m) @ m.density)(mesh)
        computing
        Array([2., 2.], dtype=float32)
        >>> heavier = dataclasses.replace(mesh, density=2 * mesh.density)
        >>> distances(mesh) is distances(heavier)
        True
    """
    return CachedFunction(fun)


class CachedFunction(Generic[P, R]):
    """What `cache` makes of a function."""

    __wrapped__: Callable[..., R]
    __name__: str

    def __init__(self, fun: Callable[P, R]) -> None:
        self._of_nothing: dict[Any, Any] = Recent()
        self._locks: WeakValueDictionary[Any, _Lock] = WeakValueDictionary()
        self._signature = inspect.signature(fun)
        self._keys: WeakValueDictionary[Any, FunctionKey] = WeakValueDictionary()
        """Kept by the values that are kept under them, and so are the arguments."""
        self._keys_of_atoms: dict[Any, FunctionKey] = Recent()
        self._on_one: WeakKeyDictionary[type, FunctionKey] = WeakKeyDictionary()
        """For calls with nothing but one object, by its class."""
        self.__name__ = getattr(fun, "__name__", None) or repr(fun)
        functools.update_wrapper(self, fun, updated=())

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if len(args) == 1 and not kwargs:
            key = self._on_one.get(type(args[0]))
            if key is not None:
                value: R = key.read(args[0])
                return value
        return self._call(args, kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __reduce__(self) -> str:
        """As a function: by its name in its module."""
        return getattr(self, "__qualname__", self.__name__)

    def __repr__(self) -> str:
        return f"<cachax.cache of {self.__wrapped__!r}>"

    def _call(self, args: Any, kwargs: Any) -> R:
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError:  # when it is called, Python says best what is missing
            return self.__wrapped__(*args, **kwargs)
        bound.apply_defaults()
        given: dict[int | str, Any] = dict(enumerate(bound.args))
        given.update(bound.kwargs)
        subjects = {place: x for place, x in given.items() if not _is_static(x)}
        statics = {place: x for place, x in given.items() if place not in subjects}
        if any(isinstance(x, np.ndarray) for x in subjects.values()):
            warn_once(self, argument_not_kept(self.__name__), stacklevel=3)
            return self.__wrapped__(*args, **kwargs)
        if not subjects:
            return self._call_on_nothing(statics)
        if any(map(_may_change_unseen, subjects.values())):
            return self.__wrapped__(*args, **kwargs)
        is_one = len(subjects) == 1 and _can_have_values(*subjects.values())
        try:
            key = self._key(statics, tuple(subjects), is_one)
        except NotKeptError:
            return self.__wrapped__(*args, **kwargs)
        if not is_one:
            return key.read(_Together(tuple(subjects.values())))  # type: ignore[no-any-return]
        (subject,) = subjects.values()
        if isinstance(subject, Tracer):  # a value holds it, and it would hold the value
            return self.__wrapped__(*args, **kwargs)
        if len(args) == 1 and not kwargs and 0 in subjects:
            self._on_one[type(subject)] = key
        _look_for(subject)
        return key.read(subject)  # type: ignore[no-any-return]

    def _call_on_nothing(self, statics: dict[int | str, Any]) -> R:
        key = self._key(statics, (), False)
        own = self._locks.setdefault(key, _Lock())
        with own.lock:
            value = self._of_nothing.get(key, self)
            if value is self:
                nothing = _Together(())
                with level_of((), key.body):
                    value = key.body(nothing)
                if not traces_in(value):
                    self._of_nothing[key] = template_of(value, ()) or value
            elif isinstance(value, Template):
                value = value.fill(())
            return value  # type: ignore[no-any-return]

    def _key(
        self, statics: dict[int | str, Any], places: tuple[Any, ...], is_one: bool
    ) -> "FunctionKey":
        arguments = Arguments(statics)
        identity = arguments.identity()
        call = (identity, places, is_one)
        key = self._keys.get(call)
        if key is None:
            fun = self.__wrapped__

            def body(subject: Any) -> Any:
                parts = (subject,) if is_one else subject.parts
                return arguments.call(fun, dict(zip(places, parts, strict=True)))

            carrying = carrying_body(fun, body)
            key = self._keys[call] = FunctionKey(
                self, call, self._name(statics), carrying, arguments
            )
            if all(isinstance(x, ATOMS) for x in statics.values()):
                self._keys_of_atoms[call] = key  # with what it has learned
        else:
            key.take(arguments)
        return key

    def _name(self, statics: dict[int | str, Any]) -> str:
        names: dict[int | str, str] = dict(enumerate(self._signature.parameters))
        words = [f"{names.get(place, place)}={x!r}" for place, x in statics.items()]
        return self.__name__ + (f"({', '.join(words)})" if words else "")


class _Lock:
    """For one set of arguments: two may need each other without being circular."""

    def __init__(self) -> None:
        self.lock = threading.RLock()


class FunctionKey(CallKey):
    """A cached function, and the arguments that are not arrays."""

    def of(self, obj: object) -> str:
        return self.attrname or ""


@jax.tree_util.register_pytree_node_class
class _Together:
    """The arguments that have arrays in them, if they are several, or cannot be held
    weakly. It is there for one call: what is kept is found by the arrays."""

    __slots__ = ("__weakref__", "parts")

    def __init__(self, parts: tuple[Any, ...]) -> None:
        self.parts = parts

    def tree_flatten(self) -> tuple[tuple[Any, ...], None]:
        return self.parts, None

    @classmethod
    def tree_unflatten(cls, _: None, parts: Any) -> "_Together":
        return cls(tuple(parts))


def _is_static(x: Any) -> bool:
    """Whether an argument is told from another by its value: it has no arrays in it,
    and nothing that may change."""
    if isinstance(x, ATOMS):
        return True
    if (
        isinstance(x, _ARRAYS)
        or not is_hashable(x)
        or not is_hashable(static_identity(x))
    ):
        return False
    return not any(isinstance(part, _ARRAYS) or is_open(part) for part in walk(x))


def _can_have_values(x: Any) -> bool:
    return type(x).__weakrefoffset__ != 0 and not isinstance(x, types.FunctionType)


def _look_for(subject: Any) -> None:
    """From now on, look for objects of its class among the arguments of functions."""
    if isinstance(subject, _ARRAYS) or not is_pytree(subject):
        return
    if becomes_subject(type(subject)) and tables.running and traces_in(subject):
        raise NewSubject


def _may_change_unseen(subject: Any) -> bool:
    """A function is compared by identity, and what it closes over may change."""
    is_function = isinstance(subject, types.FunctionType)
    return is_function and any(map(is_open, walk(subject)))
