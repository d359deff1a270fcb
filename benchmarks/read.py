"""Reading a cached property outside jit."""

from collections.abc import Iterator

from _bench import CACHAX, Case, main
from _objects import ONES, Cached, Functools, warm


def cases(quick: bool) -> Iterator[Case]:
    cached, theirs = warm(Cached), warm(Functools)
    contenders = {
        CACHAX: lambda: cached.total,
        "functools": lambda: theirs.total,
        "one addition in JAX": lambda: ONES + ONES,
    }
    for over in ("functools", "one addition in JAX"):
        yield Case("reading a cached property", over, contenders, calls=200)


if __name__ == "__main__":
    main(cases)
