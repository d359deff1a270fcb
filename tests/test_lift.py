"""Values through other transforms, which run the function once, on the same values."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cachax

from families import FAMILIES, Family, array
from measure import compilations, computations, computing, state_of


def own(fun: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """A decorator as a user may write it."""
    jitted = jax.jit(fun, **options)
    return functools.wraps(fun)(lambda *args, **kwargs: jitted(*args, **kwargs))


TRANSFORMS = {
    "jit": jax.jit,
    "filter_jit": eqx.filter_jit,
    "checkpoint": jax.checkpoint,
    "named_call": jax.named_call,
    "own": own,
}
through = pytest.mark.parametrize("name", TRANSFORMS)
pytrees = pytest.mark.parametrize(
    "family", [f for f in FAMILIES if f.pytree], ids=lambda f: f.name
)


def make(family: Family) -> Any:
    return family.make(jnp.arange(3.0), jnp.float32(2))


@through
@pytrees
def test_once_and_the_correct_derivatives(family: Family, name: str) -> None:
    use = cachax.lift(TRANSFORMS[name])(lambda o, y: o.scaled * y)
    obj, y = make(family), jnp.float32(3)
    with computations() as counts:
        for _ in range(4):
            assert float(use(obj, y)) == 30
        assert float(obj.scaled) == 10
    assert counts == {"energy": 1, "scaled": 1}
    gradient = jax.grad(lambda o: use(o, y))(obj)
    assert array(gradient.a).tolist() == [0, 12, 24]
    assert float(array(gradient.b)) == 15


@through
def test_no_tracer_escapes(name: str, no_leaks: None) -> None:
    use = cachax.lift(TRANSFORMS[name])(lambda o: o.scaled)
    obj = make(FAMILIES[0])
    assert float(jax.jit(lambda x: use(obj) * x)(2.0)) == 20
    assert float(use(obj)) == float(obj.scaled) == 10


@pytest.mark.parametrize("name", ["jit", "filter_jit"])
def test_compiled_once_and_kept(name: str) -> None:
    use = cachax.lift(TRANSFORMS[name])(lambda o: o.scaled)
    obj = make(FAMILIES[0])
    for _ in range(3):
        use(obj)
    with compilations() as compiled:
        use(obj)
    assert compiled == []


@through
def test_clear_cache_forgets_learned_uses(name: str) -> None:
    use = cachax.lift(TRANSFORMS[name])(lambda o: o.scaled)
    obj = make(FAMILIES[0])
    for _ in range(3):
        use(obj)
    use.clear_cache()
    assert not state_of(use).function.was_called
    with computations() as counts:
        assert float(use(obj)) == 10
    assert not counts


@pytest.mark.parametrize("transform", [jax.checkpoint, eqx.filter_jit, jax.jit])
def test_a_value_without_arrays(transform: Any) -> None:
    class Rows(eqx.Module):
        x: jax.Array

        @cachax.cached_property
        def count(self) -> int:
            computing("count")
            return len(np.unique(np.asarray(self.x)))

    rows, fun = Rows(jnp.ones(3)), cachax.lift(transform)(lambda r: r.count * r.x)
    with computations() as counts:
        for _ in range(3):
            assert fun(rows).tolist() == [1, 1, 1]
    assert counts == {"count": 1}


def test_a_transform_may_do_something_with_the_result() -> None:
    def doubling(fun: Any) -> Any:
        return lambda *args: jax.tree.map(lambda x: 2 * x, fun(*args))

    class Box(eqx.Module):
        x: jax.Array

        @cachax.cached_property
        def total(self) -> Any:
            return jnp.sum(self.x)

    def grown(box: Box) -> Box:
        new = Box(box.total * box.x)
        new.total  # noqa: B018
        return new

    for _ in range(3):
        assert cachax.lift(doubling)(grown)(Box(jnp.ones(2))).total == 8


def test_options_may_be_in_the_transform() -> None:
    device = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    transform = functools.partial(jax.jit, static_argnums=1, out_shardings=device)
    fun = cachax.lift(transform)(lambda x, n: n * x)
    assert fun(jnp.ones(2), 2).tolist() == [2, 2]
    assert state_of(fun)._transform is jax.jit


def test_jit_is_the_case_of_jax_jit() -> None:
    assert state_of(cachax.lift(jax.jit)(abs))._transform is jax.jit
    assert state_of(cachax.jit(abs))._transform is jax.jit


def test_options_and_decorators() -> None:
    @cachax.lift(jax.checkpoint)(static_argnums=1)
    def scaled(o: Any, n: int) -> Any:
        return o.scaled * n

    assert float(scaled(make(FAMILIES[0]), 2)) == 20
    assert "checkpoint" in repr(cachax.lift(jax.checkpoint))


class Model(eqx.Module):
    weights: jax.Array
    activation: Callable[..., Any]

    @cachax.cached_property
    def norm(self) -> jax.Array:
        computing("norm")
        return jnp.linalg.norm(self.weights)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.activation(x @ self.weights / self.norm)


def test_an_equinox_model_with_a_function_in_it() -> None:
    """What jax.jit refuses, filter_jit takes: leaves that aren't arrays."""
    model = Model(jnp.array([3.0, 4.0]), jax.nn.relu)
    apply = cachax.lift(eqx.filter_jit)(lambda model, x: model(x))
    with computations() as counts:
        for _ in range(4):
            assert float(apply(model, jnp.ones(2))) == pytest.approx(1.4)
        assert float(model.norm) == 5
    assert counts == {"norm": 1}
    other = eqx.tree_at(lambda m: m.weights, model, jnp.array([6.0, 8.0]))
    assert float(apply(other, 2 * jnp.ones(2))) == pytest.approx(2.8)


