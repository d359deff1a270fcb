"""Events of a recording: what happened to which value, when, and at which line."""

import enum
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import jax

from .._where import Where as Where
from .._where import where_now as where_now


class What(enum.Enum):
    """What can happen to a value, and to a function."""

    COMPUTED = "computed"
    HIT = "hit"
    KNOWN = "known"
    """Found for the same arrays, which a different object has."""
    PASSED = "passed in"
    RETURNED = "returned"
    INSIDE = "computed inside"
    """Computed by the program of a `cachax.jit` function, for an object that is new."""
    INLINE = "inline"
    """Traced into a program, which computes it at each of its runs."""
    DROPPED = "dropped"
    CALLED = "called"
    TRACED = "traced"
    COMPILED = "compiled"


@dataclass(frozen=True)
class Event:
    """One thing that happened to a value, or to a function."""

    what: What
    """What happened."""
    name: str
    """`Class.property`, or the name of a function."""
    where: Where | None
    """The line of your code."""
    start: float
    """Seconds since the recording began."""
    seconds: float = 0.0
    """Without compilation; of a compilation, its own time."""
    own_seconds: float = 0.0
    """Without the time of other values that its body read."""
    wall_seconds: float = 0.0
    """Including compilation."""
    bytes: int = 0
    """The size of the value."""
    why: str = ""
    """The reason, where there is one."""
    thread: str = field(default_factory=lambda: threading.current_thread().name)
    """The name of the thread."""
    object: int = 0
    """The number of the object among those of its class, or 0."""
    via: Where | None = None
    """The line that called the `cachax.jit` function in which it happened."""
    digest: str = ""
    """A hash of the value and of the arrays it was computed from."""
    depth: int = 0
    """The number of events around it."""
    is_first_use: bool = False
    """Whether the value was computed for this very call, so that it is not reused."""


def bytes_of(value: Any) -> int:
    """Of the arrays in a value."""
    return sum(map(_bytes, jax.tree.leaves(value)))


def _bytes(leaf: Any) -> int:
    try:
        return int(getattr(leaf, "nbytes", 0))
    except NotImplementedError:  # an array of random keys, before JAX 0.5
        return 0


class Clock(threading.local):
    """How long what a thread does takes: without compiling, and without its parts."""

    def __init__(self) -> None:
        self._parts: list[float] = []
        self._compiling: list[float] = []

    def enter(self) -> float:
        self._parts.append(0.0)
        self._compiling.append(0.0)
        return time.perf_counter()

    def compiled(self, seconds: float) -> None:
        if self._parts:
            self._parts[-1] += seconds
            self._compiling[-1] += seconds

    @property
    def depth(self) -> int:
        return len(self._parts)

    def leave(self, start: float) -> dict[str, Any]:
        """The times of an event."""
        seconds = time.perf_counter() - start
        parts, compiling = self._parts.pop(), self._compiling.pop()
        if self._parts:
            self._parts[-1] += seconds
            self._compiling[-1] += compiling
        return {
            "seconds": max(seconds - compiling, 0.0),
            "own_seconds": max(seconds - parts, 0.0),
            "wall_seconds": seconds,
            "depth": self.depth,
        }
