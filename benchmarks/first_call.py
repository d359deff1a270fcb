"""The first call of a function: trace and compile included."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
from _bench import CACHAX, Case, main
from _objects import ONES, Bare, Cached

import cachax


def a_function(total: Callable[..., Any]) -> Callable[..., Any]:
    """A new one each time, some thirty operations long, not compiled before."""
    number = float(next(_numbers))

    def fun(o: Any, *more: Any) -> Any:
        y = o.y + number
        for i in range(10):
            y = jnp.tanh(y * total(o, *more) + i)
        return y

    return fun


_numbers = itertools.count()


def by_hand() -> Any:
    bare = Bare(ONES, ONES)
    return jax.jit(a_function(lambda _, total: total))(bare, jnp.sum(bare.x))


def ours() -> Any:
    return cachax.jit(a_function(lambda o: o.total))(Cached(ONES, ONES))


def cases(quick: bool) -> Iterator[Case]:
    yield Case(
        "the first call, trace and compile included",
        "by hand",
        {"by hand": by_hand, CACHAX: ours},
        target=1.25,
        calls=1,
        rounds=40,
        wait=True,
    )


if __name__ == "__main__":
    main(cases)
