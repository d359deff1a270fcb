"""The values that a program computes inside, when the program was made before."""

import contextlib
import functools
import inspect
from typing import Any

import jax
import numpy as np

from .._compat import is_jitted
from .._jit.jit import _State, jitted
from .events import Event, What
from .record import recording


def computed_inside(fun: Any, args: Any, kwargs: Any) -> list[Event]:
    """The values that the program of `fun` computes for these arguments.

    A jitted function that was traced before reads no properties when it is called, so
    it is traced again, without being run.
    """
    state = getattr(getattr(fun, "lower", None), "__self__", None)
    is_from_equinox = type(fun).__module__.startswith("equinox.")
    with recording() as journal, contextlib.suppress(Exception):  # deleted arguments
        if isinstance(state, _State):
            _trace_cached(state, args, kwargs)
        elif is_jitted(fun) or is_from_equinox:
            _trace_plain(inspect.unwrap(fun), args, kwargs)
    return [event for event in journal.report.events if event.what is What.INLINE]


def _trace_cached(state: _State, args: Any, kwargs: Any) -> None:
    """With the cached values as inputs, which `state.trace` doesn't have."""
    _, (fun, options, transform) = state.__reduce__()

    @functools.wraps(fun)
    def again(*args: Any, **kwargs: Any) -> Any:  # not in the caches of JAX
        return fun(*args, **kwargs)

    jax.eval_shape(lambda: jitted(again, options, transform)(*args, **kwargs))


def _trace_plain(fun: Any, args: Any, kwargs: Any) -> None:
    """With all arrays traced, and everything else as it is: the options of a `jax.jit`
    function are not known."""
    structure: Any
    leaves, structure = jax.tree.flatten((args, kwargs))
    arrays = {
        i: x for i, x in enumerate(leaves) if isinstance(x, jax.Array | np.ndarray)
    }

    def of_arrays(traced: dict[int, Any]) -> list[jax.Array]:
        filled = [traced.get(i, x) for i, x in enumerate(leaves)]
        args, kwargs = structure.unflatten(filled)
        out = jax.tree.leaves(fun(*args, **kwargs))
        return [x for x in out if isinstance(x, jax.Array)]

    of_arrays.__name__ = getattr(fun, "__name__", "")  # reports say whose trace it is
    jax.eval_shape(jax.jit(of_arrays), arrays)
