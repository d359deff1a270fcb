"""functools.cached_property, registered dataclass

As on a flax node. The class is not frozen: the old value stays in the `__dict__` after
an assignment to a field.
"""

import dataclasses
import functools

import jax

from cachax.lab import Way, derive


@dataclasses.dataclass
class Foo:
    a: jax.Array
    c: jax.Array | None = None

    @functools.cached_property
    def b(self) -> jax.Array:
        return derive(self.a)


jax.tree_util.register_dataclass(Foo, data_fields=["a", "c"], meta_fields=[])

way = Way(Foo)
