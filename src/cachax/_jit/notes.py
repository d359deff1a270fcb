"""What to do about an argument that JAX refuses, as a note on its error."""

import inspect
from typing import Any

import jax
import numpy as np

from .._errors import argument_note
from .options import Arguments

_TAKEN = (int, float, complex, bool, np.ndarray, np.generic, jax.Array)


def note_argument(
    error: Exception, fun: Any, args: Any, kwargs: Any, static: Arguments
) -> None:
    """Add a note to `error`, if there is an argument that JAX does not take."""
    if not isinstance(error, TypeError):
        return
    (_, statics) = static.take_out(args, kwargs)
    chosen = {name for name, *_ in statics}
    given = [*enumerate(args), *kwargs.items()]
    for name, argument in given:
        if name in chosen:
            continue
        leaves, _ = jax.tree_util.tree_flatten_with_path(argument)
        for path, leaf in leaves:
            if not _is_taken(leaf):
                place = parameter(fun, name) + jax.tree_util.keystr(path)
                error.add_note(argument_note(place, leaf))
                return


def _is_taken(leaf: Any) -> bool:
    is_array_like = hasattr(leaf, "dtype") or hasattr(leaf, "__jax_array__")
    return isinstance(leaf, _TAKEN) or is_array_like


def parameter(fun: Any, name: int | str) -> str:
    """The name of an argument that was passed in this position, or by this name."""
    if isinstance(name, str):
        return name
    try:
        names = [*inspect.signature(fun).parameters]
    except (TypeError, ValueError):
        names = []
    return names[name] if name < len(names) else f"argument {name}"
