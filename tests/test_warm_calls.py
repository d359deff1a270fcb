"""A warm call takes the values of its arguments, and keeps no others."""

import copy
import dataclasses
import gc
import threading
import types
import weakref
from collections.abc import Callable
from typing import Any

import equinox as eqx
import flax.struct
import jax
import jax.numpy as jnp
import pytest

import cachax
from cachax._core import index
from cachax._jit.call import Function
from cachax._jit.plan import Plan
from cachax._jit.program import Program

from measure import compilations, computations, computing


class Multiples:
    x: jax.Array

    @cachax.cached_property
    def double(self) -> jax.Array:
        computing("double")
        return 2 * self.x

    @cachax.cached_property
    def triple(self) -> jax.Array:
        computing("triple")
        return 3 * self.x


class Point(Multiples, flax.struct.PyTreeNode):
    x: jax.Array


class Loose(Multiples, flax.struct.PyTreeNode, frozen=False):
    x: jax.Array


class Box(flax.struct.PyTreeNode):
    inside: Any


def point(x: float = 1.0) -> Point:
    return Point(jnp.float32(x))


def warmed(fun: Callable[..., Any], *args: Any) -> None:
    """Called often enough to have everything ready."""
    for _ in range(3):
        fun(*args)


DOUBLES: dict[str, tuple[Callable[..., Any], Callable[[Any], tuple[Any, ...]]]] = {
    "alone": (lambda p: p.double, lambda p: (p,)),
    "with an array": (lambda p, y: p.double * y, lambda p: (p, jnp.float32(1))),
    "second": (lambda y, p: p.double * y, lambda p: (jnp.float32(1), p)),
    "in a list": (lambda ps: ps[0].double + ps[1].x, lambda p: ([p, point(0)],)),
    "in a box": (lambda box: box.inside.double, lambda p: (Box(p),)),
    "in a dict": (lambda d: d["p"].double, lambda p: ({"p": p, "y": 1.0},)),
}


@pytest.mark.parametrize("how", DOUBLES)
def test_a_different_object_has_a_different_value(how: str) -> None:
    fun, arguments = DOUBLES[how]
    jitted = cachax.jit(fun)
    for x in (1.0, 5.0, 7.0):
        args = arguments(point(x))
        for _ in range(4):
            assert jitted(*args) == 2 * x


@pytest.mark.parametrize("how", DOUBLES)
def test_an_assigned_field_is_detected(how: str) -> None:
    fun, arguments = DOUBLES[how]
    jitted, loose = cachax.jit(fun), Loose(jnp.float32(1))
    old = loose.x  # stays alive: nothing but the field tells
    args = arguments(loose)
    warmed(jitted, *args)
    loose.x = jnp.float32(4)
    assert jitted(*args) == 8
    loose.x = old
    assert jitted(*args) == 2


@pytest.mark.parametrize("how", DOUBLES)
def test_a_value_stored_on_a_frozen_object_wins_once_it_was_read(how: str) -> None:
    fun, arguments = DOUBLES[how]
    jitted, p = cachax.jit(fun), point()
    args = arguments(p)
    warmed(jitted, *args)
    p.__dict__["double"] = jnp.float32(10)
    assert p.double == 10
    assert jitted(*args) == 10


@pytest.mark.parametrize("how", DOUBLES)
def test_a_field_that_is_assigned_over_goes_at_once(how: str) -> None:
    fun, arguments = DOUBLES[how]
    jitted, loose = cachax.jit(fun), Loose(jnp.float32(1))
    args = arguments(loose)
    warmed(jitted, *args)
    value, field = weakref.ref(loose.double), weakref.ref(loose.x)
    loose.x = jnp.float32(4)
    gc.collect()
    assert field() is None
    assert value() is None


def test_the_place_of_an_object_matters() -> None:
    """One program may have been compiled for two structures of arguments."""
    last = cachax.jit(lambda *args: args[2].double)
    y, a, b = jnp.float32(0), point(1.0), point(2.0)
    for _ in range(4):
        assert last(y, y, a) == 2
        assert last(y, a, b) == 4
        assert last(a, y, b) == 4
        assert last(b, b, a) == 2


def test_the_same_object_twice() -> None:
    second = cachax.jit(lambda p, q: q.double)
    a, b = point(1.0), point(2.0)
    for _ in range(4):
        assert second(a, a) == 2
        assert second(a, b) == 4
        assert second(b, a) == 2


