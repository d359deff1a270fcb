"""functools.cached_property, nnx.Module under nnx.jit

An entry of the `__dict__` that is not a Variable is static: the first value becomes a
constant of the compiled program, and no gradient flows through it.
"""

import functools

import jax
from flax import nnx

from cachax.lab import Way, derive

from ._nnx import NNX, get


class Foo(nnx.Module):
    def __init__(self, a: jax.Array, c: jax.Array | None = None) -> None:
        self.a = nnx.Param(a)
        self.c = nnx.Variable(c)

    @functools.cached_property
    def b(self) -> jax.Array:
        return derive(get(self.a))


way = Way(Foo, **NNX)
