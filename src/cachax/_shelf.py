"""Where functions have values at hand for warm calls, and how these get withdrawn."""

import weakref
from typing import Any


class Shelf(dict[Any, Any]):
    """What a function has at hand for its warm calls, by the id of an object, or by
    the ids of what it is made of.

    Whoever puts something there tells the memos it came from, which withdraw it when
    they forget, at the latest when the object goes.
    """

    __slots__ = ("__weakref__", "together")

    def __init__(self) -> None:
        self.together: Any = None
        """What was put together from several of the entries."""


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
                shelf.together = None
                shelf.pop(entry, None)
        self._places.clear()