def test_an_object_where_an_array_was() -> None:
    fun = cachax.jit(
        lambda d: d["a"].double if isinstance(d["a"], Point) else d["b"].double
    )
    y, a, b = jnp.float32(0), point(1.0), point(2.0)
    for _ in range(4):
        assert fun({"a": y, "b": b}) == 4
        assert fun({"a": a, "b": b}) == 2
        assert fun({"a": a, "b": y}) == 2


def test_objects_of_two_classes_in_one_place() -> None:
    class Other(Point):
        @cachax.cached_property
        def double(self) -> jax.Array:
            return 20 * self.x

    fun = cachax.jit(lambda ps: ps[0].double + ps[1].double)
    a, b = point(1.0), Other(jnp.float32(1))
    for _ in range(4):
        assert fun([a, a]) == 4
        assert fun([a, b]) == 22
        assert fun([b, a]) == 22
        assert fun([b, b]) == 40


def test_other_structures_of_one_kind_have_their_own_plans() -> None:
    fun = cachax.jit(lambda d: sum(p.double for p in d.values()))
    dicts = [{f"{i}{j}": point(i) for j in range(i)} for i in range(1, 5)]
    for d in dicts:
        warmed(fun, d)
    with compilations() as compiled, computations() as counts:
        assert [int(fun(d)) for d in dicts] == [2, 8, 18, 32]
    assert compiled == []
    assert not counts


def test_statics_and_keywords() -> None:
    @cachax.jit(static_argnames="n")
    def fun(p: Point, n: int, *, y: Any = 1.0) -> Any:
        return p.double * n * y

    p = point()
    for n in (1, 2):
        for _ in range(4):
            assert fun(p, n) == fun(p, n=n) == 2 * n
            assert fun(p, n, y=3.0) == 6 * n
            assert fun(n=n, p=p) == 2 * n


def test_a_static_object_first() -> None:
    @dataclasses.dataclass(frozen=True)
    class Setting:
        by: int

    fun = cachax.jit(lambda s, p: p.double * s.by, static_argnums=0)
    p = point()
    for by in (1, 2, 1):
        for _ in range(4):
            assert fun(Setting(by), p) == 2 * by


def test_in_a_trace_it_is_the_traced_object() -> None:
    inner = cachax.jit(lambda p: p.double)
    p = point()
    warmed(inner, p)

    @jax.jit
    def outer(p: Point) -> Any:
        return inner(p) + inner(p) + inner(p)

    assert outer(point(5.0)) == 30
    assert jax.grad(lambda p: inner(p) + inner(p) + inner(p))(p).x == 6
    each = jax.vmap(lambda p: inner(p) + inner(p) + inner(p))(Point(jnp.arange(3.0)))
    assert each.tolist() == [0, 6, 12]
    assert inner(p) == 2


def test_under_disable_jit_nothing_is_compiled() -> None:
    fun, p = cachax.jit(lambda p: p.double), point()
    warmed(fun, p)
    seen: list[bool] = []
    with jax.disable_jit():
        watched = cachax.jit(lambda p: (seen.append(p is q), p.double)[1])
        q = point(3.0)
        assert fun(p) == 2
        assert [watched(q) for _ in range(4)] == [6] * 4
    assert seen == [True] * 4


def test_with_nothing_at_all() -> None:
    assert cachax.jit(lambda: 3)() == 3
    assert cachax.jit(lambda p: p)(None) is None
    assert cachax.jit(lambda p=2: p)() == 2


def test_a_copy_is_a_different_object() -> None:
    fun, loose = cachax.jit(lambda p: p.double), Loose(jnp.float32(1))
    warmed(fun, loose)
    other = copy.copy(loose)
    other.x = jnp.float32(3)
    assert fun(other) == 6
    assert fun(loose) == 2


def test_a_field_that_gets_a_different_name_is_detected() -> None:
    class Pair(flax.struct.PyTreeNode, frozen=False):
        x: Any
        y: Any

        @cachax.cached_property
        def difference(self) -> Any:
            return self.x - self.y

    pairs = [Pair(jnp.float32(i), jnp.float32(1)) for i in (3, 5)]
    fun = cachax.jit(lambda pairs: pairs[0].difference - pairs[1].difference)
    warmed(fun, pairs)
    assert fun(pairs) == -2
    for pair in pairs:
        x, y = pair.x, pair.y
        del pair.x, pair.y
        pair.y, pair.x = x, y
    assert fun(pairs) == 2


