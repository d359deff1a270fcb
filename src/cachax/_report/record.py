"""Record what happens to cached values in a whole program."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax

from .._watch import watching
from .calls import Calls
from .held import memory
from .journal import Journal
from .reads import Reads
from .report import Report

_LOWERED = "/jax/core/compile/jaxpr_to_mlir_module_duration"
_COMPILED = "/jax/core/compile/backend_compile_duration"  # 0.4.36 and later


@contextmanager
def record(*, title: str = "") -> Iterator[Report]:
    """Record what happens to cached values inside this context, in all threads.

    While it runs, cachax waits for each value, so that its time can be measured. There
    is no overhead outside of the context.

    Args:
        title: A title for the report.

    Returns:
        A context manager that gives a `Report`, complete when the context ends.

    Example:
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
    with recording(title) as journal:
        yield journal.report


@contextmanager
def recording(title: str = "") -> Iterator[Journal]:
    journal = Journal(title)
    calls = Calls(journal)
    try:
        with watching(Reads(journal).wraps() | calls.wraps()), _listening(calls):
            yield journal
    finally:
        journal.report.memory = memory()


_listeners: list[Calls] = []
_is_listening = False


@contextmanager
def _listening(calls: Calls) -> Iterator[None]:
    """Listen to JAX's compilations. A listener can't be removed, so there is one
    forever, which does nothing without a recording."""
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
