"""What may be in a field: values are cached, and never stale."""

import dataclasses
import functools
import operator
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

import flax
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx, struct
from optax import schedules

import cachax
from cachax.lab import computations, computing

STEPS = 5


class State(struct.PyTreeNode):
    x: jax.Array
    params: jax.Array
    kind: Any = struct.field(pytree_node=False, default=None)

    @cachax.cached_property
    def total(self) -> jax.Array:
        computing("total")
        return jnp.sum(self.x)


def state(kind: Any) -> State:
    return State(jnp.ones(3), jnp.zeros(3), kind)


class Unit(str):
    """A string with its own class."""


class Metres(float):
    def __init__(self, number: float) -> None:
        self.unit = "m"


class Model(nnx.Module):
    def __init__(self) -> None:
        self.w = nnx.Param(jnp.ones(3))
        self.rate = 0.5


def closing_over(thing: Any) -> Callable[[Any], Any]:
    return lambda x: (x, thing)


class Plain:
    def __init__(self) -> None:
        self.number = 3


@dataclasses.dataclass(frozen=True)
class Config:
    activation: Any


KINDS: dict[str, Callable[[], Any]] = {
    "partial": lambda: functools.partial(jax.nn.leaky_relu, negative_slope=0.1),
    "partial in a tuple": lambda: (functools.partial(jnp.sum, axis=0), 1),
    "partial in a configuration": lambda: Config(functools.partial(jnp.sum, axis=0)),
    "Partial of JAX": lambda: jax.tree_util.Partial(jnp.sum, axis=0),
    "attrgetter": lambda: operator.attrgetter("x"),
    "type variable": lambda: TypeVar("T"),
    "generic type": lambda: Callable[[TypeVar("T")], list[int]],
    "str subclass": lambda: Unit("m"),
    "float subclass": lambda: Metres(2.5),
    "closes over a list": lambda: closing_over([1, 2]),
    "closes over a dict": lambda: closing_over({"a": 1}),
    "closes over an object": lambda: closing_over(Plain()),
    "closes over an array": lambda: closing_over(jnp.ones(2)),
    "vmap": lambda: jax.vmap(jnp.sin),
    "schedule": lambda: optax.adam(
        schedules.warmup_cosine_decay_schedule(0.0, 1.0, 10, 100)
    ),
    "mask": lambda: optax.adamw(1e-3, mask={"w": True, "b": False}),
    "hyperparameters": lambda: optax.inject_hyperparams(optax.adam)(1e-3),
}

if flax.__version__ > "0.11":  # before, it can't be copied
    KINDS["nnx graphdef"] = lambda: nnx.split(Model())[0]


@pytest.mark.parametrize("kind", KINDS)
def test_computed_once_for_an_object(kind: str) -> None:
    made = state(KINDS[kind]())
    with computations() as counts:
        first = made.total
        assert all(made.total is first for _ in range(STEPS))
    assert counts["total"] == 1


@pytest.mark.parametrize("kind", KINDS)
def test_computed_once_in_a_loop(kind: str) -> None:
    now = state(KINDS[kind]())

    @cachax.jit
    def step(now: State) -> State:
        return now.replace(params=now.params + now.total)

    with computations() as counts:
        for _ in range(STEPS):
            now = step(now)
    assert counts["total"] == 1
    assert now.params.tolist() == [3.0 * STEPS] * 3


class Scaled:
    """A plain class: its fields can be set."""

    def __init__(self, x: jax.Array, by: Any) -> None:
        self.x = x
        self.by = by

    @cachax.cached_property
    def value(self) -> Any:
        return self.x * self.by()


def change_of_a_variable() -> tuple[Callable[[], float], Callable[[], None]]:
    number = 2.0

    def change() -> None:
        nonlocal number
        number = 3.0

    return lambda: number, change


def change_of_a_dict() -> tuple[Callable[[], float], Callable[[], None]]:
    numbers = {"k": 2.0}
    return lambda: numbers["k"], lambda: numbers.update(k=3.0)


def change_of_an_object() -> tuple[Callable[[], float], Callable[[], None]]:
    thing = Plain()
    thing.number = 2
    return lambda: float(thing.number), lambda: setattr(thing, "number", 3)


def change_of_an_attribute() -> tuple[Callable[[], float], Callable[[], None]]:
    def by() -> float:
        return by.number  # type: ignore[attr-defined, no-any-return]

    by.number = 2.0  # type: ignore[attr-defined]
    return by, lambda: setattr(by, "number", 3.0)


def change_of_a_default() -> tuple[Callable[[], float], Callable[[], None]]:
    def by(number: float = 2.0) -> float:
        return number

    return by, lambda: setattr(by, "__defaults__", (3.0,))


def doubled(x: float) -> Callable[[], float]:
    return lambda: 2 * x


def tripled(x: float) -> Callable[[], float]:
    return lambda: 3 * x


def change_of_a_function_in_a_dict() -> tuple[Callable[[], float], Callable[[], None]]:
    chosen = {"now": doubled(1.0)}
    return lambda: chosen["now"](), lambda: chosen.update(now=tripled(1.0))


