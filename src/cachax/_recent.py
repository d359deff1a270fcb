"""A dictionary that forgets."""

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recent(dict[K, V]):
    """A dictionary of the last thousand entries: what is kept for a function must
    not grow with the number of calls."""

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        if len(self) > 1000:
            self.pop(list(self)[0], None)  # noqa: RUF015 (threads: in one step)

    def setdefault(self, key: K, default: V) -> V:
        if key not in self:
            self[key] = default
        return self.get(key, default)
