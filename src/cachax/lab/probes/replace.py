"""After replace

A copy of a warm object with a different array is used and read.
"""

from cachax.lab import Measured, Way, numbers

RANK = 22


def measure(way: Way) -> Measured:
    foo = way.replace(way.warm(numbers()), 2 * numbers())
    used, foo = way.use(foo)
    read, foo = way.read(foo)
    truth = way.exact(2 * numbers())
    return Measured([used, read], [truth, truth])
