"""Flax linen: sow, and read back

`sow` takes values out of a module. Read back, the value is a variable that is never
checked against the parameters.
"""

from typing import Any

import flax.linen as nn
import jax

from cachax.lab import Way, derive

from ._linen import LINEN, new


class Foo(nn.Module):
    @nn.compact
    def __call__(self, n: int = 2) -> jax.Array:
        name = f"power_{n}"
        if self.has_variable("intermediates", name):
            return self.get_variable("intermediates", name)
        power = derive(self.param("a", lambda _: None), n)
        self.sow("intermediates", name, power, lambda _, new: new, int)
        return power


def power(variables: Any, n: int = 2) -> Any:
    value, changed = Foo().apply(variables, n, mutable=["intermediates"])
    return value, {**variables, **changed}


way = Way(new, visit=power, visit_power=power, **LINEN)
