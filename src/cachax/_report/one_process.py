"""Lines of the user's program that only some processes run."""

import ast
import functools
import linecache
import warnings
from typing import Any

from .._core.fields import walk
from .._core.spread import are_global
from .._errors import in_one_process
from .._where import Where, where_now


def warn_if_in_one_process(name: str, *things: Any) -> None:
    """Before something is done with global arrays, if it is inside an
    `if jax.process_index() == 0`: the others don't do it."""
    if not are_global(walk(things)):
        return
    where = where_now()
    condition = None if where is None else condition_at(where)
    if condition is not None:
        warnings.warn(in_one_process(name, str(where), condition), stacklevel=2)


def condition_at(where: Where) -> str | None:
    """The condition around this line that is not the same in all processes."""
    return _conditions(where.file).get(where.line)


@functools.lru_cache(16)
def _conditions(file: str) -> dict[int, str]:
    """By line. Of files that can't be read or parsed: none."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return {}
    found: dict[int, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "process_index" in ast.dump(node.test):
            first, last = node.body[0].lineno, node.body[-1].end_lineno or 0
            last = max(last, node.end_lineno or 0)
            found |= dict.fromkeys(range(first, last + 1), ast.unparse(node.test))
    return found
