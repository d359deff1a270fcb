"""What bodies do: each gives what it gives as a plain property, for the first object of
its kind and for the next, eagerly and in `cachax.jit`."""

import functools
import gc
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct
from jax.experimental.ode import odeint
from jax.sharding import NamedSharding, PartitionSpec

import cachax
from cachax.lab import computations, computing

from devices import first_devices

X = jnp.array([1.0, -2.0, 4.0])


class Mode:
    """Without fields: which one it is makes the difference."""


FAST, SLOW = Mode(), Mode()
TABLE = {"order 7": 100.0}


class Unit:
    """Its text doesn't show what is in it."""

    def __init__(self, n: Any) -> None:
        self.n = n

    def __repr__(self) -> str:
        return "Unit"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unit) and self.n == other.n

    def __hash__(self) -> int:
        return hash(self.n)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Quantity:
    value: Any
    unit: Any = field(metadata={"static": True})


@functools.lru_cache  # noqa: CX204 (that it works is the point)
def nodes(n: int) -> jax.Array:
    return jnp.linspace(0.0, 1.0, n)


@jax.custom_jvp
def smooth(x: Any) -> Any:
    return x**3


smooth.defjvp(lambda x, t: (smooth(*x), 3 * x[0] ** 2 * t[0]))


@jax.custom_vjp
def clipped(x: Any) -> Any:
    return jnp.sin(x)


clipped.defvjp(lambda x: (jnp.sin(x), x), lambda x, g: (g * jnp.cos(x),))


def twice(x: Any, y: Any) -> Any:
    return jax.jit(lambda a, b: 2 * a)(x, y)


BODIES: dict[str, Callable[[Any], Any]] = {
    "sum": lambda self: jnp.sum(self.x),
    "a number": lambda self: self.n * self.x,
    "an object": lambda self: self.x if self.mode is FAST else 100 * self.x,
    "a constant in a jitted function": lambda self: _closed(np.full(3, self.n), self.x),
    "a scalar constant": lambda self: (jnp.asarray(self.n > 1), jnp.float32(1e-6)),
    "a number as text": lambda self: self.x * TABLE.get(f"order {self.n}", 1.0),
    "metadata": lambda self: Quantity(2 * self.x, Unit(self.n)),
    "a helper with a cache": lambda self: jnp.sum(self.x) * nodes(3),
    "grad": lambda self: jax.grad(lambda z: jnp.sum(jnp.sin(z) ** 2))(self.x),
    "hessian": lambda self: jax.hessian(lambda z: jnp.sum(z**3))(self.x),
    "jvp": lambda self: jax.jvp(jnp.sin, (self.x,), (self.x,)),
    "vmap": lambda self: jax.vmap(lambda z: jax.nn.relu(z) * self.x)(self.x),
    "custom_jvp": lambda self: jax.grad(lambda z: jnp.sum(smooth(z)))(self.x),
    "custom_vjp": lambda self: jax.grad(lambda z: jnp.sum(clipped(z)))(self.x),
    "a custom_jvp over a field": lambda self: _times(self.x)(self.y),
    "a reference": lambda self: _added(self.x, self.y),
    "a report": lambda self: (jax.debug.print("{}", self.y), 2 * self.x)[1],
    "scan": lambda self: jax.lax.scan(lambda c, t: (c + t, c), 0.0, self.x),
    "while": lambda self: jax.lax.while_loop(
        lambda v: jnp.sum(v) < 50, lambda v: v * 2 + 1, jnp.abs(self.x)
    ),
    "cond": lambda self: jax.lax.cond(
        self.x[0] > 0, lambda o: o.x, lambda o: 2 * o.x, self
    ),
    "a jitted function": lambda self: twice(self.x, self.y),
    "linear algebra": lambda self: jnp.linalg.eigh(jnp.outer(self.x, self.x)),
    "fft": lambda self: jnp.fft.fft(self.x),
    "a random key": lambda self: jax.random.normal(jax.random.key(0), (3,)) * self.x,
    "indices": lambda self: (self.x[::2], self.x.at[0].set(3.0), self.x[self.x > 0]),
    "a branch": lambda self: self.x if self.x[0] > 0 else self.y,
    "numpy": lambda self: np.linalg.norm(np.asarray(self.x)),
    "a list": lambda self: sorted(self.x.tolist()),
    "a callback": lambda self: jax.pure_callback(np.sort, self.x, self.x),
    "bfloat16": lambda self: self.x.astype(jnp.bfloat16) * 3,
    "integers": lambda self: jnp.argsort(self.x),
    "complex": lambda self: self.x + 1j,
    "nothing": lambda self: None,
    "its own array": lambda self: (self.x, self.y),
    "a dtype": lambda self: (self.x.dtype, self.x.shape, str(self.x.dtype)),
    "where it is": lambda self: len(self.x.devices()),
}


