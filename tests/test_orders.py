"""The order of a dictionary in a field: JAX sorts it, and a body may see it."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from flax import struct

import cachax

from measure import computations, computing

ONE, TWO, THREE = jnp.float32(1), jnp.float32(2), jnp.float32(3)

SEES: dict[str, Callable[[Any], Any]] = {
    "the first": lambda parts: next(iter(parts.values())),
    "the middle": lambda parts: [*parts.values()][1],
    "its name": lambda parts: float("abc".index(next(iter(parts)))),
    "all": lambda parts: jnp.stack([*parts.values()]) @ jnp.array([1.0, 10.0, 100.0]),
}


@pytest.mark.parametrize("see", SEES.values(), ids=SEES)
def test_a_body_that_sees_the_order(see: Callable[[Any], Any]) -> None:
    """Whatever was called before, a function gets the value of the object given."""

    class Parts(struct.PyTreeNode):
        parts: dict[str, Any]
        x: Any

        @cachax.cached_property
        def value(self) -> Any:
            return see(self.parts) * self.x

    use = cachax.jit(lambda obj: obj.value + 0)
    back = cachax.jit(lambda obj: obj)
    parts = {"a": ONE, "b": TWO, "c": THREE}
    for _ in range(2):
        for order in ("abc", "cba", "bca", "abc", "cba"):
            obj = Parts({name: parts[name] for name in order}, ONE)
            assert use(obj) == obj.value == see(obj.parts)
            assert back(obj).value == see(parts)  # sorted


def test_a_loop_with_a_dictionary_that_is_not_sorted() -> None:
    @jax.tree_util.register_dataclass
    @dataclasses.dataclass(frozen=True)
    class State:
        data: dict[str, Any]
        params: Any

        @cachax.cached_property
        def factor(self) -> Any:
            computing("factor")
            return jnp.linalg.cholesky(self.data["x"]) * self.data["scale"]

    @cachax.jit
    def step(state: Any) -> Any:
        params = state.params - state.factor @ state.params
        return dataclasses.replace(state, params=params)

    state = State({"x": jnp.eye(3), "scale": ONE}, jnp.ones(3))
    with computations() as counts:
        for _ in range(10):
            state = step(state)
    assert counts == {"factor": 1}


@pytest.mark.parametrize("see", SEES.values(), ids=SEES)
def test_an_object_rebuilt_inside_has_the_sorted_dictionary(
    see: Callable[[Any], Any],
) -> None:
    class Parts(struct.PyTreeNode):
        parts: dict[str, Any]
        x: Any

        @cachax.cached_property
        def value(self) -> Any:
            return see(self.parts)

    @cachax.jit
    def use(obj: Any) -> Any:
        return obj.replace(x=obj.x + 1).value + 0, obj.value + 0

    @cachax.jit
    def use_itself_first(obj: Any) -> Any:
        return obj.value + 0, obj.replace(x=obj.x + 1).value + 0

    parts = {"a": ONE, "b": TWO, "c": THREE}
    for order in ("bca", "abc", "cab"):
        obj = Parts({name: parts[name] for name in order}, ONE)
        for _ in range(2):
            assert use(obj) == (see(parts), see(obj.parts))
            assert use_itself_first(obj) == (see(obj.parts), see(parts))


def test_an_order_that_makes_no_difference_to_an_object_rebuilt_inside() -> None:
    class Parts(struct.PyTreeNode):
        parts: dict[str, Any]
        x: Any

        @cachax.cached_property
        def factor(self) -> Any:
            computing("factor")
            return jnp.linalg.cholesky(self.parts["b"]) * self.parts["a"]

    @cachax.jit
    def use(obj: Any) -> Any:
        return obj.replace(x=obj.x + 1).factor + 0

    with computations() as counts:
        obj = Parts({"b": jnp.eye(3), "a": ONE}, ONE)
        for _ in range(3):
            use(obj)
    assert counts == {"factor": 1}


@pytest.mark.parametrize("see", SEES.values(), ids=SEES)
def test_new_objects_with_dictionaries_in_any_order(see: Callable[[Any], Any]) -> None:
    """A program that computes the value itself gets sorted dictionaries."""

    class Parts(struct.PyTreeNode):
        parts: dict[str, Any]
        inner: Any = None

        @cachax.cached_property
        def value(self) -> Any:
            return see(self.parts) + (0 if self.inner is None else self.inner.value)

    use = cachax.jit(lambda obj: obj.value + 0)
    for order in [*("abc",) * 14, "cba", "abc", "bca", "abc", *("cba",) * 12, "abc"]:
        parts = {x: jnp.float32("abc".index(x) + 1) for x in order}
        obj = Parts(parts, Parts({**parts}))
        result = use(obj)
        assert result == obj.value == 2 * see(parts), order


def test_a_loop_whose_value_sees_the_order() -> None:
    """A step returns sorted dictionaries: the value is computed once for the first
    state, and once for all others."""

    class State(struct.PyTreeNode):
        data: dict[str, Any]
        w: Any

        @cachax.cached_property
        def first(self) -> Any:
            computing("first")
            return next(iter(self.data.values())) * jnp.ones(2)

    step = cachax.jit(lambda s: s.replace(w=s.w + s.first))
    for order, times in (("ab", 1), ("ba", 2)):
        values = {"a": ONE + 0, "b": TWO + 0}
        state = State({name: values[name] for name in order}, jnp.zeros(2))
        with computations() as counts:
            for _ in range(12):
                state = step(state)
        assert counts == {"first": times}
        assert state.w[0] == (12 if order == "ab" else 13)


def test_an_array_that_a_body_makes_is_not_an_order() -> None:
    class State(struct.PyTreeNode):
        data: dict[str, Any]
        w: Any

        @cachax.cached_property
        def sum(self) -> Any:
            computing("sum")
            return jnp.sum(self.data["b"] * jnp.ones(3) + jnp.eye(3))

    step = cachax.jit(lambda s: s.replace(w=s.w + s.sum))
    state = State({"b": TWO + 0, "a": ONE + 0}, jnp.zeros(2))
    with computations() as counts:
        for _ in range(4):
            state = step(state)
    assert counts == {"sum": 1}


def test_a_body_that_sees_no_rotation() -> None:
    """It depends on the order all the same."""

    class Ring(struct.PyTreeNode):
        parts: dict[str, Any]
        others: dict[str, Any]

        @cachax.cached_property
        def after_a(self) -> Any:
            keys = [*self.parts]
            return self.parts[keys[(keys.index("a") + 1) % len(keys)]] * 1

        @cachax.cached_property
        def is_aligned(self) -> Any:
            return self.parts["a"] * ([*self.parts] == [*self.others])

    values = {"a": ONE, "b": TWO, "c": THREE}
    after = cachax.jit(lambda ring: ring.after_a)
    aligned = cachax.jit(lambda ring: ring.is_aligned)
    for order in ("abc", "acb", "bca", "abc"):
        ring = Ring({name: values[name] for name in order}, {**values})
        expected = values["c" if order == "acb" else "b"]
        assert after(ring) == ring.after_a == expected
        assert aligned(ring) == ring.is_aligned == (order == "abc")


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_a_loop_with_a_value_that_reads_a_second_one(order: str) -> None:
    class State(struct.PyTreeNode):
        data: dict[str, Any]
        w: Any

        @cachax.cached_property
        def product(self) -> Any:
            computing("product")
            return self.data["a"] * self.data["b"]

        @cachax.cached_property
        def inverse(self) -> Any:
            computing("inverse")
            return 1 / self.product

    step = cachax.jit(lambda s: s.replace(w=s.w + s.inverse))
    data = {"a": TWO + 0, "b": TWO + 0}
    state = State({name: data[name] for name in order}, jnp.zeros(2))
    with computations() as counts:
        for _ in range(4):
            state = step(state)
    assert counts == {"product": 1, "inverse": 1}
    assert state.w[0] == 1


def test_keys_that_are_equal_and_have_different_types() -> None:
    class Parts(struct.PyTreeNode):
        parts: dict[Any, Any]

        @cachax.cached_property
        def value(self) -> Any:
            kinds = {int: 10, bool: 20, float: 30}
            return sum(self.parts.values()) * kinds[type(next(iter(self.parts)))]

    use = cachax.jit(lambda obj: obj.value)
    for key, expected in ((1, 30), (True, 60), (1.0, 90), (1, 30)):
        obj = Parts({key: ONE, 5: TWO})
        assert use(obj) == obj.value == expected


@pytest.mark.parametrize("orders", [["ab", "ba"], ["ba", "ab"]])
def test_one_program_for_all_orders(orders: list[str]) -> None:
    class Parts(struct.PyTreeNode):
        parts: dict[str, Any]

        @cachax.cached_property
        def first(self) -> Any:
            return next(iter(self.parts.values())) * 2

    traces = []

    @cachax.jit
    def use(obj: Any) -> Any:
        traces.append(obj)
        return obj.first + 1

    values = {"a": ONE + 0, "b": TWO + 0}
    for order in 3 * orders:
        assert use(Parts({x: values[x] for x in order})) == (3 if order == "ab" else 5)
    assert len(traces) == 2  # the second one takes the value


class Difference(struct.PyTreeNode):
    """Both values depend on the order."""

    data: dict[str, Any]

    @cachax.cached_property
    def first(self) -> Any:
        a, b = self.data.values()
        return a - b

    @cachax.cached_property
    def second(self) -> Any:
        return 2 * self.first


def test_values_that_were_equal_for_two_orders_by_chance() -> None:
    """Whether the order makes a difference doesn't depend on the contents of arrays."""
    use = cachax.jit(lambda o: o.second)

    def both(a: float, b: float) -> tuple[Difference, Difference]:
        w, bias = jnp.full(2, a), jnp.full(2, b)
        return Difference({"w": w, "b": bias}), Difference({"b": bias, "w": w})

    one, other = both(0.0, 0.0)
    assert one.second[0] == other.second[0] == use(one)[0] == 0
    one, other = both(5.0, 1.0)
    use(one)
    assert use(other)[0] == other.second[0] == -8
    assert one.second[0] == 8


