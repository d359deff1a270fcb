"""Law 1. For one object a body runs at most once, however it is reached."""

import threading
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import cachax

from cases import PYTREES, close, fresh, once, over, over_chains, read, reader, truth
from families import FAMILIES, Family
from measure import computations

pytestmark = pytest.mark.usefixtures("no_leaks")


@over_chains(PYTREES)
@pytest.mark.parametrize("order", ["read read", "read jit", "jit jit", "jit read"])
def test_each_order_of_access_computes_once(
    family: Family, name: str, order: str
) -> None:
    obj = fresh(family)
    readers = {"read": reader(name), "jit": cachax.jit(reader(name))}
    with computations() as counts:
        for access in order.split():
            close(readers[access](obj), truth(name))
    assert counts == once(name)


@over_chains(FAMILIES)
def test_reading_twice_computes_once(family: Family, name: str) -> None:
    obj = fresh(family)
    with computations() as counts:
        close(read(name, obj), truth(name))
        close(read(name, obj), truth(name))
    assert counts == once(name)


@over_chains(PYTREES)
def test_several_jitted_functions_compute_once(family: Family, name: str) -> None:
    obj = fresh(family)
    with computations() as counts:
        for factor in (1.0, 2.0, 3.0):
            fun = cachax.jit(lambda o, k=factor: read(name, o) * k)
            close(fun(obj), truth(name) * factor)
    assert counts == once(name)


@over_chains(FAMILIES)
def test_a_loop_over_a_closed_over_object_computes_once(
    family: Family, name: str
) -> None:
    obj = fresh(family)

    @jax.jit
    def loop(x: jax.Array) -> jax.Array:
        return jax.lax.fori_loop(0, 5, lambda _, c: c + read(name, obj)[0], x)

    with computations() as counts:
        close(loop(jnp.float32(0)), 5 * truth(name)[0])
        loop(jnp.float32(1))
    assert counts == once(name)


@over_chains(PYTREES)
def test_a_loop_over_an_argument_computes_once(family: Family, name: str) -> None:
    obj = fresh(family)

    @cachax.jit
    def loop(o: Any, x: jax.Array) -> jax.Array:
        return jax.lax.fori_loop(0, 5, lambda _, c: c + read(name, o)[0], x)

    with computations() as counts:
        close(loop(obj, jnp.float32(0)), 5 * truth(name)[0])
        loop(obj, jnp.float32(1))
    assert counts == once(name)


@over(PYTREES)
def test_a_host_only_body_runs_once_inside_jit(family: Family) -> None:
    obj = fresh(family)
    zeros = cachax.jit(lambda o: jnp.zeros(o.distinct))
    with computations() as counts:
        assert zeros(obj).shape == (3,)
        assert zeros(obj).shape == (3,)
        assert obj.distinct == 3
    assert counts == {"distinct": 1}


@over_chains(PYTREES)
def test_a_returned_object_comes_out_warm(family: Family, name: str) -> None:
    @cachax.jit
    def doubled(o: Any) -> Any:
        new = jax.tree.map(lambda x: 2 * x, o)
        return new, read(name, new)

    with computations() as counts:
        new, value = doubled(fresh(family))
        assert cachax.is_cached(new, name)
        close(read(name, new), value)
    assert counts == once(name)


def in_threads(task: Callable[[], Any], number: int = 8) -> list[Any]:
    start = threading.Barrier(number)
    results: list[Any] = []

    def run() -> None:
        start.wait()
        results.append(task())

    threads = [threading.Thread(target=run, daemon=True) for _ in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert len(results) == number
    return results


@over_chains(FAMILIES)
def test_eight_threads_compute_once(family: Family, name: str) -> None:
    obj = fresh(family)
    with computations() as counts:
        for value in in_threads(lambda: read(name, obj)):
            close(value, truth(name))
    assert counts == once(name)


@over_chains(PYTREES)
def test_eight_threads_through_jit_compute_once(family: Family, name: str) -> None:
    obj = fresh(family)
    fun = cachax.jit(lambda o: read(name, o) + 1)
    with computations() as counts:
        for value in in_threads(lambda: fun(obj)):
            close(value, truth(name) + 1)
    assert counts == once(name)
