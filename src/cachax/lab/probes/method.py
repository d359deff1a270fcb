"""foo.power(3), then twice in jit

A method with an argument: the sum of third powers, which no property has. A way that
keeps no such thing has a plain method.
"""

from cachax.lab import Measured, Way, computations, numbers

RANK = 6


def measure(way: Way) -> Measured:
    power = way.power_of(3)
    jitted = power.under(way.jit)
    with computations() as counted:
        foo = way.new(numbers())
        outside, foo = power.read(foo)
        first, foo = jitted.read(foo)
        second, foo = jitted.read(foo)
    return Measured(
        [outside, first, second],
        [way.exact_power(numbers(), 3)] * 3,
        work=counted["power"] or counted["b"],  # lineax has one state for all
    )
