"""Which classes have cached values."""

import inspect
from typing import Any
from weakref import WeakKeyDictionary


class Source:
    """An attribute of a class that has values for its objects: a cached property, a
    cached method."""


_names: WeakKeyDictionary[type, tuple[str, ...]] = WeakKeyDictionary()
# Names, and not the keys: a key holds its function, and that may hold the class.


def names_of(cls: type) -> tuple[str, ...]:
    """The names under which `cls` has sources of values."""
    try:
        return _names[cls]
    except KeyError:
        attributes: dict[str, Any] = {}
        for base in reversed(cls.__mro__):
            attributes |= vars(base)
        names = tuple(n for n, a in attributes.items() if isinstance(a, Source))
        _names[cls] = names
        return names


def sources_of(cls: type) -> dict[str, Source]:
    """The sources of values that are attributes of `cls`, by name."""
    return {name: inspect.getattr_static(cls, name) for name in names_of(cls)}


def forget_names(cls: type) -> bool:
    """`cls` got one more source. Whether that is new to anyone."""
    known = [each for each in [*_names] if issubclass(each, cls)]
    for each in known:
        _names.pop(each, None)
    return bool(known)
