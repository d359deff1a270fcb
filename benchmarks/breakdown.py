"""Where the time of a warm call goes: its parts, each by itself."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
from _bench import CACHAX, Case, Result, measure
from _objects import ONES, Bare, Cached, warm

import cachax


class Nothing:
    def __call__(self, first=None, second=None, /, *rest, **kwargs):
        return first


def cases() -> Iterator[Case]:
    cached, bare, total = warm(Cached), Bare(ONES, ONES), jnp.sum(ONES)
    ours = cachax.jit(lambda o: o.y * o.total)
    for _ in range(3):
        ours(cached)
    shelf, nothing = ours._shelf, Nothing()
    holds, values, _, program = shelf[id(cached)]
    by_hand = jax.jit(lambda o, total: o.y * total)
    parts = {
        "by hand: all that JAX does": lambda: by_hand(bare, total),
        "to be called, in Python, at all": lambda: nothing(cached),
        "to find the values of this object": lambda: shelf.get(id(cached)),
        "to see that its two fields are the same": lambda: holds(cached),
        "JAX, with the values as one more argument": lambda: program(values, cached),
    }
    for name, part in parts.items():
        yield Case(name, name, {CACHAX: lambda: ours(cached), name: part}, rounds=50)


def lines(results: list[Result]) -> Iterator[str]:
    yield "| part | time | of a warm call |"
    yield "| --- | ---: | ---: |"
    for r in results:
        part = r.microseconds[r.over]
        yield f"| {r.title} | {part:.2f} µs | {100 / r.ratio:.0f}% |"


def table() -> list[str]:
    return list(lines([measure(case) for case in cases()]))


if __name__ == "__main__":
    print("\n".join(table()))
