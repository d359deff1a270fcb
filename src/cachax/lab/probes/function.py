"""A free function, then twice in jit

The norm of `a`, by a function that is no method of the class: the class may be somebody
else's. A way that keeps no such thing has a plain function.
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
