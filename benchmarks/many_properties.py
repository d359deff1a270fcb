"""One object with 20 cached properties, all of them used."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
from _bench import CACHAX, Case, main
from _objects import ONES, Bare

import cachax


def class_with(count: int) -> type:
    """Of objects like the others, with so many properties."""

    def a_property(i: int) -> cachax.cached_property[jax.Array]:
        return cachax.cached_property(lambda self: i * jnp.sum(self.x))

    return type("Many", (Bare,), {f"p{i}": a_property(i) for i in range(count)})


def cases(quick: bool, count: int = 20) -> Iterator[Case]:
    names = [f"p{i}" for i in range(count)]
    many = cachax.warm(class_with(count)(ONES, ONES))
    bare, values = Bare(ONES, ONES), [getattr(many, name) for name in names]
    by_hand = jax.jit(lambda o, values: o.y * sum(values))
    ours = cachax.jit(lambda o: o.y * sum(getattr(o, name) for name in names))
    yield Case(
        f"one object, {count} cached properties, all used",
        "by hand",
        {
            "by hand": lambda: by_hand(bare, values),
            CACHAX: lambda: ours(many),
        },
        target=1.20,
    )


if __name__ == "__main__":
    main(cases)
