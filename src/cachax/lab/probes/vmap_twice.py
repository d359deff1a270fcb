"""A batch mapped over twice

The value of each of two examples, asked for in a mapped function, and asked for again.
One computation is enough: that of the whole batch.
"""

import jax.numpy as jnp

from cachax.lab import Measured, Way, computations, numbers

RANK = 32


def measure(way: Way) -> Measured:
    batch = jnp.stack([numbers(), 2 * numbers()])
    mapped = way.derived.under(way.vmap)
    with computations() as counted:
        foo = way.cold_batch(batch)
        first, foo = mapped.read(foo)
        second, foo = mapped.read(foo)
    truth = [way.exact(a) for a in batch]
    return Measured([*first, *second], [*truth, *truth], work=counted.total())
