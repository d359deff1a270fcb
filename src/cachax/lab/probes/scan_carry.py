"""Warm object as scan carry

A warm object is the carry of a scan of three steps. Each step reads the value and adds
one to the array.
"""

from typing import Any

import jax

from cachax.lab import Measured, Way, numbers

RANK = 31


def measure(way: Way) -> Measured:
    def step(foo: Any, _: None) -> Any:
        b = way.b(foo)
        return way.replace(foo, way.a(foo) + 1), b

    _, each = jax.lax.scan(step, way.warm(numbers()), length=3)
    return Measured(each, [way.exact(numbers() + i) for i in range(3)])
