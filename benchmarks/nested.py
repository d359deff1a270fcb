"""An object inside four others."""

from collections.abc import Iterator
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
from _bench import CACHAX, Case, main
from _objects import ONES, Bare, Cached, warm

import cachax


class Box(flax.struct.PyTreeNode):
    inside: Any


def boxed(obj: Any, times: int = 4) -> Any:
    return obj if times == 0 else Box(boxed(obj, times - 1))


def opened(box: Any) -> Any:
    return opened(box.inside) if isinstance(box, Box) else box


def cases(quick: bool) -> Iterator[Case]:
    total, bare, cached = jnp.sum(ONES), boxed(Bare(ONES, ONES)), boxed(warm(Cached))
    by_hand = jax.jit(lambda box, total: opened(box).y * total)
    ours = cachax.jit(lambda box: opened(box).y * opened(box).total)
    yield Case(
        "an object nested five levels deep",
        "by hand",
        {
            "by hand": lambda: by_hand(bare, total),
            CACHAX: lambda: ours(cached),
        },
        target=1.25,
    )


if __name__ == "__main__":
    main(cases)
