"""Objects that a function changes, and values of classes that compute when rebuilt."""

import dataclasses
import gc
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import pytest

import cachax

from cases import MUTABLE_PYTREES, B, close, fresh, over
from families import Family, array
from measure import compilations, computations, computing


@over(MUTABLE_PYTREES)
@pytest.mark.parametrize("name", ["energy", "power"])
def test_a_value_that_is_read_after_an_assignment(family: Family, name: str) -> None:
    """It doesn't use what was assigned: it is that of the argument."""

    def read(obj: Any) -> Any:
        return obj.power(2) if name == "power" else obj.energy

    @cachax.jit
    def step(obj: Any) -> Any:
        before = read(obj)
        if hasattr(obj.b, "set_value") or hasattr(obj.b, "value"):
            obj.b.value = array(obj.b) + 1
        else:
            obj.b = obj.b + 1
        return obj, before, read(obj)

    obj = fresh(family)
    expected = read(fresh(family))
    with computations() as counts:
        for i in range(1, 6):
            obj, before, after = step(obj)
            close(before, expected)
            close(after, expected)
            close(obj.b, B + i)
    assert counts[name] == 1


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Loose:
    x: Any
    y: Any

    @cachax.cached_property
    def total(self) -> Any:
        computing("total")
        return jnp.sum(self.x)


def test_an_assignment_to_what_a_value_uses() -> None:
    @cachax.jit
    def step(obj: Loose) -> Any:
        x, obj.x = obj.x, obj.y
        swapped = obj.total
        obj.x = x
        return swapped, obj.total

    obj = Loose(jnp.ones(2), jnp.full(2, 3.0))
    for _ in range(3):
        assert step(obj) == (6, 2)
    assert obj.total == 2


class Gaussian(flax.struct.PyTreeNode):
    """Flax runs `__post_init__` when it rebuilds an object."""

    mean: Any
    covariance: Any

    def __post_init__(self) -> None:
        if hasattr(self.covariance, "dtype"):
            symmetric = (self.covariance + self.covariance.T) / 2
            object.__setattr__(self, "covariance", symmetric)


class Filter(flax.struct.PyTreeNode):
    prior: Any
    noise: Any

    @cachax.cached_property
    def predicted(self) -> Any:
        covariance = self.prior.covariance + self.noise * jnp.eye(2)
        return Gaussian(self.prior.mean * 0.9, covariance)


def distance(filtered: Filter, z: Any) -> Any:
    predicted = filtered.predicted
    rest = z - predicted.mean
    return rest @ jnp.linalg.solve(predicted.covariance, rest)


def test_a_value_that_computes_when_it_is_rebuilt() -> None:
    def results(distance: Any) -> Any:
        filtered = Filter(Gaussian(jnp.ones(2), jnp.eye(2)), jnp.float32(0.1))
        z = jnp.arange(2.0)
        slope = jax.grad(distance)(filtered, z)
        here = distance(filtered, z)
        noises = jnp.array([0.1, 0.2])
        many = jax.vmap(lambda n: distance(filtered.replace(noise=n), z))(noises)
        return slope.noise, slope.prior.mean, here, many

    close(results(cachax.jit(distance)), results(distance))


def test_nothing_is_retained_of_a_value_that_computes_when_it_is_rebuilt() -> None:
    use = cachax.jit(distance)

    def call() -> None:
        filtered = Filter(Gaussian(jnp.ones(2), jnp.eye(2)), jnp.float32(0.1))
        use(filtered, jnp.arange(2.0)), use(filtered, jnp.arange(2.0))

    call()
    gc.collect()
    before = len(jax.live_arrays())
    for _ in range(3):
        call()
    gc.collect()
    assert len(jax.live_arrays()) <= before


def test_objects_of_many_shapes_in_turn_are_compiled_once_each() -> None:
    sizes = range(2, 72)
    use = cachax.jit(lambda obj, y: obj.total * y)
    objects = [cachax.warm(Loose(jnp.ones(n), jnp.ones(2))) for n in sizes]
    for obj in objects:
        use(obj, 1.0)
    with compilations() as compiled:
        for _ in range(2):
            for obj in objects:
                use(obj, 1.0)
    assert compiled == []


@pytest.mark.parametrize("is_argument", [True, False])
def test_each_object_has_its_own_list(is_argument: bool) -> None:
    @jax.tree_util.register_dataclass
    @dataclasses.dataclass(frozen=True)
    class Summed:
        x: Any
        y: Any

        @cachax.cached_property
        def parts(self) -> Any:
            computing("parts")
            return [jnp.sum(self.x)]

    @cachax.jit
    def use(obj: Any) -> Any:
        one = obj if is_argument else dataclasses.replace(obj, y=obj.y + 1)
        other = dataclasses.replace(obj, y=obj.y + 2)
        one.parts.append(obj.y)
        return sum(other.parts), sum(one.parts)

    with computations() as counts:
        obj = Summed(jnp.ones(3), jnp.float32(5))
        for _ in range(2):
            assert use(obj) == (3, 8)
        assert len(obj.parts) == 1
    assert counts == {"parts": 1}


def test_a_value_that_the_function_changes() -> None:
    """It comes out as the body returned it, also of new objects."""

    @jax.tree_util.register_dataclass
    @dataclasses.dataclass
    class Part:
        z: Any

        @cachax.cached_property
        def doubled(self) -> Any:
            return self.z * 2

    @jax.tree_util.register_dataclass
    @dataclasses.dataclass(frozen=True)
    class Terms:
        x: Any
        y: Any

        @cachax.cached_property
        def terms(self) -> Any:
            return {"a": self.x * 2}

        @cachax.cached_property
        def part(self) -> Any:
            return Part(self.x * 3)

    @cachax.jit
    def use(obj: Any) -> Any:
        new = Terms(obj.x + 1, obj.y)
        results = []
        for each in (obj, new):
            each.terms["b"] = each.terms["a"] * 100
            each.part.z = each.part.z * 100
            rebuilt = dataclasses.replace(each, y=each.y + 2).part
            results.append((rebuilt.z, rebuilt.doubled))
        return new, Terms(new.x, obj.y + 1), results

    for _ in range(12):
        obj = Terms(jnp.float32(1), jnp.float32(1))
        new, other, results = use(obj)
        assert results == [(3, 6), (6, 12)]
        assert (obj.terms, obj.part.z) == ({"a": 2}, 3)
        for each in (new, other):
            assert (each.terms, each.part.z) == ({"a": 4}, 6)


def adds(params: Any) -> Any:
    params["new"] = params["a"] * 2
    return params


def takes(params: Any) -> Any:
    return params.pop("a") + params["b"]


def logs(state: Any) -> Any:
    state.log.append(state.x * 2)
    return state


def drops(state: Any) -> Any:
    state.log = None
    return state


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Logging:
    x: Any
    log: Any


@pytest.mark.parametrize("fun", [adds, takes, logs, drops])
def test_a_function_that_adds_to_its_arguments_or_takes_from_them(fun: Any) -> None:
    def argument() -> Any:
        one = jnp.ones(2)
        is_dict = fun in (adds, takes)
        return {"a": one, "b": 2 * one} if is_dict else Logging(one, [3 * one])

    expected, jitted = jax.jit(fun)(argument()), cachax.jit(fun)
    for _ in range(3):
        out = jitted(argument())
        assert jax.tree.structure(out) == jax.tree.structure(expected)
        assert all(
            map(jnp.array_equal, jax.tree.leaves(out), jax.tree.leaves(expected))
        )
