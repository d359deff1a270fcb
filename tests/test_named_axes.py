"""Bodies that use the named axes of `vmap` and `shard_map`, and those that don't.

Each program is run with a plain property under `jax.jit`, and with cachax.
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

import cachax
from cachax.lab import computations, computing

from devices import first_devices, shard_map

COUNT = 2


def shards(fun: Any) -> Any:
    mesh = Mesh(first_devices(COUNT), ("i",))
    return shard_map(fun, mesh=mesh, in_specs=P("i"), out_specs=P("i"))


mapped = partial(jax.vmap, axis_name="i")


def over_the_axis(x: Any) -> Any:
    return x - jax.lax.pmean(x, "i")


def over_an_axis_if_there_is_one(x: Any) -> Any:
    try:
        return jax.lax.pmean(x, "i")
    except NameError:
        return x


def with_a_constant(x: Any) -> Any:
    return 2 * x


def state_of(prop: Any, body: Callable[[Any], Any]) -> Any:
    @jax.tree_util.register_dataclass
    @dataclasses.dataclass(frozen=True)
    class State:
        x: jax.Array

        @prop
        def value(self) -> Any:
            return body(self.x)

    return State


def twice(jit: Any, across: Any, cls: Any) -> Any:
    use = jit(lambda s: s.value + 1)
    one, other = cls(jnp.arange(2.0)), cls(jnp.arange(2.0) ** 2 + 3)
    return across(use)(one), across(use)(other), across(use)(one)


def in_two_programs(jit: Any, across: Any, cls: Any) -> Any:
    use = jit(lambda s: s.value + 1)
    one = cls(jnp.arange(2.0))
    train = jax.jit(across(lambda s: 3 * use(s)))
    test = jit(across(lambda s: 5 * use(s)))
    return train(one), test(one), across(use)(one)


def of_a_new_object(jit: Any, across: Any, cls: Any) -> Any:
    use = jit(lambda s: s.value + 1)
    return jax.jit(across(lambda s: use(s) + use(cls(s.x + 1))))(cls(jnp.arange(2.0)))


def differentiated(jit: Any, across: Any, cls: Any) -> Any:
    use = jit(lambda s: s.value**2)
    return jax.grad(lambda s: across(use)(s).sum())(cls(jnp.arange(2.0))).x


def in_a_loop(jit: Any, across: Any, cls: Any) -> Any:
    def sums(s: Any) -> Any:
        return jax.lax.fori_loop(0, 3, lambda i, c: c + s.value, s.x)

    return jax.jit(across(sums))(cls(jnp.arange(2.0)))


def in_a_gradient(jit: Any, across: Any, cls: Any) -> Any:
    def gradient(s: Any) -> Any:
        return jax.grad(lambda w: jnp.sum(w * s.value))(s.x)

    return jit(across(gradient))(cls(jnp.arange(2.0)))


PROGRAMS = [
    twice,
    in_two_programs,
    of_a_new_object,
    differentiated,
    in_a_loop,
    in_a_gradient,
]
needs_parents = pytest.mark.skipif(
    jax.__version_info__ < (0, 5), reason="JAX doesn't say which trace jit is in"
)
BODIES = [
    over_the_axis,
    pytest.param(over_an_axis_if_there_is_one, marks=needs_parents),
    with_a_constant,
]


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("across", [mapped, shards])
def test_the_value_is_that_of_a_plain_property(
    program: Any, body: Any, across: Any
) -> None:
    plain = program(jax.jit, across, state_of(property, body))
    ours = program(cachax.jit, across, state_of(cachax.cached_property, body))
    for expected, got in zip(*map(jax.tree.leaves, (plain, ours)), strict=True):
        assert got.tolist() == expected.tolist()


@needs_parents
@pytest.mark.parametrize("body", [with_a_constant, over_the_axis])
def test_computed_once_in_a_loop_in_shard_map(body: Any) -> None:
    def counted(x: Any) -> Any:
        computing("value")
        return body(x)

    cls = state_of(cachax.cached_property, counted)
    with computations() as counts:
        in_a_loop(cachax.jit, shards, cls)
    assert counts["value"] == COUNT  # once on each device
