"""functools.cached_property, equinox.Module

The value is in the instance `__dict__`, as on a flax node. equinox 0.13 treats entries
that are not fields as part of the tree: a warm object has a different tree structure
than a cold one.
"""

import functools

import equinox as eqx
import jax

from cachax.lab import Way, derive


class Foo(eqx.Module):
    a: jax.Array
    c: jax.Array | None = None

    @functools.cached_property
    def b(self) -> jax.Array:
        return derive(self.a)


way = Way(
    Foo,
    replace=lambda foo, a: eqx.tree_at(lambda f: f.a, foo, a),
    replace_c=lambda foo, c: eqx.tree_at(lambda f: f.c, foo, c),
    checkpoint=eqx.filter_checkpoint,
)
