"""netket: property_cached(pytree_node=True)

A hand-made field that `replace` clears. The value is still a leaf: it is mapped,
batched and differentiated as if it were data.
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

    @struct.property_cached(pytree_node=True)
    def b(self) -> jax.Array:
        return derive(self.a)


way = Way(
    Foo,
    replace=lambda foo, a: foo.replace(a=a),
    replace_c=lambda foo, c: foo.replace(c=c),
)
