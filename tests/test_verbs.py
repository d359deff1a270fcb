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


@jax.tree_util.register_dataclass
@dataclass
class Two:
    x: Any
    y: Any

    @cachax.cached_property
    def a(self) -> Any:
        return self.x + 1

    @cachax.cached_property
    def b(self) -> Any:
        return self.x + 2


def of_both(two: Two) -> Any:
    return two.a + 100 * two.b


def test_a_second_preset_value_of_an_object_with_the_same_arrays() -> None:
    plain = Two(jnp.zeros(2), jnp.float32(0))  # of which a copy gets the smaller one
    fun, ones = cachax.jit(lambda o: of_both(o)), jnp.ones(2)
    cachax.preset(plain, a=3 * ones, b=5 * ones)
    one = cachax.preset(plain, a=10 * ones)
    objects = [
        one,
        cachax.preset(plain, a=20 * ones, b=7 * ones),
        cachax.preset(one, b=7 * ones),
        plain,
    ]
    for obj, expected in zip(objects, [210, 720, 710, 201], strict=True):
        for _ in range(3):
            assert fun(obj)[0] == of_both(obj)[0] == expected


def test_what_was_preset_outside_is_kept_by_preset_inside_jit() -> None:
    two = cachax.preset(Two(jnp.float32(0), jnp.float32(0)), a=jnp.float32(10))

    def with_b(two: Two) -> Any:
        return cachax.preset(two, b=jnp.float32(20))

    assert of_both(with_b(two)) == 2010
    for _ in range(3):
        assert cachax.jit(lambda two: of_both(with_b(two)))(two) == 2010
        assert of_both(cachax.jit(with_b)(two)) == 2010


def test_preset_inside_jit_of_objects_with_and_without_preset_values() -> None:
    two = Two(jnp.float32(0), jnp.float32(0))
    fun = cachax.jit(lambda two: of_both(cachax.preset(two, b=jnp.float32(20))))
    for _ in range(3):
        assert fun(two) == 2001
        assert fun(cachax.preset(two, a=jnp.float32(10))) == 2010


def test_what_was_preset_is_kept_when_a_different_property_is_assigned() -> None:
    two = cachax.preset(Two(jnp.float32(0), jnp.float32(0)), a=jnp.float32(10))
    outer = cachax.preset(Two(two, jnp.float32(0)), a=jnp.float32(50))
    fun = cachax.jit(lambda two: of_both(two))
    for b in (20, 30):
        two.b = jnp.float32(b)
        assert fun(two) == of_both(two) == 100 * b + 10
        assert outer.a == 50
    two.a = jnp.float32(1)
    assert fun(two) == of_both(two) == 3001
    two.x = jnp.float32(5)
    del two.b
    assert fun(two) == of_both(two) == 701


def test_what_was_preset_is_gone_when_a_field_is_assigned() -> None:
    two = cachax.preset(Two(jnp.float32(0), jnp.float32(0)), a=jnp.float32(10))
    fun = cachax.jit(lambda two: of_both(two))
    assert fun(two) == of_both(two) == 210
    two.x = jnp.float32(5)
    assert fun(two) == of_both(two) == 706


def test_a_list_of_names_is_checked_before_anything_is_computed() -> None:
    class Box:
        @cachax.cached_property
        def size(self) -> int:
            raise AssertionError("must not run")

    with pytest.raises(cachax.UnknownPropertyError):
        cachax.warm(Box(), "size", "weight")


def test_clear_leaves_a_field_that_has_the_name_of_a_property_elsewhere() -> None:
    @jax.tree_util.register_dataclass
    @dataclass(frozen=True)
    class Layer:
        w: jax.Array

        @cachax.cached_property
        def scale(self) -> Any:
            return jnp.sum(self.w)

    @jax.tree_util.register_dataclass
    @dataclass(frozen=True)
    class Model:
        layer: Layer
        scale: float

        @cachax.cached_property
        def scaled(self) -> Any:
            return self.layer.w * self.scale

    model = Model(Layer(jnp.ones(2)), 10.0)
    assert model.layer.scale == 2
    assert model.scaled[0] == 10
    assert set(cachax.cached(model)) == {"scaled"}
    cachax.clear(model)
    assert model.scale == 10
    assert model.scaled[0] == 10
    assert cachax.is_cached(model.layer, "scale")
