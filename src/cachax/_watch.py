"""Wrap methods for as long as a report is made.

Otherwise they are as they were. A warm call doesn't go through methods, so it has one
`if` for this (`Function.call_watchers`).
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
        _wraps.setdefault(method, vars(cls).get(f"{name}_watchers", [])).append(wrap)
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
