"""cachax.cached_property, nnx.Module

As on any other class. `cachax.jit` replaces `jax.jit`: unlike `nnx.jit`, it does not
return changes to a Variable made inside.
"""

import jax
from flax import nnx

import cachax
from cachax.lab import Way, derive

from ._cachax import CACHAX
from ._nnx import NNX, get

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


way = Way(Foo, **NNX | CACHAX)
