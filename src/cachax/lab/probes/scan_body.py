"""First read in a scan body

Inside one jitted function the value is read in a scan of three steps, and once more
after it. A tracer of the scan must not remain on the object.
"""

from typing import Any

import jax

from cachax.lab import Measured, Way, computations, numbers

RANK = 41


def measure(way: Way) -> Measured:
    def total(foo: Any) -> Any:
        def step(sum_so_far: Any, _: None) -> Any:
            return sum_so_far + way.b(foo), None

        in_the_loop, _ = jax.lax.scan(step, 0.0, length=3)
        return in_the_loop + way.b(foo)

    with computations() as counted:
        got = way.jit(total)(way.new(numbers()))
    return Measured(got, 4 * way.exact(numbers()), work=counted.total())