def _times(x: Any) -> Any:
    times = jax.custom_jvp(lambda y: x * y)
    times.defjvp(lambda y, t: (times(*y), x * t[0]))
    return times


def _added(x: Any, y: Any) -> Any:
    new_ref = getattr(jax, "new_ref", None) or getattr(jax, "array_ref", None)
    if new_ref is None:
        return x + y
    ref = new_ref(x)
    ref[...] += y
    return ref[...]


def _closed(weights: Any, x: Any) -> Any:
    return jax.jit(lambda x: x * weights)(x)


def classes(body: Callable[[Any], Any]) -> tuple[Any, Any]:
    """A class with the body as a cached property, and one with a plain one."""

    def make(wrap: Any) -> Any:
        @jax.tree_util.register_dataclass
        @dataclass(frozen=True)
        class Thing:
            x: Any
            y: Any
            n: Any = field(metadata={"static": True})
            mode: Any = field(metadata={"static": True})
            p = wrap(body)

        Thing.p.__set_name__(Thing, "p") if wrap is not property else None
        return Thing

    return make(cachax.cached_property), make(property)


def alike(got: Any, expected: Any) -> None:
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        assert type(a) is type(b)
        assert getattr(a, "dtype", None) == getattr(b, "dtype", None)
        assert getattr(a, "weak_type", None) == getattr(b, "weak_type", None)
        if isinstance(a, jax.Array):
            np.testing.assert_array_equal(a, b)
        else:
            assert a == b


@pytest.mark.parametrize("name", BODIES)
def test_values_are_those_of_a_plain_property(name: str) -> None:
    cached, plain = classes(BODIES[name])
    for n in (1, 2, 7, 1):
        for mode in (FAST, SLOW):
            for x, y in ((X, X), (X, -X), (-X, X), (X + 0, X)):
                got = cached(x, y, n, mode)
                alike(got.p, plain(x, y, n, mode).p)
                alike(got.p, plain(x, y, n, mode).p)


USES_ONLY_X = [
    "sum", "grad", "hessian", "vmap", "custom_jvp", "custom_vjp", "scan", "while",
    "a jitted function", "linear algebra", "a random key", "a helper with a cache",
]  # fmt: skip


@pytest.mark.parametrize("name", USES_ONLY_X)
def test_what_is_not_used_makes_no_difference(name: str) -> None:
    def body(self: Any) -> Any:
        computing("body")
        return BODIES[name](self)

    cached, _ = classes(body)
    with computations() as counts:
        for i in range(3):
            jax.block_until_ready(cached(X, X + i, 1, FAST).p)
    assert counts == {"body": 1}


@pytest.mark.parametrize("number", [1.0, jnp.float32(1)], ids=["number", "array"])
def test_a_number_counts_through_a_property_that_is_read(number: Any) -> None:
    @jax.tree_util.register_dataclass
    @dataclass(frozen=True)
    class Chain:
        x: Any
        n: Any

        @cachax.cached_property
        def p(self) -> Any:
            return jnp.sum(self.x) * self.n

        @cachax.cached_property
        def q(self) -> Any:
            return self.p + 1

    values = [float(Chain(X, n * number).q) for n in (1, 2, 3, 2)]
    assert values == [4.0, 7.0, 10.0, 7.0]


