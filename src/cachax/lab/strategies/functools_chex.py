"""functools.cached_property, chex.dataclass

chex flattens the instance `__dict__` and rebuilds the declared fields: the value goes
in as an additional leaf and does not come out. A warm object has a different tree
structure than a cold one.
"""

import functools

import chex
import jax

from cachax.lab import Way, derive


@chex.dataclass
class Foo:
    a: jax.Array
    c: jax.Array | None = None

    @functools.cached_property
    def b(self) -> jax.Array:
        return derive(self.a)


way = Way(lambda a, c=None: Foo(a=a, c=c))
