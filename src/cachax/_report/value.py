"""What happened to one property, added up."""

from dataclasses import dataclass


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
