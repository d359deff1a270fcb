"""Python numbers in fields: one that a body doesn't read makes no difference, however
often it changes; one that it reads in any form does."""

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct

import cachax

from measure import computations, computing

ONES = jnp.ones(3)


class Body:
    """What computes a value, and how often that ran in Python."""

    def __init__(self, compute: Callable[[Any], Any]) -> None:
        self.compute = compute
        self.runs = 0

    def __call__(self, obj: Any) -> Any:
        self.runs += 1
        return self.compute(obj)


def with_numbers(compute: Callable[[Any], Any]) -> tuple[type, Body]:
    """A class of objects with two arrays and two numbers, and the body of its value."""
    body = Body(compute)

    @jax.tree_util.register_dataclass
    @dataclasses.dataclass(frozen=True)
    class Numbered:
        x: jax.Array
        y: jax.Array
        rate: float = 0.0
        step: int = 0

        @cachax.cached_property
        def value(self) -> Any:
            return body(self)

    return Numbered, body


def test_a_number_that_changes_in_every_call() -> None:
    cls, body = with_numbers(lambda obj: obj.x.sum())
    fun = cachax.jit(lambda obj: obj.y * obj.value * obj.rate + obj.step)
    for i in range(4):
        assert fun(cls(ONES, ONES, 0.5 * i, i))[0] == 1.5 * i + i
    runs = body.runs
    for i in range(4, 20):
        assert fun(cls(ONES, ONES, 0.5 * i, i))[0] == 1.5 * i + i
        assert cls(ONES, ONES, 0.25 * i, i).value == 3
    assert body.runs == runs


def test_one_number_is_read_and_the_other_is_not() -> None:
    cls, body = with_numbers(lambda obj: obj.x.sum() * obj.rate)
    fun = cachax.jit(lambda obj: obj.y * obj.value + obj.step)
    for i in range(4):
        assert fun(cls(ONES, ONES, 0.5, i))[0] == 1.5 + i
    runs = body.runs
    for i in range(4, 12):
        assert fun(cls(ONES, ONES, 0.5, i))[0] == 1.5 + i
    assert body.runs == runs
    for i in range(12):
        assert fun(cls(ONES, ONES, float(i % 3), i))[0] == 3 * (i % 3) + i


def test_a_chain_of_values() -> None:
    body = Body(lambda obj: obj.x.sum() * obj.rate)

    @jax.tree_util.register_dataclass
    @dataclasses.dataclass(frozen=True)
    class Chained:
        x: jax.Array
        rate: float
        step: int

        @cachax.cached_property
        def inner(self) -> Any:
            return body(self)

        @cachax.cached_property
        def outer(self) -> Any:
            return 2 * self.inner

    fun = cachax.jit(lambda obj: obj.outer + obj.step)
    for i in range(4):
        assert fun(Chained(ONES, 0.5, i)) == 3 + i
    runs = body.runs
    for i in range(4, 12):
        assert fun(Chained(ONES, 0.5, i)) == 3 + i
    assert body.runs == runs
    for i in range(12):
        assert fun(Chained(ONES, float(i % 3), i)) == 6 * (i % 3) + i


BODIES: dict[str, Callable[[Any], Any]] = {
    "a value for its shape": lambda obj: (jnp.eye(len(obj.gram)), obj.y),
    "a value that is not used": lambda obj: (obj.gram, obj.y)[1:],
    "a rule for derivatives": lambda obj: (backwards_only(obj.y, obj.x), obj.y),
}


@jax.custom_vjp
def backwards_only(x: Any, y: Any) -> Any:
    return 2 * x


backwards_only.defvjp(lambda x, y: (2 * x, y), lambda y, t: (t * y, t * 0))


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_value_with_an_array_of_its_object(body: Callable[[Any], Any]) -> None:
    """Which arrays count for a value is learned in two ways: they must agree."""

    @jax.tree_util.register_dataclass
    @dataclasses.dataclass(frozen=True)
    class Problem:
        x: jax.Array
        y: jax.Array
        rate: float

        @cachax.cached_property
        def gram(self) -> Any:
            return jnp.outer(self.x, self.x)

        @cachax.cached_property
        def value(self) -> Any:
            return body(self)

    fun = cachax.jit(lambda obj: obj.value[-1] + 0)
    x, y = jnp.arange(3.0), jnp.full(3, 7.0)
    for i in range(5):
        problem = Problem(x, y, float(i))
        assert problem.value[-1].tolist() == fun(problem).tolist() == [7, 7, 7]
        slope = jax.grad(lambda y, p=problem: dataclasses.replace(p, y=y).value[-1][0])
        assert slope(y).tolist() == [1, 0, 0]


