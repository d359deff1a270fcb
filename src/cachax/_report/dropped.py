"""A warning for values that a plain `jax.jit` function computes and drops."""

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .._core.computed import Computed
from .._core.levels import traces_in
from .._core.values_read import is_tracing_a_body
from .._errors import dropped
from .._watch import watching
from .._where import is_of_the_user
from .causes import DROPS, why_inline


@contextmanager
def warn_dropped() -> Iterator[None]:
    """Warn, inside this context, when a plain `jax.jit` drops a cached value.

    A `jax.jit` function that reads a cached property computes it in every call. Use
    this to find such functions, in all threads. There is one warning for each line that
    reads a property, when JAX traces the function: functions that were traced before
    don't warn. `cachax.explain` and `cachax.record` report more.

    Returns:
        A context manager.

    Warns:
        DroppedValueWarning: A property is read in a function under `jax.jit`.

    Example:
        >>> import warnings, equinox as eqx, jax, jax.numpy as jnp, cachax
        >>> class Line(eqx.Module):
        ...     x: jax.Array
        ...
        ...     @cachax.cached_property
        ...     def mean(self):
        ...         return self.x.mean()
        >>> with cachax.warn_dropped(), warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     _ = jax.jit(lambda line: line.mean)(Line(jnp.ones(3)))
        >>> print(caught[0].message)
        Line.mean is computed inside `jax.jit` and dropped when the program ends. Use \
`cachax.jit` to compute it once, outside.
    """
    with watching({(Computed, "evaluate"): _warning}):
        yield


def _warning(evaluate: Callable[..., Any]) -> Callable[..., Any]:
    def evaluating(key: Any, obj: Any, inputs: Any) -> Any:
        is_traced = bool(traces_in(obj)) and not is_tracing_a_body()
        if is_traced and DROPS in why_inline(obj, False):
            warnings.warn(dropped(key.of(obj)), stacklevel=_to_the_user())
        return evaluate(key, obj, inputs)

    return evaluating


def _to_the_user() -> int:
    """Frames from the caller of this to a line that is neither JAX's nor ours."""
    frame, level = sys._getframe(1), 1
    while frame.f_back and not is_of_the_user(frame):
        frame, level = frame.f_back, level + 1
    return level
