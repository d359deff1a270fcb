"""Read twice

`foo.b`, then `foo.b` again, outside jit. One computation is enough.
"""

from cachax.lab import Measured, Way, computations, numbers

RANK = 1
PUBLISHED = {"functools_flax_jit": 1, "field": 1}


def measure(way: Way) -> Measured:
    with computations() as counted:
        foo = way.new(numbers())
        first, foo = way.read(foo)
        second, foo = way.read(foo)
    truth = way.exact(numbers())
    return Measured([first, second], [truth, truth], work=counted.total())
