"""No object with cached values among the arguments: `cachax.jit` as `jax.jit`."""

from collections.abc import Iterator

import jax
from _bench import CACHAX, Case, main
from _objects import ONES

import cachax


def cases(quick: bool) -> Iterator[Case]:
    theirs, ours = jax.jit(lambda a, b: a + b), cachax.jit(lambda a, b: a + b)
    yield Case(
        "no cached object: two arrays",
        "jax.jit",
        {
            "jax.jit": lambda: theirs(ONES, ONES),
            CACHAX: lambda: ours(ONES, ONES),
        },
        target=1.10,
    )
    tree = {"a": ONES, "b": [ONES, ONES]}
    theirs_, ours_ = jax.jit(lambda t: t["a"]), cachax.jit(lambda t: t["a"])
    yield Case(
        "no cached object: a dict of arrays",
        "jax.jit",
        {
            "jax.jit": lambda: theirs_(tree),
            CACHAX: lambda: ours_(tree),
        },
        target=1.10,
    )


if __name__ == "__main__":
    main(cases)
