"""The globals that a body depends on."""

import re
import types
from typing import Any, Final, get_origin

from .alike import altered


def function_of(func: Any) -> types.FunctionType | None:
    while not isinstance(func, types.FunctionType) and hasattr(func, "__wrapped__"):
        func = func.__wrapped__
    return func if isinstance(func, types.FunctionType) else None


def globals_of(func: types.FunctionType) -> set[str]:
    """The globals that may change, of those used by a function and by the functions
    beside it that it calls."""
    found: set[str] = set()
    todo, seen = [func], {func}
    while todo:
        one = todo.pop()
        annotations = one.__globals__.get("__annotations__", {})
        for name in _names_in(one.__code__) & one.__globals__.keys():
            value = one.__globals__[name]
            inner = function_of(value)
            if inner is not None:
                if inner.__globals__ is func.__globals__ and inner not in seen:
                    seen.add(inner)
                    todo.append(inner)
            elif not _is_final(annotations.get(name)) and altered(value) is not value:
                found.add(name)
    return found


def _names_in(code: types.CodeType) -> set[str]:
    inner = [x for x in code.co_consts if isinstance(x, types.CodeType)]
    return {*code.co_names}.union(*map(_names_in, inner))


def _is_final(annotation: Any) -> bool:
    if isinstance(annotation, str):
        return re.match(r"(\w+\.)*Final\b", annotation) is not None
    return annotation is Final or get_origin(annotation) is Final