def test_no_code_of_the_users_runs_to_compare_structures() -> None:
    class Unprintable(Point):
        def __repr__(self) -> str:
            raise RuntimeError("not to be printed")

    fun = cachax.jit(lambda ps: sum(p.double for p in ps))
    p = Unprintable(jnp.float32(1))
    for length in (1, 1, 1, 2, 2, 2, 3, 1, 2) * 3:
        assert fun([p] * length) == 2 * length


def test_a_users_error_is_shown_alone() -> None:
    fun = cachax.jit(lambda p, y: p.double + y @ jnp.ones(2))
    p = point()
    warmed(fun, p, jnp.ones(2))
    with pytest.raises(TypeError) as raised:
        fun(p, jnp.ones(3))
    seen: BaseException | None = raised.value
    while seen is not None:
        assert "cachax" not in type(seen).__module__
        seen = seen.__context__


def test_one_sharding_for_any_number_of_arguments() -> None:
    mesh = jax.sharding.Mesh(jax.devices()[:1], ("d",))
    everywhere = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    fun = cachax.jit(lambda p, y=1.0: p.double * y, in_shardings=everywhere)
    p = point()
    for _ in range(4):
        assert fun(p) == 2
        assert fun(p, jnp.float32(3)) == 6


def test_a_field_of_a_frozen_object_among_several_set_by_force_is_detected() -> None:
    class Frozen(flax.struct.PyTreeNode):
        x: Any

        @cachax.cached_property
        def total(self) -> Any:
            return jnp.sum(self.x)

    objects = [Frozen(jnp.ones(2)), Frozen(jnp.ones(2))]
    before = objects[0].x  # there is a second reference
    use = cachax.jit(lambda objects: objects[0].total + objects[1].total)
    for _ in range(5):
        assert float(use(objects)) == 4
    object.__setattr__(objects[0], "x", 3 * before)
    assert float(use(objects)) == 8


def test_objects_and_fields_come_and_go_among_many() -> None:
    """Addresses are used again, by other things."""
    fun = cachax.jit(lambda ps: sum(p.double for p in ps))
    xs = [0.0] * 10
    loose = [Loose(jnp.float32(x)) for x in xs]
    warmed(fun, loose)
    for i in range(200):
        n, xs[n] = i % 10, float(i)
        if i % 3 == 0:
            loose[n].x = jnp.float32(i)
        elif i % 3 == 1:
            loose[n] = Loose(jnp.float32(i))
        else:  # a field that is a number, and had been an array
            xs[n] = float(n)
            loose[n].x = n
        assert fun(loose) == 2 * sum(xs)
        assert fun(loose) == 2 * sum(xs)


@pytest.mark.parametrize("cls", [Point, Loose])
def test_fields_that_are_exchanged_among_many_are_detected(cls: Any) -> None:
    fun = cachax.jit(lambda ps: ps[0].double - ps[1].double)
    ps = [cls(jnp.float32(1)), cls(jnp.float32(3))]
    warmed(fun, ps)
    assert fun(ps) == -4
    for p, x in zip(ps, [ps[1].x, ps[0].x], strict=True):
        object.__setattr__(p, "x", x)
    assert fun(ps) == 4
    ps[0].__dict__["double"] = jnp.float32(10)
    assert ps[0].double == 10
    assert fun(ps) == 8
    warmed(fun, ps[::-1])
    assert fun(ps[::-1]) == -8


def test_a_dict_in_place_of_the_one_an_object_had_is_detected() -> None:
    fun = cachax.jit(lambda ps: ps[0].double + ps[1].double)
    ps = [Loose(jnp.float32(1)), Loose(jnp.float32(3))]
    warmed(fun, ps)
    before = ps[0].__dict__
    ps[0].__dict__ = {"x": jnp.float32(5)}
    assert fun(ps) == 16
    ps[0].__dict__ = before
    assert fun(ps) == 8


