"""After jax.tree.map

Every leaf of a warm object doubled, as in averaging or casting parameters.
"""

import jax

from cachax.lab import Measured, Way, numbers

RANK = 21


def measure(way: Way) -> Measured:
    foo = jax.tree.map(lambda leaf: 2 * leaf, way.warm(numbers()))
    used, foo = way.use(foo)
    read, foo = way.read(foo)
    truth = way.exact(2 * numbers())
    return Measured([used, read], [truth, truth])
