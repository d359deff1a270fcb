"""Programs that once broke a law, or would break a simpler design."""

import functools
import gc
import logging
import pathlib
import threading
import types
import warnings
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

import cachax
from cachax._core import memo

from families import SlottedDerived
from measure import compilations, computations, computing


class Holder:
    """A plain object with one field."""

    def __init__(self, x: Any) -> None:
        self.x = x

    @cachax.cached_property
    def total(self) -> Any:
        computing("total")
        return sum(float(leaf) for leaf in jax.tree.leaves(self.x))


@dataclass(frozen=True)
class Box:
    x: Any

    @cachax.cached_property
    def doubled(self) -> Any:
        computing("doubled")
        return self.x * 2


jax.tree_util.register_dataclass(Box, data_fields=["x"], meta_fields=[])


def box(number: float = 1.0) -> Box:
    return Box(jnp.asarray(number))


# Law 2: an id is used again as soon as its owner is gone


class Two(NamedTuple):
    first: Any
    second: Any


@pytest.mark.parametrize(
    "pair",
    [
        lambda i: (float(i), 1.0),
        lambda i: (jnp.float32(i), jnp.float32(1)),
        lambda i: Two(float(i), 1.0),
        lambda i: ((float(i),), (1.0,)),
        lambda i: [float(i), 1.0],
        lambda i: {"a": float(i), "b": 1.0},
    ],
    ids=["tuple", "arrays", "namedtuple", "nested", "list", "dict"],
)
def test_a_container_replaced_by_a_different_one_at_the_same_place(pair: Any) -> None:
    holder = Holder(None)
    for i in range(50):
        holder.x = None
        holder.x = pair(i)
        assert holder.total == i + 1


def test_numbers_replaced_a_thousand_times() -> None:
    holder = Holder(0.0)
    for i in range(1000):
        holder.x = holder.x + 1.0
        assert holder.total == i + 1


@pytest.mark.skipif(not hasattr(jax, "new_ref"), reason="this JAX has no references")
@pytest.mark.parametrize(
    "wrap", [lambda r: (r,), lambda r: Box(r)], ids=["tuple", "box"]
)
def test_a_reference_further_inside_is_never_trusted(wrap: Any) -> None:
    class Outer:
        def __init__(self, inner: Any) -> None:
            self.inner = inner

        @cachax.cached_property
        def value(self) -> Any:
            inner = self.inner
            return (inner.x if isinstance(inner, Box) else inner[0])[...] + 0

    ref = jax.new_ref(jnp.float32(1))
    outer = Outer(wrap(ref))
    assert outer.value == 1
    ref[...] = 5.0
    assert outer.value == 5


def test_a_plain_subclass_of_a_frozen_dataclass_is_not_frozen() -> None:
    class Sub(Box):
        pass

    sub = Sub(1.0)
    sub.extra = 1.0

    class Around:
        def __init__(self) -> None:
            self.sub = sub

        @cachax.cached_property
        def extra(self) -> float:
            return self.sub.extra

    around = Around()
    assert around.extra == 1
    sub.extra = 5.0
    assert around.extra == 5


def test_what_only_keeps_notes_for_itself_is_not_a_change() -> None:
    class Run:
        def __init__(self) -> None:
            self.path = pathlib.PurePath("a") / "b"
            self.log = logging.getLogger("cachax.test")

        @cachax.cached_property
        def value(self) -> int:
            computing("value")
            return 1

    run = Run()
    with computations() as counts:
        assert run.value == 1
        assert (str(run.path), run.log.isEnabledFor(10)) == ("a/b", False)
        assert run.value == 1
    assert counts == {"value": 1}


def test_a_polynomial_can_change() -> None:
    holder = Polynomial()
    assert holder.at_one == 3
    holder.p.coef = np.array([10.0, 5.0])
    assert holder.at_one == 15


class Polynomial:
    def __init__(self) -> None:
        self.p = np.polynomial.Polynomial([1.0, 2.0])

    @cachax.cached_property
    def at_one(self) -> Any:
        return self.p(1.0)


def test_a_mapping_proxy_is_looked_through() -> None:
    table = {"a": 1.0}

    class Config:
        def __init__(self, table: Any) -> None:
            self.table = types.MappingProxyType(table)

        @cachax.cached_property
        def doubled(self) -> Any:
            return 2 * self.table["a"]

    config = Config(table)
    assert config.doubled == 2
    table["a"] = 5.0
    assert config.doubled == 10
    assert jax.grad(lambda x: Config({"a": x}).doubled)(3.0) == 2


def test_a_value_assigned_by_the_user_goes_into_jit() -> None:
    @dataclass
    class Open:
        x: Any

        @cachax.cached_property
        def doubled(self) -> Any:
            return self.x * 2

    jax.tree_util.register_dataclass(Open, data_fields=["x"], meta_fields=[])
    fun = cachax.jit(lambda o: o.doubled + 0)
    obj = Open(jnp.float32(1))
    assert fun(obj) == 2
    obj.doubled = 42.0
    assert fun(obj) == obj.doubled == 42
    del obj.doubled
    assert fun(obj) == 2


