"""cachax.cached_property, flax PyTreeNode

The value is kept beside the object, at the object's own trace level, and carried into
the compiled function as one more input. The class is not frozen, so fields can be
assigned.
"""

import flax.struct
import jax

import cachax
from cachax.lab import Way, derive


class Foo(flax.struct.PyTreeNode, frozen=False):
    a: jax.Array

    @cachax.cached_property
    def b(self) -> jax.Array:
        return derive(self.a)


way = Way(Foo, jit=cachax.jit)