def test_a_copy_is_never_finalised() -> None:
    class Connection:
        def __init__(self) -> None:
            self.x, self.is_open = X, [True]

        def __del__(self) -> None:
            self.is_open.clear()

        @cachax.cached_property
        def p(self) -> Any:
            return 2 * self.x

    connection = Connection()
    jax.block_until_ready(connection.p)
    gc.collect()
    assert connection.is_open


def test_a_body_that_reads_contents_runs_once() -> None:
    runs = []

    class Host:
        def __init__(self, x: Any) -> None:
            self.x = x

        @cachax.cached_property
        def p(self) -> Any:
            runs.append(1)
            return float(np.asarray(self.x).sum()) if self.x[0] > 0 else 0.0

    assert Host(X).p == 3.0
    assert len(runs) == 1


class Sizes(NamedTuple):
    n: Any


@dataclass(frozen=True)
class Size:
    n: Any


@pytest.mark.parametrize("make", [Sizes, Size])
def test_arguments_of_methods_are_compared_exactly(make: Any) -> None:
    class Scaled:
        x = jnp.arange(3)

        @cachax.cached_method
        def by(self, size: Any) -> Any:
            return self.x * size.n

    scaled = Scaled()
    assert scaled.by(make(2)).dtype == jnp.int32
    assert scaled.by(make(2.0)).dtype == jnp.float32
    assert 1 / scaled.by(make(0.0))[1] == jnp.inf
    assert 1 / scaled.by(make(-0.0))[1] == -jnp.inf


# Objects that are rebuilt inside a trace


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class State:
    x: Any
    y: Any

    @cachax.cached_property
    def total(self) -> Any:
        computing("total")
        return jnp.sum(self.x)


inner = cachax.jit(lambda s: replace(s, y=s.y + s.total))


def loss(s: State) -> Any:
    return jnp.sum(s.total * s.y)


STEPS: dict[str, Callable[[State], State]] = {
    "a jitted step": lambda s: inner(s),
    "lift(checkpoint)": lambda s: cachax.lift(jax.checkpoint)(
        lambda s: replace(s, y=s.y + s.total)
    )(s),
    "grad": lambda s: replace(
        s, y=s.y - 0.1 * jax.grad(lambda y: loss(replace(s, y=y)))(s.y)
    ),
    "value_and_grad with respect to the whole": lambda s: replace(
        s, y=s.y - jax.value_and_grad(loss)(s)[1].y
    ),
    "scan": lambda s: replace(
        s,
        y=jax.lax.scan(lambda y, _: (replace(s, y=y).total * y, None), s.y, length=2)[
            0
        ],
    ),
    "vmap": lambda s: replace(s, y=jax.vmap(lambda y: replace(s, y=y).total * y)(s.y)),
}


@pytest.mark.parametrize("jit", [cachax.jit, lambda f: f], ids=["jit", "eager"])
@pytest.mark.parametrize("name", ["a jitted step", "lift(checkpoint)", "grad", "scan"])
def test_a_loop_computes_once(name: str, jit: Any) -> None:
    step, state = jit(STEPS[name]), State(jnp.ones(3), jnp.ones(3))
    with computations() as counts:
        for _ in range(5):
            state = step(state)
        jax.block_until_ready(state.y)
    assert counts == {"total": 1}


@pytest.mark.parametrize("name", STEPS)
def test_a_loop_computes_the_same_as_with_a_plain_property(name: str) -> None:
    @jax.tree_util.register_dataclass
    @dataclass(frozen=True)
    class Plain:
        x: Any
        y: Any
        total = property(lambda self: jnp.sum(self.x))

    got: Any = State(jnp.ones(3), jnp.ones(3))
    expected: Any = Plain(jnp.ones(3), jnp.ones(3))
    step, plain = cachax.jit(STEPS[name]), jax.jit(STEPS[name])
    for _ in range(3):
        got, expected = step(got), plain(expected)
        np.testing.assert_allclose(got.y, expected.y)


# Values and where they are


def test_a_supplied_value_stays_with_a_returned_object() -> None:
    same, again = cachax.jit(lambda s: s), cachax.jit(lambda s: s)
    state = cachax.preset(State(jnp.ones(3), jnp.ones(3)), total=jnp.float32(7))
    for _ in range(3):
        assert same(state).total == 7
    assert cachax.jit(lambda s: again(s).total)(state) == 7


