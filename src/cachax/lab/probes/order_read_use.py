"""Read, then used in jit

`foo.b`, then `use(foo)`, a jitted function that reads `foo.b`. One computation is
enough.
"""

from cachax.lab import Measured, Way, computations, numbers

RANK = 2
PUBLISHED = {"functools_flax_jit": 2, "field": 1}


def measure(way: Way) -> Measured:
    with computations() as counted:
        foo = way.new(numbers())
        first, foo = way.read(foo)
        second, foo = way.use(foo)
    truth = way.exact(numbers())
    return Measured([first, second], [truth, truth], work=counted.total())
