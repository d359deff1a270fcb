"""cachax.cached_property, registered dataclass

A plain class. Only JAX is installed.
"""

import dataclasses

import jax

import cachax
from cachax.lab import Way, derive

from ._cachax import CACHAX


@dataclasses.dataclass
class Foo:
    a: jax.Array
    c: jax.Array | None = None

    @cachax.cached_property
    def b(self) -> jax.Array:
        return derive(self.a)

    @cachax.cached_method
    def power(self, n: int) -> jax.Array:
        return derive(self.a, n)


jax.tree_util.register_dataclass(Foo, data_fields=["a", "c"], meta_fields=[])

way = Way(Foo, **CACHAX)
