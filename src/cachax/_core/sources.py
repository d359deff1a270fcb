"""Which classes have cached values."""

import inspect
from typing import Any

from .fields import per_class

_FromFunctools = type("cached_property", (), {"__module__": "functools"})


def class_of(source: "Source") -> Any:
    """What it says its class is. While a class is made, pydantic takes an attribute
    without annotation only if it is of functools. (It must not be a cached property of
    functools: attrs replaces these in classes with slots.)"""
    return _FromFunctools if source.attrname is None else type(source)


class Source:
    """An attribute of a class that has values for its objects: a cached property, a
    cached method."""

    attrname: str | None = None
    __class__: Any = property(class_of)


@per_class
def names_of(cls: type) -> tuple[str, ...]:
    """The names under which `cls` has sources of values."""
    # Names, and not the keys: a key holds its function, and that may hold the class.
    attributes: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        attributes |= vars(base)
    return tuple(n for n, a in attributes.items() if isinstance(a, Source))


def sources_of(cls: type) -> dict[str, Source]:
    """The sources of values that are attributes of `cls`, by name."""
    return {name: inspect.getattr_static(cls, name) for name in names_of(cls)}


def forget_names(cls: type) -> bool:
    """`cls` got one more source. Whether that is new to anyone."""
    names: Any = names_of
    known = [each for each in [*names.known] if issubclass(each, cls)]
    for each in known:
        names.known.pop(each, None)
    return bool(known)
