"""functools.cached_property, distrax Jittable

distrax flattens the instance `__dict__`: the value becomes a leaf, as on a chex
dataclass.
"""

import functools
from typing import Any

import distrax
import jax

from cachax.lab import Way, derive


class Foo(distrax.Bijector):
    def __init__(self, a: jax.Array, c: jax.Array | None = None) -> None:
        super().__init__(event_ndims_in=0)
        self.a = a
        self.c = c

    @functools.cached_property
    def b(self) -> jax.Array:
        return derive(self.a)

    def forward_and_log_det(self, x: Any) -> Any:
        raise NotImplementedError


way = Way(
    Foo,
    replace=lambda foo, a: Foo(a, foo.c),
    replace_c=lambda foo, c: Foo(foo.a, c),
)
