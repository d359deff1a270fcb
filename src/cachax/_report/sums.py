"""What a report adds up for one property or function, and what to fix."""

from dataclasses import dataclass

from .events import Where


@dataclass(frozen=True)
class Value:
    """What happened to one property."""

    name: str
    """`Class.property`."""
    computed: int
    """How often it was computed."""
    seconds: float
    """The time that took, without the time of other properties that it read. Values
    that were computed inside a program are part of the time of its function."""
    bytes: int
    """The size of the largest value."""
    reused: int
    """How often a value was found instead of computed."""
    inline: int
    """How often it was traced into a program, which then computes it each time it
    runs."""
    saved: float
    """The seconds that reused values would have taken to compute."""
    inside: int = 0
    """How often it was computed inside the program of a `cachax.jit` function, for an
    object that is new."""


@dataclass(frozen=True)
class Function:
    """What happened to one `cachax.jit` function."""

    name: str
    """Its name."""
    calls: int
    """How often it was called."""
    traces: int
    """How often JAX traced it."""
    compilations: int
    """How often JAX compiled it."""
    seconds: float
    """The time of all calls, without compilation."""


@dataclass(frozen=True)
class Fix:
    """Unnecessary work, and how to avoid it."""

    seconds: float
    """The time it took, where that is known."""
    where: Where | None
    """The line of your code."""
    what: str
    """What was unnecessary."""
    instead: str
    """What to do instead."""
    kind: str = "recomputed"
    """`"recomputed"`, `"inline"` or `"recompiled"`."""