def test_a_class_that_makes_up_its_dict() -> None:
    @jax.tree_util.register_pytree_node_class
    class Veiled(Multiples):
        def __init__(self, x: Any) -> None:
            self.x = x

        @property
        def __dict__(self) -> Any:
            return types.MappingProxyType({"x": self.x})

        def tree_flatten(self) -> Any:
            return (self.x,), None

        @classmethod
        def tree_unflatten(cls, _: None, children: Any) -> Any:
            return cls(*children)

    fun = cachax.jit(lambda ps: ps[0].double + ps[1].double)
    ps = [Veiled(jnp.float32(1)), Veiled(jnp.float32(2))]
    warmed(fun, ps)
    before = ps[0].x  # there is a second reference
    ps[0].x = 5 * before
    assert fun(ps) == 14


@pytest.mark.parametrize(
    "call",
    [
        lambda fun, x: fun({"x": x}),
        lambda fun, x: fun({"x": x}, 1.0),
        lambda fun, x: fun({"x": x}, more={"y": 1.0}),
        lambda fun, x: fun([x]),
        lambda fun, x: fun(1.0, {"x": x}),
        lambda fun, x: fun(1.0, 2.0, 3.0, {"x": x}),
        lambda fun, x: fun(more=(1.0, x)),
    ],
)
def test_an_object_in_place_of_an_array(call: Any) -> None:
    def use(*args: Any, **kwargs: Any) -> Any:
        things = jax.tree.leaves(
            (args, kwargs), is_leaf=lambda x: isinstance(x, Multiples)
        )
        return sum(x.double if isinstance(x, Multiples) else x for x in things)

    fun = cachax.jit(use)
    without = call(fun, 0.0)
    warmed(lambda: call(fun, 0.0))
    for p in (point(1.0), Loose(jnp.float32(1))):
        with computations() as counts:
            for _ in range(4):
                assert call(fun, p) == 2 + without
                assert call(fun, 0.0) == without
        assert counts == {"double": 1}
        object.__setattr__(p, "x", jnp.float32(5))
        assert call(fun, p) == 10 + without
    assert call(fun, jnp.arange(3.0)).tolist() == [without + i for i in range(3)]


def test_shapes_that_use_different_values_take_turns() -> None:
    fun = cachax.jit(lambda p, y: (p.double if y.ndim else p.x) + y)
    p = point(3.0)
    with computations() as counts:
        for _ in range(4):
            assert fun(p, jnp.float32(0)) == 3
        assert counts == {}
        for _ in range(4):
            assert fun(p, jnp.zeros(1)).tolist() == [6]
            assert fun(p, jnp.float32(0)) == 3
    assert counts == {"double": 1}


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Chain:
    x: jax.Array

    @cachax.cached_property
    def p(self) -> jax.Array:
        return self.x.sum()

    @cachax.cached_property
    def q(self) -> jax.Array:
        return self.p * 2


@pytest.mark.parametrize("calls_before", [0, 1, 3, 14])
@pytest.mark.parametrize(("name", "expected"), [("p", 100), ("q", 200)])
def test_a_value_in_the_dict_of_an_object_is_used(
    name: str, expected: float, calls_before: int
) -> None:
    """`vars(obj)["p"] = value`, of which cachax is told nothing."""
    x = jnp.arange(4.0)

    class Own(Chain):  # nothing is known of its values
        p = cachax.cached_property(Chain.p.func)
        q = cachax.cached_property(Chain.q.func)

    jax.tree_util.register_dataclass(Own, ["x"], [])
    fun = cachax.jit(lambda s: getattr(s, name) + 0.0)
    same = Own(x)
    for i in range(calls_before):
        fun(Own(x + i) if calls_before > 8 else same)
    own = Own(x)
    vars(own)["p"] = jnp.float32(100)
    assert fun(own) == expected
    assert getattr(own, name) == expected
    assert fun(own) == expected
    assert fun(Own(x)) == {"p": 6, "q": 12}[name]


