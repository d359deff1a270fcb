"""cached, is_cached, warm, clear, preset: on every family of classes."""

from dataclasses import dataclass
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


def test_preset_takes_precedence_over_a_stored_value() -> None:
    box = Box()
    box.size = 2
    assert cachax.preset(box, size=3).size == 3
    assert box.size == 2


def test_clear_removes_a_stored_value() -> None:
    box = Box()
    box.size = 2
    cachax.clear(box)
    assert box.size == 1


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Solver:
    x: Any

    @cachax.cached_property
    def solve(self) -> Any:
        """Of no use as an argument of a program: it is made inside."""
        twice = 2 * self.x
        return lambda y: y * twice


def test_a_preset_value_may_travel_where_others_cannot() -> None:
    fun = cachax.jit(lambda s, y: s.solve(y))
    among = cachax.jit(lambda some, y: [s.solve(y) for s in some])
    solver, y = Solver(jnp.float32(3.0)), jnp.float32(9.0)
    for _ in range(3):
        assert fun(solver, y) == among([solver], y)[0] == 54
    other = cachax.preset(solver, solve=jnp.sqrt)
    for _ in range(3):
        assert fun(other, y) == other.solve(y) == 3
        assert fun(solver, y) == 54
        assert among([solver, other, solver], y) == [54, 3, 54]
        assert among([other], y) == [3]
        assert among([solver], y) == [54]


FORMS: dict[str, Any] = {
    "a second argument": lambda f, s: (f(s), f(s, jnp.float32(1.0)))[1],
    "a keyword": lambda f, s: (f(s), f(s, y=jnp.float32(1.0)))[1],
    "a shape": lambda f, s: (f(s, jnp.ones(2)), f(s, jnp.float32(1.0)))[1],
    "a list": lambda f, s: (f([s]), f([s], jnp.float32(1.0)))[1],
}


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_a_preset_value_that_some_calls_do_not_use(form: str, nested: bool) -> None:
    def body(s: Any, y: Any = None) -> Any:
        (s,) = s if isinstance(s, list) else (s,)
        return s.solve(y) if y is not None and y.ndim == 0 else s.x

    inner = cachax.jit(body)
    fun = cachax.jit(lambda s, y=None: inner(s, y)) if nested else inner
    solver = Solver(jnp.float32(3.0))
    for _ in range(3):
        assert FORMS[form](fun, solver) == 6
    other = cachax.preset(solver, solve=lambda y: 200 * y)
    for _ in range(3):
        assert FORMS[form](fun, other) == 200
        assert FORMS[form](fun, solver) == 6


def test_an_assigned_value_may_be_a_function() -> None:
    @jax.tree_util.register_dataclass
    @dataclass
    class Open:
        x: Any
        solve = cachax.cached_property(Solver.solve.func)

    fun = cachax.jit(lambda s, y: s.solve(y))
    solvers = [Open(jnp.float32(3.0)) for _ in range(2)]
    for _ in range(3):
        assert [fun(s, 9.0) for s in solvers] == [54, 54]
    solvers[0].solve = jnp.sqrt
    for _ in range(3):
        assert [fun(s, 9.0) for s in solvers] == [3, 54]


def test_a_list_of_names_is_checked_before_anything_is_computed() -> None:
    class Box:
        @cachax.cached_property
        def size(self) -> int:
            raise AssertionError("must not run")

    with pytest.raises(cachax.UnknownPropertyError):
        cachax.warm(Box(), "size", "weight")
