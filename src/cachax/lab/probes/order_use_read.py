"""Used in jit, then read

`use(foo)`, then `foo.b`. One computation is enough.
"""

from cachax.lab import Measured, Way, computations, numbers

RANK = 4
PUBLISHED = {"functools_flax_jit": 2, "field": 2}


def measure(way: Way) -> Measured:
    with computations() as counted:
        foo = way.new(numbers())
        first, foo = way.use(foo)
        second, foo = way.read(foo)
    truth = way.exact(numbers())
    return Measured([first, second], [truth, truth], work=counted.total())
