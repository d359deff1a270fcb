"""Functions that a body makes and JAX calls later: callbacks, rules, cached helpers."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.custom_batching import custom_vmap

import cachax


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Scaled:
    """Its value is that of a function made in the body, which reads `scale`."""

    x: jax.Array
    scale: Any
    other: Any
    make: Callable[[Any], Any] = dataclasses.field(metadata={"static": True})

    @cachax.cached_property
    def value(self) -> Any:
        return self.make(self)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Plain:
    x: jax.Array
    scale: Any
    other: Any
    make: Callable[[Any], Any] = dataclasses.field(metadata={"static": True})

    @property
    def value(self) -> Any:
        return self.make(self)


def with_callback(obj: Any) -> Any:
    def host(x: Any) -> Any:
        return np.asarray(x) * np.asarray(obj.scale)

    product = obj.x
    for _ in range(20):  # it is still running when the body returns
        product = product + jnp.tile(obj.x, 20_000)[: len(obj.x)] * 0
    return jax.pure_callback(
        host, jax.ShapeDtypeStruct(obj.x.shape, "float32"), product
    )


def with_jvp(obj: Any) -> Any:
    @jax.custom_jvp
    def same(x: Any) -> Any:
        return x * 1.0

    same.defjvp(lambda x, t: (x[0] * 1.0, -obj.scale * t[0]))
    return same(obj.x)


def with_vjp(obj: Any) -> Any:
    @jax.custom_vjp
    def same(x: Any) -> Any:
        return x * 1.0

    same.defvjp(lambda x: (x * 1.0, None), lambda _, t: (-obj.scale * t,))
    return same(obj.x)


def with_vmap(obj: Any) -> Any:
    @custom_vmap
    def scaled(x: Any) -> Any:
        return x * obj.scale

    @scaled.def_vmap
    def _(size: Any, batched: Any, x: Any) -> Any:
        return x * obj.scale, True

    return scaled(obj.x)


def with_callback_in_jit(obj: Any) -> Any:
    def host(x: Any) -> Any:
        return np.asarray(x) * np.asarray(obj.scale)

    result = jax.ShapeDtypeStruct(obj.x.shape, "float32")
    return jax.jit(lambda x: jax.pure_callback(host, result, x))(obj.x)


def with_callback_for_each(obj: Any) -> Any:
    def host(x: Any) -> Any:
        return np.float32(np.asarray(x) * np.asarray(obj.scale))

    def one(x: Any) -> Any:
        result = jax.ShapeDtypeStruct((), "float32")
        return jax.pure_callback(host, result, x, vmap_method="sequential")

    return jax.vmap(one)(obj.x)


CALLBACKS = (with_callback, with_callback_in_jit, with_callback_for_each)
MADE = {f.__name__: f for f in (*CALLBACKS, with_jvp, with_vjp, with_vmap)}
TWO, THREE = jnp.float32(2), jnp.float32(3)
SCALES = {"arrays": (TWO, THREE), "numbers": (2.0, 3.0)}
X = jnp.ones(3)


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
@pytest.mark.parametrize("scales", SCALES.values(), ids=SCALES)
def test_what_it_reads_later_counts(make: Any, scales: Any) -> None:
    for _ in range(2):
        for scale in scales:
            expected = Plain(X, scale, X, make).value.tolist()
            obj = Scaled(X, scale, X, make)
            assert obj.value.tolist() == expected
            assert cachax.jit(lambda o: o.value + 0)(obj).tolist() == expected


def with_rule_inside(wrap: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def make(obj: Any) -> Any:
        @jax.custom_vjp
        def same(x: Any) -> Any:
            return x * 1.0

        same.defvjp(lambda x: (x * 1.0, None), lambda _, t: (-obj.scale * t,))
        return wrap(same)(obj.x)

    return make


def scanned(fun: Any) -> Any:
    return lambda x: jax.lax.scan(lambda c, v: (c, fun(v)), 0.0, x)[1]


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def with_cotangent(fun: Any, x: Any) -> Any:
    return x * 1.0


with_cotangent.defvjp(lambda fun, x: (x * 1.0, None), lambda fun, _, t: (fun(t),))

RULES = {
    "jvp": with_jvp,
    "vjp": with_vjp,
    "in jit": with_rule_inside(jax.jit),
    "in checkpoint": with_rule_inside(jax.checkpoint),
    "in scan": with_rule_inside(scanned),
    "not differentiated": lambda o: with_cotangent(lambda t: -t * o.scale, o.x),
}


@pytest.mark.parametrize("make", RULES.values(), ids=RULES)
@pytest.mark.parametrize("scales", SCALES.values(), ids=SCALES)
def test_derivatives_of_what_it_reads_later(make: Any, scales: Any) -> None:
    def slope(cls: Any, jit: Any) -> Any:
        def total(x: Any) -> Any:
            return sum(jnp.sum(cls(x, scale, x, make).value) for scale in scales)

        return jax.grad(jit(total))(X).tolist()

    assert slope(Scaled, cachax.jit) == slope(Plain, jax.jit) == [-5, -5, -5]
    for scale in scales:
        assert Scaled(X, scale, X, make).value.tolist() == [1, 1, 1]
    assert slope(Scaled, cachax.jit) == [-5, -5, -5]


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_the_derivative_with_respect_to_a_different_field(make: Any) -> None:
    def slope(cls: Any, x: Any) -> Any:
        def total(y: Any) -> Any:
            return jnp.sum(cls(x, TWO, y, make).value * y)

        return jax.grad(total)(X)

    assert slope(Scaled, X).tolist() == slope(Plain, X).tolist()
    if make in (*CALLBACKS, with_vmap):  # which have no derivative
        return
    both = jax.grad(lambda x: jnp.sum(cachax.jit(functools.partial(slope, Scaled))(x)))
    plain = jax.grad(lambda x: jnp.sum(jax.jit(functools.partial(slope, Plain))(x)))
    assert both(X).tolist() == plain(X).tolist()


def test_helpers_that_keep_arrays() -> None:
    """What doesn't depend on the object is an ordinary array, however a body runs."""

    @functools.lru_cache  # noqa: CX204 (that is the test)
    def grid(n: Any) -> Any:
        return jnp.linspace(0.0, 1.0, n)

    @jax.tree_util.register_dataclass
    @dataclasses.dataclass(frozen=True)
    class Histogram:
        x: jax.Array
        y: jax.Array
        n: int = dataclasses.field(default=5, metadata={"static": True})

        @cachax.cached_property
        def counts(self) -> Any:
            return jnp.searchsorted(grid(self.n), self.x)

    x = jnp.array([0.2, 0.8])
    for n in (5, 9, 3):
        assert (
            Histogram(x, x, n).counts.tolist() == np.searchsorted(grid(n), x).tolist()
        )

    def total(y: Any) -> Any:
        return jnp.sum(Histogram(x, y, 7).counts * y)

    assert jax.grad(total)(x).tolist() == [2, 5]
    cachax.preset(Histogram(x, x, 11), counts=jnp.array([1, 2]))
    for n in (5, 9, 3, 7, 11):
        assert (grid(n) + 1).shape == (n,)
