"""Gaussian-process regression: predictions after the factorisation is there."""

import functools
from collections.abc import Iterator

import flax.struct
import jax
import jax.numpy as jnp
from _bench import CACHAX, Case, main

import cachax


def kernel(x: jax.Array, y: jax.Array) -> jax.Array:
    return jnp.exp(-0.5 * (x[:, None] - y[None, :]) ** 2)


def weights(gp: "Data") -> jax.Array:
    gram = kernel(gp.x, gp.x) + 1e-2 * jnp.eye(len(gp.x))
    return jax.scipy.linalg.cho_solve((jnp.linalg.cholesky(gram), True), gp.y)


class Data(flax.struct.PyTreeNode):
    x: jax.Array
    y: jax.Array


class Process(Data):
    weights = cachax.cached_property(weights)


class FunctoolsProcess(Data):
    weights = functools.cached_property(weights)


def cases(quick: bool, n: int = 1024) -> Iterator[Case]:
    x = jnp.linspace(0, 10, n)
    query = jnp.linspace(0, 10, 16)
    data, gp, theirs = (cls(x, jnp.sin(x)) for cls in (Data, Process, FunctoolsProcess))
    kept = weights(data)
    by_hand = jax.jit(lambda gp, weights, q: kernel(q, gp.x) @ weights)
    ours = cachax.jit(lambda gp, q: kernel(q, gp.x) @ gp.weights)
    under_jit = jax.jit(lambda gp, q: kernel(q, gp.x) @ gp.weights)
    contenders = {
        "by hand": lambda: by_hand(data, kept, query),
        CACHAX: lambda: ours(gp, query),
    }
    title = f"GP regression, n = {n:,}: predict after the first call"
    yield Case(title, "by hand", contenders, target=1.05, wait=True)
    contenders = {
        "functools under jax.jit": lambda: under_jit(theirs, query),
        CACHAX: lambda: ours(gp, query),
    }
    yield Case(
        title, "functools under jax.jit", contenders, calls=1, rounds=20, wait=True
    )


if __name__ == "__main__":
    main(cases)
