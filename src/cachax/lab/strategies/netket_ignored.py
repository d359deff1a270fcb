"""netket: property_cached(pytree_ignore=True)

The value is on the object and not in the tree: never stale, and dropped at every jit
boundary.
"""

import jax
from netket.utils import struct

from cachax.lab import Way, derive


class Foo(struct.Pytree):
    a: jax.Array
    c: jax.Array | None

    def __init__(self, a: jax.Array, c: jax.Array | None = None) -> None:
        self.a = a
        self.c = c

    @struct.property_cached(pytree_ignore=True)
    def b(self) -> jax.Array:
        return derive(self.a)


way = Way(
    Foo,
    replace=lambda foo, a: foo.replace(a=a),
    replace_c=lambda foo, c: foo.replace(c=c),
)