def test_a_value_that_is_known_before_the_dictionary_is_sorted() -> None:
    """A function that doesn't read it returns the object, and the value follows."""

    class State(struct.PyTreeNode):
        data: dict[str, Any]
        step: Any

        @cachax.cached_property
        def norm(self) -> Any:
            computing("norm")
            return jnp.sum(self.data["w"]) + jnp.sum(self.data["b"])

    step = cachax.jit(lambda s: s.replace(step=s.step + 1))
    state = State({"w": TWO + 0, "b": TWO + 0}, jnp.zeros(()))
    with computations() as counts:
        for _ in range(3):
            assert state.norm == 4
            state = step(state)
        assert [*state.data] == ["b", "w"]
    assert counts == {"norm": 1}


CHANGES: dict[str, Callable[[int], dict[str, Any]]] = {
    "number": lambda i: {"beside": float(i)},
    "shape": lambda i: {"beside": jnp.ones(i)},
    "string": lambda i: {"beside": ONE, "tag": str(i)},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("names", ["ab", "ba"])
@pytest.mark.parametrize("read", [lambda obj: obj.total, lambda obj: obj.rows])
def test_a_field_that_is_not_read_beside_a_dictionary(
    change: Callable[[int], dict[str, Any]], names: str, read: Callable[[Any], Any]
) -> None:
    """It makes no difference, whatever the order of the dictionary is."""

    class Parts(struct.PyTreeNode):
        parts: dict[str, Any]
        rows_of: dict[str, Any]
        beside: Any
        tag: Any = struct.field(pytree_node=False, default=None)

        @cachax.cached_property
        def total(self) -> Any:
            computing("value")
            return self.parts["a"] - self.parts["b"]

        @cachax.cached_property
        def rows(self) -> Any:
            computing("value")
            return self.rows_of["a"] * self.rows_of["b"]

    parts = {name: {"a": TWO, "b": ONE}[name] for name in names}
    rows_of = {name: {"a": TWO, "b": 3}[name] for name in names}
    use = cachax.jit(lambda obj: read(obj) + 0)
    objects = [Parts(parts, rows_of, **change(i)) for i in range(1, 6)]
    with computations() as counts:
        assert {float(read(obj)) for obj in objects[:3]} == {float(read(objects[0]))}
        assert {float(use(obj)) for obj in objects} == {float(read(objects[0]))}
    assert counts == {"value": 1}