@pytest.mark.parametrize(
    ("transform", "words"),
    [
        (jax.vmap, "maps the function over examples"),
        (jax.pmap, "maps the function"),
        (getattr(jax, "shard_map", jax.pmap), "examples or shards"),
        (jax.grad, "differentiates the function"),
        (jax.value_and_grad, "differentiates"),
        (jax.hessian, "differentiates"),
        (eqx.filter_vmap, "maps the function"),
        (eqx.filter_grad, "differentiates"),
        (functools.partial(jax.vmap, in_axes=0), "maps the function"),
    ],
)
def test_what_changes_the_meaning_of_an_object_is_refused(
    transform: Any, words: str
) -> None:
    with pytest.raises(cachax.LiftError, match=words) as raised:
        cachax.lift(transform)
    assert "Apply" in str(raised.value)


@pytest.mark.parametrize(
    ("transform", "words"),
    [
        (lambda fun: jax.jit(jax.grad(fun)), "differentiates"),
        (lambda fun: jax.jit(jax.vmap(fun)), "different shapes"),
    ],
)
def test_a_refused_transform_inside_a_decorator_is_refused(
    transform: Any, words: str
) -> None:
    use = cachax.lift(transform)(lambda o: jnp.sum(o.scaled))
    obj = FAMILIES[0].make(jnp.arange(3.0), jnp.arange(3.0))
    with pytest.raises(cachax.LiftError, match=words):
        use(obj)


@pytest.mark.parametrize("donate", ["all", "all-except-first"])
@pytest.mark.filterwarnings("ignore:Some donated buffers")
def test_equinox_donates_the_same_as_without(donate: str) -> None:
    """And never a cached value."""

    class Net(eqx.Module):
        grid: Any
        weights: Any

        @cachax.cached_property
        def basis(self) -> Any:
            computing("basis")
            return self.grid * 2

    @cachax.lift(eqx.filter_jit)(donate=donate)
    def step(net: Any, batch: Any) -> Any:
        weights = net.weights + net.basis + batch
        return eqx.tree_at(lambda net: net.weights, net, weights), batch

    net = Net(jnp.arange(3.0), jnp.ones(3))
    basis, first, batch = net.basis, net, jnp.zeros(3)
    with computations() as counts:
        for _ in range(3):
            net, batch = step(net, batch)
    assert first.weights.is_deleted() is (donate == "all")
    assert not basis.is_deleted()
    assert net.weights.tolist() == [1, 7, 13]
    if donate == "all":
        assert not counts


def test_a_transformation_that_closes_over_the_arguments() -> None:
    def closing(fun: Any) -> Any:
        return lambda *args: jax.jit(lambda: fun(*args))()

    obj = FAMILIES[0].make(jnp.arange(3.0), jnp.arange(3.0))
    use = cachax.lift(closing)(lambda o: o.scaled)
    np.testing.assert_array_equal(use(obj), obj.scaled)


def test_a_transformation_that_runs_the_function_twice_is_refused() -> None:
    def twice(fun: Any) -> Any:
        first, second = jax.jit(fun), jax.jit(lambda *args: fun(*args))
        return lambda *args: first(*args) + second(*args)

    obj = FAMILIES[0].make(jnp.arange(3.0), jnp.arange(3.0))
    with pytest.raises(cachax.LiftError, match="runs the function twice"):
        cachax.lift(twice)(lambda o: o.scaled)(obj)


