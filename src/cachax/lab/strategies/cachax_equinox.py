"""cachax.cached_property, equinox.Module

As on a flax node: the class family makes no difference.
"""

import equinox as eqx
import jax

import cachax
from cachax.lab import Way, derive


class Foo(eqx.Module):
    a: jax.Array

    @cachax.cached_property
    def b(self) -> jax.Array:
        return derive(self.a)


way = Way(
    Foo, jit=cachax.jit, replace=lambda foo, a: eqx.tree_at(lambda f: f.a, foo, a)
)
