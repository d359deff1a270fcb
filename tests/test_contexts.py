"""Values that are read with a different configuration of JAX than that of the call."""

import dataclasses
from contextlib import nullcontext
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cachax

from measure import computations, computing

if hasattr(jax, "enable_x64"):
    enable_x64 = jax.enable_x64
else:  # before 0.8
    from jax.experimental import enable_x64


def highest() -> Any:
    return jax.default_matmul_precision("highest")


def strict() -> Any:
    return jax.numpy_dtype_promotion("strict")


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Data:
    x: Any

    @cachax.cached_property
    def grid(self) -> Any:
        """Uses no array."""
        computing("grid")
        return jnp.linspace(0.0, 1.0, 3)

    @cachax.cached_property
    def gram(self) -> Any:
        computing("gram")
        return jnp.outer(self.x, self.x) @ self.x

    @cachax.cached_property
    def chain(self) -> Any:
        computing("chain")
        return self.gram + self.grid

    @cachax.cached_method
    def power(self, n: int) -> Any:
        computing("power")
        return self.x.astype(float) ** n


NAMES = ("grid", "gram", "chain", "power")


def read(data: Data, name: str) -> Any:
    return data.power(2) if name == "power" else getattr(data, name)


def dtypes(values: Any) -> list[str]:
    return [str(x.dtype) for x in values]


@pytest.mark.parametrize("name", ["grid", "power"])
def test_a_value_is_computed_for_each_context(name: str) -> None:
    def inside(data: Data) -> Any:
        with enable_x64(True):
            wide = read(data, name)
        return wide, read(data, name)

    def around(data: Data) -> Any:
        before = read(data, name)
        return before, *inside(data)

    for fun in (inside, around):
        expected = ["float32", "float64", "float32"][-len(fun(Data(jnp.ones(3)))) :]
        data = Data(jnp.ones(3))
        for each in (fun, cachax.jit(fun), cachax.jit(fun)):
            assert dtypes(each(data)) == expected
        assert dtypes(cachax.jit(fun)(Data(jnp.ones(3)))) == expected


@pytest.mark.parametrize("context", [highest, strict, nullcontext])
@pytest.mark.parametrize("name", NAMES)
def test_a_value_that_is_read_in_a_context_is_computed_once(
    name: str, context: Any
) -> None:
    @cachax.jit
    def use(data: Data, y: Any) -> Any:
        with context():
            return read(data, name) * y

    data = Data(jnp.ones(3))
    with computations() as counts:
        for i in range(10):
            use(data, float(i))
        with context():
            read(data, name)
    assert set(counts.values()) == {1}


def test_in_turn_with_the_configuration_of_the_call() -> None:
    @cachax.jit
    def step(data: Data, y: Any) -> Any:
        with highest():
            inside = data.gram
        return dataclasses.replace(data), inside + data.gram + y

    data = Data(jnp.ones(3))
    with computations() as counts:
        for i in range(10):
            data, out = step(data, float(i))
            assert out.tolist() == [6.0 + i] * 3
    assert counts == {"gram": 2}


def test_an_object_with_numpy_arrays_has_a_value_for_each_configuration() -> None:
    data = Data(np.ones(3))
    with computations() as counts:
        for _ in range(3):
            data.gram  # noqa: B018
            with highest():
                data.gram  # noqa: B018
    assert counts == {"gram": 2}
    cachax.clear(data)
    with computations() as counts:
        data.gram  # noqa: B018
        with highest():
            data.gram  # noqa: B018
    assert counts == {"gram": 2}


def test_a_function_of_static_arguments_has_a_value_for_each_configuration() -> None:
    @cachax.cache
    def thirds(n: int) -> Any:
        computing("thirds")
        return jnp.ones(n) / 3

    with computations() as counts:
        for _ in range(2):
            assert thirds(3).dtype == jnp.float32
            with enable_x64(True):
                assert thirds(3).dtype == jnp.float64
    assert counts == {"thirds": 2}


def test_how_random_numbers_are_made() -> None:
    @jax.tree_util.register_dataclass
    @dataclasses.dataclass(frozen=True)
    class Noise:
        key: Any

        @cachax.cached_property
        def noise(self) -> Any:
            return jax.random.normal(self.key, (3,))

    noise, use = Noise(jax.random.key(0)), cachax.jit(lambda obj: obj.noise * 1)
    for is_partitionable in (True, False, True):
        with jax.threefry_partitionable(is_partitionable):
            expected = jax.random.normal(jax.random.key(0), (3,))
            assert noise.noise.tolist() == use(noise).tolist() == expected.tolist()


@pytest.mark.parametrize("is_dropped", [True, False])
def test_a_value_of_its_object_in_a_context(is_dropped: bool) -> None:
    @jax.tree_util.register_pytree_node_class
    class Object:
        def __init__(self, x: Any, k: Any = (1.0,)) -> None:
            self.x, self.k = x, k

        def tree_flatten(self) -> Any:
            return ((self.x,) if is_dropped else (self.x, self.k)), None

        @classmethod
        def tree_unflatten(cls, _: Any, children: Any) -> Any:
            return cls(*children)

        @cachax.cached_property
        def scaled(self) -> Any:
            computing("scaled")
            return jnp.sum(self.x) * self.k[0]

    @cachax.jit
    def use(obj: Any) -> Any:
        with jax.default_matmul_precision("highest"):
            return obj.scaled

    kind: Any = list if is_dropped else np.array
    obj = Object(jnp.arange(3.0), kind([5.0]))
    with computations() as counts:
        assert [use(obj) for _ in range(3)] == [15, 15, 15]
    assert counts == {"scaled": 1}
    obj.k = kind([7.0])
    assert use(obj) == use(obj) == 21