# Law 1


@dataclass(frozen=True)
class Grid:
    """Has no array at all."""

    n: int

    @cachax.cached_property
    def points(self) -> jax.Array:
        computing("points")
        return jnp.linspace(0, 1, self.n)


jax.tree_util.register_dataclass(Grid, data_fields=[], meta_fields=["n"])


def test_an_object_without_arrays_is_carried() -> None:
    grid = Grid(3)
    first = cachax.jit(lambda g, x: g.points * x)
    second = cachax.jit(lambda g, x: g.points + x)
    with computations() as counts:
        first(grid, 1.0)
        second(grid, 1.0)
        first(grid, jnp.ones(3))
        assert grid.points.shape == (3,)
    assert counts == {"points": 1}


def test_a_jitted_body_that_uses_many_properties() -> None:
    def link(k: int) -> Any:
        def body(self: Any) -> Any:
            computing(f"link{k}")
            return self.x + k

        return body

    names = {f"link{k}": cachax.cached_property(link(k)) for k in range(12)}

    @cachax.cached_property
    @jax.jit
    def total(self: Any) -> Any:
        computing("total")
        return sum(getattr(self, name) for name in names)

    cls = type("Many", (Box,), {**names, "total": total})
    jax.tree_util.register_dataclass(cls, data_fields=["x"], meta_fields=[])
    for x in (0.0, 1.0):
        obj = cls(jnp.float32(x))
        with computations() as counts:
            assert obj.total == 66 + 12 * x
            cachax.warm(obj, *names)
        assert counts == dict.fromkeys([*names, "total"], 1)


def test_a_jitted_body_that_uses_a_value_of_an_object_in_a_value() -> None:
    @jax.tree_util.register_dataclass
    @dataclass(frozen=True)
    class Part(Box):
        @cachax.cached_property
        def square(self) -> Any:
            computing("square")
            return self.x**2

    @jax.tree_util.register_dataclass
    @dataclass(frozen=True)
    class Whole(Box):
        @cachax.cached_property
        def part(self) -> Part:
            return Part(self.x + 1)

        @cachax.cached_property
        @jax.jit
        def total(self) -> Any:
            return self.part.square + 1

    whole = Whole(jnp.float32(2.0))
    with computations() as counts:
        assert whole.total == 10
        assert whole.part.square == 9
    assert counts == {"square": 1}


def test_a_value_that_has_an_object_only_sometimes() -> None:
    class Parent(Box):
        @cachax.cached_property
        def child(self) -> Any:
            return Box(self.x) if self.x > 1 else None

    jax.tree_util.register_dataclass(Parent, data_fields=["x"], meta_fields=[])

    @cachax.jit
    def fun(parent: Any) -> Any:
        return parent.x if parent.child is None else parent.child.doubled

    with_child, without = Parent(jnp.float32(2)), Parent(jnp.float32(1))
    assert fun(with_child) == 4
    assert without.child is None
    assert [fun(without), fun(with_child)] == [1, 4]


class Signed(Box):
    @cachax.cached_property
    def sign(self) -> bool:
        return bool(self.x > 0)

    @cachax.cached_property
    def root(self) -> Any:
        if self.x <= 0:
            raise ValueError("no root")
        computing("root")
        return jnp.sqrt(self.x)

    @cachax.cached_property
    def negative(self) -> Any:
        computing("negative")
        return -self.x


jax.tree_util.register_dataclass(Signed, data_fields=["x"], meta_fields=[])


def test_which_values_are_used_may_depend_on_a_static_value() -> None:
    """Nothing is computed that is not used, and nothing is traced again."""
    traced = []

    @cachax.jit
    def fun(s: Any) -> Any:
        traced.append(1)
        return s.root if s.sign else s.negative

    good, bad = Signed(jnp.float32(4)), Signed(jnp.float32(-4))
    with computations() as counts:
        for obj, value in [(good, 2), (bad, 4), (good, 2), (bad, 4)]:
            assert fun(obj) == value
        before = len(traced)
        for k in range(1, 4):
            assert fun(good) == 2
            assert fun(Signed(jnp.float32(-k))) == k
    assert counts == {"root": 1, "negative": 4}
    assert len(traced) == before


# Law 7


@dataclass(frozen=True)
class Schedule:
    w: Any
    rate: float
    step: int

    @cachax.cached_property
    def now(self) -> Any:
        return self.rate / (1 + self.step)

    @cachax.cached_property
    def half(self) -> Any:
        return len(self.w) // 2, self.step


jax.tree_util.register_dataclass(
    Schedule, data_fields=["w", "rate", "step"], meta_fields=[]
)


