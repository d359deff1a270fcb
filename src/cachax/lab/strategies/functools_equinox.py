"""functools.cached_property, equinox.Module

What functools puts into the instance `__dict__` becomes part of the tree structure in
some versions of equinox: a warm object is another kind of tree than a cold one.
"""

import functools

import equinox as eqx
import jax

from cachax.lab import Way, derive


class Foo(eqx.Module):
    a: jax.Array

    @functools.cached_property
    def b(self) -> jax.Array:
        return derive(self.a)


way = Way(Foo, replace=lambda foo, a: eqx.tree_at(lambda f: f.a, foo, a))
