"""Dictionaries that forget."""

from typing import Any, TypeVar
from weakref import WeakValueDictionary

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


class Guesses(Recent[K, V]):
    """What a function takes for granted of calls like those before, until something
    happens that is not seen in a call itself."""

    def __init__(self) -> None:
        super().__init__()
        _guesses[id(self)] = self


_guesses: WeakValueDictionary[int, Guesses[Any, Any]] = WeakValueDictionary()


def forget_guesses() -> None:
    for each in [*_guesses.values()]:
        each.clear()
