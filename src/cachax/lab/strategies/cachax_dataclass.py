"""cachax.cached_property, registered dataclass

The plainest class there is, and the only thing installed is JAX.
"""

import dataclasses

import jax

import cachax
from cachax.lab import Way, derive


@dataclasses.dataclass
class Foo:
    a: jax.Array

    @cachax.cached_property
    def b(self) -> jax.Array:
        return derive(self.a)


jax.tree_util.register_dataclass(Foo, data_fields=["a"], meta_fields=[])

way = Way(Foo, jit=cachax.jit)
