"""Method with an argument

`foo.power(3)`, the sum of third powers, read once and then used in jit twice. An
approach that cannot cache a method has a plain one.
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
