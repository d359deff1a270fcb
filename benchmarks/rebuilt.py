"""An object rebuilt with another field, and one that shares nothing with any other."""

from collections.abc import Iterator

from _bench import CACHAX, Case, main
from _objects import ONES, Cached, Functools, warm


def cases(quick: bool) -> Iterator[Case]:
    cached, theirs, other = warm(Cached), warm(Functools), ONES + 1
    yield Case(
        "replace an unrelated field, then read",
        "functools",
        {
            CACHAX: lambda: cached.replace(y=other).total,
            "functools": lambda: theirs.replace(y=other).total,
            "replace alone": lambda: theirs.replace(y=other),
        },
    )
    yield Case(
        "a new object of new arrays, then read",
        "functools",
        {
            CACHAX: lambda: Cached(ONES + ONES, ONES).total,
            "functools": lambda: Functools(ONES + ONES, ONES).total,
            "the object alone": lambda: Functools(ONES + ONES, ONES),
        },
    )


if __name__ == "__main__":
    main(cases)