def test_numbers_computed_from_numbers_travel_as_they_do_in_jax() -> None:
    fun = cachax.jit(lambda s: s.w * s.now + jnp.zeros(2 * s.half[0]) + s.half[1])
    w = jnp.ones(2)
    with compilations() as compiled:
        for step in range(5):
            got = fun(Schedule(w, 2.0, step))
            assert got.tolist() == [np.float32(2.0 / (1 + step)) + step] * 2
    assert len(compiled) == 1


def test_functions_that_each_object_makes_again_are_the_same() -> None:
    class Maker(Box):
        @cachax.cached_property
        def functions(self) -> Any:
            n = 2
            return (
                lambda y: y**n,
                functools.partial(jnp.sum, axis=-1),
                slice(0, 2),
            )

    jax.tree_util.register_dataclass(Maker, data_fields=["x"], meta_fields=[])

    @cachax.jit
    def fun(m: Any) -> Any:
        square, total, part = m.functions
        return total(square(m.x)[part])

    makers = [Maker(jnp.arange(3.0) + k) for k in range(4)]
    with compilations() as compiled:
        values = [float(fun(m)) for m in makers]
    assert values == [1, 5, 13, 25]
    assert len(compiled) == 1


# Law 3 and 5: tracers where one does not expect them


def test_tracers_hidden_in_functions() -> None:
    def use(x: Any, make: Any) -> Any:
        class Local:
            def __init__(self) -> None:
                self.fun = make(x)

            @cachax.cached_property
            def value(self) -> Any:
                return self.fun(2.0)

        local = Local()
        return local.value + 0 * local.value

    def custom(x: Any) -> Any:
        rule = jax.custom_jvp(lambda y: y * x)
        rule.defjvp(lambda y, t: (y[0] * x, t[0] * x))
        return rule

    def keyword(x: Any) -> Any:
        def fun(y: Any, *, k: Any = x) -> Any:
            return y * k

        return fun

    makers = [lambda x: lambda y: y * x, keyword, custom]
    for make in makers:
        assert jax.jit(lambda x, make=make: use(x, make))(3.0) == 6
    for make in makers[:2]:  # a custom rule cannot close over a differentiated value
        assert jax.grad(lambda x, make=make: use(x, make))(3.0) == 2


# Law 8: the table is out of the garbage collector's sight


@pytest.fixture
def nothing_left() -> Iterator[None]:
    gc.collect()
    before = len(memo.memos)
    yield
    gc.collect()
    assert len(memo.memos) <= before


class Linked:
    def __init__(self, x: Any) -> None:
        self.x = x
        self.other: Any = None

    @cachax.cached_property
    def doubled(self) -> Any:
        return 2 * self.x

    @cachax.cached_property
    def partner(self) -> Any:
        return self.other

    @cachax.cached_property
    def transposed(self) -> Any:
        return cachax.preset(Linked(-self.x), transposed=self)

    @cachax.cached_property
    def hidden(self) -> Any:
        return HIDE[self.x](self)


def with_keyword(obj: Any) -> Any:
    def fun(*, me: Any = obj) -> Any:
        return me

    return fun


def as_error(obj: Any) -> Any:
    try:
        raise ValueError(obj)
    except ValueError as error:
        return error


HIDE = {
    "closure": lambda obj: lambda: obj,
    "keyword": with_keyword,
    "method": lambda obj: obj.__init__,
    "partial": lambda obj: functools.partial(print, obj),
    "namespace": lambda obj: types.SimpleNamespace(me=obj),
    "error": as_error,
    "custom_rule": lambda obj: jax.custom_jvp(lambda x: obj),
    "jit": lambda obj: jax.jit(lambda x: obj),
    "object_array": lambda obj: np.array([obj], dtype=object),
    "proxy": lambda obj: types.MappingProxyType({"me": obj}),
    "cell": lambda obj: (lambda: obj).__closure__,
}


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("place", HIDE)
def test_a_value_that_holds_its_object_where_it_is_not_visible(place: str) -> None:
    obj = Linked(place)
    with pytest.warns(cachax.NotKeptWarning, match=r"Linked\.hidden") as caught:
        obj.hidden  # noqa: B018
    assert caught[0].filename == __file__
    watched = weakref.ref(obj)
    del obj, caught
    gc.collect()
    assert watched() is None


@pytest.mark.usefixtures("nothing_left")
def test_two_objects_that_hold_each_other_through_their_values() -> None:
    one, two = Linked(1.0), Linked(2.0)
    one.other, two.other = two, one
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cachax.NotKeptWarning)
        assert one.partner is two
        assert two.partner is one
        assert one.transposed.transposed is one
    watched = weakref.ref(one)
    del one, two
    gc.collect()
    assert watched() is None


