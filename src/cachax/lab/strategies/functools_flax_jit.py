"""functools.cached_property over jax.jit, flax PyTreeNode

Scenario 1 of the published experiment. The body is compiled, and runs at every call.
"""

import functools

import flax.struct
import jax

from cachax.lab import Way, derive


class Foo(flax.struct.PyTreeNode):
    a: jax.Array
    c: jax.Array | None = None

    @functools.cached_property
    @jax.jit
    def b(self) -> jax.Array:
        return derive(self.a)


way = Way(Foo)
