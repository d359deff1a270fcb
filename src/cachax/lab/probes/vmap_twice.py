"""Batch mapped twice

A function that reads the value is mapped over a batch of two, twice. One computation,
for the whole batch, is enough.
"""

import jax.numpy as jnp

from cachax.lab import Measured, Way, computations, numbers

RANK = 11


def measure(way: Way) -> Measured:
    batch = jnp.stack([numbers(), 2 * numbers()])
    mapped = way.derived.under(way.vmap)
    with computations() as counted:
        foo = way.cold_batch(batch)
        first, foo = mapped.read(foo)
        second, foo = mapped.read(foo)
    truth = [way.exact(a) for a in batch]
    return Measured([*first, *second], [*truth, *truth], work=counted.total())
