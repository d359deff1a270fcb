"""Law 4. Under vmap, scan, map and shard_map a property is that of the one example."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cachax

from cases import (
    PYTREES,
    A,
    B,
    close,
    fresh,
    once,
    over,
    over_chains,
    over_keys,
    read,
    reader,
    truth,
)
from devices import first_devices, shard_map
from families import FAMILIES, Family
from measure import computations

pytestmark = pytest.mark.usefixtures("no_leaks")

BATCH_A = np.stack([A, A + 1, A * 2])
BATCH_B = np.stack([B, B - 1, B * 2])


def with_scan(fun: Any, batch: Any) -> Any:
    return jax.lax.scan(lambda c, o: (c, fun(o)), 0, batch)[1]


def with_shard_map(fun: Any, batch: Any) -> Any:
    mesh = jax.sharding.Mesh(np.array(first_devices(3)), ("i",))
    spec = jax.sharding.PartitionSpec("i")

    def one_shard(shard: Any) -> Any:
        return fun(jax.tree.map(lambda x: x[0], shard))[None]

    mapped = shard_map(one_shard, mesh=mesh, in_specs=spec, out_specs=spec)
    return jax.jit(mapped)(batch)


BATCHED: dict[str, Callable[[Any, Any], Any]] = {
    "vmap": lambda f, x: jax.vmap(f)(x),
    "map": lambda f, x: jax.lax.map(f, x),
    "scan": with_scan,
    "shard_map": with_shard_map,
}


def batch_of(family: Family, *, warm: bool) -> Any:
    """Three objects in one; if warm, with values of the whole batch."""
    batch = family.make(jnp.asarray(BATCH_A), jnp.asarray(BATCH_B))
    return cachax.warm(batch) if warm else batch


def batch_truth(name: str) -> Any:
    return np.stack([truth(name, BATCH_A[i], BATCH_B[i]) for i in range(3)])


@over(PYTREES)
@over_keys(BATCHED)
def test_a_property_is_that_of_one_example(
    family: Family, warm: bool, case: str
) -> None:
    batch, name = batch_of(family, warm=warm), "scaled"
    apply = BATCHED[case]
    close(apply(reader(name), batch), batch_truth(name))
    close(cachax.jit(lambda o: apply(reader(name), o))(batch), batch_truth(name))


@over(PYTREES)
@over_keys(BATCHED)
def test_a_batch_in_a_jitted_function_is_correct(
    family: Family, warm: bool, case: str
) -> None:
    batch, name = batch_of(family, warm=warm), "jit_scaled"
    close(BATCHED[case](cachax.jit(reader(name)), batch), batch_truth(name))


@over_chains(FAMILIES)
def test_vmap_over_something_else_computes_once(family: Family, name: str) -> None:
    obj = fresh(family)
    xs = jnp.arange(4.0)
    with computations() as counts:
        got = jax.vmap(lambda x: x * read(name, obj)[0])(xs)
    close(got, np.arange(4.0) * truth(name)[0])
    assert counts == once(name)


@over_chains(PYTREES)
def test_a_warm_object_is_a_scan_carry(family: Family, name: str, warm: bool) -> None:
    obj = fresh(family, warm=warm)

    def step(o: Any, _: None) -> Any:
        return jax.tree.map(lambda x: x + 1, o), read(name, o)

    final, values = jax.lax.scan(step, obj, None, length=3)
    close(values, np.stack([truth(name, A + k, B + k) for k in range(3)]))
    close(read(name, final), truth(name, A + 3, B + 3))
