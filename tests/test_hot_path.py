"""What a warm call does in Python, counted without a clock.

Instructions of the interpreter and calls, in the files of cachax only. If one of these
bounds is broken, a warm call has become slower on every machine (`make bench` says by
how much).
"""

import functools
import gc
import itertools
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import flax.linen as nn
import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx
from flax.training import train_state as flax_train_state

import cachax
from cachax._check.decisions import deciding

from families import NNX_IS_PYTREE

SOURCE = str(Path(cachax.__file__).parent)


def counted(call: Callable[[], Any]) -> Counter[str]:
    """The instructions run and functions called in the files of cachax."""
    counts: Counter[str] = Counter()

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(SOURCE):
            return None
        if event == "call":
            counts["functions"] += 1
            frame.f_trace_opcodes = True
            frame.f_trace_lines = False
        elif event == "opcode":
            counts["instructions"] += 1
        return trace

    for _ in range(4):
        call()
    before = sys.gettrace()
    gc.disable()  # what other tests left behind is not to be buried in this call
    try:
        for _ in range(2):  # the first time, Python 3.12 may count no instructions
            counts.clear()
            sys.settrace(trace)
            call()
            sys.settrace(before)
    finally:
        sys.settrace(before)
        gc.enable()
    return counts


class Bare(flax.struct.PyTreeNode):
    x: jax.Array
    y: jax.Array


def total(i: int) -> Any:
    return cachax.cached_property(lambda self: i * jnp.sum(self.x))


class Cached(Bare):
    total = total(1)


class Box(flax.struct.PyTreeNode):
    inside: Any


Many = type("Many", (Bare,), {f"p{i}": total(i) for i in range(20)})
ONES = jnp.ones(2)
OBJECT = cachax.warm(Cached(ONES, ONES))
ARRAYS = {f"array {i}": ONES for i in range(1000)}


def test_one_small_object() -> None:
    fun = cachax.jit(lambda o: o.y * o.total)
    counts = counted(lambda: fun(OBJECT))
    assert counts["functions"] <= 2
    assert counts["instructions"] <= 60


def test_a_thousand_arrays_beside_the_object_cost_nothing() -> None:
    fun = cachax.jit(lambda o, arrays: o.y * o.total + arrays["array 0"])
    counts = counted(lambda: fun(OBJECT, ARRAYS))
    assert counts["functions"] <= 2
    assert counts["instructions"] <= 60


def test_twenty_properties_are_no_more_work_than_one() -> None:
    many = cachax.warm(Many(ONES, ONES))
    fun = cachax.jit(lambda o: sum(getattr(o, f"p{i}") for i in range(20)))
    assert counted(lambda: fun(many))["instructions"] <= 60


@pytest.mark.parametrize("depth", [1, 5])
def test_a_deeply_nested_object_is_no_more_work(depth: int) -> None:
    box: Any = OBJECT
    for _ in range(depth):
        box = Box(box)

    def opened(x: Any) -> Any:
        return opened(x.inside) if isinstance(x, Box) else x

    fun = cachax.jit(lambda box: opened(box).total)
    counts = counted(lambda: fun(box))
    assert counts["functions"] <= 2
    assert counts["instructions"] <= 70


def test_an_object_in_a_partial() -> None:
    fun = cachax.jit(lambda step, y: step(y))
    step = jax.tree_util.Partial(lambda o, y: o.total * y, OBJECT)
    counts = counted(lambda: fun(step, ONES))
    assert counts["functions"] <= 2
    assert counts["instructions"] <= 70


def test_a_configuration_that_was_used_for_a_time() -> None:
    """From then on, a call says which one it is."""
    fun = cachax.jit(lambda o: o.y * o.total)
    for _ in range(4):
        fun(OBJECT)
        with jax.default_matmul_precision("high"):
            fun(OBJECT)
    counts = counted(lambda: fun(OBJECT))
    assert counts["functions"] <= 3
    assert counts["instructions"] <= 120


