"""A new object on every call: its value is used once."""

import itertools
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
    ours, again = (cachax.jit(lambda o: o.y * o.total) for _ in range(2))
    arrays = itertools.cycle([ONES + i for i in range(50_000)])
    yield Case(
        "a new object of new arrays on every call, a cheap property",
        "inline",
        {
            "inline": lambda: inline(Inline(next(arrays), ONES)),
            CACHAX: lambda: ours(Cached(next(arrays), ONES)),
        },
        target=1.30,
    )
    yield Case(
        "a new object of the same arrays on every call",
        "inline",
        {
            "inline": lambda: inline(Inline(ONES, ONES)),
            CACHAX: lambda: again(Cached(ONES, ONES)),
        },
        target=1.30,
    )


if __name__ == "__main__":
    main(cases)
