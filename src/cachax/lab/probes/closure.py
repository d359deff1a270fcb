"""First read in a closure

A jitted function reads the value of an object it closes over, and then the value is
read outside. A tracer must not remain on the object.
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