@pytest.mark.usefixtures("nothing_left")
def test_a_field_that_leads_back_to_the_object() -> None:
    obj = Linked(1.0)
    obj.other = types.MappingProxyType({"me": obj.__eq__, "and": (obj, [obj])})
    obj.x = 3.0
    assert obj.doubled == 6
    watched = weakref.ref(obj)
    del obj
    gc.collect()
    assert watched() is None


@pytest.mark.parametrize("slots", [(), ("__weakref__", "y")])
def test_a_class_made_and_forgotten(slots: Any) -> None:
    def make() -> weakref.ref[type]:
        class Base:
            if slots:
                __slots__ = slots

            @cachax.cached_property
            def value(self) -> int:
                return 1

        class Local(Base):
            if slots:
                __slots__ = ()

            @cachax.cached_property
            def value(self) -> int:
                return super().value + 1

        obj = Local()
        assert obj.value == 2
        assert cachax.cached(obj) == {"value": 2}
        return weakref.ref(Local)

    watched = make()
    gc.collect()
    assert watched() is None


# Threads


def test_a_thread_that_waits_for_a_value_does_not_hold_the_trace_it_needs() -> None:
    """One thread computes a value and needs a function for it; the other is in the
    trace of that function and needs the value."""
    in_body, in_trace = threading.Event(), threading.Event()

    class Countdown(Box):
        @cachax.cached_property
        def steps(self) -> Any:
            if float(self.x) == 0:
                return self.x
            in_body.set()
            in_trace.wait(10)
            return steps(Countdown(self.x - 1)) + 1

    jax.tree_util.register_dataclass(Countdown, data_fields=["x"], meta_fields=[])

    @cachax.jit
    def steps(c: Any) -> Any:
        in_trace.set()
        return c.steps

    obj, got = Countdown(jnp.float32(1)), []
    reader = threading.Thread(target=lambda: got.append(obj.steps), daemon=True)
    reader.start()
    assert in_body.wait(10)
    caller = threading.Thread(target=lambda: got.append(steps(obj)), daemon=True)
    caller.start()
    for thread in (reader, caller):
        thread.join(30)
    assert got == [1, 1]


# Values with arrays that JAX does not see


class Curve(Box):
    @cachax.cached_property
    def fun(self) -> Any:
        x = self.x
        return lambda q: q * x

    @cachax.cached_property
    def partial(self) -> Any:
        """Hidden in the metadata of a tree."""
        return jax.tree_util.Partial(self.fun)


jax.tree_util.register_dataclass(Curve, data_fields=["x"], meta_fields=[])


@pytest.mark.parametrize("name", ["fun", "partial"])
def test_a_closure_over_arrays_is_computed_inside_and_not_retained(name: str) -> None:
    fun = cachax.jit(lambda c: getattr(c, name)(2.0))
    curves = [Curve(jnp.float32(k)) for k in range(4)]
    with compilations() as compiled:
        assert [float(fun(curve)) for curve in curves] == [0, 2, 4, 6]
    assert len(compiled) == 1
    watched = [weakref.ref(curve.x) for curve in curves]
    del curves
    gc.collect()
    assert [ref() for ref in watched] == [None] * 4


def test_a_returned_object_leaves_out_values_that_cannot_be_outputs() -> None:
    class More(Curve):
        @cachax.cached_property
        def names(self) -> Any:
            return {"a", "b"}

    jax.tree_util.register_dataclass(More, data_fields=["x"], meta_fields=[])

    @cachax.jit
    def fun(x: Any, other: Any) -> Any:
        new = More(x)
        return new, new.fun(2.0), len(new.names), new.doubled

    new, *_ = fun(jnp.float32(3), box())
    assert set(cachax.cached(new)) == {"doubled"}
    assert new.fun(2.0) == 6
    assert new.names == {"a", "b"}


# Options


def test_static_pytrees_and_static_tuples() -> None:
    fun = cachax.jit(lambda s, t: s.points * t.doubled, static_argnums=0)
    assert fun(Grid(2), box(3.0)).tolist() == [0, 6]
    fun = cachax.jit(lambda s, t: s[0].points * t.doubled, static_argnames="s")
    assert fun(s=(Grid(2),), t=box(3.0)).tolist() == [0, 6]


def test_jit_of_jit_keeps_its_own_options() -> None:
    inner = cachax.jit(lambda b, k: b.doubled * k)
    outer = cachax.jit(inner, static_argnums=1)
    assert outer(box(), 3) == 6
    assert outer.__wrapped__ is inner


def test_an_argument_called_self() -> None:
    def fun(self: Any, b: Any) -> Any:
        return self * b.doubled

    assert cachax.jit(fun)(self=2.0, b=box()) == 4


def test_a_callable_object() -> None:
    class Scale:
        def __init__(self) -> None:
            self._habits = 3.0

        def __call__(self, b: Any) -> Any:
            return self._habits * b.doubled

    assert cachax.jit(Scale())(box()) == 6
    jitted = cachax.jit(functools.partial(lambda k, b: k * b.doubled, 2.0))
    assert jitted(box()) == 4


