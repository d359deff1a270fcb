"""The arguments of cached methods and functions, except objects and arrays that values
are kept for."""

import contextlib
import functools
import inspect
import types
from collections.abc import Callable
from typing import Any

from .._compat import Tracer
from .fields import walk
from .memo import inputs_of
from .reads import runs_bodies
from .values import static_identity

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


class Arguments:
    """Of a call, in their order: that of `**kwargs` is the caller's. For others, which
    come with each call, there is None."""

    __slots__ = ("given",)

    def __init__(self, given: dict[Place, Any]) -> None:
        self.given = given

    def identity(self) -> Any:
        """What distinguishes them from others, as they are now."""
        return tuple((place, _identity(x)) for place, x in self.given.items())

    def freeze(self) -> None:
        """Functions keep what they close over now: the variable of a loop changes."""
        given = self.given.items()
        self.given = {place: _frozen(x, {}) for place, x in given}

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


def _frozen(thing: Any, done: dict[int, Any]) -> Any:
    if id(thing) in done:  # a function that calls itself
        return done[id(thing)]
    if type(thing) is tuple:
        return tuple(_frozen(part, done) for part in thing)
    if type(thing) is functools.partial and not vars(thing):
        args = (_frozen(part, done) for part in thing.args)
        keywords = {k: _frozen(x, done) for k, x in thing.keywords.items()}
        return functools.partial(_frozen(thing.func, done), *args, **keywords)
    if type(thing) is not types.FunctionType or not thing.__closure__:
        return thing
    cells = tuple(types.CellType() for _ in thing.__closure__)
    new = done[id(thing)] = types.FunctionType(
        thing.__code__, thing.__globals__, thing.__name__, thing.__defaults__, cells
    )
    new.__kwdefaults__ = thing.__kwdefaults__
    new.__qualname__, new.__module__ = thing.__qualname__, thing.__module__
    vars(new).update(vars(thing))
    for cell, old in zip(cells, thing.__closure__, strict=True):
        with contextlib.suppress(ValueError):  # it is empty
            cell.cell_contents = _frozen(old.cell_contents, done)
    return new