@pytest.mark.parametrize("count", [5, 200])
def test_many_objects_take_a_few_instructions_each(count: int) -> None:
    fun = cachax.jit(lambda objects: [o.total for o in objects])
    objects = [cachax.warm(Cached(ONES, ONES)) for _ in range(count)]
    counts = counted(lambda: fun(objects))
    assert counts["functions"] <= 2
    assert counts["instructions"] <= 60 + 20 * count


@pytest.mark.skipif(not NNX_IS_PYTREE, reason="nnx modules are not pytrees")
def test_an_nnx_module() -> None:
    class Module(nnx.Module):
        def __init__(self) -> None:
            self.x = nnx.Param(ONES)

        @cachax.cached_property
        def total(self) -> Any:
            return jnp.sum(self.x[...])

    fun, module = cachax.jit(lambda module: module.total), Module()
    counts = counted(lambda: fun(module))
    assert counts["instructions"] <= 92


def test_no_object() -> None:
    fun = cachax.jit(lambda a, b: a + b)
    counts = counted(lambda: fun(ONES, ONES))
    assert counts["functions"] <= 2
    assert counts["instructions"] <= 50


def test_no_object_but_a_dict() -> None:
    fun, tree = cachax.jit(lambda t: t["a"] + 1), {"a": ONES, "b": [ONES, ONES]}
    counts = counted(lambda: fun(tree))
    assert counts["functions"] <= 2
    assert counts["instructions"] <= 50


@pytest.mark.parametrize("y", [ONES, jnp.zeros(2)])
def test_an_object_rebuilt_for_every_call(y: Any) -> None:
    fun = cachax.jit(lambda o: o.y * o.total)
    x = ONES + 1
    objects = iter([Cached(x, y) for _ in range(9)])
    kept = cachax.warm(Cached(x, ONES + 2))
    counts = counted(lambda: fun(next(objects)))
    assert kept.total == 4
    assert counts["functions"] <= 2
    assert counts["instructions"] <= 60


def test_many_objects_in_turn() -> None:
    """As the batches of a data set, in every epoch."""
    fun = cachax.jit(lambda o: o.y * o.total)
    objects = [Cached(ONES + i, ONES) for i in range(100)]
    for _ in range(3):
        for obj in objects:
            fun(obj)
    in_turn = itertools.cycle(objects)
    counts = counted(lambda: fun(next(in_turn)))
    assert counts["functions"] <= 2
    assert counts["instructions"] <= 74


class Loose:
    def __init__(self, x: Any, y: Any) -> None:
        self.x, self.y = x, y

    total = total(1)


jax.tree_util.register_pytree_node(
    Loose, lambda o: ((o.x, o.y), None), lambda _, parts: Loose(*parts)
)


class Outer(Bare):
    @cachax.cached_property
    def inside(self) -> Any:
        return Cached(2 * self.x, self.y)


class Sized(Bare):
    total = total(1)

    @cachax.cached_property
    def size(self) -> int:
        return len(self.x)


class Supplied(flax.struct.PyTreeNode, frozen=False):
    """(A property that was supplied once is looked for on every object.)"""

    x: jax.Array
    y: jax.Array
    total = total(1)


PRESET = cachax.preset(Supplied(ONES, ONES), total=ONES[0])


def assigned(obj: Any) -> Any:
    obj.total = jnp.float32(7)
    return obj


def uses_total(o: Any) -> Any:
    return o.y * o.total


def uses_flag(o: Any, *, flag: bool) -> Any:
    return o.y * o.total if flag else o.y


def numbered(function: Any) -> list[Callable[[], Any]]:
    return [functools.partial(function, Cached(ONES, 0.5 * i)) for i in range(40)]


