"""One object beside a dictionary of 1,000 arrays: the rest must not cost."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
from _bench import CACHAX, Case, main
from _objects import ONES, Bare, Cached, warm

import cachax


def cases(quick: bool) -> Iterator[Case]:
    total, bare, cached = jnp.sum(ONES), Bare(ONES, ONES), warm(Cached)
    arrays = {f"array {i}": jnp.ones(2) for i in range(1000)}
    by_hand = jax.jit(lambda o, arrays, total: o.y * total + arrays["array 0"][0])
    ours = cachax.jit(lambda o, arrays: o.y * o.total + arrays["array 0"][0])
    yield Case(
        "one object and a dict of 1,000 arrays",
        "by hand",
        {
            "by hand": lambda: by_hand(bare, arrays, total),
            CACHAX: lambda: ours(cached, arrays),
        },
        target=1.10,
        calls=10,
    )


if __name__ == "__main__":
    main(cases)