@pytest.mark.parametrize("argnums", [0, 1, (0, 1)])
def test_a_decorator_that_differentiates_by_number(argnums: Any) -> None:
    """Without a cached value, it does what it does. With one it is refused."""

    def gradient(fun: Any) -> Any:
        return jax.jit(jax.grad(fun, argnums))

    def loss(w: Any, v: Any) -> Any:
        return jnp.sum(w**2 * v)

    w, v = jnp.array([1.0, 2.0]), jnp.array([3.0, 5.0])
    expected = jax.tree.leaves(gradient(loss)(w, v))
    lifted = cachax.lift(gradient)(loss)
    for _ in range(2):
        for one, other in zip(expected, jax.tree.leaves(lifted(w, v)), strict=True):
            assert one.tolist() == other.tolist()


def test_modules_that_are_new_in_every_step() -> None:
    """With a function among their leaves, under `equinox.filter_jit`."""

    class Layer(eqx.Module):
        w: Any
        act: Any
        scale: float = 2.0

        @cachax.cached_property
        def total(self) -> Any:
            computing("total")
            return jnp.sum(self.act(self.w)) * self.scale

    def step(layer: Layer) -> Layer:
        return eqx.tree_at(lambda x: x.w, layer, layer.w - 0.01 * layer.total)

    ours, plain = cachax.lift(eqx.filter_jit)(step), eqx.filter_jit(step)
    for acts in ([jnp.sin], [jnp.sin, jnp.tanh]):
        layer = expected = Layer(jnp.ones(3), acts[0])
        with computations() as counts:
            for i in range(20):
                act = acts[i % len(acts)]
                layer = ours(Layer(layer.w, act))
        assert counts == {"total": 20}
        for i in range(20):
            expected = plain(Layer(expected.w, acts[i % len(acts)]))
        np.testing.assert_allclose(layer.w, expected.w, rtol=1e-5)


def test_calls_with_and_without_arrays() -> None:
    """Without arrays, the transformation runs the function as it is."""

    class Line(eqx.Module):
        x: Any

        @cachax.cached_property
        def twice(self) -> Any:
            return self.x * 2

    @cachax.lift(eqx.filter_jit)
    def made(x: Any) -> Any:
        line = Line(x * jnp.ones(3))
        line.twice  # noqa: B018
        return (line, line.x + 100) if isinstance(x, float) else line

    @cachax.lift(jax.checkpoint)
    def first(pair: Any) -> Any:
        return jnp.zeros(1) if pair is None else pair[0]

    for _ in range(2):
        assert made(jnp.ones(3)).twice.tolist() == [2, 2, 2]
        line, more = made(2.0)
        assert line.twice.tolist() == [4, 4, 4]
        assert more.tolist() == [102, 102, 102]
        assert first((jnp.ones(1), jnp.ones(2))) == 1
        assert first(None) == 0


@pytest.mark.parametrize("first", ["keyword", "default"])
def test_a_keyword_argument_that_could_be_positional(first: str) -> None:
    """equinox passes it by position."""

    class Model(eqx.Module):
        x: jax.Array

        @cachax.cached_property
        def total(self) -> Any:
            computing("total")
            return jnp.sum(self.x)

        @cachax.lift(eqx.filter_jit)
        def __call__(self, y: Any, scale: Any = 1.0, *, shift: Any = 0.0) -> Any:
            return self.total * y * scale + shift, self

    calls = [
        lambda m: m(2.0, scale=3.0),
        lambda m: m(2.0),
        lambda m: m(y=2.0, shift=1.0),
        lambda m: m(scale=jnp.float32(3), y=2.0),
        lambda m: m(2.0, 3.0, shift=jnp.ones(2)),
    ]
    if first == "default":
        calls = calls[1:] + calls[:1]
    model, plain = Model(jnp.ones(3)), Model.__call__.__wrapped__
    with computations() as counts:
        for call in calls * 3:
            _, model = call(model)
    assert counts == {"total": 1}
    for call in calls:
        expected, _ = call(functools.partial(plain, model))
        np.testing.assert_allclose(call(model)[0], expected)


def test_arrays_that_equinox_passes_in_a_different_order() -> None:
    """In a function without objects, which is traced again for other shapes."""
    fun = cachax.lift(eqx.filter_jit)(lambda second, first: (first, second))

    @jax.tree_util.register_dataclass
    @dataclasses.dataclass(frozen=True)
    class Doubled:
        x: jax.Array

        @cachax.cached_property
        def double(self) -> Any:
            return 2 * self.x

    for n in (1, 2, 3):
        one, two = jnp.ones(n), 3 * jnp.ones(n)
        Doubled(one).double, Doubled(two).double
        first, second = fun(second=two, first=one)
        assert Doubled(first).double.tolist() == [2.0] * n
        assert Doubled(second).double.tolist() == [6.0] * n
