"""Static self: jax.jit(static_argnums=0)

The object itself reaches the traced function, with what is cached on it; its arrays are
constants of the program, and a value first computed in there is a tracer.
"""

import functools

import jax

from cachax.lab import Way, derive


class Foo:
    def __init__(self, a: jax.Array) -> None:
        self.a = a

    @functools.cached_property
    def b(self) -> jax.Array:
        return derive(self.a)


way = Way(
    Foo,
    jit=functools.partial(jax.jit, static_argnums=0),
    replace=lambda foo, a: Foo(a),
)