@pytest.mark.parametrize("uses_mask", [False, True])
def test_a_supplied_value_that_a_body_reads_is_not_that_of_others(
    uses_mask: bool,
) -> None:
    class Chain:
        def __init__(self, x: Any) -> None:
            self.x = x

        @cachax.cached_property
        def p(self) -> Any:
            return jnp.sum(self.x)

        @cachax.cached_property
        def q(self) -> Any:
            x = self.x[self.x > 0] if uses_mask else self.x
            return 2 * self.p + 0 * jnp.sum(x)

    first, second = Chain(X), Chain(X)
    first.p = jnp.float32(100)
    assert [first.q, second.q, Chain(X).q] == [200, 6, 6]
    third = Chain(X)
    third.p = jnp.float32(10)
    assert [third.q, Chain(X).q] == [20, 6]


@pytest.mark.parametrize("count", [6, 30])
def test_a_long_chain_is_computed_once(count: int) -> None:
    def link(i: int) -> Any:
        def body(self: Any) -> Any:
            computing("link")
            return getattr(self, f"p{i - 1}") + 1 if i else jnp.sum(self.x)

        return cachax.cached_property(body)

    links = {f"p{i}": link(i) for i in range(count)}
    fields = {"__annotations__": {"x": Any, "y": Any}}
    chain: Any = jax.tree_util.register_dataclass(
        dataclass(frozen=True)(type("Chain", (), fields | links))
    )
    with computations() as counts:
        for i in range(3):
            value = getattr(chain(X, X), f"p{count - 1}")
            assert value == 3 + count - 1, i
    assert counts == {"link": count}


def test_a_numpy_value_that_is_written_to_is_not_that_of_others() -> None:
    @jax.tree_util.register_dataclass
    @dataclass(frozen=True)
    class Table:
        x: Any

        @cachax.cached_property
        def table(self) -> Any:
            return np.zeros(2, np.int64)

    def use(a: Any) -> Any:
        a.table[0] += 1
        return a.x + a.table[0]

    table = Table(X)
    for _ in range(2):
        cachax.jit(lambda a: use(a))(table)
    assert Table(X).table.tolist() == [0, 0]


def test_a_number_computed_from_a_number_under_filter_jit() -> None:
    class Model(eqx.Module):
        x: Any
        n: int

        @cachax.cached_property
        def size(self) -> Any:
            return 2 * self.n

    fun = cachax.lift(eqx.filter_jit)(lambda m: m.x.sum() + jnp.zeros(m.size))
    assert fun(Model(X, 2)).tolist() == [3.0] * 4


@pytest.mark.skipif(
    not hasattr(jax, "set_mesh"), reason="explicit shardings are of JAX 0.6"
)
def test_a_sharding_in_the_type_of_an_array_counts() -> None:
    kind = jax.sharding.AxisType.Explicit
    mesh = jax.make_mesh((4,), ("d",), axis_types=(kind,), devices=first_devices(4))

    @jax.tree_util.register_dataclass
    @dataclass(frozen=True)
    class Placed:
        x: Any
        y: Any

        @cachax.cached_property
        def p(self) -> Any:
            is_whole = jax.typeof(self.y).sharding.spec == PartitionSpec(None)
            return jnp.sum(self.x) * (1 if is_whole else 100)

        @cachax.cached_property
        def double(self) -> Any:
            return 2 * self.x

    whole, parts = (
        NamedSharding(mesh, spec) for spec in (PartitionSpec(), PartitionSpec("d"))
    )
    with jax.set_mesh(mesh):
        x = jnp.ones(4)
        placed = [Placed(x, jax.device_put(x, s)) for s in (whole, parts)]
        fun = cachax.jit(lambda a: a.p)
        assert [float(a.p) for a in placed] == [4.0, 400.0]
        assert [float(fun(a)) for a in placed] == [4.0, 400.0]
        before = Placed(jax.device_put(x, parts), x)
        jax.block_until_ready(before.double)
        after = cachax.jit(lambda a: a, out_shardings=whole)(before)
        assert jax.typeof(after.double) == jax.typeof(after.x)


