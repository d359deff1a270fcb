"""A property's body that is jitted itself: `@cached_property` over `@jax.jit`.

JAX rebuilds the object inside such a body, without its cached values: a property that
uses others would compute them again. So the values go in with the object, as they do in
a `cachax.jit` function.
"""

import functools
from collections.abc import Callable
from importlib import import_module
from typing import Any

from .._compat import is_jitted, jit_is_disabled
from .recent import Recent


class NewSubject(BaseException):
    """Ends a trace in which a cached function was called on an object of a class whose
    objects were not looked for among the arguments."""


def carrying_body(fun: Callable[..., Any], body: Callable[[Any], Any]) -> Any:
    """`body`, which calls `fun`. If that is jitted, the object has inside the values it
    has outside."""
    return functools.partial(_call, body, Recent()) if is_jitted(fun) else body


def _call(jitted: Callable[[Any], Any], learned: dict[Any, Any], obj: Any) -> Any:
    if jit_is_disabled():
        return jitted(obj)
    # Not known here otherwise: `_jit` is made of what is in this package.
    return import_module("cachax._jit.body").call(jitted, learned, obj)
