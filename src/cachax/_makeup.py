"""What an object is made of, to be compared with another: arrays, and the rest.

Two objects of one makeup differ at most in which arrays they hold. Read from the
fields, and not by `jax.tree.flatten`, for the reasons told in `_parts.py`.
"""

import types
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from ._compat import Tracer, is_ref
from ._memo import Memo, memos
from ._pack import identity_of
from ._parts import ATOMS, Parts, dict_fields, instance_dict, parts_of

_TOO_MANY = 200
"""Parts, from which on an object costs more to compare than it may save."""

_OF_NO_ACCOUNT = "flax.nnx.tracers"
"""Notes in which trace a thing was made: others in every copy."""

_VARIABLES = "flax.nnx.variablelib"
"""Their metadata are a dictionary, in another order in every copy."""


@dataclass(frozen=True, slots=True)
class Makeup:
    """The arrays of an object by identity, and everything else by value."""

    rest: tuple[Any, ...]
    things: list[Any]
    """Arrays, functions and the like."""

    @property
    def ids(self) -> list[int | None]:
        """Of the things; None for one that may be written to in place, and is never
        the same."""
        return [None if isinstance(x, np.ndarray) else id(x) for x in self.things]


def makeup_of(obj: Any) -> Makeup | None:
    """The makeup of `obj`; None if it cannot be compared."""
    rest: list[Any] = []
    things: list[Any] = []
    seen: dict[int, int] = {}
    stack = [obj]
    while stack:
        thing = stack.pop()
        cls = type(thing)
        if len(rest) > _TOO_MANY:
            return None
        if is_ref(thing):  # its contents change
            return None
        if isinstance(thing, jax.Array | Tracer):
            rest.append((thing.shape, thing.dtype, thing.weak_type))
            things.append(thing)
        elif isinstance(thing, np.ndarray):
            rest.append((cls, thing.shape, thing.dtype))
            things.append(thing)
        elif isinstance(thing, ATOMS):
            rest.append(identity_of(thing))
        elif id(thing) in seen:
            rest.append(seen[id(thing)])
        elif cls.__module__ == _OF_NO_ACCOUNT:
            rest.append(cls)
        else:
            seen[id(thing)] = len(seen)
            is_function = isinstance(thing, types.FunctionType)
            list_parts = None if is_function else parts_of(cls)
            if list_parts is None:
                if cls.__weakrefoffset__ == 0:
                    return None
                rest.append(cls)
                things.append(thing)
                continue
            memo = memos.get(id(thing))
            if isinstance(memo, Memo) and memo.on_trust:
                return None
            parts = _in_order(thing, list_parts)
            rest.append((cls, len(parts)))
            stack += reversed(parts)
    return Makeup(tuple(rest), things)


def _in_order(thing: Any, list_parts: Parts) -> list[Any]:
    """Fields by name: who rebuilds an object may set them in another order."""
    if any(base.__module__ == _VARIABLES for base in type(thing).__mro__):
        return [_sorted(x) if type(x) is dict else x for x in list_parts(thing)]
    if list_parts is not dict_fields:
        return list_parts(thing)
    fields = instance_dict(thing, "__dict__")
    # equinox up to 0.11 lays __doc__ and the like into what it rebuilds.
    names = sorted(name for name in fields if not name.startswith("__"))
    return [*names, *(fields[name] for name in names)]


def _sorted(metadata: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(part for name in sorted(metadata) for part in (name, metadata[name]))
