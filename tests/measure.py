"""Count what really happened: computations by callbacks that run, compilations by
what JAX reports."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import jax

_computed: Counter[str] = Counter()
_compiled: list[str] = []

BACKEND_COMPILE = "/jax/core/compile/backend_compile_duration"
jax.monitoring.register_event_duration_secs_listener(
    lambda event, _, **__: _compiled.append(event)
)


def computing(name: str) -> None:
    """Put into a body: counts every execution of it, traced or not."""
    jax.debug.callback(lambda: _computed.update([name]))


@contextmanager
def computations() -> Iterator[Counter[str]]:
    """How often each body ran inside this context; filled in at its end."""
    jax.effects_barrier()
    before = _computed.copy()
    counted: Counter[str] = Counter()
    yield counted
    jax.effects_barrier()
    counted.update(_computed - before)


@contextmanager
def compilations() -> Iterator[list[str]]:
    """One entry for each program compiled inside this context."""
    before = len(_compiled)
    counted: list[str] = []
    yield counted
    counted += [event for event in _compiled[before:] if event == BACKEND_COMPILE]
