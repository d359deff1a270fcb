"""Record what happens to cached values in a whole program."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax

from .._core.watch import watching
from .calls import Calls
from .journal import Journal
from .reads import Reads
from .report import Report

_LOWERED = "/jax/core/compile/jaxpr_to_mlir_module_duration"
_COMPILED = "/jax/core/compile/backend_compile_duration"  # 0.4.36 and later


@contextmanager
def record() -> Iterator[Report]:
    """Everything that happens to cached values inside this context, in all threads.

    Each value is waited for when it is computed, so that its time is its own. When
    nobody records, nothing is in the way of a call.

    >>> import jax.numpy as jnp, cachax
    >>> class Square:
    ...     side = jnp.float32(3)
    ...     @cachax.cached_property
    ...     def area(self):
    ...         return self.side**2
    >>> square = Square()
    >>> with cachax.record() as report:
    ...     square.area, square.area, square.area
    (Array(9., dtype=float32), Array(9., dtype=float32), Array(9., dtype=float32))
    >>> report.count("computed"), report.count("hit")
    (1, 2)
    """
    with recording() as journal:
        yield journal.report


@contextmanager
def recording() -> Iterator[Journal]:
    journal = Journal()
    calls = Calls(journal)
    with watching(Reads(journal).wraps() | calls.wraps()), _listening(calls):
        yield journal


_listeners: list[Calls] = []
_is_listening = False


@contextmanager
def _listening(calls: Calls) -> Iterator[None]:
    """To what JAX says about its compilations. Its listeners cannot be taken away one
    by one, so there is one for good, which does nothing when nobody records."""
    global _is_listening
    if not _is_listening:
        _is_listening = True
        listener: Any = _on_duration
        jax.monitoring.register_event_duration_secs_listener(listener)
    _listeners.append(calls)
    try:
        yield
    finally:
        _listeners.remove(calls)


def _on_duration(event: str, seconds: float, **about: Any) -> None:
    if event == _LOWERED:
        for calls in _listeners:
            calls.on_lowered(seconds)
    if event == _COMPILED:
        name = str(about.get("fun_name", "a program"))
        for calls in _listeners:
            calls.on_compiled(name.removeprefix("jit(").removesuffix(")"), seconds)
