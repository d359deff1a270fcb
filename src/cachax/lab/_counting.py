"""Count what happens at run time: computations by callbacks that run, compilations by
JAX's own events."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

_computed: Counter[str] = Counter()
_compiled: list[str] = []
_host_only = False

BACKEND_COMPILE = "/jax/core/compile/backend_compile_duration"


def _on_event(event: str, duration_secs: float, **_: object) -> None:
    _compiled.append(event)


jax.monitoring.register_event_duration_secs_listener(_on_event)


def computing(name: str) -> None:
    """Called in a body: counts every execution of it, traced or not."""
    jax.debug.callback(lambda: _computed.update([name]))


def derive(a: Any, n: int = 2) -> jax.Array:
    """The value that every strategy of the lab caches: a sum of squares, counted. With
    an argument, the sum of n-th powers, counted separately.

    >>> from cachax.lab import computations, derive
    >>> with computations() as counted:
    ...     print(derive(jnp.arange(3.0)))
    5.0
    >>> counted["b"]
    1
    """
    return jnp.sum(counted(a, "b" if n == 2 else "power") ** n)


def counted(a: Any, name: str = "b") -> Any:
    """The array itself; called where a counted body begins."""
    computing(name)
    return np.asarray(a) if _host_only else a  # raises on a tracer, as scipy would


@contextmanager
def on_the_host_only() -> Iterator[None]:
    """In this context a counted body can only run on concrete values."""
    global _host_only
    _host_only = True
    try:
        yield
    finally:
        _host_only = False


@contextmanager
def computations() -> Iterator[Counter[str]]:
    """How often each body ran inside this context; filled in at its end."""
    jax.effects_barrier()  # type: ignore[no-untyped-call]
    before = _computed.copy()
    counted: Counter[str] = Counter()
    yield counted
    jax.effects_barrier()  # type: ignore[no-untyped-call]
    counted.update(_computed - before)


@contextmanager
def compilations() -> Iterator[list[str]]:
    """One entry for each program compiled inside this context."""
    before = len(_compiled)
    counted: list[str] = []
    yield counted
    counted += [event for event in _compiled[before:] if event == BACKEND_COMPILE]
