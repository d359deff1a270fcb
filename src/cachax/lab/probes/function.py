"""Function outside the class

The norm of `a`, computed by a function that is not a method, as for a class from
another library: called once, then in jit twice. An approach that cannot cache it has a
plain function.
"""

from typing import Any

import jax.numpy as jnp

from cachax.lab import Measured, Way, computations, computing, numbers

RANK = 7


def measure(way: Way) -> Measured:
    def norm(foo: Any) -> Any:
        computing("norm")
        return jnp.linalg.norm(way.a(foo))

    called = way.calling(norm)
    jitted = called.under(way.jit)
    with computations() as counted:
        foo = way.new(numbers())
        outside, foo = called.read(foo)
        first, foo = jitted.read(foo)
        second, foo = jitted.read(foo)
    truth = jnp.linalg.norm(numbers())
    return Measured([outside, first, second], [truth] * 3, work=counted["norm"])
