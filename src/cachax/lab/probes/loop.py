"""Loop of 100 inside jit

The value is read in the body of a `fori_loop` inside a jitted function. XLA may move a
cheap body out of the loop. It does not move one that has an effect, such as the counter
here, or that calls a library, such as a factorisation.
"""

from typing import Any

import jax

from cachax.lab import Measured, Way, computations, numbers

RANK = 9


def measure(way: Way) -> Measured:
    def total(foo: Any) -> Any:
        return jax.lax.fori_loop(0, 100, lambda _, x: x + way.b(foo), 0.0)

    with computations() as counted:
        got = way.jit(total)(way.new(numbers()))
    return Measured(got, 100 * way.exact(numbers()), work=counted.total())
