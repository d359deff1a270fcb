"""Functions and objects as arguments of cached methods and functions."""

import dataclasses
import functools
import itertools
import weakref
from collections.abc import Callable
from typing import Any

import attrs
import jax
import jax.numpy as jnp
import pytest
from flax import struct

import cachax
from cachax.lab import computations, computing


class Mesh(struct.PyTreeNode):
    x: jax.Array

    @cachax.cached_method
    def integrate(self, fun: Any) -> Any:
        computing("integral")
        return jnp.sum(fun(self.x))

    @cachax.cached_method
    def scaled(self, by: Any) -> Any:
        return self.x * by.number


@cachax.cache
def integral(mesh: Mesh, fun: Any) -> Any:
    computing("integral")
    return jnp.sum(fun(mesh.x))


INTEGRALS = [lambda mesh, fun: mesh.integrate(fun), integral]


def mesh(*numbers: float) -> Mesh:
    return Mesh(jnp.array(numbers))


@pytest.mark.parametrize("integrate", INTEGRALS)
@pytest.mark.parametrize("jit", [lambda f: f, cachax.jit])
def test_lambdas_in_a_loop(integrate: Any, jit: Any) -> None:
    """They have one variable, which changes."""

    def integrals(one: Mesh) -> list[float]:
        found = []
        for k in (1.0, 2.0, 3.0):
            found.append(float(jit(lambda m: integrate(m, lambda v: v**k))(one)))  # noqa: B023
        return found

    one, other = mesh(1, 2), mesh(1, 3)
    assert integrals(one) == [3, 5, 9]
    assert integrals(other) == [4, 10, 28]
    assert integrals(one) == [3, 5, 9]


@pytest.mark.parametrize("integrate", INTEGRALS)
def test_equal_functions_are_one_argument(integrate: Any) -> None:
    one = mesh(1, 2)
    with computations() as counts:
        for _ in range(3):
            assert integrate(one, lambda v: v**2) == 5
    assert counts["integral"] == 1


class Newton:
    """A class of which every object is different."""

    def __init__(self, steps: int = 3) -> None:
        self.steps = steps

    def __call__(self, x: jax.Array) -> jax.Array:
        return x * self.steps


WEIGHTS = jnp.array([1.0, 10.0])
OPTIONS = {"by": 2.0}
COUNTER = itertools.count()

MADE_INSIDE: dict[str, tuple[Callable[[], Any], float]] = {
    "object": (Newton, 9),
    "over an array": (lambda: lambda v: v * WEIGHTS, 21),
    "over a dict": (lambda: lambda v: v * OPTIONS["by"], 6),
    "over an object": (lambda: (lambda n: lambda v: n(v))(Newton()), 9),
    "jitted": (lambda: jax.jit(lambda v: 2 * v), 6),
    "vmapped": (lambda: jax.vmap(lambda v: 2 * v), 6),
    "partial": (lambda: functools.partial(jnp.multiply, 2), 6),
    "counter": (lambda: functools.partial(lambda n, v: 2 * v, next(COUNTER)), 6),
}


@pytest.mark.parametrize("kind", MADE_INSIDE)
def test_an_argument_made_inside_a_jitted_function(kind: str) -> None:
    """A trace makes a new one each time."""
    make, expected = MADE_INSIDE[kind]
    use = cachax.jit(lambda m: m.integrate(make()))
    one = mesh(1, 2)
    with computations() as counts:
        for _ in range(4):
            assert use(one) == expected
    assert counts["integral"] < 20


@pytest.mark.parametrize("kind", MADE_INSIDE)
def test_an_argument_made_inside_a_jitted_body(kind: str) -> None:
    make, expected = MADE_INSIDE[kind]

    class Energy(struct.PyTreeNode):
        mesh: Mesh

        @cachax.cached_property
        @jax.jit
        def value(self) -> Any:
            return self.mesh.integrate(make())

    assert Energy(mesh(1, 2)).value == expected
    assert cachax.jit(lambda e: e.value)(Energy(mesh(1, 2))) == expected


def test_a_change_of_an_argument_is_detected() -> None:
    one, options = mesh(1, 2), {"by": 2.0}
    newton = Newton(2)

    def by_options(v: Any) -> Any:
        return v * options["by"]

    def by_newton(v: Any) -> Any:
        return v * newton.steps

    arguments = [by_options, by_newton, newton, newton.__call__]
    assert [one.integrate(fun) for fun in arguments] == [6, 6, 6, 6]
    assert [one.integrate(fun) for fun in arguments] == [6, 6, 6, 6]
    options["by"], newton.steps = 3.0, 3
    assert [one.integrate(fun) for fun in arguments] == [9, 9, 9, 9]


def test_a_function_is_computed_with_its_closure() -> None:
    """A function that was compiled for one argument meets a new object after the
    argument has changed."""
    newton = Newton(2)
    use = cachax.jit(lambda m: m.integrate(newton))
    assert use(mesh(1, 2)) == 6
    newton.steps = 3
    assert use(mesh(1, 2)) in (6, 9)  # as with jax.jit, or the newest
    assert mesh(1, 2).integrate(newton) == 9


