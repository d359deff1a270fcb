"""Same tree, warm or cold

`jax.tree.map` over a cold and a warm object of the same class, as for a running
average, a comparison or a checkpoint.
"""

import jax

from cachax.lab import Measured, Way, numbers

RANK = 43


def measure(way: Way) -> Measured:
    cold, warm = way.new(numbers()), way.warm(numbers())
    jax.tree.map(lambda x, y: x, cold, warm)
    return Measured(jax.tree.structure(cold) == jax.tree.structure(warm), True)