READING: dict[str, Callable[[Any], Any]] = {
    "attribute": lambda obj: obj.rate,
    "getattr": lambda obj: getattr(obj, "ra" + "te"),
    "vars": lambda obj: vars(obj)["rate"],
    "items": lambda obj: dict(vars(obj).items())["rate"],
    "values": lambda obj: [*vars(obj).values()][2],
    "threshold": lambda obj: 1.0 if [*vars(obj).values()][2] > 2 else 0.0,
    "branch": lambda obj: 1.0 if obj.rate > 2 else 0.0,
    "type": lambda obj: 1.0 if isinstance(obj.rate, float) and obj.rate == 3 else 0.0,
    "replace": lambda obj: dataclasses.replace(obj, step=7).rate,
    "copy": lambda obj: copy.copy(obj).rate,
    "leaves": lambda obj: jax.tree.leaves(obj)[2],
    "keywords": lambda obj: (lambda x, y, rate, step: rate)(**vars(obj)),
    "asdict": lambda obj: dataclasses.asdict(obj)["rate"],
}


@pytest.mark.parametrize("read", READING.values(), ids=READING)
def test_a_number_that_is_read(read: Callable[[Any], Any]) -> None:
    cls, _ = with_numbers(lambda obj: obj.x.sum() + read(obj))
    fun = cachax.jit(lambda obj: obj.y * obj.value)
    for i in range(8):
        obj = cls(ONES, ONES, i / 2)
        expected = 3 + read(obj)
        assert fun(obj)[0] == obj.value == expected


def test_a_number_that_is_read_depending_on_the_other() -> None:
    cls, _ = with_numbers(
        lambda obj: obj.x.sum() + (obj.rate if obj.step % 3 == 2 else 0)
    )
    fun = cachax.jit(lambda obj: obj.y * obj.value)
    for i in range(12):
        obj = cls(ONES, ONES, i / 2, i)
        assert fun(obj)[0] == obj.value == 3 + (i / 2 if i % 3 == 2 else 0)


def test_a_number_that_is_read_depending_on_an_array() -> None:
    cls, _ = with_numbers(lambda obj: obj.rate if obj.x[0] > 1 else 0.0)
    for x in (ONES, 2 * ONES, 3 * ONES):
        for i in range(4):
            assert cls(x, ONES, i / 2).value == (i / 2 if x[0] > 1 else 0)


def test_a_class_that_gives_its_fields_to_jax_as_a_dictionary() -> None:
    @chex.dataclass(frozen=True)
    class Weighted:
        x: jax.Array
        rate: float

        @cachax.cached_property
        def norm(self) -> Any:
            return sum(jnp.sum(x) for x in jax.tree.leaves(self))

    for i in range(5):
        weighted = Weighted(x=ONES, rate=i / 2)
        assert weighted.norm == 3 + i / 2
        assert cachax.jit(lambda w: w.norm)(weighted) == 3 + i / 2


@pytest.mark.parametrize("first", [np.float32(2), 2.0, jnp.float32(2)])
@pytest.mark.parametrize("second", [np.float32(2), 2.0, jnp.float32(2), 3])
def test_a_call_takes_the_value_of_the_object_it_got(first: Any, second: Any) -> None:
    """A number and an array in the same place are the same for JAX."""

    class Either(struct.PyTreeNode):
        x: Any
        n: Any

        @cachax.cached_property
        def total(self) -> Any:
            computing("total")
            return jnp.sum(self.x) if isinstance(self.n, jax.Array) else self.x[0]

    x = jnp.array([1.0, 2.0])
    use = cachax.jit(lambda o: o.total + 0)
    objects = [Either(x, first), Either(x, second)]
    expected = [3 if isinstance(n, jax.Array) else 1 for n in (first, second)]
    for _ in range(3):
        assert [use(o) for o in objects] == expected
        with computations() as counts:
            assert [o.total for o in objects] == expected
        assert not counts


def test_a_number_that_says_which_array_is_used() -> None:
    cls, _ = with_numbers(lambda obj: obj.x * 2 if obj.step < 3 else obj.y * 2)
    use = cachax.jit(lambda obj: obj.value)
    one, two, three, four = (jnp.float32(i) for i in range(1, 5))
    assert use(cls(one, two, step=1)) == 2
    assert cls(four, one, step=5).value == 2
    assert [use(cls(one, three, step=5)), use(cls(one, four, step=5))] == [6, 8]