def test_one_sharding_for_all_arguments_beside_a_static_one() -> None:
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("d",))
    everywhere = NamedSharding(mesh, PartitionSpec())
    fun = cachax.jit(
        lambda b, k, y: b.doubled * k * y, static_argnums=1, in_shardings=everywhere
    )
    assert fun(box(), 2, jnp.float32(3)) == 12


def test_a_jitted_body_with_a_sharding_for_each_field() -> None:
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("d",))
    everywhere = NamedSharding(mesh, PartitionSpec())

    class Sharded(Box):
        pass

    jax.tree_util.register_dataclass(Sharded, data_fields=["x"], meta_fields=[])

    @functools.partial(jax.jit, in_shardings=(Sharded(everywhere),))
    def tripled(self: Any) -> Any:
        return self.x * 3

    Sharded.tripled = cachax.cached_property(tripled)
    Sharded.tripled.__set_name__(Sharded, "tripled")
    assert Sharded(jnp.float32(1)).tripled == 3


def test_a_jitted_body_with_static_self() -> None:
    class Sized:
        n = 4

        @cachax.cached_property
        def half(self) -> int:
            return self.n // 2

        @cachax.cached_property
        @functools.partial(jax.jit, static_argnums=0)
        def zeros(self) -> Any:
            return jnp.zeros(self.half)

    jax.tree_util.register_pytree_node(Sized, lambda s: ((), s), lambda s, _: s)
    sized = Sized()
    assert sized.zeros.shape == (2,)
    assert cachax.cached(sized)["half"] == 2


def test_slots_without_weakref_that_are_not_read_do_no_harm() -> None:
    class Slotted(SlottedDerived):
        __slots__ = ("x",)

    jax.tree_util.register_pytree_node(
        Slotted, lambda s: ((1.0,), None), lambda *_: 3.0
    )
    assert cachax.jit(lambda s, b: s * b.doubled)(Slotted(), box()) == 6


def test_a_container_that_changes_when_it_is_read() -> None:
    class Items(list[Any]):
        @cachax.cached_property
        def total(self) -> Any:
            return sum(list.__iter__(self))

        def __iter__(self) -> Any:
            raise AssertionError(f"must not run, total {self.total}")

    items = Items([1, 2])
    assert items.total == 3
    items.append(3)
    assert items.total == 6


def test_numpy_arrays_of_objects_are_refused_in_jit() -> None:
    class Odd(Box):
        @cachax.cached_property
        def table(self) -> Any:
            return np.array([{}, {}])

    jax.tree_util.register_dataclass(Odd, data_fields=["x"], meta_fields=[])
    with pytest.raises(cachax.UnhashableValueError, match=r"Odd\.table"):
        cachax.jit(lambda o: o.table is None or o.x)(Odd(jnp.ones(())))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Drawing:
    key: Any
    scale: Any

    @cachax.cached_property
    def noise(self) -> Any:
        computing("noise")
        return jax.random.normal(self.key, (3,))


def test_a_random_key_may_be_a_field() -> None:
    """An array of keys is an array of JAX without a weak type."""
    drawing = Drawing(jax.random.key(0), jnp.ones(()))
    fun = cachax.jit(lambda d: d.scale * d.noise)
    with computations() as counted:
        for scale in range(12):
            rebuilt = Drawing(drawing.key, jnp.float32(scale))
            expected = scale * drawing.noise
            np.testing.assert_allclose(fun(rebuilt), expected, rtol=1e-6)
    assert counted == {"noise": 1}


@jax.tree_util.register_dataclass
@dataclass
class Emptied:
    x: Any
    y: Any

    @cachax.cached_property
    def v(self) -> Any:
        return jnp.float32(0) if self.x is None else jnp.sum(self.x)

    @cachax.cached_property
    def w(self) -> Any:
        return self.v + jnp.sum(self.y)


@pytest.mark.parametrize("more", [{}, {"z": 1.0}])
def test_a_field_set_to_none_is_not_the_array_that_is_gone(more: Any) -> None:
    """When the array goes, all weak references to it give None, ours too."""
    u = Emptied(jnp.ones(3), jnp.zeros(2))
    vars(u).update(more)
    assert u.v == 3
    seen: list[Any] = []
    watch = weakref.ref(u.x, lambda _: seen.append(u.w))
    u.x = None
    assert watch() is None
    assert [*seen, u.w, u.v] == [0, 0, 0]


def test_a_field_that_is_none_stays_none() -> None:
    u = Emptied(None, jnp.zeros(2))
    with computations() as counts:
        for _ in range(3):
            assert cachax.jit(lambda u: u.w)(u) == u.w == 0
    assert counts == {}
    u.x = jnp.ones(3)
    assert u.w == 3


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Scaled:
    x: Any
    s: Any
    d: Any

    @cachax.cached_property
    def v(self) -> Any:
        return jnp.sum(self.x) * self.s


