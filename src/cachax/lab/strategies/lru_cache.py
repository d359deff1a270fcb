"""functools.lru_cache on a method

One table for the whole class, with the object as its key: it keeps the last 128 objects
alive, traced ones too, and does not detect that an object has changed.
"""

import dataclasses
import functools

import jax

from cachax.lab import Way, derive


@dataclasses.dataclass(eq=False)  # else it has no hash, and lru_cache refuses it
class Foo:
    a: jax.Array
    c: jax.Array | None = None

    @functools.lru_cache  # noqa: B019 (what this file shows)
    def computed_b(self) -> jax.Array:
        return derive(self.a)

    @functools.lru_cache  # noqa: B019
    def power(self, n: int) -> jax.Array:
        return derive(self.a, n)


jax.tree_util.register_dataclass(Foo, data_fields=["a", "c"], meta_fields=[])

way = Way(
    Foo,
    b=lambda foo: foo.computed_b(),
    power=lambda foo, n: foo.power(n),
    function=functools.lru_cache,
)