def test_a_value_that_no_function_uses_is_not_computed() -> None:
    class Kernel(struct.PyTreeNode):
        x: Any
        n: float

        @cachax.cached_property
        def used(self) -> Any:
            return self.x * 2

        @cachax.cached_property
        def part(self) -> Any:
            computing("part")
            return self.x * self.n

        @cachax.cached_property
        def unused(self) -> Any:
            return self.part + 1

    class Process(struct.PyTreeNode):
        kernel: Any
        y: Any

        @cachax.cached_property
        def value(self) -> Any:
            return self.kernel.used * self.y

    use, kernel = cachax.jit(lambda process: process.value), Kernel(ONES, 1.0)
    assert kernel.unused is not None
    with computations() as counts:
        for i in range(20):
            use(Process(kernel, ONES + i))
        for i in range(5):
            use(Process(Kernel(kernel.x, 2.0 + i), ONES + i))
    assert not counts


def test_a_number_that_says_whether_an_assigned_value_is_used() -> None:
    @jax.tree_util.register_dataclass
    @dataclasses.dataclass
    class Kernel:
        x: Any

        @cachax.cached_property
        def base(self) -> Any:
            return 3 * self.x

    class Process(struct.PyTreeNode):
        kernel: Any
        y: Any
        n: float

        @cachax.cached_property
        def value(self) -> Any:
            return self.y * (self.kernel.x if self.n < 3 else self.kernel.base)

    def with_base() -> Any:
        kernel = Kernel(x)
        kernel.base = jnp.float32(100)
        return kernel

    x, y, use = (
        jnp.float32(2),
        jnp.float32(3),
        cachax.jit(lambda process: process.value),
    )
    base = cachax.jit(lambda kernel: kernel.base)
    assert with_base().base == base(with_base()) == 100
    assert use(Process(Kernel(x), y, 1.0)) == 6
    assert Process(Kernel(x), y, 5.0).value == 18
    assert use(Process(with_base(), y, 5.0)) == 300


@pytest.mark.parametrize("place", ["before", "inside", "after"])
def test_a_number_beside_a_value_of_an_object_inside(place: str) -> None:
    class Inner(struct.PyTreeNode):
        x: Any
        n: Any
        scale: Any

        @cachax.cached_property
        def scaled(self) -> Any:
            return self.x * self.scale

    class Outer(struct.PyTreeNode):
        before: Any
        inner: Any
        then: Any
        y: Any

        @cachax.cached_property
        def value(self) -> Any:
            body.runs += 1
            return self.inner.scaled * self.y

    body, use = Body(abs), cachax.jit(lambda outer: outer.value)
    runs = []
    for i in range(6):
        numbers = {name: float(i) if name == place else 0.0 for name in PLACES}
        inner = Inner(ONES, numbers["inside"], 2.0)
        assert use(Outer(numbers["before"], inner, numbers["after"], ONES))[0] == 2
        runs.append(body.runs)
    assert runs[2:] == [runs[2]] * 4  # the second number tells
    inner = Inner(ONES, 0.0, 3.0)
    assert use(Outer(0.0, inner, 0.0, ONES))[0] == 3


PLACES = ("before", "inside", "after")


def test_a_step_counter_that_becomes_an_array() -> None:
    """`step=0` is an array after the first step of a loop."""

    class State(struct.PyTreeNode):
        x: Any
        params: Any
        step: Any
        schedule: Any

        @cachax.cached_property
        def factor(self) -> Any:
            computing("factor")
            return jnp.linalg.cholesky(self.x)

    @cachax.jit
    def advance(state: Any) -> Any:
        params = jax.tree.map(lambda p: p - state.factor[0, 0], state.params)
        return state.replace(params=params, step=state.step + 1)

    params = {"w": ONES, "b": ONES}  # not sorted
    state = State(jnp.eye(3), params, 0, {"rate": 0.1, "decay": [0.5]})
    with computations() as counts:
        for i in range(10):
            state = advance(state)
            state = state.replace(schedule={"rate": 0.1 * i, "decay": [0.5 * i]})
    assert counts == {"factor": 1}
    assert int(state.step) == 10
    assert state.params["w"].tolist() == [-9, -9, -9]