def test_a_report_of_an_unused_field_under_grad() -> None:
    @jax.tree_util.register_dataclass
    @dataclass(frozen=True)
    class Reported:
        x: Any
        w: Any

        @cachax.cached_property
        def p(self) -> Any:
            jax.debug.print("{}", self.w)
            return 2 * self.x

    for _ in range(2):
        grad = jax.grad(lambda w: jnp.sum(Reported(X, w).p * w))(X)
        assert grad.tolist() == (2 * X).tolist()


def test_a_field_may_have_the_name_of_a_keyword() -> None:
    @jax.tree_util.register_pytree_node_class
    class Penalty:
        def __init__(self, x: Any) -> None:
            vars(self)["lambda"] = x

        def tree_flatten(self) -> Any:
            return (vars(self)["lambda"],), None

        @classmethod
        def tree_unflatten(cls, _: Any, children: Any) -> "Penalty":
            return cls(*children)

        @cachax.cached_property
        def double(self) -> Any:
            return 2 * vars(self)["lambda"]

    fun, penalty = cachax.jit(lambda p: p.double), Penalty(X)
    for _ in range(3):
        assert fun(penalty).tolist() == (2 * X).tolist()


def test_clear_of_an_array_frees_its_values() -> None:
    state = State(jnp.ones(3), jnp.ones(3))
    jax.block_until_ready(state.total)
    cachax.clear(state.x)
    assert cachax.cached(state) == {}


@pytest.mark.parametrize("jit", [jax.jit, cachax.jit])
@pytest.mark.skipif(not hasattr(jax, "new_ref"), reason="JAX has no references")
def test_an_object_with_a_reference_that_a_function_writes_to(jit: Any) -> None:
    class Statistics:
        def __init__(self) -> None:
            self.total = jax.new_ref(jnp.zeros(3))

        @cachax.cached_property
        def mean(self) -> Any:
            return self.total[...].mean()

    statistics = Statistics()

    @jit
    def step(x: Any) -> Any:
        statistics.total[...] += x
        return statistics.mean

    assert [float(step(jnp.ones(3))) for _ in range(3)] == [1, 2, 3]
    assert statistics.mean == 3


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Scale:
    """An object that can be called, and that prints its arrays."""

    scale: Any

    def __call__(self, z: Any) -> Any:
        return jnp.sum(z * self.scale)


TRACED_BODIES: dict[str, Callable[[Any], Any]] = {
    "jacrev": lambda s: jax.jacrev(lambda z: z * s.x)(s.x),
    "hessian": lambda s: jax.hessian(lambda z: jnp.sum(z**2 * s.x))(s.x),
    "vmap of an object": lambda s: jax.vmap(Scale(s.x))(jnp.ones((2, 3))),
    "odeint": lambda s: odeint(lambda y, t: -y * s.x, s.x, jnp.arange(2.0)),
    "closure_convert": lambda s: _converted(lambda z: z * s.x, s.x),
    "filter_jit": lambda s: eqx.filter_jit(lambda z: z * s.x)(s.x),
    "a log": lambda s: (LOG.append(jnp.sum(s.x)), s.x * 2)[1],
}
LOG: list[Any] = []


def _converted(fun: Any, x: Any) -> Any:
    converted, arrays = jax.closure_convert(fun, x)
    return converted(x, *arrays)


