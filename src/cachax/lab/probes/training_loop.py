"""Training loop of 10 steps

`state = step(state)`, ten times. `step` is jitted, uses the value and returns the state
with its parameters changed. The value does not depend on them: one computation is
enough.
"""

from typing import Any

from cachax.lab import Measured, Way, computations, numbers

RANK = 5
STEPS = 10


def measure(way: Way) -> Measured:
    def step(state: Any) -> Any:
        b, state = way.read(state)
        return b, way.replace_c(state, way.c(state) - 0.01 * b)

    jitted = way.jit(step)
    values = []
    with computations() as counted:
        state = way.new(numbers(), numbers())
        for _ in range(STEPS):
            b, state = jitted(state)
            values.append(b)
    truth = way.exact(numbers())
    return Measured(
        [*values, *way.c(state)],
        [truth] * STEPS + [*(numbers() - 0.01 * STEPS * truth)],
        work=counted.total(),
    )