CALLS: dict[str, Callable[[], list[Callable[[], Any]]]] = {
    "objects of different shapes": lambda: calls(
        cachax.jit(lambda o: uses_total(o)),
        Cached(ONES, ONES),
        Cached(jnp.ones(3), jnp.ones(3)),
    ),
    "objects of different classes": lambda: calls(
        cachax.jit(lambda o: uses_total(o)), Cached(ONES, ONES), Loose(ONES, ONES)
    ),
    "values of a flag": lambda: [
        functools.partial(flagged, OBJECT, flag=flag)
        for flagged in [cachax.jit(uses_flag, static_argnames="flag")]
        for flag in (True, False)
    ],
    "a number that changes": lambda: numbered(cachax.jit(lambda o: uses_total(o))),
    "a value that was preset": lambda: calls(
        cachax.jit(lambda o: uses_total(o)), PRESET
    ),
    "a value that was preset for a different object": lambda: calls(
        cachax.jit(lambda o: uses_total(o)),
        *[Supplied(ONES, ONES + i) for i in range(40)],
    ),
    "a value that was assigned": lambda: calls(
        cachax.jit(lambda o: uses_total(o)), assigned(Supplied(ONES, ONES))
    ),
    "fields of numpy": lambda: calls(
        cachax.jit(lambda o: uses_total(o)), Cached(np.ones(2, "f"), np.ones(2, "f"))
    ),
    "an object in a value": lambda: calls(
        cachax.jit(lambda o: o.y * o.inside.total), Outer(ONES, ONES)
    ),
    "a value of the shape": lambda: calls(
        cachax.jit(lambda o: o.total * o.size),
        *[Sized(ONES, ONES + i) for i in range(40)],
    ),
    "dictionaries with other keys": lambda: [
        functools.partial(fun, OBJECT, batch)
        for fun in [cachax.jit(lambda o, batch: o.total * batch["x"])]
        for batch in ({"x": ONES}, {"x": ONES, "y": ONES})
    ],
    "dictionaries with other keys, and no object": lambda: calls(
        cachax.jit(lambda batch: 2 * batch["x"]), {"x": ONES}, {"x": ONES, "y": ONES}
    ),
}


def calls(function: Any, *objects: Any) -> list[Callable[[], Any]]:
    return [functools.partial(function, obj) for obj in objects]


@pytest.mark.parametrize("what", CALLS)
def test_calls_that_are_unlike_the_last_one(what: str) -> None:
    """They take more work than others, but not much more."""
    in_turn = itertools.cycle(CALLS[what]())
    for _ in range(12):
        next(in_turn)()
    counts = counted(lambda: next(in_turn)())
    assert counts["functions"] <= 20
    assert counts["instructions"] <= 420


def test_known_objects_that_were_never_together() -> None:
    """Each of the two values is looked up."""
    fun = cachax.jit(lambda o, p: o.total + p.total)
    objects = [Cached(ONES + i, ONES) for i in range(8)]
    pairs = iter(itertools.permutations(objects, 2))
    for _ in range(12):
        fun(*next(pairs))
    counts = counted(lambda: fun(*next(pairs)))
    assert counts["functions"] <= 30
    assert counts["instructions"] <= 661


@pytest.mark.parametrize(
    ("body", "most"),
    [
        (lambda p: p["w"] * jnp.ones(2) + jnp.eye(2), 390),
        (lambda p: sum(jnp.sum(x) for x in p.values()), 525),
    ],
)
def test_a_loop_whose_value_depends_on_a_dictionary(body: Any, most: int) -> None:
    class State(flax.struct.PyTreeNode):
        params: dict[str, Any]

        value = cachax.cached_property(lambda self: jnp.sum(body(self.params)))

    step = cachax.jit(
        lambda s: s.replace(params=jax.tree.map(lambda x: x - s.value, s.params))
    )
    states = [State({"w": ONES, "b": ONES})]
    for _ in range(20):
        states.append(step(states[-1]))
    state = states[-1]

    def one() -> None:
        nonlocal state
        state = step(state)

    counts = counted(one)
    assert counts["functions"] <= 25
    assert counts["instructions"] <= most


def test_a_loop_whose_states_are_kept_beside_an_array_that_stays() -> None:
    class State(flax.struct.PyTreeNode):
        x: jax.Array
        y: jax.Array

        product = cachax.cached_property(lambda self: jnp.sum(self.x * self.y))

    step = cachax.jit(lambda o: o.replace(x=o.x - o.product))
    states = [State(jnp.ones(2), jnp.ones(2))]

    def one() -> None:
        states.append(step(states[-1]))

    for _ in range(60):
        one()
    assert max(counted(one)["instructions"] for _ in range(20)) <= 480


