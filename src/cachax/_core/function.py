"""A function whose value is kept for what it is called on."""

import threading
import types
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from .._compat import Tracer, settings
from .._errors import argument_not_kept, warn_once
from .body import NewSubject
from .calls import CallKey, Calls, NotKeptError, Place, Together
from .computed import tables
from .fields import ARRAYS, ATOMS, is_open, walk
from .levels import level_of, traces_in
from .memo import becomes_subject
from .recent import Recent
from .slots import is_pytree
from .values import is_hashable, static_identity, template_of

P = ParamSpec("P")
R = TypeVar("R")


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


class FunctionKey(CallKey):
    """A cached function, and the arguments that are not arrays."""

    def of(self, obj: object) -> str:
        return self.attrname or ""


class CachedFunction(Calls, Generic[P, R]):
    """What `cache` makes of a function."""

    key_class = FunctionKey
    __name__: str

    def __init__(self, fun: Callable[P, R]) -> None:
        self.__name__ = getattr(fun, "__name__", None) or repr(fun)
        super().__init__(fun)
        self._of_nothing: dict[Any, _OfNothing] = Recent()
        """For calls without objects and arrays, by the key and the configuration."""
        self._on_one: WeakKeyDictionary[type, CallKey] = WeakKeyDictionary()
        """For calls with nothing but one object, by its class."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        is_alone = len(args) == 1 and not kwargs
        key = self._on_one.get(type(args[0])) if is_alone else None
        found = self._find(args, kwargs) if key is None else (key, args[0])
        if found is None:
            return self.__wrapped__(*args, **kwargs)  # type: ignore[no-any-return]
        kept, subject = found
        value: R = kept.read(subject)
        return value

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __reduce__(self) -> str:
        """As a function: by its name in its module."""
        return getattr(self, "__qualname__", self.__name__)

    def __repr__(self) -> str:
        return f"<cachax.cache of {self.__wrapped__!r}>"

    def _find(self, args: Any, kwargs: Any) -> tuple[Any, Any] | None:
        """What the value of a call is kept under, and for; None if it isn't kept."""
        given = self._given(args, kwargs)
        if given is None:
            return None
        subjects = {place: x for place, x in given.items() if not _is_static(x)}
        if any(isinstance(x, np.ndarray) for x in subjects.values()):
            warn_once(self, argument_not_kept(self.__name__), stacklevel=3)
            return None
        if any(map(_may_change_unseen, subjects.values())):
            return None
        is_one = len(subjects) == 1 and _can_have_values(*subjects.values())
        try:
            key = self._key(given, subjects, is_one)
        except NotKeptError:
            return None
        if all(isinstance(x, ATOMS) for x in key.arguments.given.values()):
            self._keys_of_atoms[key] = key
        if not subjects:
            place = (key, settings())
            return self._of_nothing.setdefault(place, _OfNothing()), key
        if not is_one:
            return key, Together(tuple(subjects.values()))
        (subject,) = subjects.values()
        if isinstance(subject, Tracer):  # a value holds it, and it would hold the value
            return None
        if len(args) == 1 and not kwargs and 0 in subjects:
            self._on_one[type(subject)] = key
        _look_for(subject)
        return key, subject

    def _name(self, statics: dict[Place, Any]) -> str:
        given = statics.items()
        words = [f"{self._names.get(place, place)}={x!r}" for place, x in given]
        return self.__name__ + (f"({', '.join(words)})" if words else "")


class _OfNothing:
    """The value of a call without objects and arrays. It belongs to the function."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        """For one call: two may need each other without being circular."""
        self._kept: Any = None

    def read(self, key: CallKey) -> Any:
        with self._lock:
            if self._kept is not None:
                value, template = self._kept
                return value if template is None else template.fill(())
            with level_of((), key.body):
                value = key.body(Together(()))
            if not traces_in(value):
                self._kept = (value, template_of(value, ()))
            return value


def _is_static(x: Any) -> bool:
    """Whether an argument is told from another by its value: it has no arrays in it,
    and nothing that may change."""
    if isinstance(x, ATOMS):
        return True
    if (
        isinstance(x, ARRAYS)
        or not is_hashable(x)
        or not is_hashable(static_identity(x))
    ):
        return False
    return not any(isinstance(part, ARRAYS) or is_open(part) for part in walk(x))


def _can_have_values(x: Any) -> bool:
    return type(x).__weakrefoffset__ != 0 and not isinstance(x, types.FunctionType)


def _look_for(subject: Any) -> None:
    """From now on, look for objects of its class among the arguments of functions."""
    if isinstance(subject, ARRAYS) or not is_pytree(subject):
        return
    if becomes_subject(type(subject)) and tables.running and traces_in(subject):
        raise NewSubject


def _may_change_unseen(subject: Any) -> bool:
    """A function is compared by identity, and what it closes over may change."""
    is_function = isinstance(subject, types.FunctionType)
    return is_function and any(map(is_open, walk(subject)))
