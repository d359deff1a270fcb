"""How often a "cached" value is computed: three ways of caching, four orders.

A derived value is read from an object (`foo.b`) and from inside a jitted function
(`use(foo)`), each time on a new object. Every computation that really happens is
counted by a callback at run time.
"""

import functools
from collections.abc import Callable
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp

import cachax

computed = 0


def count() -> None:
    global computed
    computed += 1


class Functools(flax.struct.PyTreeNode):
    a: jax.Array

    @functools.cached_property
    @jax.jit
    def b(self) -> jax.Array:
        jax.debug.callback(count)
        return jnp.sum(self.a)


class HandMade(flax.struct.PyTreeNode, frozen=False):
    a: jax.Array
    cache: jax.Array | None = None

    @property
    def b(self) -> jax.Array:
        if self.cache is None:
            jax.debug.callback(count)
            self.cache = jnp.sum(self.a)
        return self.cache


class Cachax(flax.struct.PyTreeNode):
    a: jax.Array

    @cachax.cached_property
    def b(self) -> jax.Array:
        jax.debug.callback(count)
        return jnp.sum(self.a)


WAYS = {
    "functools.cached_property, jax.jit": (Functools, jax.jit),
    "a hand-made cache field, jax.jit": (HandMade, jax.jit),
    "cachax.cached_property, cachax.jit": (Cachax, cachax.jit),
}
ORDERS = ["foo.b, foo.b", "foo.b, use(foo)", "use(foo), use(foo)", "use(foo), foo.b"]


def read(foo: Any) -> jax.Array:
    return foo.b


def computations(cls: Any, use: Callable[[Any], Any], order: str) -> int:
    """How often the value of one new object is computed in this order."""
    jax.effects_barrier()
    before = computed
    foo = cls(a=jnp.ones((3, 3)))
    for access in order.split(", "):
        value = use(foo) if access == "use(foo)" else foo.b
        assert value == 9, value
    jax.effects_barrier()
    return computed - before


def table() -> str:
    """One row for each way, as Markdown."""
    rows = [["computations of `b`", *(f"`{order}`" for order in ORDERS)]]
    rows += [["---", *("---:" for _ in ORDERS)]]
    for way, (cls, jit) in WAYS.items():
        use = jit(read)
        rows += [[way, *(str(computations(cls, use, order)) for order in ORDERS)]]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "| " + " | ".join(map(str.ljust, row, widths)) + " |" for row in rows
    )


if __name__ == "__main__":
    print(f"JAX {jax.__version__}, cachax {cachax.__version__}\n")
    print(table())