def test_derivatives_and_maps_from_outside() -> None:
    fun = cachax.jit(lambda x, o: jnp.sum(x * o.total))
    for call in (
        lambda: jax.grad(fun)(ONES, OBJECT),
        lambda: jax.vmap(fun, (0, None))(jnp.ones((3, 2)), OBJECT),
    ):
        counts = counted(call)
        assert counts["functions"] <= 20
        assert counts["instructions"] <= 300


def test_a_new_object_for_every_call() -> None:
    """(With several devices, some 40 instructions find out where its values are.)"""
    fun = cachax.jit(lambda o: o.y * o.total)
    objects = iter([Cached(ONES + i, ONES) for i in range(40)])
    for _ in range(30):
        fun(next(objects))
    counts = counted(lambda: fun(next(objects)))
    assert counts["functions"] <= 25
    assert counts["instructions"] <= 346


def test_reading() -> None:
    counts = counted(lambda: OBJECT.total)
    assert counts["functions"] <= 3
    assert counts["instructions"] <= 110


def test_the_count_counts() -> None:
    fun = cachax.jit(lambda o: o.y * o.total)
    cold = counted(lambda: fun(Cached(jnp.ones(3), ONES + 1)))
    warm = counted(lambda: fun(OBJECT))
    assert cold["instructions"] > warm["instructions"] > 20


def test_a_finished_recording_costs_nothing() -> None:
    use, one = cachax.jit(lambda o: o.y * o.total), Cached(jnp.ones(4), jnp.ones(4))
    before = counted(lambda: use(one))
    with cachax.record(), cachax.verify():
        assert counted(lambda: use(one))["functions"] > 10 * before["functions"]
    assert counted(lambda: use(one)) == before


def test_agree_costs_nothing_after_it_ended() -> None:
    use, one = cachax.jit(lambda o: o.y * o.total), Cached(jnp.ones(5), jnp.ones(5))
    before = counted(lambda: use(one))
    with cachax.agree():  # there is one process
        assert counted(lambda: use(one)) == before
    with deciding(lambda decision: None):
        assert counted(lambda: use(one))["functions"] > 5 * before["functions"]
    assert counted(lambda: use(one)) == before


def calls_in_jax(call: Callable[[], Any]) -> int:
    """How many functions of JAX run in Python: hardly any, when it knows the call."""
    counts = 0
    package = str(Path(jax.__file__).parent)

    def profile(frame: FrameType, event: str, _: Any) -> None:
        nonlocal counts
        counts += event == "call" and frame.f_code.co_filename.startswith(package)

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return counts


NUMBERS = iter(range(1000))
ARGUMENTS: dict[str, Callable[[], Any]] = {
    "an object": lambda: OBJECT,
    "a list of objects": lambda: [OBJECT, OBJECT],
    "a dict of arrays": lambda: {"a": jnp.float32(2)},
    "a rebuilt object": lambda: OBJECT.replace(y=OBJECT.y),
    "a new object": lambda: Cached(ONES + next(NUMBERS), ONES),
}


@pytest.mark.parametrize("kind", ARGUMENTS)
def test_other_shapes_are_as_fast_as_the_first(kind: str) -> None:
    """JAX does not forget a trace that raised: a call with arguments like those never
    gets on its fast path again, unless it is told to forget it."""

    @cachax.jit
    def fun(thing: Any, other: Any) -> Any:
        objects = jax.tree.leaves(thing, is_leaf=lambda x: isinstance(x, Cached))
        return [getattr(each, "total", each) + other for each in objects]

    make = ARGUMENTS[kind]
    for size in (2, 3, 2):
        for _ in range(20):
            fun(make(), jnp.ones(size))
    for size in (2, 3):
        thing, other = make(), jnp.ones(size)
        assert calls_in_jax(lambda t=thing, o=other: fun(t, o)) < 10


class Fitted(Bare):
    @cachax.cached_property
    def difference(self) -> Any:
        return self.x - self.y

    @cachax.cached_method
    def power(self, n: int) -> Any:
        return self.difference**n


