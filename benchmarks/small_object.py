"""One small object, one cached number: what a warm call costs, every way."""

import os
from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from _bench import CACHAX, Case, main
from _objects import ONES, Bare, Cached, Equinox, Field, Functools, Nnx, warm
from flax import nnx

import cachax


def netket() -> dict[str, Callable[[], Any]]:
    """netket's property_cached, where netket is installed."""
    os.environ["NETKET_ENABLE_X64"] = "0"  # else all that follows has other numbers
    try:
        from netket.utils import struct
    except ImportError:
        return {}

    class Netket(struct.Pytree):
        x: jax.Array
        y: jax.Array

        def __init__(self, x: jax.Array, y: jax.Array) -> None:
            self.x, self.y = x, y

        @struct.property_cached(pytree_node=True)
        def total(self) -> jax.Array:
            return jnp.sum(self.x)

    obj, fun = warm(Netket), jax.jit(lambda o: o.y * o.total)
    return {"netket property_cached": lambda: fun(obj)}


def cases(quick: bool) -> Iterator[Case]:
    beside = (
        netket()
    )  # first: it sets options of JAX, and what is compiled before is slow
    total = jnp.sum(ONES)
    bare, cached = Bare(ONES, ONES), warm(Cached)
    functools_, field = warm(Functools), warm(Field)
    module, model = Equinox(ONES, ONES), Nnx(ONES, ONES)
    by_hand = jax.jit(lambda o, total: o.y * total)
    ours = cachax.jit(lambda o: o.y * o.total)
    read = jax.jit(lambda o: o.y * o.total)
    filtered = eqx.filter_jit(lambda o, total: o.y * total)
    nnx_jitted = nnx.jit(lambda o: o.y[...] * o.kept[...])
    two = {
        "by hand": lambda: by_hand(bare, total),
        CACHAX: lambda: ours(cached),
    }
    yield Case("one small object, one cached scalar", "by hand", two, target=1.20)
    yield Case(
        "the same, measured with other approaches",
        "by hand",
        {
            **two,
            "functools under jax.jit": lambda: read(functools_),
            "hand-made field": lambda: read(field),
            "equinox.filter_jit by hand": lambda: filtered(module, total),
            "nnx.jit with nnx.Cache": lambda: nnx_jitted(model),
            **beside,
        },
    )


if __name__ == "__main__":
    main(cases)
