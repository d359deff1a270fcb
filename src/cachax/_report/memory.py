"""The memory that the cache holds, by class and property."""

from dataclasses import dataclass

from .text import columns, size


@dataclass(frozen=True)
class Held:
    """The cached values of one property, method or function."""

    name: str
    """`Class.property`, for the class that defines it, or the name of a function."""
    values: int
    """How many there are."""
    bytes: int
    """The size of their arrays, without arrays of the objects."""


@dataclass(frozen=True, repr=False)
class Memory:
    """The values that are in the cache. `print` shows a table."""

    held: tuple[Held, ...]
    """By property, the largest first."""

    @property
    def bytes(self) -> int:
        """The size of all arrays that are in the cache."""
        return sum(each.bytes for each in self.held)

    def __str__(self) -> str:
        if not self.held:
            return "The cache is empty."
        rows = [[h.name, f"{h.values:,}", size(h.bytes)] for h in self.held]
        count = sum(h.values for h in self.held)
        rows.append(["total", f"{count:,}", size(self.bytes)])
        return "\n".join(columns(["in the cache now", "values", "size"], rows)).rstrip()

    def __repr__(self) -> str:
        return str(self)
