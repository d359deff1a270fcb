"""Computed in __init__ into a field, equinox.Module

Always available, and an ordinary leaf: correct until the field it came from is
replaced, mapped or optimized. The argument of a method is not known in `__init__`.
"""

import equinox as eqx
import jax

from cachax.lab import Way, derive


class Foo(eqx.Module):
    a: jax.Array
    b: jax.Array
    c: jax.Array | None

    def __init__(self, a: jax.Array, c: jax.Array | None = None) -> None:
        self.a = a
        self.b = derive(a)
        self.c = c


way = Way(
    Foo,
    new_batch=jax.vmap(Foo),
    replace=lambda foo, a: eqx.tree_at(lambda f: f.a, foo, a),
    replace_c=lambda foo, c: eqx.tree_at(lambda f: f.c, foo, c),
    checkpoint=eqx.filter_checkpoint,
)