@pytest.mark.parametrize("is_first_a_number", [True, False])
def test_a_body_that_asks_whether_a_field_is_a_number(is_first_a_number: bool) -> None:
    cls, _ = with_numbers(
        lambda obj: (
            obj.x.sum() + isinstance(obj.rate, float) + isinstance(obj.step, int)
        )
    )
    objects = [cls(ONES, ONES, 1.0, 2), cls(ONES, ONES, jnp.float32(1), jnp.int32(2))]
    for obj in objects if is_first_a_number else reversed(objects):
        expected = 5 if obj is objects[0] else 3
        assert obj.value == cachax.jit(lambda o: o.value)(obj) == expected


def test_which_number_is_read_depends_on_a_third() -> None:
    """The two are equal, so that only their places tell them apart."""
    cls, _ = with_numbers(lambda obj: obj.x.sum() * vars(obj)["rate"])

    @jax.tree_util.register_dataclass
    @dataclasses.dataclass(frozen=True)
    class Either:
        x: jax.Array
        first: float
        second: float
        which: str = dataclasses.field(metadata={"static": True})

        @cachax.cached_property
        def value(self) -> Any:
            return self.x.sum() * getattr(self, self.which)

    use = cachax.jit(lambda obj: obj.value)
    for first, second in [(2.0, 3.0), (3.0, 2.0), (2.0, 5.0), (5.0, 2.0)]:
        for which, number in (("first", first), ("second", second)):
            obj = Either(ONES, first, second, which)
            assert use(obj) == obj.value == 3 * number
    assert cls(ONES, ONES, 2.0).value == 6


@cachax.jit
def scaled(obj: Any) -> Any:
    return obj.x.sum() * obj.rate


@cachax.cache
def cached_scaled(obj: Any) -> Any:
    return obj.x.sum() * obj.rate


HELPERS: dict[str, Callable[[Any], Any]] = {
    "jax.jit": jax.jit(lambda obj: obj.x.sum() * obj.rate),
    "cachax.jit": scaled,
    "cachax.cache": cached_scaled,
    "cachax.lift": cachax.lift(jax.checkpoint)(lambda obj: obj.x.sum() * obj.rate),
    "scan": lambda obj: jax.lax.scan(lambda c, x: (c + x * obj.rate, None), 0.0, obj.x)[
        0
    ],
}


@pytest.mark.parametrize("helper", HELPERS.values(), ids=HELPERS)
def test_a_number_that_is_read_in_a_jitted_function(helper: Any) -> None:
    cls, _ = with_numbers(helper)
    use = cachax.jit(lambda obj: obj.value)
    for i in range(12):
        obj = cls(ONES, ONES, i / 2)
        assert use(obj) == obj.value == 1.5 * i


def test_numbers_in_objects_inside() -> None:
    """An object without arrays is shared with the copy that a body gets."""

    @dataclasses.dataclass(frozen=True)
    class Config:
        rate: float

    jax.tree_util.register_dataclass(Config, ["rate"], [])

    class Model(struct.PyTreeNode):
        x: Any
        config: Any
        same: Any

        @cachax.cached_property
        def value(self) -> Any:
            return self.x.sum() * self.same.rate

    use = cachax.jit(lambda model: model.value)
    for i in range(12):
        config = Config(i / 2)
        model = Model(ONES, config, config)
        assert use(model) == model.value == 1.5 * i


# A value that is a number, and values that come from it. In a trace, the number comes
# from outside, where it is static.


def chained(prop: Any) -> Any:
    @jax.tree_util.register_dataclass
    @dataclasses.dataclass(frozen=True)
    class Chained:
        x: jax.Array
        rate: Any
        weights: Any
        order: int = dataclasses.field(metadata={"static": True}, default=2)

        @prop
        def half(self) -> Any:
            return self.rate / 2

        @prop
        def scale(self) -> Any:
            return 10 * self.half

        @prop
        def shift(self) -> Any:
            return self.scale + 1

        @prop
        def mean(self) -> Any:
            return self.weights.mean()

        @prop
        def of_mean(self) -> Any:
            return 10 * self.mean

        @prop
        def step(self) -> Any:
            return self.rate / 2 if self.order > 1 else self.rate

        @prop
        def of_step(self) -> Any:
            return 10 * self.step

    return Chained(jnp.ones(2), 3.0, np.array([1.0, 2.0, 3.0]))


