"""Flax linen: sow, and read back

`sow` is made for taking values out of a module. Read back, it is a variable that was
never checked against the parameters.
"""

from typing import Any

import flax.linen as nn
import jax

from cachax.lab import Way, derive

from ._linen import IDIOM


class Foo(nn.Module):
    @nn.compact
    def __call__(self) -> jax.Array:
        if self.has_variable("intermediates", "b"):
            return self.get_variable("intermediates", "b")
        b = derive(self.param("a", lambda _: None))
        self.sow("intermediates", "b", b, reduce_fn=lambda _, new: new, init_fn=int)
        return b


def read(variables: Any) -> Any:
    b, changed = Foo().apply(variables, mutable=["intermediates"])
    return b, {**variables, **changed}


way = Way(lambda a: {"params": {"a": a}}, visit=read, **IDIOM)
