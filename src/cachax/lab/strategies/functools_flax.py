"""functools.cached_property, flax PyTreeNode

The value is in the instance `__dict__`. JAX rebuilds the object from its fields at
every jit boundary, without the `__dict__`. A tracer that is stored there stays there.
"""

import functools

import flax.struct
import jax

from cachax.lab import Way, derive


class Foo(flax.struct.PyTreeNode):
    a: jax.Array
    c: jax.Array | None = None

    @functools.cached_property
    def b(self) -> jax.Array:
        return derive(self.a)


way = Way(Foo)
