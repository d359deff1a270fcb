"""Under jax.checkpoint twice

The value is read in a function under `jax.checkpoint`, twice, and then outside. One
computation is enough.
"""

from cachax.lab import Measured, Way, computations, numbers

RANK = 8


def measure(way: Way) -> Measured:
    checkpointed = way.derived.under(way.checkpoint)
    with computations() as counted:
        foo = way.new(numbers())
        first, foo = checkpointed.read(foo)
        second, foo = checkpointed.read(foo)
        outside, foo = way.read(foo)
    truth = way.exact(numbers())
    return Measured([first, second, outside], [truth] * 3, work=counted.total())
