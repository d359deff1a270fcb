"""A dictionary that keeps its newest entries."""

from contextlib import suppress
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recent(dict[K, V]):
    """A dictionary of the last `size` entries, so that what is learned about a function
    or a class does not grow with the number of calls."""

    def __init__(self, size: int = 1000) -> None:
        super().__init__()
        self.size = size

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        if len(self) > self.size:
            with suppress(RuntimeError, StopIteration):  # another thread was faster
                self.pop(next(iter(self)), None)

    def setdefault(self, key: K, default: V) -> V:
        if key not in self:
            self[key] = default
        return self.get(key, default)
