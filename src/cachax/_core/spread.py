"""Arrays on several devices, and arrays of several processes."""

from collections.abc import Iterable
from typing import Any

import jax

from .._compat import Tracer, has_processes


def are_spread(things: Iterable[Any]) -> bool:
    """Whether one of them is an array on more than one device."""
    return any(len(x.sharding.device_set) > 1 for x in things if _is_concrete(x))


def are_global(things: Iterable[Any]) -> bool:
    """Whether one of them is an array with parts in other processes: every process has
    to launch the programs that use it, in the same order."""
    return has_processes() and any(map(is_global, things))


def is_global(x: Any) -> bool:
    return _is_concrete(x) and not x.is_fully_addressable


def _is_concrete(x: Any) -> bool:
    return isinstance(x, jax.Array) and not isinstance(x, Tracer)