def test_rebuilt_with_a_different_numpy_scalar() -> None:
    """A numpy scalar can't be weakly referenced: a later one may have its id."""
    use, x = cachax.jit(lambda m: m.v + m.d), jnp.arange(3.0)
    for s in (1.0, 1.0, 1.0, 1.0, 2.0, 3.0):
        for _ in range(2):
            assert use(Scaled(x, np.float32(s), jnp.zeros(()))) == 3 * s


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Counted:
    x: Any
    n: int

    @cachax.cached_property
    def v(self) -> Any:
        return jnp.sum(self.x) * (self.n * self.n / 1e9)


def test_new_objects_with_python_numbers_compute_with_python_numbers() -> None:
    """Traced, they would be of 32 bits."""
    use = cachax.jit(lambda c: c.v)
    for _ in range(20):
        c = Counted(jnp.ones(3), 100_000)
        assert use(c) == c.v == 30


@jax.tree_util.register_pytree_node_class
@dataclass(frozen=True)
class Partial:
    x: Any
    scale: float = 1.0

    def tree_flatten(self) -> Any:
        return (self.x,), None

    @classmethod
    def tree_unflatten(cls, _: None, leaves: Any) -> Any:
        return cls(*leaves)

    @cachax.cached_property
    def v(self) -> Any:
        return jnp.sum(self.x) * self.scale


def test_new_objects_with_a_field_that_is_not_in_the_tree() -> None:
    use = cachax.jit(lambda p: p.v)
    for _ in range(20):
        p = Partial(jnp.ones(3), 2.0)
        assert use(p) == p.v == 6


class Loosely:
    def __init__(self, x: Any) -> None:
        self.x = x

    @cachax.cached_property
    def v(self) -> Any:
        return jnp.sum(self.x) * getattr(self, "scale", 1.0)


jax.tree_util.register_pytree_node(
    Loosely, lambda o: ((o.x,), None), lambda _, leaves: Loosely(*leaves)
)


def test_a_field_that_moves_to_a_different_object() -> None:
    use = cachax.jit(lambda objects: [o.v for o in objects])
    a, b = Loosely(jnp.float32(1)), Loosely(jnp.float32(2))
    scale = a.scale = 10.0
    for _ in range(4):
        use([a, b])
    x = b.x
    del a.scale, b.x
    b.scale, b.x = scale, x
    assert use([a, b]) == [a.v, b.v] == [1, 20]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Ridge:
    x: Any
    w: Any
    scale: int = field(default=1, metadata={"static": True})

    @cachax.cached_property
    def factor(self) -> Any:
        return self.scale * jnp.sum(self.x)

    @cachax.cached_property
    def solution(self) -> Any:
        return self.factor * self.w


def test_a_value_whose_body_reads_one_that_depends_on_a_number() -> None:
    """The body of `solution` does the same for both, with a different factor."""
    use = cachax.jit(lambda s: s.solution)
    first = Ridge(jnp.ones(3), jnp.float32(2), scale=2)
    assert use(first) == first.solution == 12
    second = replace(first, scale=1)
    assert use(replace(second)) == second.solution == 6


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Logarithm:
    x: Any

    @cachax.cached_property
    def safe(self) -> Any:
        """With a nan in between, and constants."""
        return jnp.where(self.x > 0, jnp.log(self.x), 0.0) * 2.5


@pytest.mark.parametrize(
    "context",
    [
        lambda: jax.debug_nans(True),
        lambda: jax.debug_infs(True),
        lambda: jax.transfer_guard("disallow"),
    ],
)
def test_a_value_is_computed_for_a_call_as_in_a_program(context: Any) -> None:
    """`jax.jit` doesn't look at intermediate results, and has constants."""
    numbers = Logarithm(jnp.arange(3.0) - 1)
    fun = cachax.jit(lambda numbers: numbers.safe + 1)
    with context():
        result = fun(numbers)
    assert result.tolist() == [1, 1, 1]


def kernel_class(power: int) -> Any:
    """JAX takes the tree structures of objects of such classes for equal."""

    class Kernel(flax.struct.PyTreeNode):
        scale: Any

        def __call__(self, x: Any) -> Any:
            return self.scale * x**power

    return Kernel


LINEAR, SQUARE = kernel_class(1), kernel_class(2)


@jax.tree_util.register_dataclass
@dataclass
class WithKernel:
    x: Any
    order: Any = 1

    @cachax.cached_property
    def kernel(self) -> Any:
        return (SQUARE if self.order > 1 else LINEAR)(self.x)

    @cachax.cached_property
    def by_contents(self) -> Any:
        return (SQUARE if self.x > 1 else LINEAR)(self.x)


