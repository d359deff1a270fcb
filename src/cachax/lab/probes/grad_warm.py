"""Gradient by a warm object

A cached value that takes part as a leaf has no derivative by the array it came from:
the gradient is zero.
"""

import jax

from cachax.lab import Measured, Way, numbers

RANK = 11


def measure(way: Way) -> Measured:
    foo = way.warm(numbers())
    gradient = way.a(way.gradient(way.jitted_b, foo))
    return Measured(gradient, jax.grad(way.exact)(numbers()))
