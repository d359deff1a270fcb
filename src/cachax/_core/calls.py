"""What cached methods and cached functions share: a key for each set of arguments."""

import functools
import threading
from collections.abc import Callable, Iterable
from typing import Any
from weakref import WeakValueDictionary

from .arguments import Arguments, Place, signature
from .body import carrying_body
from .computed import CallKey
from .recent import Recent

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
        arguments = Arguments(given | dict.fromkeys(subjects))
        call = (arguments.identity(), subjects, is_one)
        key = self._keys.get(call)
        if key is not None:
            key.take(arguments)
            return key
        fun = self.__wrapped__

        def body(subject: Any) -> Any:
            parts = (subject,) if is_one else subject.parts
            return arguments.call(fun, dict(zip(subjects, parts, strict=True)))

        carrying = carrying_body(fun, body) if is_one else body
        statics = {place: x for place, x in given.items() if place not in subjects}
        key = self.key_class(self, self._name(statics), carrying, arguments)
        with _making:  # another thread may be faster
            return self._keys.setdefault(call, key)

    def _name(self, statics: dict[Place, Any]) -> str:
        """How reports call it with these arguments."""
        raise NotImplementedError


class Together:
    """The arguments that have arrays in them, if they are several, or cannot be held
    weakly. It is there for one call: what is kept is found by the arrays."""

    __slots__ = ("__weakref__", "parts")

    def __init__(self, parts: tuple[Any, ...]) -> None:
        self.parts = parts
