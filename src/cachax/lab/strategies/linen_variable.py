"""Flax linen: a variable in its own collection

The variables are passed in and handed back by every `apply`. They are computed once,
and stay as they are when the parameters change.
"""

from typing import Any

import flax.linen as nn
import jax

from cachax.lab import Way, derive

from ._linen import IDIOM


class Foo(nn.Module):
    @nn.compact
    def __call__(self) -> jax.Array:
        a = self.param("a", lambda _: None)
        kept = self.variable("cache", "b", lambda: derive(a))
        return kept.value


def read(variables: Any) -> Any:
    b, changed = Foo().apply(variables, mutable=["cache"])
    return b, {**variables, **changed}


way = Way(lambda a: {"params": {"a": a}}, visit=read, **IDIOM)
