"""What cachax has beside cached_property; the same for every class."""

from typing import Any

import jax

import cachax

IDIOM: dict[str, Any] = {
    "power": lambda foo, n: foo.power(n),
    "function": cachax.cache,
    "jit": cachax.jit,
    "vmap": cachax.vmap,
    "checkpoint": cachax.lift(jax.checkpoint),
}
