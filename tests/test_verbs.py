"""cached, is_cached, warm, clear, preset: on every family of classes."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest

import cachax

from cases import PYTREES, close, fresh, over, truth
from families import FAMILIES, Family
from measure import computations


@over(FAMILIES)
def test_look_fill_and_empty(family: Family) -> None:
    obj = fresh(family)
    assert cachax.cached(obj) == {}
    assert cachax.warm(obj, "scaled") is obj
    assert set(cachax.cached(obj)) == {"energy", "scaled"}
    assert cachax.is_cached(obj, "energy")
    assert not cachax.is_cached(obj, "distinct")
    with computations() as counts:
        cachax.warm(obj, "scaled")
    assert counts == {}
    cachax.clear(obj, "scaled")
    assert set(cachax.cached(obj)) == {"energy"}
    cachax.clear(obj)
    assert cachax.cached(obj) == {}
    close(obj.scaled, truth("scaled"))


@over(PYTREES)
def test_warm_fills_everything_if_nothing_is_named(family: Family) -> None:
    obj = cachax.warm(fresh(family))
    names = {"energy", "scaled", "jit_energy", "jit_scaled", "distinct"}
    assert set(cachax.cached(obj)) == names


@over(FAMILIES)
def test_preset_makes_a_copy_that_has_the_value(family: Family) -> None:
    obj = fresh(family)
    new = cachax.preset(obj, energy=jnp.float32(100))
    assert type(new) is type(obj)
    assert new is not obj
    with computations() as counts:
        close(new.scaled, 100 * truth("scaled") / truth("energy"))
        close(obj.scaled, truth("scaled"))
    assert counts == {"energy": 1, "scaled": 2}
    if family.pytree:
        close(jax.tree.leaves(new), jax.tree.leaves(obj))
        close(cachax.jit(lambda o: o.energy)(new), 100)


@over(PYTREES)
def test_preset_inside_jit_and_grad(family: Family) -> None:
    def fun(o: Any) -> Any:
        return jnp.sum(cachax.preset(o, energy=2 * o.energy).scaled)

    with jax.checking_leaks():
        obj = fresh(family)
        for wrap in (lambda f: f, jax.jit, cachax.jit):
            close(wrap(fun)(obj), 2 * truth("scaled").sum())
        expected = jax.grad(lambda o: 2 * jnp.sum(o.scaled))(obj)
        close(jax.grad(fun)(obj), expected)


class Box:
    @cachax.cached_property
    def size(self) -> int:
        return 1


def test_preset_beats_what_a_user_has_laid_in() -> None:
    box = Box()
    box.size = 2
    assert cachax.preset(box, size=3).size == 3
    assert box.size == 2


def test_clear_takes_away_what_a_user_has_laid_in() -> None:
    box = Box()
    box.size = 2
    cachax.clear(box)
    assert box.size == 1


def test_a_list_of_names_is_checked_before_anything_is_computed() -> None:
    class Box:
        @cachax.cached_property
        def size(self) -> int:
            raise AssertionError("must not run")

    with pytest.raises(cachax.UnknownPropertyError):
        cachax.warm(Box(), "size", "weight")