def replaced(name: str) -> Callable[[Any], Any]:
    def values(obj: Any) -> Any:
        moved = dataclasses.replace(obj, x=obj.x + 1)
        faster = dataclasses.replace(obj, rate=2 * obj.rate)
        heavier = dataclasses.replace(obj, weights=2 * obj.weights)
        return [getattr(each, name) for each in (moved, faster, heavier, obj)]

    return values


def gradient(name: str) -> Callable[[Any], Any]:
    def of_x(obj: Any) -> Any:
        def value(x: Any) -> Any:
            return jnp.sum(x * getattr(dataclasses.replace(obj, x=x), name))

        return jax.grad(value)(obj.x)

    return of_x


@pytest.mark.parametrize("first", [replaced, gradient])
@pytest.mark.parametrize("name", ["shift", "of_mean", "of_step"])
def test_what_a_value_depends_on_through_a_number(name: str, first: Any) -> None:
    cached, plain = chained(cachax.cached_property), chained(property)
    second = gradient if first is replaced else replaced
    for fun in (first(name), second(name)):
        for x, y in zip(
            jax.tree.leaves(cachax.jit(fun)(cached)),
            jax.tree.leaves(jax.jit(fun)(plain)),
            strict=True,
        ):
            assert jnp.array_equal(x, y)
    for rate in (7.0, jnp.asarray(7.0)):  # what was learned in a trace
        one, other = (dataclasses.replace(x, rate=rate) for x in (cached, plain))
        assert getattr(one, name) == getattr(other, name)


@pytest.mark.parametrize("name", ["half", "scale", "step", "of_step"])
def test_a_number_that_comes_from_a_number_is_traced(name: str) -> None:
    counts = []
    for jit, prop in ((cachax.jit, cachax.cached_property), (jax.jit, property)):
        obj = chained(prop)
        traces = 0

        def fun(obj: Any) -> Any:
            nonlocal traces
            traces += 1
            return obj.x * getattr(obj, name)

        jitted = jit(fun)
        for rate in range(1, 8):
            new = dataclasses.replace(obj, rate=float(rate))
            assert jitted(new)[0] == getattr(new, name)
        counts.append(traces)
    assert counts[0] <= counts[1] + 1


def test_a_number_in_a_static_field_is_not_traced_inside() -> None:
    obj = chained(cachax.cached_property)
    cls = type(obj)
    cls.chosen = cachax.cached_property(
        lambda self: jnp.sum(self.x) * self.rate * (2 if self.order > 1 else 3)
    )
    cls.chosen.__set_name__(cls, "chosen")
    use = cachax.jit(lambda obj: obj.chosen)
    for number in range(12):
        use(dataclasses.replace(obj, x=jnp.full(2, float(number))))
    with cachax.record() as report:
        assert use(dataclasses.replace(obj, x=jnp.full(2, 5.0))) == 60
    assert {event.what.name for event in report.events} >= {"INSIDE"}
    assert "COMPUTED" not in {event.what.name for event in report.events}


def test_a_number_in_a_part_that_is_a_value_is_traced() -> None:
    @jax.tree_util.register_dataclass
    @dataclasses.dataclass(frozen=True)
    class Part:
        x: jax.Array
        rate: float

    @jax.tree_util.register_dataclass
    @dataclasses.dataclass(frozen=True)
    class Model:
        part: Part

        @cachax.cached_property
        def same(self) -> Any:
            return self.part

    traces = 0

    @cachax.jit
    def use(model: Any) -> Any:
        nonlocal traces
        traces += 1
        return model.same.x * model.same.rate

    for number in range(6):
        assert use(Model(Part(ONES, float(number))))[0] == number
    assert traces <= 2


def test_one_object_twice_after_numbers_that_were_new() -> None:
    @jax.tree_util.register_dataclass
    @dataclasses.dataclass(frozen=True)
    class Scaled:
        x: jax.Array
        scale: float

        @cachax.cached_property
        def product(self) -> Any:
            computing("product")
            return self.x * self.scale

        @cachax.cached_property
        def total(self) -> Any:
            return self.product.sum()

    fun, x = cachax.jit(lambda a, b: a.total + b.product[0]), jnp.arange(3.0)
    for i in range(20):
        fun(Scaled(x, float(i)), Scaled(jnp.arange(3.0) + i, 1.0))
    for i in range(3):
        both = Scaled(jnp.arange(3.0), 5.5 + i)
        with computations() as counts:
            assert fun(both, both) == 3 * (5.5 + i)
        assert counts == {"product": 1}
