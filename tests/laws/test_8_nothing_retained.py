"""Law 8. A cached value goes when its object, or what it came from, goes."""

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

import cachax
from cachax._core import memo as _memo

from cases import MUTABLE, A, fresh, over
from families import FAMILIES, Family, FlaxNode


@pytest.fixture
def no_collector() -> Iterator[None]:
    """What goes must go by itself, at once, and not when the collector comes."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@over(FAMILIES)
@pytest.mark.usefixtures("no_leaks", "no_collector")
def test_values_go_with_their_object(family: Family) -> None:
    obj = fresh(family)
    watched = [weakref.ref(obj.energy), weakref.ref(obj.scaled)]
    if family.pytree:
        cachax.jit(lambda o: o.scaled)(obj)
    assert None not in [ref() for ref in watched]
    del obj
    assert [ref() for ref in watched] == [None, None]


@over(MUTABLE)
@pytest.mark.usefixtures("no_leaks", "no_collector")
def test_a_value_goes_with_the_arrays_it_came_from(family: Family) -> None:
    obj = fresh(family)
    watched = weakref.ref(obj.scaled)
    family.assign(obj, jnp.asarray(A + 1))
    assert watched() is None


def test_ten_thousand_objects_leave_no_array() -> None:
    fun = cachax.jit(lambda o: o.scaled)
    a, b = jnp.ones(3), jnp.ones(3)
    fun(FlaxNode(a, b))
    gc.collect()
    arrays, memos = len(jax.live_arrays()), len(_memo.memos)
    for _ in range(10_000):
        fun(FlaxNode(a, b))
    assert len(jax.live_arrays()) <= arrays
    assert len(_memo.memos) <= memos


class Tree(eqx.Module):
    x: jax.Array

    @cachax.cached_property
    def around(self) -> Any:
        return {"itself": self, "twice": 2 * self.x}


@pytest.mark.usefixtures("no_collector")
def test_a_value_that_holds_its_object_goes_with_it() -> None:
    tree = Tree(jnp.ones(3))
    assert tree.around["itself"] is tree
    watched = weakref.ref(tree)
    del tree
    gc.collect()
    assert watched() is None
