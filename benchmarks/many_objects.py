"""A list of 200 objects, one cached value each."""

from collections.abc import Iterator

import jax
from _bench import CACHAX, Case, main
from _objects import ONES, Bare, Cached, warm

import cachax


def cases(quick: bool, count: int = 200) -> Iterator[Case]:
    cached = [warm(Cached, ONES, ONES + i) for i in range(count)]
    bare = [Bare(o.x, o.y) for o in cached]
    totals = [o.total for o in cached]
    by_hand = jax.jit(lambda os, totals: os[0].y * totals[0] + os[-1].y * totals[-1])

    @cachax.jit
    def ours(objects):
        totals = [o.total for o in objects]
        return objects[0].y * totals[0] + objects[-1].y * totals[-1]

    yield Case(
        f"a list of {count} objects, a cached value each",
        "by hand",
        {
            "by hand": lambda: by_hand(bare, totals),
            CACHAX: lambda: ours(cached),
        },
        target=1.25,
        calls=10,
    )


if __name__ == "__main__":
    main(cases)