@pytest.mark.parametrize("body", TRACED_BODIES.values(), ids=TRACED_BODIES)
def test_what_jax_keeps_of_a_body_makes_no_difference(body: Any) -> None:
    """The text of a function for its messages, and tables by function."""

    @jax.tree_util.register_dataclass
    @dataclass(frozen=True)
    class State:
        x: Any
        y: Any

        @cachax.cached_property
        def value(self) -> Any:
            computing("value")
            return body(self)

    step = cachax.jit(lambda s: replace(s, y=s.y + jnp.sum(s.value)))
    state = State(X, jnp.float32(0))
    with computations() as counts:
        for _ in range(3):
            state = step(state)
    assert counts == {"value": 1}
    np.testing.assert_allclose(state.y, 3 * jnp.sum(body(state)), rtol=1e-5)
    other = State(X + 1, jnp.float32(0))
    np.testing.assert_allclose(other.value, body(other), rtol=1e-5)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Selected:
    """Values whose shape, keys or kind depend on the contents of `x`."""

    x: Any
    y: Any
    z: Any

    @cachax.cached_property
    def kept(self) -> Any:
        return self.x[self.x > 0]

    @cachax.cached_property
    def squares(self) -> Any:
        return self.kept**2

    @cachax.cached_property
    def perhaps(self) -> Any:
        return None if self.x[0] > 0 else self.y * 2

    @cachax.cached_property
    def by_name(self) -> Any:
        return {"positive" if self.x[0] > 0 else "negative": self.y}

    @cachax.cached_property
    def mean(self) -> Any:
        return jnp.sum(self.y) / len(self.kept)

    @cachax.cached_property
    def mean_of_squares(self) -> Any:
        return jnp.sum(self.y) / len(self.squares)

    @cachax.cached_property
    def chosen(self) -> Any:
        return jnp.sum(self.y if len(self.squares) > 1 else self.z)

    @cachax.cached_property
    def whether(self) -> Any:
        return jnp.sum(self.y) * (self.perhaps is None) + len(next(iter(self.by_name)))


@pytest.mark.parametrize("name", ["mean", "mean_of_squares", "chosen", "whether"])
def test_what_is_read_may_have_a_shape_that_depends_on_contents(name: str) -> None:
    y, z = jnp.array([1.0, 2.0, 3.0]), jnp.array([10.0, 20.0, 30.0])
    fun = cachax.jit(lambda s: getattr(s, name) + 0)
    for signs in ([1, -1, -1], [1, 1, -1], [-1, 1, 1], [1, 1, 1], [1, -1, -1]):
        x = jnp.array(signs, jnp.float32)
        kept = int(jnp.sum(x > 0))
        expected = {
            "mean": 6 / kept,
            "mean_of_squares": 6 / kept,
            "chosen": 6 if kept > 1 else 60,
            "whether": 6 * (signs[0] > 0) + 8,
        }[name]
        assert getattr(Selected(x, y, z), name) == pytest.approx(expected)
        assert fun(Selected(x, y, z)) == pytest.approx(expected)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Sparse:
    x: Any
    weights: Any

    @cachax.cached_property
    def places(self) -> Any:
        """Uses `weights` only where the number of places is known."""
        try:
            return self.weights[0] * jnp.nonzero(self.x)[0]
        except jax.errors.ConcretizationTypeError:
            return jnp.nonzero(self.x, size=3)[0]


def test_a_body_that_catches_what_jax_raises_for_tracers() -> None:
    x = jnp.array([1.0, 0.0, 1.0])
    assert Sparse(x, jnp.array([1, 2])).places.tolist() == [0, 2]
    assert Sparse(x, jnp.array([2, 2])).places.tolist() == [0, 4]


class Chained:
    """A value of it is computed from one that may be assigned."""

    def __init__(self, x: Any, inside: Any = None) -> None:
        self.x, self.inside = x, inside

    @cachax.cached_property
    def gram(self) -> Any:
        return jnp.sum(self.x)

    @cachax.cached_property
    def alpha(self) -> Any:
        return 1 + (self if self.inside is None else self.inside).gram


jax.tree_util.register_pytree_node(
    Chained, lambda c: ((c.x, c.inside), None), lambda _, parts: Chained(*parts)
)


@pytest.mark.parametrize("is_inside", [False, True])
def test_a_value_that_is_assigned_again_and_again(is_inside: bool) -> None:
    chained = Chained(jnp.ones(2), Chained(jnp.ones(2)) if is_inside else None)
    fun = cachax.jit(lambda c: c.alpha * 1)
    for _ in range(3):
        assert fun(chained) == 3
    for i in range(4):
        (chained.inside if is_inside else chained).gram = jnp.float32(10 * i)
        for _ in range(3):
            assert fun(chained) == 1 + 10 * i
        assert chained.alpha == 1 + 10 * i
        assert fun(Chained(chained.x)) == 3