def test_a_thread_does_not_change_which_program_a_call_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A different thread calls the function after the values were looked up."""

    @jax.tree_util.register_dataclass
    @dataclasses.dataclass(frozen=True)
    class Switch(Multiples):
        x: jax.Array

        @cachax.cached_property
        def is_large(self) -> bool:
            return bool(self.x > 5)

    fun = cachax.jit(lambda s: s.triple if s.is_large else -s.double)
    small, large = Switch(jnp.float32(1)), Switch(jnp.float32(10))
    fun(large), fun(small)
    small = Switch(jnp.float32(2))
    fun(small)
    look_up = Plan.look_up

    def slowly(plan: Plan, *call: Any) -> Any:
        found = look_up(plan, *call)
        if threading.current_thread() is threading.main_thread():
            thread = threading.Thread(target=lambda: fun(large))
            thread.start()
            thread.join()
        return found

    with monkeypatch.context() as patch:
        patch.setattr(Plan, "look_up", slowly)
        assert fun(small) == -4
    assert [fun(small), fun(small), fun(large)] == [-4, -4, 30]


@pytest.mark.parametrize("data", [["x", "scale"], ["x"]])
def test_a_sweep_over_a_number_keeps_few_values(data: list[str]) -> None:
    @dataclasses.dataclass(frozen=True)
    class Scaled:
        x: jax.Array
        scale: float

        @cachax.cached_property
        def kernel(self) -> jax.Array:
            return jnp.outer(self.x, self.x) * self.scale

    static = [name for name in ("x", "scale") if name not in data]
    jax.tree_util.register_dataclass(Scaled, data, static)
    total = cachax.jit(lambda s: s.kernel.sum())
    largest = cachax.jit(lambda s: s.kernel.max())
    x = jnp.arange(7.0)
    kernels = []
    for i in range(9):
        scaled = Scaled(x, 1.0 + i)
        kernels.append(weakref.ref(scaled.kernel))
        for _ in range(3):
            assert total(scaled) == 441 * (1 + i)
            assert largest(scaled) == 36 * (1 + i)
    del scaled
    gc.collect()
    kept = [kernel() is not None for kernel in kernels]
    assert kept == [False] * 5 + [True] * 4


@pytest.mark.parametrize(
    "use", [lambda p, i: p.double + i, lambda p, i: (p, p.double + i)]
)
def test_functions_that_are_gone_leave_nothing(use: Any) -> None:
    """Neither with the arrays, nor with what JAX knows of their results."""
    p = cachax.warm(point(3.0))

    def made(i: int) -> Any:
        fun = cachax.jit(lambda p: use(p, i))
        warmed(fun, p)
        return weakref.ref(fun.__wrapped__)

    gc.collect()
    before = sum(type(x) is Program for x in gc.get_objects())
    functions = [made(i) for i in range(3)]
    gc.collect()
    assert [fun() for fun in functions] == [None] * 3
    assert not index.contents_of(p.x).calls
    assert sum(type(x) is Program for x in gc.get_objects()) == before


@pytest.mark.parametrize("lifted", [cachax.jit, cachax.lift(eqx.filter_jit)])
def test_an_array_where_a_number_was(lifted: Any) -> None:
    class Scaled(eqx.Module):
        x: Any
        n: Any

        @cachax.cached_property
        def total(self) -> Any:
            return jnp.sum(self.x) * self.n

    use = lifted(lambda s: s.total + 0)
    x = jnp.ones(3)
    numbers = [2, 2.0, jnp.float32(2), True, 3, -0.0, jnp.int32(5), 2, 2.0]
    for n in numbers * 2:
        assert use(Scaled(x, n)) == 3 * n


def slow_calls(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Calls from now on for which values are looked for one by one, or computed."""
    found: list[Any] = []
    learn = Function._call_learning

    def learning(self: Any, entry: Any, call: Any) -> Any:
        found.append(call)
        return learn(self, entry, call)

    monkeypatch.setattr(Function, "_call_learning", learning)
    return found


class Power(flax.struct.PyTreeNode):
    x: jax.Array
    order: int = flax.struct.field(pytree_node=False, default=1)

    @cachax.cached_property
    def total(self) -> jax.Array:
        return jnp.sum(self.x**self.order)


def test_objects_with_different_static_fields_in_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fun = cachax.jit(lambda obj: obj.x * obj.total)
    objects = [Power(jnp.arange(3.0) + order, order) for order in (2, 3, 4)]
    for number in range(12):
        fun(objects[number % 3])
    slow = slow_calls(monkeypatch)
    for number in range(12):
        obj = objects[number % 3]
        assert jnp.array_equal(fun(obj), obj.x * jnp.sum(obj.x**obj.order))
    assert not slow