@pytest.mark.parametrize(
    "use",
    [
        lambda o: o.difference,
        lambda o: o.power(2),
        lambda o: cachax.clear(cachax.warm(o)),
        cachax.jit(lambda o: o.x * o.difference),
    ],
    ids=["property", "method", "clear", "jit"],
)
def test_others_with_one_of_its_arrays_make_no_difference(use: Any) -> None:
    """Many objects, and a data set that is in all of them."""
    data, objects = jnp.ones(2), list[Fitted]()

    def use_new() -> None:
        objects.append(Fitted(jnp.ones(2), data))
        use(objects[-1])
        assert objects[-1].difference is not None

    few = counted(use_new)["functions"]
    for _ in range(100):
        use_new()
    assert counted(use_new)["functions"] <= few


class Wave(flax.struct.PyTreeNode):
    x: jax.Array
    speed: float

    @cachax.cached_property
    def height(self) -> jax.Array:
        return jnp.sum(jnp.cos(self.x * self.speed))


def test_a_number_that_is_new_in_every_call() -> None:
    """Its value is computed in the program, like that of a new array."""
    use = cachax.jit(lambda wave: wave.height + 1)

    def use_new() -> None:
        use(Wave(ONES, 0.5 * next(NUMBERS)))

    kept = Wave(ONES, -1.0)
    few = counted(lambda: use(kept))
    for _ in range(40):
        use_new()
    assert counted(use_new)["functions"] < 150
    assert counted(lambda: use(kept))["functions"] <= few["functions"]


def test_new_objects_whose_values_are_not_computed_inside() -> None:
    """Nothing is learned again in each call, but the value is computed."""
    fun = cachax.jit(lambda o: o.y * o.total)
    counts = counted(lambda: fun(Cached(np.ones(2, np.float32), ONES)))
    assert counts["functions"] <= 650


class Scaled(flax.struct.PyTreeNode):
    x: jax.Array
    scale: Any

    @cachax.cached_property
    def total(self) -> Any:
        return self.scale * jnp.sum(self.x)


@pytest.mark.parametrize("kind", ["int", "array", "preset"])
def test_objects_that_are_found_by_arrays_and_by_numbers_in_turn(kind: str) -> None:
    """Nothing is learned again when the other one comes."""
    one = Scaled(ONES, 2.0)
    preset = cachax.preset(one, total=jnp.ones(()))
    other = {"int": Scaled(ONES, 2), "array": Scaled(ONES, ONES[0]), "preset": preset}
    in_turn = itertools.cycle([one, other[kind]])
    fun = cachax.jit(lambda o: o.x * o.total)
    for _ in range(8):
        fun(next(in_turn))
    assert counted(lambda: (fun(next(in_turn)), fun(next(in_turn))))["functions"] <= 30


class Config:
    """It can be changed."""

    scale: float

    def apply(self, x: Any) -> Any:
        return x


@jax.tree_util.register_pytree_node_class
class Converting:
    """Has a field that is not in the tree."""

    def __init__(self, x: Any, y: Any) -> None:
        self.x, self.y = jnp.asarray(x), jnp.asarray(y)
        self.size = 2

    def tree_flatten(self) -> Any:
        return (self.x, self.y), None

    @classmethod
    def tree_unflatten(cls, _: None, leaves: Any) -> "Converting":
        new = object.__new__(cls)
        new.x, new.y = leaves
        new.size = 2
        return new

    @cachax.cached_property
    def total(self) -> Any:
        return self.size * jnp.sum(self.x)


class WithStatic(flax.struct.PyTreeNode):
    x: Any
    y: Any
    step: Any
    static: Any = flax.struct.field(pytree_node=False)

    @cachax.cached_property
    def total(self) -> Any:
        return jnp.sum(self.x)


def _with_static(static: Any) -> Any:
    return lambda x: WithStatic(x, ONES, 0, static)


