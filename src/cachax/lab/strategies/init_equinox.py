"""Computed in __init__ into a field, equinox.Module

Always there, and a leaf like any other: right until the field it came from is replaced,
mapped or optimized.
"""

import equinox as eqx
import jax

from cachax.lab import Way, derive


class Foo(eqx.Module):
    a: jax.Array
    b: jax.Array

    def __init__(self, a: jax.Array) -> None:
        self.a = a
        self.b = derive(a)


way = Way(
    Foo,
    new_batch=jax.vmap(Foo),
    replace=lambda foo, a: eqx.tree_at(lambda f: f.a, foo, a),
)
