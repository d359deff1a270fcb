"""One property in an explanation."""

from dataclasses import dataclass

from .events import Where


@dataclass(frozen=True)
class Property:
    """What a call did with one property of one argument."""

    argument: str
    """The argument, by the name of its parameter."""
    name: str
    """`Class.property`."""
    status: str
    """For instance "computed now, passed in"."""
    why: str
    """The reason, where there is one."""
    where: Where | None
    """The line that reads it."""
    seconds: float
    """The time it took to compute."""
    bytes: int
    """The size of the value."""