def test_values_of_two_classes_with_the_same_fields() -> None:
    use = cachax.jit(lambda o: o.kernel(3.0))
    by_contents = cachax.jit(lambda o: o.by_contents(3.0))
    x = jnp.float32(2)
    small, large = WithKernel(jnp.float32(1)), WithKernel(x)
    orders = [WithKernel(x, order) for order in (0, 1, 2, 3)]
    for _ in range(4):
        assert [by_contents(small), by_contents(large)] == [3, 18]
        for kernel in (LINEAR(x), SQUARE(x)):
            obj = WithKernel(x)
            obj.kernel = kernel
            assert use(obj) == kernel(3.0)
            assert use(cachax.preset(WithKernel(x), kernel=kernel)) == kernel(3.0)
        assert [o.kernel(3.0) for o in orders] == [6, 6, 18, 18]
        assert [use(o) for o in orders] == [6, 6, 18, 18]
    assert cachax.preset(small, kernel=SQUARE(jnp.ones(3))).kernel.scale.shape == (3,)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Named:
    parts: dict[str, jax.Array]

    @cachax.cached_property
    def product(self) -> Any:
        return self.parts["a"] * self.parts["b"]


def test_clear_removes_the_value_for_every_order_of_a_dictionary() -> None:
    parts = {"b": jnp.float32(2), "a": jnp.float32(3)}
    obj = Named(parts)
    assert obj.product == 6  # kept for this order
    assert cachax.jit(lambda o: o.product)(obj) == 6  # and for all
    cachax.clear(obj)
    assert not cachax.is_cached(obj, "product")
    assert not cachax.is_cached(Named({**parts}), "product")


@pytest.mark.parametrize("is_warm", [True, False])
def test_a_class_that_changes_its_arrays_when_it_is_rebuilt(is_warm: bool) -> None:
    class Doubled:
        def __init__(self, x: Any) -> None:
            self.x = x * 2

        @cachax.cached_property
        def total(self) -> Any:
            return jnp.sum(self.x)

    jax.tree_util.register_pytree_node(
        Doubled, lambda obj: ((obj.x,), None), lambda _, parts: Doubled(*parts)
    )
    obj = Doubled(jnp.ones(3))
    if is_warm:
        assert obj.total == 6
    returned = cachax.jit(lambda obj: obj)(obj)
    assert returned.total == jnp.sum(returned.x)


def test_a_key_that_looks_like_code() -> None:
    @dataclass(eq=False)
    class Sum:
        x: Any

        @cachax.cached_property
        def total(self) -> Any:
            return jnp.sum(self.x)

    jax.tree_util.register_dataclass(Sum, data_fields=["x"], meta_fields=[])
    keys = ["plain", "all_leaves(args, kwargs)", "'"]
    use = cachax.jit(lambda parts: sum(parts[key].total for key in keys))
    for i in range(12):
        parts = {key: Sum(jnp.full(2, float(i))) for key in keys}
        assert use(parts) == use(parts) == 6 * i


@jax.tree_util.register_pytree_node_class
@dataclass(slots=True, weakref_slot=True)
class Slotted:
    x: Any
    scale: float = 1.0

    def tree_flatten(self) -> Any:
        return (self.x,), None

    @classmethod
    def tree_unflatten(cls, _: None, leaves: Any) -> Any:
        return cls(*leaves)

    @cachax.cached_property
    def v(self) -> Any:
        return jnp.sum(self.x) * self.scale


@jax.tree_util.register_pytree_node_class
class Dropping(Partial):
    """The same with a string, and in the `__dict__`."""

    @cachax.cached_property
    def v(self) -> Any:
        return jnp.sum(self.x) * (self.scale if self.scale != "twice" else 2)


@pytest.mark.parametrize("cls", [Slotted, Partial, Dropping])
def test_fields_that_are_not_in_the_tree_are_compared(cls: Any) -> None:
    """Of objects with the same array, and of one object that is changed."""
    use, x = cachax.jit(lambda p: p.v + 0), jnp.ones(3)
    last = "twice" if cls is Dropping else 2.0
    for _ in range(3):
        for scale, expected in ((1.0, 3), (last, 6), (5.0, 15)):
            obj = cls(x, scale)
            assert use(obj) == use(obj) == obj.v == expected
    object.__setattr__(obj, "scale", 7.0)
    assert use(obj) == obj.v == 21


def test_a_static_number_read_with_a_different_configuration() -> None:
    class Static(flax.struct.PyTreeNode):
        x: Any
        n: int = flax.struct.field(pytree_node=False)

        @cachax.cached_property
        def v(self) -> Any:
            return (self.x @ self.x) * self.n

    @cachax.jit
    def use(obj: Static) -> Any:
        with jax.default_matmul_precision("highest"):
            return obj.v + 0

    obj = Static(jnp.ones(3), 2)
    assert use(obj) == use(obj) == 6


