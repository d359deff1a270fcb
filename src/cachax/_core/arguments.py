"""The arguments of cached methods and functions, except objects and arrays that values
are kept for."""

import types
from collections.abc import Callable
from typing import Any

from .._compat import Tracer
from .fields import all_parts, is_open, walk
from .inputs import NUMBERS, Same, inputs_of
from .values import static_identity

Place = int | str
"""The number of a positional argument, or the name of a keyword."""


class NotKeptError(Exception):
    """An argument has a tracer in it, or something whose changes can't be detected: no
    value is kept for it."""


class Arguments:
    """Of a call. Those of a later call with the same identity take their place: what a
    function closes over can change."""

    __slots__ = ("given",)

    def __init__(self, given: dict[Place, Any]) -> None:
        self.given = given

    def identity(self) -> Any:
        """What distinguishes them from others, as they are now."""
        return frozenset((place, _identity(x)) for place, x in self.given.items())

    def call(self, fun: Callable[..., Any], others: dict[Place, Any]) -> Any:
        """Call a function with them, and with others."""
        given = {**self.given, **others}
        numbers = sorted(place for place in given if isinstance(place, int))
        keywords = {k: x for k, x in given.items() if isinstance(k, str)}
        return fun(*(given[i] for i in numbers), **keywords)


def _identity(argument: Any) -> Any:
    if type(argument) not in _ATOMS:
        parts = [*walk(argument)]
        if any(isinstance(part, Tracer) for part in parts):
            raise NotKeptError
        if any(map(is_open, parts)):
            return _by_contents(argument, ())
    return static_identity(argument)


_ATOMS = {*NUMBERS, str, bytes, type(None)}


def _by_contents(thing: Any, outer: tuple[int, ...]) -> Any:
    """For something that may change."""
    if id(thing) in outer:  # a function that calls itself
        return outer.index(id(thing))
    if isinstance(thing, types.FunctionType):
        outer = (*outer, id(thing))
        parts = (_by_contents(part, outer) for part in all_parts(thing))
        return (type(thing), thing.__code__, id(thing.__globals__), *parts)
    inputs = inputs_of(thing)
    if inputs is None:
        raise NotKeptError
    arrays = (Same(x) for x in inputs.arrays if type(x) not in NUMBERS)
    return (inputs.exactly, *arrays)
