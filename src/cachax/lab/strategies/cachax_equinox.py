"""cachax.cached_property, equinox.Module

As on a flax node: the class family makes no difference.
"""

import equinox as eqx
import jax

import cachax
from cachax.lab import Way, derive

from ._cachax import CACHAX


class Foo(eqx.Module):
    a: jax.Array
    c: jax.Array | None = None

    @cachax.cached_property
    def b(self) -> jax.Array:
        return derive(self.a)

    @cachax.cached_method
    def power(self, n: int) -> jax.Array:
        return derive(self.a, n)


way = Way(
    Foo,
    replace=lambda foo, a: eqx.tree_at(lambda f: f.a, foo, a),
    replace_c=lambda foo, c: eqx.tree_at(lambda f: f.c, foo, c),
    **CACHAX | {"checkpoint": cachax.lift(eqx.filter_checkpoint)},
)
