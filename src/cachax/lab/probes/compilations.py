"""Compilations, cold then warm

One jitted function is called with a cold object and then with a warm one. One
compilation is enough. Operations that JAX compiles by themselves are not counted.
"""

import cachax.lab
from cachax.lab import Measured, Way, numbers

RANK = 51


def measure(way: Way) -> Measured:
    cold, warm = way.new(numbers()), way.warm(numbers())
    with cachax.lab.compilations() as counted:
        first, _ = way.use(cold)
        second, _ = way.use(warm)
    truth = way.exact(numbers())
    return Measured(
        [first, second], [truth, truth], work=len(counted), of="compilation"
    )
