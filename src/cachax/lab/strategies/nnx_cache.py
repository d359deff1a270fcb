"""An nnx.Cache variable under nnx.jit

nnx.jit brings changed variables in and out, so the value is kept. It is state like any
other: nothing ties it to the parameters it came from.
"""

import jax
from flax import nnx

from cachax.lab import Way, derive

from ._nnx import IDIOM, get, put


class Foo(nnx.Module):
    def __init__(self, a: jax.Array) -> None:
        self.a = nnx.Param(a)
        self.kept = nnx.Cache(None)

    @property
    def b(self) -> jax.Array:
        if get(self.kept) is None:
            put(self.kept, derive(get(self.a)))
        return get(self.kept)


way = Way(Foo, **IDIOM)
