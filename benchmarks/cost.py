"""What cachax costs beside the same thing by hand, measured in one run.

The contenders take turns, many times over, and the median of each is compared:
machines are noisy, and only the ratio means something. Prints Markdown.
"""

import functools
import statistics
import time
from collections.abc import Callable
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp

import cachax

ROUNDS = 400
CALLS = 20


class ByHand(flax.struct.PyTreeNode):
    x: jax.Array
    y: jax.Array


class Kept(ByHand):
    @cachax.cached_property
    def value(self) -> jax.Array:
        return jnp.sum(self.x)


class Functools(ByHand):
    @functools.cached_property
    def value(self) -> jax.Array:
        return jnp.sum(self.x)


def microseconds(*contenders: Callable[[], Any]) -> list[float]:
    """The median time of one call of each, in turns."""
    for contender in contenders:
        for _ in range(CALLS):
            contender()
    times: list[list[float]] = [[] for _ in contenders]
    for _ in range(ROUNDS):
        for contender, mine in zip(contenders, times, strict=True):
            start = time.perf_counter()
            for _ in range(CALLS):
                out = contender()
            mine.append((time.perf_counter() - start) / CALLS)
            jax.block_until_ready(out)
    return [1e6 * statistics.median(mine) for mine in times]


def row(case: str, ours: float, theirs: float, beside: str) -> str:
    return (
        f"| {case} | {ours:.2f} µs | {theirs:.2f} µs ({beside}) | {ours / theirs:.1f} |"
    )


def main() -> None:
    ones = jnp.ones(4)
    kept, by_hand = cachax.warm(Kept(ones, ones)), ByHand(ones, ones)
    theirs = Functools(ones, ones)
    fun = cachax.jit(lambda o: o.y * o.value)
    hand = jax.jit(lambda o, value: o.y * value)
    no_object, jax_jit = cachax.jit(lambda a, b: a + b), jax.jit(lambda a, b: a + b)

    print(f"JAX {jax.__version__} on {jax.devices()[0].platform}\n")
    print("| case | cachax | beside | ratio |")
    print("| --- | ---: | ---: | ---: |")
    times = microseconds(lambda: kept.value, lambda: theirs.value, lambda: ones + ones)
    print(row("read a cached property", times[0], times[1], "functools"))
    print(row("the same", times[0], times[2], "one addition in JAX"))
    times = microseconds(lambda: fun(kept), lambda: hand(by_hand, kept.value))
    print(row("call with one small object, warm", *times, "by hand"))
    times = microseconds(lambda: no_object(ones, ones), lambda: jax_jit(ones, ones))
    print(row("call without a cached object", *times, "`jax.jit`"))


if __name__ == "__main__":
    main()
