"""Gradient with respect to a warm object

`jax.grad` of a function of an object whose value is cached. If the cached value is a
leaf, it has no derivative with respect to the array it came from: the gradient is zero.
"""

import jax

from cachax.lab import Measured, Way, numbers

RANK = 21


def measure(way: Way) -> Measured:
    foo = way.warm(numbers())
    gradient = way.a(way.gradient(way.jitted_b, foo))
    return Measured(gradient, jax.grad(way.exact)(numbers()))