class Charged(struct.PyTreeNode):
    mesh: Mesh
    charge: jax.Array

    @cachax.cached_property
    def energy(self) -> Any:
        return self.mesh.integrate(lambda v: v * self.charge)

    @cachax.cached_property
    def by_method(self) -> Any:
        return self.mesh.integrate(self.density)

    def density(self, v: Any) -> Any:
        return v * self.charge


@pytest.mark.parametrize("name", ["energy", "by_method"])
@pytest.mark.parametrize("jit", [lambda f: f, cachax.jit, jax.jit])
def test_a_function_over_the_object_of_a_body(name: str, jit: Any) -> None:
    shared = mesh(1, 2)
    use = jit(lambda c: getattr(c, name))
    found = [use(Charged(shared, jnp.float32(k))) for k in (2, 3, 4)]
    assert found == [6, 9, 12]
    gradient = jax.grad(lambda k: use(Charged(shared, k)))(2.0)
    assert gradient == 3


class Fitted(struct.PyTreeNode):
    x: jax.Array
    fun: Any = struct.field(pytree_node=False)

    @cachax.cached_property
    def value(self) -> Any:
        return jnp.sum(self.fun(self.x))


TRANSFORMS: list[Callable[[Any], Any]] = [
    lambda f: jax.grad(f)(2.0),
    lambda f: jax.jit(f)(2.0),
    lambda f: cachax.jit(f)(2.0),
    lambda f: jax.vmap(f)(jnp.array([2.0, 3.0])).tolist(),
    lambda f: jax.lax.scan(lambda c, w: (c, f(w)), 0, jnp.array([2.0]))[1].tolist(),
]


@pytest.mark.parametrize("apply", TRANSFORMS)
def test_a_function_in_a_field_closes_over_a_tracer(apply: Any) -> None:
    x = jnp.array([1.0, 2.0])
    plain = apply(lambda w: jnp.sum(x**w))
    assert apply(lambda w: Fitted(x, lambda v: v**w).value) == plain
    assert apply(lambda w: integral(Mesh(x), lambda v: v**w)) == plain
    assert apply(lambda w: Mesh(x).integrate(lambda v: v**w)) == plain


def test_a_function_over_a_tracer_is_not_kept() -> None:
    use = cachax.jit(lambda m, k: m.integrate(lambda v: v * k))
    with jax.checking_leaks():
        assert use(mesh(1, 2), 2.0) == 6
    assert use(mesh(1, 2), 3.0) == 9


@attrs.frozen
class Options:
    number: float


@dataclasses.dataclass(frozen=True)
class ThreeNumbers:
    first: float
    number: float
    last: float


def test_numbers_in_arguments_are_distinguished() -> None:
    one = Mesh(jnp.array([1, 2]))
    assert one.scaled(Options(2)).dtype == jnp.int32
    assert one.scaled(Options(2.0)).dtype == jnp.float32
    assert one.scaled(ThreeNumbers(1.0, 1, 1)).dtype == jnp.int32
    assert one.scaled(ThreeNumbers(1.0, 1.0, 1)).dtype == jnp.float32


@cachax.cache
def table(n: int) -> Any:
    import numpy as np

    return np.arange(n)


def test_a_numpy_value_of_a_function_of_numbers_can_be_written_to() -> None:
    first = table(3)
    first[0] = 100
    assert table(3).tolist() == [0, 1, 2]


@dataclasses.dataclass(frozen=True)
class Power:
    n: int

    def __call__(self, x: jax.Array) -> jax.Array:
        return x**self.n


def test_frozen_objects_are_compared_by_value() -> None:
    one = mesh(1, 2)
    with computations() as counts:
        assert [one.integrate(Power(2)) for _ in range(3)] == [5] * 3
        assert [cachax.jit(lambda m: m.integrate(Power(2)))(one)] == [5]
    assert counts["integral"] == 1


def test_a_function_over_its_object_does_not_keep_it() -> None:
    def integrated() -> Any:
        charged = Charged(mesh(1, 2), jnp.float32(3))
        assert charged.mesh.integrate(lambda v: v * charged.charge) == 9
        return weakref.ref(charged.mesh.x)

    assert [array() for array in (integrated(), integrated())] == [None, None]


def test_a_value_is_not_kept_if_a_variable_of_its_argument_has_changed() -> None:
    """Another thread may change it meanwhile."""
    one, k = mesh(1, 2), 2.0

    def scaled(v: Any) -> Any:
        nonlocal k
        now, k = k, 3.0
        return v * now

    assert one.integrate(scaled) == 6
    assert Mesh.integrate.keys_kept(one) == []
    assert one.integrate(scaled) == 9
    assert len(Mesh.integrate.keys_kept(one)) == 1
    k = 2.0
    assert one.integrate(scaled) == 6
