"""The same programs with cachax, and with plain properties under `jax.jit`."""

import contextlib
import dataclasses
import gc
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import cachax

ROWS, COLUMNS = 8, 4


class World:
    """What a scenario uses: a class of global objects, and functions of them."""

    def __init__(self, is_cached: bool) -> None:
        self.is_cached = is_cached
        self.may_read_alone = is_cached
        """A plain property is computed by every read: it hangs in one process."""
        self.rank = jax.process_index()
        self.mesh = Mesh(np.array(jax.devices()), ("d",))
        self.rows, self.everywhere = (
            NamedSharding(self.mesh, P("d")),
            NamedSharding(self.mesh, P()),
        )
        self.jit: Callable[..., Any] = cachax.jit if is_cached else jax.jit
        self.State = self._state()
        self._arrays = 0

    def _state(self) -> Any:
        prop: Any = cachax.cached_property if self.is_cached else property
        method: Any = cachax.cached_method if self.is_cached else lambda fun: fun

        @jax.tree_util.register_dataclass
        @dataclasses.dataclass(frozen=True)
        class State:
            x: jax.Array
            w: jax.Array
            scale: int = dataclasses.field(default=1, metadata={"static": True})

            @prop
            def factor(self) -> Any:
                eye = jnp.eye(self.x.shape[1])
                return jnp.linalg.cholesky(self.x.T @ self.x + self.scale * eye)

            @prop
            def mean(self) -> Any:
                return self.scale * jnp.mean(self.x)

            @prop
            def total(self) -> Any:
                """A message between processes as long as that of `mean`."""
                return jnp.sum(self.x * self.x)

            @prop
            def spread(self) -> Any:
                """One program with two messages, or two programs with one each."""
                return _moments(self.x)

            @prop
            def every_second(self) -> Any:
                """A different sharding if the operation is run as it is."""
                return self.x[::2] + self.mean

            @prop
            def solution(self) -> Any:
                return jax.scipy.linalg.cho_solve((self.factor, True), self.w)

            @method
            def power(self, n: int) -> Any:
                return jnp.sum(self.x**n)

            @prop
            def grid(self) -> Any:
                """Uses no array."""
                return jnp.linspace(0.0, self.scale, 5)

        return State

    def array(self) -> jax.Array:
        """A new global array; the same in all processes."""
        self._arrays += 1
        rng = np.random.default_rng(self._arrays)
        numbers = rng.normal(size=(ROWS, COLUMNS)).astype(np.float32)
        return jax.make_array_from_callback(
            numbers.shape, self.rows, numbers.__getitem__
        )

    def vector(self) -> jax.Array:
        self._arrays += 1
        numbers = np.random.default_rng(self._arrays).normal(size=COLUMNS)
        numbers = numbers.astype(np.float32)
        return jax.make_array_from_callback(
            numbers.shape, self.everywhere, numbers.__getitem__
        )

    def state(self, scale: int = 1) -> Any:
        return self.State(self.array(), self.vector(), scale)

    def local(self, seed: int = 0, scale: int = 1) -> Any:
        """An object of this process alone, of the same shapes."""
        rng = np.random.default_rng(seed)
        x, w = rng.normal(size=(ROWS, COLUMNS)), rng.normal(size=COLUMNS)
        return self.State(jnp.float32(x), jnp.float32(w), scale)

    def step(self, **options: Any) -> Callable[..., Any]:
        """A step of training, which returns the data as they are."""

        def step(s: Any, rate: Any) -> Any:
            return dataclasses.replace(s, w=s.w - rate * (s.w - s.solution) / s.mean)

        return self.jit(step, **options)

    def use(self) -> Callable[..., Any]:
        def use(s: Any) -> Any:
            return s.x @ s.solution + s.total

        return self.jit(use)

    def every_second(self, s: Any) -> Any:
        """As a plain property it has a different sharding, outside of `jax.jit`."""
        return s.every_second if self.is_cached else _every_second(s)

    def recording(self, is_on: bool) -> Any:
        return cachax.record() if is_on and self.is_cached else contextlib.nullcontext()


_every_second = jax.jit(lambda s: s.every_second)
_inline = jax.jit(lambda x: (jnp.sum(x), jnp.sum(x * x)), inline=True)


def _moments(x: Any) -> Any:
    first, second = _inline(x)
    return second - first * first


def local_part(x: Any) -> list[Any]:
    """What this process has of an array."""
    shards = getattr(x, "addressable_shards", None)
    if shards is None:
        return np.asarray(x).tolist()
    return [np.asarray(shard.data).tolist() for shard in shards]


@contextlib.contextmanager
def no_collector(is_on: bool) -> Iterator[None]:
    """Garbage stays where it is."""
    if is_on:
        gc.disable()
    try:
        yield
    finally:
        gc.enable()
