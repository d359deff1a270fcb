"""cachax.cached_property, nnx.Module

The worst case of functools, and nothing special here. `cachax.jit` stands for
`jax.jit`: unlike `nnx.jit`, it brings no Variable out that was written to inside.
"""

import jax
from flax import nnx

import cachax
from cachax.lab import Way, derive

from ._cachax import IDIOM
from ._nnx import IDIOM as NNX
from ._nnx import get

if not hasattr(nnx, "Pytree"):
    raise ImportError("an nnx.Module is a pytree since flax 0.12")


class Foo(nnx.Module):
    def __init__(self, a: jax.Array, c: jax.Array | None = None) -> None:
        self.a = nnx.Param(a)
        self.c = nnx.Variable(c)

    @cachax.cached_property
    def b(self) -> jax.Array:
        return derive(get(self.a))

    @cachax.cached_method
    def power(self, n: int) -> jax.Array:
        return derive(get(self.a), n)


way = Way(Foo, **NNX | IDIOM)