@pytest.mark.parametrize(
    "make",
    [
        _with_static(nn.Dense(3)),
        _with_static(nn.Dense(3).apply),
        _with_static(functools.partial(jnp.dot, precision="highest")),
        _with_static(optax.adam(1e-3)),
        lambda x: Converting(x, ONES),
        lambda x: TrainState.create(nn.Dense(3).apply, x),
    ],
    ids=["linen", "method", "partial", "optax", "not in the tree", "TrainState"],
)
def test_a_loop_of_objects_with_static_parts(make: Any) -> None:
    state = make(jnp.ones(2))
    step = cachax.jit(lambda s: _plus(s, 1e-3 * s.total))
    for _ in range(4):
        state = step(state)

    def call() -> None:
        nonlocal state
        state = step(state)

    assert counted(call)["functions"] <= 40


def _plus(state: Any, change: Any) -> Any:
    if isinstance(state, WithStatic):
        return state.replace(y=state.y + change, step=state.step + 1)
    if isinstance(state, TrainState):
        return state.apply_gradients(grads=jax.tree.map(jnp.ones_like, state.params))
    return jax.tree.unflatten(jax.tree.structure(state), [state.x, state.y + change])


class TrainState(flax_train_state.TrainState):
    data: Any = None

    @classmethod
    def create(cls, apply_fn: Any, x: Any) -> Any:  # type: ignore[override]
        params = {"w": jnp.ones(2), "b": jnp.ones(2)}
        return super().create(
            apply_fn=apply_fn, params=params, tx=optax.adam(1e-3), data=x
        )

    @cachax.cached_property
    def total(self) -> Any:
        return jnp.sum(self.data)


def test_a_static_part_that_is_changed_is_detected() -> None:
    config = Config()

    class Configured(flax.struct.PyTreeNode):
        x: Any
        static: Any = flax.struct.field(pytree_node=False)

        @cachax.cached_property
        def total(self) -> Any:
            its_config = getattr(self.static, "__self__", self.static)
            return jnp.sum(self.x) * its_config.scale

    for static in (config, config.apply):
        config.scale = 1.0
        obj, use = Configured(ONES, static), cachax.jit(lambda o: o.total)
        for _ in range(3):
            assert use(obj) == 2
        config.scale = 5.0
        assert use(obj) == obj.total == 10


def test_two_states_that_are_new_in_turn() -> None:
    """Nothing is learned again when the other one is new."""
    one, other = Cached(jnp.ones(2), ONES), Cached(jnp.zeros(2), ONES)
    fun = cachax.jit(lambda o, p: o.replace(x=o.x + 1e-3 * o.total * p.total))

    def call() -> None:
        nonlocal one, other
        one = fun(one, other)
        one = fun(one, other)
        other = fun(other, one)

    for _ in range(12):
        call()
    assert counted(call)["functions"] <= 160


class Two(flax.struct.PyTreeNode):
    x: jax.Array

    @cachax.cached_property
    def one(self) -> Any:
        return jnp.sum(self.x)

    @cachax.cached_property
    def other(self) -> Any:
        return jnp.max(self.x)


def test_a_second_value_of_arrays_that_are_new() -> None:
    """One function reads one value of each new state, and another one the other: both
    compute it inside."""
    step = cachax.jit(lambda s: (s.replace(x=s.x * 1.01), s.one))
    evaluate = cachax.jit(lambda s: s.other)
    state = Two(ONES)

    def call() -> None:
        nonlocal state
        state, one = step(state)
        assert evaluate(state) * 2 == pytest.approx(float(one * 1.01))

    for _ in range(12):
        call()
    assert counted(call)["functions"] <= 60


def test_a_number_that_is_an_array_from_the_second_call_on() -> None:
    """As the step of a train state. The function is traced for both, and not again."""
    traces = []

    class Data(flax.struct.PyTreeNode):
        x: Any

        @cachax.cached_property
        def total(self) -> Any:
            return jnp.sum(self.x)

    @cachax.jit
    def step(state: Any, data: Any) -> Any:
        traces.append(1)
        return state.replace(y=state.y + 1), data.total

    state = Cached(ONES, 0)
    for number in range(30):
        state, total = step(state, Data(np.full(2, float(number), np.float32)))
        assert total == 2 * number
    assert state.y == 30
    assert len(traces) <= 4
