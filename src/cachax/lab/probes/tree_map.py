"""After jax.tree.map

Every leaf of a warm object is doubled, as when parameters are averaged or cast.
"""

import jax

from cachax.lab import Measured, Way, numbers

RANK = 23


def measure(way: Way) -> Measured:
    foo = jax.tree.map(lambda leaf: 2 * leaf, way.warm(numbers()))
    used, foo = way.use(foo)
    read, foo = way.read(foo)
    truth = way.exact(2 * numbers())
    return Measured([used, read], [truth, truth])
