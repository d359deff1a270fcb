"""Where functions have values at hand for warm calls, and how these get withdrawn."""

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Ready:
    """What is at hand for calls with one object."""

    ref: Callable[[], Any]
    """Gives the object."""
    holds: Callable[[Any], bool]
    """Whether it is as it was."""
    values: Any
    about: Any
    """The program that takes them, or where among the arguments the object is."""
    is_flat: bool
    """Whether all there is to see are the values in the instance's `__dict__`."""


NOBODY = Ready(object, lambda _: False, None, None, False)


class Shelf(dict[Any, Any]):
    """What a function has at hand for its warm calls, by the id of an object, or by
    the ids of what it is made of.

    Whoever puts something there tells the memos it came from, which withdraw it when
    they forget, at the latest when the object goes.
    """

    __slots__ = ("__weakref__", "last", "together")

    def __init__(self) -> None:
        self.together: Any = None
        """What was put together from several of the entries."""
        self.last: Ready = NOBODY
        """What was put here last: to find it by its object, and not by the id of it,
        takes half the time, and mostly it is what is looked for."""

    def put(self, ready: Ready) -> None:
        self.together = None
        self[id(ready.ref())] = self.last = ready

    def withdraw(self, entry: Any) -> None:
        self.together = None
        self.last = NOBODY
        self.pop(entry, None)

    def clear(self) -> None:
        self.together = None
        self.last = NOBODY
        super().clear()


class AtHand:
    """Where the values of one memo are at hand for functions."""

    __slots__ = ("_places",)

    def __init__(self) -> None:
        self._places: dict[tuple[int, Any], weakref.ref[Shelf]] = {}

    def note(self, shelf: Shelf, entry: Any) -> None:
        if len(self._places) > 100:  # functions come and go
            alive = {p: ref for p, ref in self._places.items() if ref() is not None}
            self._places = alive
        self._places[id(shelf), entry] = weakref.ref(shelf)

    def withdraw(self) -> None:
        for (_, entry), ref in [*self._places.items()]:
            shelf = ref()
            if shelf is not None:
                shelf.withdraw(entry)
        self._places.clear()
