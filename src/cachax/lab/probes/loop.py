"""Computations in a loop of 100

The value is read in the body of a `fori_loop` inside a jitted function. XLA may move a
cheap body out of the loop; one with an effect, like the count here, or a call to a
library, like a factorisation, it leaves where it is.
"""

from typing import Any

import jax

from cachax.lab import Measured, Way, computations, numbers

RANK = 42


def measure(way: Way) -> Measured:
    def total(foo: Any) -> Any:
        return jax.lax.fori_loop(0, 100, lambda _, x: x + way.b(foo), 0.0)

    with computations() as counted:
        got = way.jit(total)(way.new(numbers()))
    return Measured(got, 100 * way.exact(numbers()), work=counted.total())
