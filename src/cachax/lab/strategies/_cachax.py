"""What cachax has besides cached_property; the same for every class."""

from typing import Any

import jax

import cachax

CACHAX: dict[str, Any] = {
    "power": lambda foo, n: foo.power(n),
    "function": cachax.cache,
    "jit": cachax.jit,
    "vmap": cachax.vmap,
    "checkpoint": cachax.lift(jax.checkpoint),
}
