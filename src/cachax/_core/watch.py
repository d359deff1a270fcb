"""Watch what happens: as long as somebody does, the functions that do it are wrapped.

When nobody watches nothing is in the way, but an `if` on the way of a warm call, which
does not go by methods.
"""

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]
"""Gives a function that is called in place of the one given."""

_changing = threading.RLock()
_originals: dict[tuple[type, str], Callable[..., Any]] = {}
_wraps: dict[tuple[type, str], list[Wrap]] = {}


def watchers_of(cls: type, name: str) -> list[Wrap]:
    """Those of this method: empty while nobody watches it."""
    return _wraps.setdefault((cls, name), [])


@contextmanager
def watching(wraps: dict[tuple[type, str], Wrap]) -> Iterator[None]:
    """Inside this context, in all threads, these methods are wrapped.

    Contexts may overlap in any way; each takes out what it has put in.
    """
    with ExitStack() as stack:
        for method, wrap in wraps.items():
            stack.enter_context(_wrapped(method, wrap))
        yield


@contextmanager
def _wrapped(method: tuple[type, str], wrap: Wrap) -> Iterator[None]:
    with _changing:
        cls, name = method
        _originals.setdefault(method, vars(cls)[name])
        _wraps.setdefault(method, []).append(wrap)
        _install(method)
    try:
        yield
    finally:
        with _changing:
            _wraps[method].remove(wrap)
            _install(method)


def _install(method: tuple[type, str]) -> None:
    cls, name = method
    original = fun = _originals[method]
    for wrap in _wraps[method]:
        fun = functools.wraps(original)(wrap(fun))
    setattr(cls, name, fun)