def change_of_a_function_in_a_list() -> tuple[Callable[[], float], Callable[[], None]]:
    functions = [doubled(1.0), tripled(1.0)]
    return lambda: functions[0](), functions.reverse


def change_of_a_function() -> tuple[Callable[[], float], Callable[[], None]]:
    function = doubled(1.0)

    def change() -> None:
        nonlocal function
        function = tripled(1.0)

    return lambda: function(), change


def change_of_a_mapped_function() -> tuple[Callable[[], float], Callable[[], None]]:
    number = jnp.ones(())
    functions = [jax.vmap(lambda x: 2 * x + 0 * number)]

    def change() -> None:
        functions[0] = jax.vmap(lambda x: 3 * x + 0 * number)

    return lambda: functions[0](jnp.ones(1))[0], change  # type: ignore[return-value]


def change_of_a_frozen_object() -> tuple[Callable[[], float], Callable[[], None]]:
    @dataclasses.dataclass(frozen=True)
    class Config:
        act: Callable[[], float]

    configs = [Config(doubled(1.0))]
    change = functools.partial(configs.__setitem__, 0, Config(tripled(1.0)))
    return lambda: configs[0].act(), change


def change_of_a_number_with_a_unit() -> tuple[Callable[[], float], Callable[[], None]]:
    lengths = {"now": Metres(2.0)}
    return lambda: float(lengths["now"]), lambda: lengths.update(now=Metres(3.0))


CHANGES = [
    change_of_a_function_in_a_dict,
    change_of_a_function_in_a_list,
    change_of_a_function,
    change_of_a_mapped_function,
    change_of_a_frozen_object,
    change_of_a_number_with_a_unit,
    change_of_a_variable,
    change_of_a_dict,
    change_of_an_object,
    change_of_an_attribute,
    change_of_a_default,
]


@pytest.mark.parametrize("make", CHANGES)
def test_a_change_in_the_closure_of_a_function_is_detected(make: Any) -> None:
    by, change = make()
    one = Scaled(jnp.ones(()), by)
    assert one.value == 2
    change()
    assert one.value == 3
    assert Scaled(one.x, by).value == 3


class Link:
    def __init__(self, x: jax.Array, parent: Any = None) -> None:
        self.x = x
        self.parent = parent

    @cachax.cached_property
    def position(self) -> jax.Array:
        is_proxy = type(self.parent) in weakref.ProxyTypes
        return self.x + (self.parent if is_proxy else self.parent()).x


@pytest.mark.parametrize("weakly", [weakref.ref, weakref.proxy])
def test_a_change_behind_a_weak_reference_is_detected(weakly: Any) -> None:
    root = Link(jnp.ones(()))
    link = Link(jnp.ones(()), weakly(root))
    assert link.position == 2
    root.x = jnp.full((), 5.0)
    assert link.position == 6
    assert Link(link.x, weakly(root)).position == 6


@pytest.mark.parametrize(
    ("numbers", "change"),
    [
        ([1.0, 2.0, 1.0], lambda numbers: numbers.__setitem__(2, 2.0)),
        ({"a": 1.0, "b": 2.0, "c": 1.0}, lambda numbers: numbers.update(c=2.0)),
    ],
)
def test_a_change_among_equal_items_is_detected(numbers: Any, change: Any) -> None:
    keys = ["a", "b", "c"] if isinstance(numbers, dict) else [0, 1, 2]
    by = lambda: sum(10**i * numbers[key] for i, key in enumerate(keys))  # noqa: E731
    one = Scaled(jnp.ones(()), by)
    assert one.value == 121
    change(numbers)
    assert one.value == 221
    assert Scaled(one.x, by).value == 221


class ComparedArray:
    """A static field with an array, as some libraries have it."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __hash__(self) -> int:
        return hash(self.value.tobytes())

    def __eq__(self, other: object) -> bool:
        assert isinstance(other, ComparedArray)
        is_same = self.value.shape == other.value.shape
        return is_same and bool((self.value == other.value).all())


@pytest.mark.parametrize("has_leaf", [True, False])
def test_a_static_field_that_compares_its_array(has_leaf: bool) -> None:
    data, meta = (["x"], ["table"]) if has_leaf else ([], ["x", "table"])

    @functools.partial(
        jax.tree_util.register_dataclass, data_fields=data, meta_fields=meta
    )
    @dataclasses.dataclass(frozen=True)
    class Index:
        x: Any
        table: Any

        @cachax.cached_property
        def total(self) -> Any:
            return self.x * self.table.value.sum()

    use = cachax.jit(lambda index: index.total + jnp.asarray(index.table.value))
    x = jnp.float32(2) if has_leaf else 2
    for numbers in ([1.0, 2.0], [3.0, 4.0], [1.0, 2.0]):
        for _ in range(2):
            index = Index(x, ComparedArray(np.array(numbers)))
            assert use(index).tolist() == [2 * sum(numbers) + n for n in numbers]
