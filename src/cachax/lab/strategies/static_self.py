"""Static self: jax.jit(static_argnums=0)

The traced function gets the object itself, with its cached values. The arrays are
constants of the program, and a value that is first computed inside is a tracer.
"""

import functools

import jax

from cachax.lab import Way, derive


class Foo:
    def __init__(self, a: jax.Array, c: jax.Array | None = None) -> None:
        self.a = a
        self.c = c

    @functools.cached_property
    def b(self) -> jax.Array:
        return derive(self.a)

    @functools.lru_cache  # noqa: B019 (as functools has it)
    def power(self, n: int) -> jax.Array:
        return derive(self.a, n)


way = Way(
    Foo,
    power=lambda foo, n: foo.power(n),
    function=functools.lru_cache,
    jit=functools.partial(jax.jit, static_argnums=0),
    checkpoint=functools.partial(jax.checkpoint, static_argnums=0),
    replace=lambda foo, a: Foo(a, foo.c),
    replace_c=lambda foo, c: Foo(foo.a, c),
)
