"""Compilations, cold then warm

One jitted function, called with a cold object and then with a warm one. Operations that
are compiled by themselves have been, before the count.
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
