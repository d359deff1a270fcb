"""Warm object under vmap

A warm object that holds a batch of two is mapped over. Each example has its own value.
"""

import jax.numpy as jnp

from cachax.lab import Measured, Way, numbers

RANK = 30


def measure(way: Way) -> Measured:
    batch = jnp.stack([numbers(), 2 * numbers()])
    foo = way.warm_batch(batch)
    each = way.vmap(way.b)(foo)
    return Measured(each, [way.exact(a) for a in batch])