class Preset(struct.PyTreeNode):
    x: Any
    y: Any

    @cachax.cached_property
    def double(self) -> Any:
        return 2 * self.y

    @cachax.cached_property
    def total(self) -> Any:
        return jnp.sum(self.double)


@pytest.mark.parametrize("y", [jnp.ones(1), np.ones(1, "f")])
def test_a_preset_value_does_not_hold_for_an_object_made_inside(y: Any) -> None:
    obj = cachax.preset(Preset(jnp.ones(1), y), double=jnp.full(1, 10.0))

    @cachax.jit
    def slope(obj: Preset) -> Any:
        return jax.grad(lambda x: (obj.replace(x=x).total * x).sum())(obj.x)

    for _ in range(2):
        assert slope(obj) == 2
        assert cachax.jit(lambda o: o.replace(x=o.x + 1).total)(obj) == 2
        assert cachax.jit(lambda o: o.total + 0)(obj) == 10


def test_what_was_preset_before_stays() -> None:
    inner = cachax.preset(Preset(jnp.ones(1), jnp.ones(1)), double=jnp.full(1, 10.0))
    assert cachax.preset(inner, total=jnp.float32(7)).double == 10
    outer = cachax.preset(Preset(inner, jnp.ones(1)), total=jnp.float32(7))
    assert (outer.total, outer.x.double, outer.x.total) == (7, 10, 10)


@jax.custom_vjp
def straight(hard: Any, soft: Any) -> Any:
    return hard


straight.defvjp(lambda hard, soft: (hard, None), lambda _, g: (None, g))


@jax.custom_jvp
def straight_forward(hard: Any, soft: Any) -> Any:
    return hard


straight_forward.defjvp(lambda x, t: (x[0], t[1]))


def straight_over(hard: Any, soft: Any) -> Any:
    """The rule closes over what it uses."""
    rule = jax.custom_jvp(lambda hard: hard)
    rule.defjvp(lambda x, t: (*x, t[0] + soft))
    return rule(hard)


@pytest.mark.parametrize("rule", [straight, straight_forward, straight_over])
@pytest.mark.parametrize("is_read_before", [False, True])
def test_what_only_a_derivative_rule_uses(rule: Any, is_read_before: bool) -> None:
    class Gate(struct.PyTreeNode):
        x: Any
        scale: Any

        @cachax.cached_property
        def choice(self) -> Any:
            return rule(jnp.round(self.x), self.x * self.scale)

    def loss(gate: Any, x: Any, scale: Any) -> Any:
        return jnp.sum(gate.replace(x=x, scale=scale).choice)

    gate = Gate(jnp.array([0.3, 1.4]), jnp.float32(0.7))
    if is_read_before:
        gate.choice  # noqa: B018
    for numbers in (1, 2, (1, 2)):
        expected = jax.grad(
            lambda _, x, scale: jnp.sum(rule(jnp.round(x), x * scale)), numbers
        )(gate, gate.x, gate.scale)
        for derivative in (
            jax.grad(loss, numbers),
            jax.grad(cachax.jit(loss), numbers),
            cachax.jit(jax.grad(loss, numbers)),
        ):
            found = derivative(gate, gate.x, gate.scale)
            for one, other in zip(
                jax.tree.leaves(found), jax.tree.leaves(expected), strict=True
            ):
                assert one.tolist() == other.tolist()


def test_a_jitted_body_that_reads_what_the_shape_allows() -> None:
    @jax.tree_util.register_dataclass
    @dataclass(frozen=True)
    class Grid:
        x: jax.Array

        @cachax.cached_property
        def square(self) -> Any:
            return self.x.reshape(2, 2)

        @cachax.cached_property
        def double(self) -> Any:
            return self.x * 2

        @cachax.cached_property
        @jax.jit
        def total(self) -> Any:
            return jnp.sum(self.square if self.x.size == 4 else self.double)

    for n in (4, 3, 4, 5):
        assert Grid(jnp.ones(n)).total == (4 if n == 4 else 2 * n)
