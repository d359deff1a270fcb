"""numpyro: lazy_property

Like functools, except that a tracer is never stored: nothing leaks, and a value that
was computed in a trace is lost afterwards.
"""

from typing import Any

import jax
from numpyro.distributions import Distribution, constraints
from numpyro.distributions.util import lazy_property

from cachax.lab import Way, derive


class Foo(Distribution):
    arg_constraints = {"a": constraints.real_vector}
    pytree_data_fields = ("a", "c")

    def __init__(
        self, a: jax.Array, c: jax.Array | None = None, **options: Any
    ) -> None:
        self.a = a
        self.c = c
        super().__init__(event_shape=a.shape, **options)

    @lazy_property
    def b(self) -> jax.Array:
        return derive(self.a)


way = Way(
    Foo,
    replace=lambda foo, a: Foo(a, foo.c),
    replace_c=lambda foo, c: Foo(foo.a, c),
)
