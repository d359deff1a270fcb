"""cachax.cached_property, flax PyTreeNode

The value is not part of the tree. It is passed to the compiled function as an
additional input. The class is not frozen, so fields can be assigned.
"""

import flax.struct
import jax

import cachax
from cachax.lab import Way, derive

from ._cachax import CACHAX


class Foo(flax.struct.PyTreeNode, frozen=False):
    a: jax.Array
    c: jax.Array | None = None

    @cachax.cached_property
    def b(self) -> jax.Array:
        return derive(self.a)

    @cachax.cached_method
    def power(self, n: int) -> jax.Array:
        return derive(self.a, n)


way = Way(Foo, **CACHAX)
