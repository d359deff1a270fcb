"""Bodies that raise, and code that catches it."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cachax


class NotDefiniteError(Exception):
    pass


def factor_of(k: Any) -> Any:
    if np.asarray(k)[0, 0] < 0:
        raise NotDefiniteError
    return jnp.sqrt(k)


def size_of(k: Any) -> int:
    if k.shape[0] == 2:
        raise NotDefiniteError
    return int(k.shape[0])


@cachax.cache
def factor_by_function(k: Any) -> Any:
    return factor_of(k)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Kernel:
    k: jax.Array

    @cachax.cached_property
    def factor(self) -> Any:
        return factor_of(self.k)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Process:
    k: jax.Array
    y: jax.Array
    kernel: Kernel

    @cachax.cached_property
    def factor(self) -> Any:
        return factor_of(self.k)

    @cachax.cached_method
    def scaled(self, n: int) -> Any:
        return n * factor_of(self.k)

    @cachax.cached_property
    def size(self) -> Any:
        return size_of(self.k)

    @cachax.cached_property
    def unnamed(self) -> Any:
        if np.asarray(self.k)[0, 0] < 0:
            raise AttributeError
        return jnp.sqrt(self.k)


WAYS = {
    "a property": lambda s: s.factor,
    "a method": lambda s: s.scaled(1),
    "a function": lambda s: factor_by_function(s.k),
    "an inner object": lambda s: s.kernel.factor,
    "an object that is made": lambda s: Kernel(s.k).factor,
    "a jitted function": lambda s: cachax.jit(lambda s: s.factor)(s),
    "a size": lambda s: s.size,
    "getattr": lambda s: (
        s.unnamed if getattr(s, "unnamed", None) is not None else _raise()
    ),
}


def _raise() -> Any:
    raise NotDefiniteError


def made(k: Any, y: Any) -> Process:
    return Process(k, y, Kernel(k))


@pytest.mark.parametrize("first", ["good", "bad"])
@pytest.mark.parametrize("way", WAYS)
def test_a_body_that_catches_the_error_of_a_value(way: str, first: str) -> None:
    read = WAYS[way]

    @jax.tree_util.register_dataclass
    @dataclasses.dataclass(frozen=True)
    class Solving(Process):
        @cachax.cached_property
        def weights(self) -> Any:
            try:
                return jnp.sum(read(self)) + jnp.sum(self.y)
            except NotDefiniteError:
                return jnp.sum(self.y)

    y = jnp.ones(3)
    n_bad = 2 if way == "a size" else 3
    kinds = {"good": 4 * jnp.eye(3), "bad": -jnp.eye(n_bad)}
    expected = {"good": 6 if way == "a size" else 9, "bad": 3}
    order = [first, *({*kinds} - {first}), first]
    for kind in order:
        new = Solving(kinds[kind] + 0, y, Kernel(kinds[kind] + 0))
        assert new.weights == expected[kind], kind
        assert cachax.jit(lambda s: s.weights)(new) == expected[kind], kind


def test_a_jitted_function_that_catches_an_error_which_depends_on_contents() -> None:
    """As under `jax.jit`, the body runs in the trace then, and says that it can't."""

    @cachax.jit
    def solve(process: Any) -> Any:
        try:
            return jnp.sum(process.factor)
        except NotDefiniteError:
            return jnp.float32(0)

    y = jnp.ones(3)
    with pytest.raises(jax.errors.TracerArrayConversionError):
        solve(made(-jnp.eye(3), y))
    assert solve(made(4 * jnp.eye(3), y)) == 6
    with pytest.raises(NotDefiniteError):
        solve(made(-jnp.eye(3), y))
    assert solve(made(4 * jnp.eye(3), y)) == 6


def test_a_jitted_function_that_catches_an_error_which_depends_on_a_shape() -> None:
    @cachax.jit
    def solve(process: Any) -> Any:
        try:
            return jnp.sum(process.y) * process.size
        except NotDefiniteError:
            return jnp.sum(process.y)

    for n in (2, 3, 2, 4, 2):
        expected = 3 if n == 2 else 3 * n
        for _ in range(2):
            assert solve(made(jnp.eye(n), jnp.ones(3))) == expected
