"""A new object on every call: its value is used once."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
from _bench import CACHAX, Case, main
from _objects import ONES, Bare, Cached

import cachax


class Inline(Bare):
    @property
    def total(self) -> jax.Array:
        return jnp.sum(self.x)


def cases(quick: bool) -> Iterator[Case]:
    inline = jax.jit(lambda o: o.y * o.total)
    ours = cachax.jit(lambda o: o.y * o.total)
    yield Case(
        "a new object on every call, a cheap property",
        "inline",
        {
            "inline": lambda: inline(Inline(ONES, ONES)),
            CACHAX: lambda: ours(Cached(ONES, ONES)),
        },
        target=1.30,
    )


if __name__ == "__main__":
    main(cases)
