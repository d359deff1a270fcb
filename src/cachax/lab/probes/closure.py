"""First touch in a closure, then again

A jitted function reads the value of an object it closes over; then the value is read
outside. What was kept in between must not be a tracer.
"""

from cachax.lab import Measured, Way, computations, numbers

RANK = 40


def measure(way: Way) -> Measured:
    with computations() as counted:
        foo = way.new(numbers())
        inside = way.jit(lambda x: x * way.b(foo))(2.0)
        outside, _ = way.read(foo)
    truth = way.exact(numbers())
    return Measured([inside, outside], [2 * truth, truth], work=counted.total())
