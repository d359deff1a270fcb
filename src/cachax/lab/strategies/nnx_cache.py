"""nnx.Cache variable under nnx.jit

nnx.jit takes changed variables in and out, so the value is kept. It is ordinary state:
nothing ties it to the parameters it came from.
"""

import jax
from flax import nnx

from cachax.lab import Way, derive

from ._nnx import NNX, get, put


class Foo(nnx.Module):
    def __init__(self, a: jax.Array, c: jax.Array | None = None) -> None:
        self.a = nnx.Param(a)
        self.c = nnx.Variable(c)
        self.kept = nnx.Cache(None)
        self.powers = nnx.Cache({})

    @property
    def b(self) -> jax.Array:
        if get(self.kept) is None:
            put(self.kept, derive(get(self.a)))
        return get(self.kept)

    def power(self, n: int) -> jax.Array:
        if n not in get(self.powers):
            put(self.powers, {**get(self.powers), n: derive(get(self.a), n)})
        return get(self.powers)[n]


way = Way(Foo, power=Foo.power, **NNX)
