"""Unrelated field replaced

A copy of a warm object with a different `c`, which the value does not depend on, is
read and used. One computation is enough.
"""

from cachax.lab import Measured, Way, computations, numbers

RANK = 10


def measure(way: Way) -> Measured:
    with computations() as counted:
        foo = way.replace_c(way.warm(numbers(), numbers()), 2 * numbers())
        read, foo = way.read(foo)
        used, foo = way.use(foo)
    truth = way.exact(numbers())
    return Measured([read, used], [truth] * 2, work=counted.total())
