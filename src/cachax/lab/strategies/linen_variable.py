"""Flax linen: variable in its own collection

Every `apply` takes the variables and returns them. They are computed once, and do not
change when the parameters do.
"""

from typing import Any

import flax.linen as nn
import jax

from cachax.lab import Way, derive

from ._linen import LINEN, new


class Foo(nn.Module):
    @nn.compact
    def __call__(self, n: int = 2) -> jax.Array:
        a = self.param("a", lambda _: None)
        kept = self.variable("cache", f"power_{n}", lambda: derive(a, n))
        return kept.value


def power(variables: Any, n: int = 2) -> Any:
    value, changed = Foo().apply(variables, n, mutable=["cache"])
    return value, {**variables, **changed}


way = Way(new, visit=power, visit_power=power, **LINEN)
