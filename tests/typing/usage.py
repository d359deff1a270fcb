"""Checked by mypy, never run: what a type checker sees of cachax."""

from dataclasses import dataclass
from functools import partial
from typing import assert_type

import jax

import cachax


@dataclass(frozen=True)
class Process:
    x: jax.Array

    @cachax.cached_property
    def factor(self) -> jax.Array:
        return self.x

    @cachax.cached_property
    def size(self) -> int:
        return len(self.x)

    @cachax.cached_method
    def moment(self, n: int) -> jax.Array:
        return self.x**n

    @cachax.cached_method(maxsize=3)
    def bounded(self, n: int) -> int:
        return n

    @cachax.jit
    def predict(self, query: jax.Array, *, noise: float = 0.0) -> jax.Array:
        return query


@cachax.jit
def bare(process: Process, query: jax.Array) -> tuple[jax.Array, int]:
    return process.factor, process.size


@cachax.jit(static_argnames="k")
def with_options(process: Process, k: int) -> Process:
    return process


@partial(cachax.jit, static_argnames="k")
def through_partial(process: Process, k: int) -> Process:
    return process


@cachax.lift(jax.checkpoint)
def lifted(process: Process, k: int) -> Process:
    return process


def check(process: Process) -> None:
    assert_type(lifted(process, 3), Process)
    assert_type(process.factor, jax.Array)
    assert_type(process.size, int)
    assert_type(process.moment(3), jax.Array)
    assert_type(process.bounded(n=3), int)
    process.moment("no number")  # type: ignore[arg-type]
    assert_type(Process.size, cachax.cached_property[int])
    assert_type(bare(process, process.x), tuple[jax.Array, int])
    assert_type(with_options(process, 3), Process)
    assert_type(process.predict(process.x, noise=1.0), jax.Array)
    assert_type(cachax.warm(process), Process)
    assert_type(cachax.preset(process, size=3), Process)
    assert_type(cachax.cached(process)["size"], object)  # type: ignore[assert-type]
    bare(process, "no array")  # type: ignore[arg-type]
    process.predict()  # type: ignore[call-arg]
    process.predict(process.x, noise="none")  # type: ignore[arg-type]