@jax.tree_util.register_pytree_node_class
class WithFunction:
    """Drops a number, and a function after it."""

    def __init__(self, x: Any, function: Any = abs) -> None:
        self.x, self.a_number, self.function = x, 1, function

    def tree_flatten(self) -> Any:
        return (self.x,), None

    @classmethod
    def tree_unflatten(cls, _: None, leaves: Any) -> Any:
        return cls(*leaves)

    @cachax.cached_property
    def v(self) -> Any:
        return jnp.sum(self.x) * self.function(-2.0) * self.a_number


def test_a_function_that_is_not_in_the_tree() -> None:
    use, x = cachax.jit(lambda p: p.v + 0), jnp.ones(3)
    for _ in range(3):
        assert use(WithFunction(x)) == 6
        assert use(WithFunction(x, float)) == -6


@jax.tree_util.register_pytree_node_class
class WithTwo:
    """One of its static parts is in the tree structure, and the other is dropped."""

    def __init__(self, x: Any, kept: Any, dropped: Any) -> None:
        self.x, self.kept, self.dropped = x, kept, dropped

    def tree_flatten(self) -> Any:
        return (self.x,), self.kept

    @classmethod
    def tree_unflatten(cls, kept: Any, leaves: Any) -> Any:
        return cls(*leaves, kept, kept)

    @cachax.cached_property
    def v(self) -> Any:
        return jnp.sum(self.x) * self.dropped()


def test_a_static_part_that_is_dropped_in_a_second_place() -> None:
    use, x = cachax.jit(lambda p: p.v + 0), jnp.ones(3)
    one, five = functools.partial(abs, 1), functools.partial(abs, 5)
    for _ in range(3):
        assert use(WithTwo(x, one, one)) == 3
        assert use(WithTwo(x, one, five)) == 15


# A class that drops a leaf when it is rebuilt


@jax.tree_util.register_pytree_node_class
class Dropping:
    def __init__(self, x: Any, buffer: Any = None) -> None:
        self.x, self.buffer = x, buffer

    def tree_flatten(self) -> Any:
        return (self.x, self.buffer), None

    @classmethod
    def tree_unflatten(cls, _: Any, children: Any) -> "Dropping":
        return cls(children[0])

    @cachax.cached_property
    def product(self) -> Any:
        return self.x * 7

    @cachax.cached_property
    def pair(self) -> Any:
        return self.x, self.x * 2


@pytest.mark.parametrize("is_traced_again", [False, True])
@pytest.mark.parametrize(
    "use", [lambda p, b: b, lambda p, b: b.pair, lambda p, b: (b, b.pair)]
)
def test_an_argument_beside_one_that_loses_a_leaf(
    use: Any, is_traced_again: bool
) -> None:
    fun, plain = cachax.jit(use), jax.jit(use)
    if is_traced_again:
        fun(Dropping(jnp.ones(2), jnp.ones(2)), Dropping(jnp.ones(2)))
    p, b = Dropping(jnp.float32(1), jnp.float32(-1)), Dropping(jnp.float32(5))
    Dropping(p.buffer).product, b.pair
    for _ in range(3):
        out, expected = fun(p, b), plain(p, b)
        assert jax.tree.leaves(out) == jax.tree.leaves(expected)
        for obj in jax.tree.leaves(out, is_leaf=lambda x: isinstance(x, Dropping)):
            if not isinstance(obj, Dropping):
                continue
            assert (obj.x, obj.product, obj.pair) == (5, 35, (5, 10))


@jax.tree_util.register_pytree_node_class
class Bag(Dropping):
    """The same without a cached value."""

    product = pair = None  # type: ignore[assignment]


@pytest.mark.parametrize("count", [1, 2])
def test_an_array_beside_what_loses_a_leaf(count: int) -> None:
    """In a function without objects, which JAX traces again for other shapes."""
    fun = cachax.jit(lambda bag, y: y)
    arrays = [jnp.full(i + 1, 5.0) for i in range(count)]
    for y in arrays:
        bag = Bag(y + 1, y + 2)
        Dropping(bag.buffer).product  # noqa: B018
        fun([y], y)
        assert Dropping(fun(bag, y)).product.tolist() == [35.0] * y.size


def test_what_a_class_of_chex_loses() -> None:
    chex = pytest.importorskip("chex")

    @chex.dataclass
    class Loose:
        x: Any

        @cachax.cached_property
        def a(self) -> Any:
            return self.x * 2

        @cachax.cached_property
        def b(self) -> Any:
            return self.x * 3

    p, q = Loose(x=jnp.float32(1)), Loose(x=jnp.float32(10))
    p.a = jnp.float32(9)
    p.b, q.b  # noqa: B018
    returned = cachax.jit(lambda p, q: q)(p, q)
    assert (returned.x, returned.b) == (10, 30)
    p.b = jnp.float32(4)
    for _ in range(2):
        value, returned = cachax.jit(lambda p, q: (q.b, q))(p, q)
        assert (value, returned.b) == (30, 30)
