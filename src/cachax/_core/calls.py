"""What cached methods and cached functions share: a key for each set of arguments,
except the objects and arrays that values are kept for."""

import functools
import inspect
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

from .._compat import Tracer
from .body import carrying_body
from .computed import Computed
from .fields import walk
from .memo import inputs_of
from .reads import runs_bodies
from .recent import Recent
from .values import static_identity
from .values_read import note_parts

Place = int | str
"""The number of a positional argument, or the name of a keyword."""


def signature(fun: Callable[..., Any]) -> inspect.Signature:
    """Also of functions written in C, of which Python doesn't know it."""
    try:
        return inspect.signature(fun)
    except ValueError:
        return inspect.signature(lambda *args, **kwargs: None)


class NotKeptError(Exception):
    """An argument has a tracer in it, or something whose changes can't be detected: no
    value is kept for it."""


@dataclass(eq=False, slots=True)
class Arguments:
    """Of a call, in their order: that of `**kwargs` is the caller's. For others, which
    come with each call, there is None."""

    given: dict[Place, Any]

    def identity(self) -> Any:
        """What distinguishes them from others, as they are now."""
        return tuple((place, _identity(x)) for place, x in self.given.items())

    @runs_bodies
    def call(self, fun: Callable[..., Any], others: dict[Place, Any]) -> Any:
        """Call a function with them, and with others."""
        given = {**self.given, **others}
        numbers = sorted(place for place in given if isinstance(place, int))
        keywords = {k: x for k, x in given.items() if isinstance(k, str)}
        return fun(*(given[i] for i in numbers), **keywords)


def _identity(argument: Any) -> Any:
    if any(isinstance(part, Tracer) for part in walk(argument)):
        raise NotKeptError
    return static_identity(argument, _contents)


def _contents(argument: Any) -> Any:
    inputs = inputs_of(argument)
    if inputs is None:
        raise NotKeptError
    return inputs.identity


class CallKey(Computed):
    """A cached method or function, and the other arguments it is called with."""

    def __init__(
        self,
        source: Any,
        attrname: str,
        body: Callable[[Any], Any],
        arguments: Arguments,
        identity: Any,
    ) -> None:
        super().__init__(attrname, body)
        self.arguments = arguments
        """Which the body is called with."""
        self._arguments_then = identity
        self.source = source
        self.attrname = attrname

    def can_be_computed(self) -> bool:
        try:
            return bool(self.arguments.identity() == self._arguments_then)
        except NotKeptError:
            return False


_making = threading.Lock()


class Calls:
    """A function, and the keys of its calls."""

    key_class = CallKey
    __wrapped__: Callable[..., Any]

    def __init__(self, fun: Callable[..., Any]) -> None:
        self._signature = signature(fun)
        self._names: dict[Place, str] = dict(enumerate(self._signature.parameters))
        self._keys: WeakValueDictionary[Any, CallKey] = WeakValueDictionary()
        """Kept by the values that are kept under them, and so are the arguments."""
        self._keys_of_atoms: dict[Any, CallKey] = Recent()
        """Kept with what they have learned."""
        functools.update_wrapper(self, fun, updated=())  # type: ignore[arg-type]

    def _given(self, args: Any, kwargs: Any) -> dict[Place, Any] | None:
        """The arguments by place, defaults included; None if they don't fit. (When the
        function is called, Python says best why.)"""
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError:
            return None
        bound.apply_defaults()
        given: dict[Place, Any] = dict(enumerate(bound.args))
        given.update(bound.kwargs)
        return given

    def _key(
        self, given: dict[Place, Any], subjects: Iterable[Place], is_one: bool
    ) -> CallKey:
        """For calls with these arguments. In the places `subjects` is what a value is
        kept for: one object, or the parts of a `Together`."""
        subjects = tuple(subjects)
        note_parts([x for place, x in given.items() if place not in subjects])
        arguments = Arguments(given | dict.fromkeys(subjects))
        identity = arguments.identity()
        call = (identity, subjects, is_one)
        key = self._keys.get(call)
        if key is not None:
            key.arguments.given = arguments.given  # those that it has may have changed
            return key
        fun = self.__wrapped__

        def body(subject: Any) -> Any:
            parts = (subject,) if is_one else subject.parts
            return arguments.call(fun, dict(zip(subjects, parts, strict=True)))

        carrying = carrying_body(fun, body) if is_one else body
        statics = {place: x for place, x in given.items() if place not in subjects}
        name = self._name(statics)
        key = self.key_class(self, name, carrying, arguments, identity)
        with _making:  # another thread may be faster
            return self._keys.setdefault(call, key)

    def _name(self, statics: dict[Place, Any]) -> str:
        """How reports call it with these arguments."""
        raise NotImplementedError


@dataclass(eq=False, slots=True, weakref_slot=True)
class Together:
    """The arguments that have arrays in them, if they are several, or cannot be held
    weakly. It is there for one call: what is kept is found by the arrays."""

    parts: tuple[Any, ...]
