"""`state = step(state)` computes a value once, as long as its arrays pass through.

Each loop is compared, step by step, with the same loop under `jax.jit` and without a
cache: the numbers, and the attributes of the arrays (device, sharding, ...).
"""

import dataclasses
import functools
import gc
import pickle
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import chex
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx, struct
from flax.training import train_state
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import cachax
from cachax._jit.call import Function
from cachax._jit.plan import Plan
from cachax.lab import compilations, computations, computing

from devices import first_devices
from families import NNX_IS_PYTREE

STEPS = 10
OPTIMIZER = optax.adam(1e-2)


def features() -> jax.Array:
    return jnp.arange(12.0).reshape(4, 3) / 7


def targets() -> jax.Array:
    return jnp.array([1.0, -1.0, 2.0, 0.5])


def new_params() -> dict[str, Any]:
    return {"w": jnp.ones(4), "b": jnp.zeros(())}


def factorise(x: Any) -> Any:
    return jnp.linalg.cholesky(x @ x.T + jnp.eye(len(x)))


def gradient(params: Any, factor: Any, y: Any) -> Any:
    def loss(p: Any) -> Any:
        return jnp.mean((factor @ p["w"] + p["b"] - y) ** 2)

    return jax.grad(loss)(params)


def descend(params: Any, factor: Any, y: Any) -> Any:
    grads = gradient(params, factor, y)
    return jax.tree.map(lambda p, g: p - 1e-2 * g, params, grads)


class Cached:
    """`factor` depends on x, `offset` on y, `fit` on x and the params."""

    @cachax.cached_property
    def factor(self: Any) -> Any:
        computing("factor")
        return factorise(self.x)

    @cachax.cached_property
    def offset(self: Any) -> Any:
        computing("offset")
        return jnp.mean(self.y)

    @cachax.cached_property
    def fit(self: Any) -> Any:
        computing("fit")
        return self.factor @ self.params["w"]


def cached_factor(data: Any) -> Any:
    return data.factor


def plain_factor(data: Any) -> Any:
    x = data.x[...] if isinstance(data.x, nnx.Variable) else data.x
    return factorise(x)


# One state and one step for each kind of program.


class FlaxState(Cached, struct.PyTreeNode):
    x: Any
    y: Any
    params: Any


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class DataclassState(Cached):
    x: Any
    y: Any
    params: Any


class EquinoxState(Cached, eqx.Module):
    x: Any
    y: Any
    params: Any


@chex.dataclass
class ChexState(Cached):
    x: Any
    y: Any
    params: Any


class Data(Cached, struct.PyTreeNode):
    x: Any
    y: Any


class Train(train_state.TrainState):
    data: Any = None


class Tuple(NamedTuple):
    data: Any
    params: Any


class Layer(eqx.Module):
    data: Any
    params: Any


class Deep(eqx.Module):
    layers: list[Any]
    name: str = eqx.field(static=True)


class NnxState(nnx.Module):
    def __init__(self, x: Any, y: Any, params: dict[str, Any]) -> None:
        self.x, self.y = nnx.Variable(x), nnx.Variable(y)
        self.w, self.b = nnx.Param(params["w"]), nnx.Param(params["b"])

    @cachax.cached_property
    def factor(self) -> Any:
        computing("factor")
        return factorise(self.x[...])


def of(cls: Any) -> Callable[[], Any]:
    return lambda: cls(x=features(), y=targets(), params=new_params())


def replacing(s: Any, factor: Any) -> Any:
    return s.replace(params=descend(s.params, factor(s), s.y))


def dataclass_step(s: Any, factor: Any) -> Any:
    return dataclasses.replace(s, params=descend(s.params, factor(s), s.y))


def tree_at_step(s: Any, factor: Any) -> Any:
    params = descend(s.params, factor(s), s.y)
    return eqx.tree_at(lambda s: s.params, s, params)


def train_step(s: Any, factor: Any) -> Any:
    return s.apply_gradients(grads=gradient(s.params, factor(s.data), s.data.y))


def new_train_state() -> Any:
    return Train.create(
        apply_fn=jnp.sin,
        params=new_params(),
        tx=OPTIMIZER,
        data=Data(x=features(), y=targets()),
    )


def optax_step(s: Any, factor: Any) -> Any:
    data, params, opt_state = s
    grads = gradient(params, factor(data), data.y)
    updates, opt_state = OPTIMIZER.update(grads, opt_state, params)
    return data, optax.apply_updates(params, updates), opt_state


def dict_step(s: Any, factor: Any) -> Any:
    params = descend(s["params"], factor(s["data"]), s["data"].y)
    return {**s, "params": params, "count": s["count"] + 1}


def tuple_step(s: Any, factor: Any) -> Any:
    return s._replace(params=descend(s.params, factor(s.data), s.data.y))


def deep_step(s: Any, factor: Any) -> Any:
    layers = [
        Layer(layer.data, descend(layer.params, factor(layer.data), layer.data.y))
        for layer in s.layers
    ]
    return Deep(layers, s.name)


def new_deep() -> Any:
    layer = Layer(Data(x=features(), y=targets()), new_params())
    return Deep([layer], "deep")


def nnx_step(s: Any, factor: Any) -> Any:
    params = {"w": s.w[...], "b": s.b[...]}
    params = descend(params, factor(s), s.y[...])
    s.w[...], s.b[...] = params["w"], params["b"]
    return s


def rebuilt_step(s: Any, factor: Any) -> Any:
    """Every leaf goes through tree_map, the params alone are changed."""
    params = descend(s.params, factor(s), s.y)
    s = jax.tree.map(lambda leaf: leaf, s)
    leaves, structure = jax.tree.flatten(s.replace(params=params))
    return jax.tree.unflatten(structure, leaves)


def masked_step(s: Any, factor: Any) -> Any:
    """By path, as with an optimizer mask: the params are updated, the rest is not."""
    new = descend(s.params, factor(s), s.y)

    def update(path: Any, leaf: Any) -> Any:
        keys = [getattr(key, "name", getattr(key, "key", None)) for key in path]
        return new[keys[1]] if keys[0] == "params" else leaf

    return jax.tree_util.tree_map_with_path(update, s)


LOOPS: dict[str, Any] = {
    "flax with a dict of params": (of(FlaxState), replacing),
    "registered dataclass": (of(DataclassState), dataclass_step),
    "equinox module": (of(EquinoxState), tree_at_step),
    "chex dataclass": (of(ChexState), replacing),
    "TrainState with its data": (new_train_state, train_step),
    "tuple with optax state": (
        lambda: (
            Data(x=features(), y=targets()),
            new_params(),
            OPTIMIZER.init(new_params()),
        ),
        optax_step,
    ),
    "dict": (
        lambda: {
            "data": Data(x=features(), y=targets()),
            "params": new_params(),
            "count": 0,
        },
        dict_step,
    ),
    "NamedTuple": (
        lambda: Tuple(Data(x=features(), y=targets()), new_params()),
        tuple_step,
    ),
    "module in a list in a module": (new_deep, deep_step),
    "rebuilt by tree_map": (of(FlaxState), rebuilt_step),
    "updated by path": (of(FlaxState), masked_step),
}
if NNX_IS_PYTREE:
    LOOPS["nnx module"] = (of(NnxState), nnx_step)

loops = pytest.mark.parametrize("name", LOOPS)

donating = functools.partial(cachax.jit, donate_argnums=0)

JITS: dict[str, Any] = {
    "jit": (cachax.jit, jax.jit),
    "donate_argnums=0": (
        functools.partial(cachax.jit, donate_argnums=0),
        functools.partial(jax.jit, donate_argnums=0),
    ),
    "lift(jax.jit)": (cachax.lift(jax.jit), jax.jit),
}


def both(name: str, ours: Any, theirs: Any) -> tuple[Any, Any, Any]:
    """A function that makes the state, the step with cachax, and the plain one."""
    make, step = LOOPS[name]

    def cached_step(s: Any) -> Any:
        return step(s, cached_factor)

    def plain_step(s: Any) -> Any:
        return step(s, plain_factor)

    return make, ours(cached_step), theirs(plain_step)


def same_arrays(got: Any, expected: Any) -> None:
    """Equal, and indistinguishable."""
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    for x, y in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(x, y, rtol=2e-5, atol=1e-6)
        assert type(x) is type(y)
        if isinstance(x, jax.Array):
            assert x.aval == y.aval
            assert x.weak_type == y.weak_type
            assert x.sharding == y.sharding
            assert x.devices() == y.devices()
            assert x.committed == y.committed


def are_deleted(tree: Any) -> list[bool]:
    return [
        leaf.is_deleted() for leaf in jax.tree.leaves(tree) if hasattr(leaf, "aval")
    ]


def close(got: Any, expected: Any) -> None:
    np.testing.assert_allclose(got, expected, rtol=2e-5, atol=1e-6)


def plain_params(state: Any, step: Any, steps: int = STEPS) -> Any:
    """The params after so many steps without a cache."""
    plain = jax.jit(lambda s: step(s, plain_factor))
    for _ in range(steps):
        state = plain(state)
    return state.params


@loops
@pytest.mark.parametrize("jit", JITS)
def test_a_loop_factorises_once(name: str, jit: str) -> None:
    make, step, _ = both(name, *JITS[jit])
    state = make()
    with computations() as counts:
        for _ in range(STEPS):
            state = step(state)
    assert counts == {"factor": 1}


@loops
def test_a_loop_factorises_once_whenever_the_collector_runs(name: str) -> None:
    make, step, _ = both(name, *JITS["jit"])
    state = make()
    with computations() as counts:
        for _ in range(STEPS):
            gc.collect()
            state = step(state)
            gc.collect()
    assert counts == {"factor": 1}


@loops
@pytest.mark.parametrize("jit", JITS)
def test_every_step_returns_the_same_as_with_jax_jit(name: str, jit: str) -> None:
    if jax.__version_info__ < (0, 5) and jit != "jit":
        # An integer of a donated state once came out with the bits of a float, with two
        # unrelated implementations of `cachax.jit`; the cause is not known.
        pytest.skip("donation on the CPU is not reliable with JAX 0.4")
    make, ours, theirs = both(name, *JITS[jit])
    got, expected = make(), make()
    for _ in range(4):
        before, before_expected = got, expected
        got, expected = ours(got), theirs(expected)
        same_arrays(got, expected)
        assert are_deleted(before) == are_deleted(before_expected)


@loops
def test_after_the_first_steps_nothing_is_factorised_or_compiled(name: str) -> None:
    make, step, _ = both(name, *JITS["jit"])
    state = make()
    for _ in range(3):
        state = step(state)
    with compilations() as compiled, computations() as counts:
        for _ in range(STEPS):
            state = step(state)
    assert not compiled
    assert not counts


@pytest.mark.parametrize(
    "options",
    [{"donate_argnums": (0,)}, {"donate_argnames": "s"}, {"donate_argnums": -1}],
    ids=str,
)
def test_donation_in_every_form(options: Any) -> None:
    ours = functools.partial(cachax.jit, **options)
    theirs = functools.partial(jax.jit, **options)
    make, step, plain = both("flax with a dict of params", ours, theirs)
    got, expected = make(), make()
    with computations() as counts:
        for _ in range(4):
            before, before_expected = got, expected
            got, expected = step(got), plain(expected)
            same_arrays(got, expected)
            assert are_deleted(before) == are_deleted(before_expected)
    assert counts == {"factor": 1}


# Variations of one loop.


def flax_state() -> FlaxState:
    return FlaxState(x=features(), y=targets(), params=new_params())


def flax_step(s: Any) -> Any:
    return replacing(s, cached_factor)


def test_a_value_is_there_on_the_state_that_comes_out() -> None:
    step = cachax.jit(flax_step)
    state = step(flax_state())
    with computations() as counts:
        close(state.factor, factorise(features()))
        state = step(step(state))
        close(state.factor, factorise(features()))
        assert cachax.is_cached(state, "factor")
    assert not counts


def test_a_value_read_eagerly_enters_the_loop() -> None:
    step, state = cachax.jit(flax_step), flax_state()
    with computations() as counts:
        _ = state.factor
        for _ in range(STEPS):
            state = step(state)
            close(state.factor, factorise(features()))
    assert counts == {"factor": 1}


@pytest.mark.parametrize("jit", [cachax.jit, donating])
def test_a_second_function_uses_other_values_of_the_state(jit: Any) -> None:
    step, state = jit(flax_step), flax_state()
    evaluate = cachax.jit(lambda s: jnp.sum(s.factor) + s.offset)
    expected = jnp.sum(factorise(features())) + jnp.mean(targets())
    with computations() as counts:
        for _ in range(STEPS):
            close(evaluate(state), expected)
            state = step(state)
            close(evaluate(state), expected)
    assert counts == {"factor": 1, "offset": 1}


def test_a_value_that_the_step_does_not_use_follows_too() -> None:
    step, state = cachax.jit(flax_step), flax_state()
    with computations() as counts:
        close(state.offset, jnp.mean(targets()))
        for _ in range(STEPS):
            state = step(state)
        close(state.offset, jnp.mean(targets()))
    assert counts == {"factor": 1, "offset": 1}


def test_a_step_that_uses_no_value_passes_them_on() -> None:
    shift = cachax.jit(lambda s: s.replace(params=jax.tree.map(jnp.sin, s.params)))
    state = flax_state()
    with computations() as counts:
        close(state.factor, factorise(features()))
        for _ in range(STEPS):
            state = shift(state)
        close(state.factor, factorise(features()))
    assert counts == {"factor": 1}


def test_two_steps_in_turn_share_the_value() -> None:
    first, state = cachax.jit(flax_step), flax_state()
    second = cachax.jit(lambda s: replacing(s, cached_factor).replace(y=s.y + 1))
    with computations() as counts:
        for _ in range(STEPS // 2):
            state = second(first(state))
    assert counts == {"factor": 1}
    close(state.y, targets() + STEPS // 2)


def test_a_value_of_the_params_is_computed_in_every_step() -> None:
    step = cachax.jit(
        lambda s: s.replace(params={"w": s.params["w"] - 1e-2 * s.fit, "b": s.fit[0]})
    )
    state, w = flax_state(), jnp.ones(4)
    with computations() as counts:
        for _ in range(STEPS):
            state = step(state)
            w = w - 1e-2 * factorise(features()) @ w
            close(state.params["w"], w)
    assert counts == {"factor": 1, "fit": STEPS}


def test_the_loss_beside_the_state_and_a_new_batch_in_every_step() -> None:
    @cachax.jit
    def step(batch: Any, *, state: Any) -> Any:
        new = state.replace(params=descend(state.params, state.factor, batch))
        return jnp.sum(new.params["w"]), new

    state, params = flax_state(), new_params()
    with computations() as counts:
        for i in range(STEPS):
            loss, state = step(targets() + i, state=state)
            params = descend(params, factorise(features()), targets() + i)
            close(loss, jnp.sum(params["w"]))
    assert counts == {"factor": 1}


def test_a_static_argument_that_changes() -> None:
    @functools.partial(cachax.jit, static_argnums=1)
    def step(s: Any, times: int) -> Any:
        for _ in range(times):
            s = flax_step(s)
        return s

    state = flax_state()
    with computations() as counts:
        for i in range(6):
            state = step(state, i % 3)
    assert counts == {"factor": 1}
    close(state.params["w"], plain_params(flax_state(), replacing, 6)["w"])


def test_a_jitted_method_of_the_state() -> None:
    class Own(Cached, struct.PyTreeNode):
        x: Any
        y: Any
        params: Any

        @cachax.jit
        def step(self) -> Any:
            return replacing(self, cached_factor)

    state = Own(x=features(), y=targets(), params=new_params())
    with computations() as counts:
        for _ in range(STEPS):
            state = state.step()
    assert counts == {"factor": 1}


class WithFunction(Cached, eqx.Module):
    """Has a leaf that only filter_jit can take."""

    x: Any
    y: Any
    params: Any
    act: Any


@pytest.mark.parametrize("options", [{}, {"donate": "all"}], ids=["kept", "donated"])
def test_a_step_under_filter_jit(options: Any) -> None:
    make = lambda: WithFunction(features(), targets(), new_params(), jnp.tanh)  # noqa: E731
    lifted = cachax.lift(functools.partial(eqx.filter_jit, **options))
    step = lifted(lambda s: tree_at_step(s, cached_factor))
    plain = eqx.filter_jit(lambda s: tree_at_step(s, plain_factor), **options)
    state, expected = make(), make()
    with computations() as counts:
        for _ in range(STEPS):
            before, before_expected = state, expected
            state, expected = step(state), plain(expected)
            assert are_deleted(before) == are_deleted(before_expected)
    same_arrays(eqx.filter(state, eqx.is_array), eqx.filter(expected, eqx.is_array))
    assert counts == {"factor": 1}


def test_epochs_of_a_scan_over_the_params() -> None:
    @cachax.jit
    def epoch(s: Any) -> Any:
        def body(params: Any, _: Any) -> Any:
            return descend(params, s.factor, s.y), None

        params, _ = jax.lax.scan(body, s.params, None, length=2)
        return s.replace(params=params)

    state = flax_state()
    with computations() as counts:
        for _ in range(STEPS // 2):
            state = epoch(state)
    assert counts == {"factor": 1}
    close(state.params["w"], plain_params(flax_state(), replacing)["w"])


@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
@pytest.mark.parametrize("outer", [lambda f: f, jax.jit, cachax.jit])
def test_a_scan_over_the_step_is_correct(outer: Any, warm: bool) -> None:
    step = cachax.jit(flax_step)

    @outer
    def train(s: Any) -> Any:
        return jax.lax.scan(lambda s, _: (step(s), None), s, None, length=STEPS)[0]

    state = flax_state()
    if warm:
        cachax.warm(state, "factor")
    expected = plain_params(flax_state(), replacing)
    close(train(state).params["w"], expected["w"])
    close(train(state).params["w"], expected["w"])


def per_step(state: Any, step: Any, change: Any = lambda i, s: s) -> Any:
    """How often `factor` was computed in each step, and the last state."""
    counted = []
    for i in range(STEPS):
        with computations() as counts:
            state = step(change(i, state))
        counted.append(counts["factor"])
    return counted, state


@pytest.mark.parametrize("jit", [cachax.jit, donating])
def test_x_changed_in_step_five_is_factorised_once_then(jit: Any) -> None:
    def change(i: int, s: Any) -> Any:
        return s.replace(x=2 * s.x) if i == 5 else s

    counted, state = per_step(flax_state(), jit(flax_step), change)
    assert counted == [1, 0, 0, 0, 0, 1, 0, 0, 0, 0]
    expected = flax_state()
    plain = jax.jit(lambda s: replacing(s, plain_factor))
    for i in range(STEPS):
        expected = plain(change(i, expected))
    same_arrays(state, expected)
    close(state.factor, factorise(2 * features()))


@pytest.mark.parametrize("jit", [cachax.jit, donating])
def test_x_changed_inside_jit_in_step_five_is_factorised_once_then(jit: Any) -> None:
    double = jit(lambda s: s.replace(x=2 * s.x))

    def change(i: int, s: Any) -> Any:
        return double(s) if i == 5 else s

    counted, state = per_step(flax_state(), jit(flax_step), change)
    assert counted == [1, 0, 0, 0, 0, 1, 0, 0, 0, 0]
    close(state.factor, factorise(2 * features()))


def test_x_changed_and_used_inside_jit_is_factorised_once() -> None:
    @cachax.jit
    def double(s: Any) -> Any:
        s = s.replace(x=2 * s.x)
        return replacing(s, cached_factor)

    step, state = cachax.jit(flax_step), step_times(flax_state(), 2)
    with computations() as counts:
        state = double(state)
        for _ in range(STEPS):
            state = step(state)
    assert counts == {"factor": 1}
    close(state.factor, factorise(2 * features()))


def step_times(state: Any, n: int) -> Any:
    step = cachax.jit(flax_step)
    for _ in range(n):
        state = step(state)
    return state


def test_replace_between_the_steps_keeps_the_value() -> None:
    def change(i: int, s: Any) -> Any:
        s = s.replace(y=targets() + i)
        return jax.tree.map(lambda leaf: leaf, s) if i % 2 else s

    counted, state = per_step(flax_state(), cachax.jit(flax_step), change)
    assert counted == [1] + [0] * (STEPS - 1)
    close(state.y, targets() + STEPS - 1)


def test_an_equal_x_in_a_different_array_is_factorised() -> None:
    def change(i: int, s: Any) -> Any:
        return s.replace(x=features()) if i == 5 else s

    counted, _ = per_step(flax_state(), cachax.jit(flax_step), change)
    assert counted == [1, 0, 0, 0, 0, 1, 0, 0, 0, 0]


def test_the_first_x_put_back_is_known_while_it_is_alive() -> None:
    first = features()
    state = flax_state().replace(x=first)

    def change(i: int, s: Any) -> Any:
        return s.replace(x={3: 2 * features(), 6: first}.get(i, s.x))

    counted, state = per_step(state, cachax.jit(flax_step), change)
    assert counted == [1, 0, 0, 1, 0, 0, 0, 0, 0, 0]
    close(state.factor, factorise(first))


def test_old_states_keep_their_values() -> None:
    step, states = cachax.jit(flax_step), [flax_state()]
    with computations() as counts:
        for _ in range(STEPS):
            states.append(step(states[-1]))
        for state in states:
            close(state.factor, factorise(features()))
    assert counts == {"factor": 1}


def test_going_on_from_an_old_state() -> None:
    step, first = cachax.jit(flax_step), flax_state()
    with computations() as counts:
        later = step(step(first))
        again = step(step(first))
        close(later.params["w"], again.params["w"])
        close(step(again).factor, later.factor)
    assert counts == {"factor": 1}


def test_two_loops_in_turn_factorise_once_each() -> None:
    step = cachax.jit(flax_step)
    one, two = flax_state(), flax_state().replace(x=2 * features())
    with computations() as counts:
        for _ in range(STEPS):
            one, two = step(one), step(two)
    assert counts == {"factor": 2}
    close(one.factor, factorise(features()))
    close(two.factor, factorise(2 * features()))


def test_loops_in_several_threads_factorise_once_each() -> None:
    step = cachax.jit(flax_step)
    done: dict[int, Any] = {}

    def train(i: int) -> None:
        state = flax_state().replace(x=(i + 1) * features())
        for _ in range(STEPS):
            state = step(state)
        done[i] = state.factor

    threads = [threading.Thread(target=train, args=(i,)) for i in range(4)]
    with computations() as counts:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert counts == {"factor": 4}
    for i in range(4):
        close(done[i], factorise((i + 1) * features()))


# What passes through, and where to.


class Pair(struct.PyTreeNode):
    a: Any
    b: Any
    n: Any

    @cachax.cached_property
    def mixed(self) -> Any:
        computing("mixed")
        return jnp.sum(self.a) + 10 * jnp.sum(self.b)

    @cachax.cached_property
    def first(self) -> Any:
        computing("first")
        return 3 * jnp.sum(self.a)


def pair() -> Pair:
    return Pair(a=jnp.ones(3), b=2 * jnp.ones(3), n=jnp.zeros(()))


@pytest.mark.parametrize("jit", [cachax.jit, donating])
def test_arrays_that_change_places_have_the_correct_values(jit: Any) -> None:
    swap = jit(lambda s: s.replace(a=s.b, b=s.a, n=s.n + s.mixed + s.first))
    state, total = pair(), 0.0
    with computations() as counts:
        for i in range(STEPS):
            mixed, first = (63.0, 9.0) if i % 2 == 0 else (36.0, 18.0)
            total += mixed + first
            state = swap(state)
            close(state.n, total)
    assert counts == {"mixed": 2, "first": 2}


def test_an_array_that_comes_out_twice_has_the_correct_values() -> None:
    double = cachax.jit(lambda s: s.replace(b=s.a, n=s.n + s.mixed))
    state = pair()
    for expected in [63.0, 96.0, 129.0]:
        state = double(state)
        close(state.n, expected)
    close(state.mixed, 33.0)
    close(state.first, 9.0)


def test_two_objects_that_come_out_of_one_both_have_its_value() -> None:
    split = cachax.jit(lambda s: (s.replace(n=s.n + s.mixed), [s.replace(n=s.n - 1)]))
    with computations() as counts:
        one, [two] = split(pair())
        close(one.mixed, 63.0)
        close(two.mixed, 63.0)
        one, [two] = split(two)
        close(two.mixed, 63.0)
    assert counts == {"mixed": 1}


def test_an_object_of_a_new_class_made_of_the_same_arrays_has_its_own_value() -> None:
    @jax.tree_util.register_dataclass
    @dataclass(frozen=True)
    class Other:
        a: Any
        b: Any

        @cachax.cached_property
        def mixed(self) -> Any:
            computing("other")
            return jnp.sum(self.a) - jnp.sum(self.b)

    turn = cachax.jit(lambda s: (Other(s.a, s.b), s.mixed))
    other, mixed = turn(pair())
    close(mixed, 63.0)
    close(other.mixed, -3.0)


def test_an_array_that_is_only_equal_does_not_take_the_value_along() -> None:
    change = cachax.jit(lambda s: s.replace(a=s.a + s.n, n=s.n + 1))
    state = pair()
    for expected in [63.0, 63.0, 66.0, 72.0]:
        close(state.mixed, expected)
        state = change(state)


def test_a_result_that_is_cast_or_reshaped_does_not_take_the_value_along() -> None:
    half = cachax.jit(lambda s: s.replace(a=s.a.astype(jnp.float16).reshape(3, 1)))
    state = pair()
    close(state.first, 9.0)
    new = half(state)
    assert new.first.dtype == jnp.float16
    close(new.first, 9.0)


class Alias(struct.PyTreeNode):
    x: Any
    n: Any

    @cachax.cached_property
    def own(self) -> Any:
        computing("own")
        return self.x

    @cachax.cached_property
    def both(self) -> Any:
        computing("both")
        return {"own": self.x, "sum": jnp.sum(self.x)}


@pytest.mark.parametrize("jit", [cachax.jit, donating])
def test_a_value_that_is_an_array_of_the_state_survives_the_loop(jit: Any) -> None:
    step = jit(lambda s: s.replace(n=s.n + jnp.sum(s.own) + s.both["sum"]))
    state = Alias(x=jnp.ones(3), n=jnp.zeros(()))
    with computations() as counts:
        for _ in range(STEPS):
            state = step(state)
    close(state.n, 6.0 * STEPS)
    close(state.own, jnp.ones(3))
    close(state.both["own"], jnp.ones(3))
    assert counts == {"own": 1, "both": 1}


def test_donation_when_the_donated_array_changes() -> None:
    """The value came from an array whose memory is used for the result."""
    step = donating(lambda s: s.replace(x=s.x + s.own, n=s.n + s.both["sum"]))
    state, total, x = Alias(x=jnp.ones(3), n=jnp.zeros(())), 0.0, 1.0
    for _ in range(4):
        old = state
        state = step(state)
        total, x = total + 3 * x, 2 * x
        close(state.x, x * np.ones(3))
        close(state.n, total)
        assert old.x.is_deleted()


def test_the_value_of_a_donated_state_is_not_donated() -> None:
    step, state = donating(flax_step), flax_state()
    factor = state.factor
    for _ in range(3):
        state = step(state)
        assert not factor.is_deleted()
    close(state.factor, factor)


# Where the arrays are.


def sharded() -> Any:
    mesh = jax.sharding.Mesh(np.array(first_devices(2)), ("d",))
    return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("d"))


@pytest.mark.parametrize("jit", ["jit", "donate_argnums=0"])
@pytest.mark.parametrize("place", ["sharded", "second device"])
def test_a_loop_over_placed_arrays(place: str, jit: str) -> None:
    ours, theirs = JITS[jit]
    where = sharded() if place == "sharded" else first_devices(2)[1]

    def make() -> Any:
        state = flax_state()
        w = jax.device_put(state.params["w"], where)
        b = state.params["b"] if place == "sharded" else jax.device_put(0.0, where)
        return state.replace(
            x=jax.device_put(state.x, where),
            y=jax.device_put(state.y, where),
            params={"w": w, "b": b},
        )

    step = ours(lambda s: s.replace(y=s.y + jnp.sum(s.factor)))
    plain = theirs(lambda s: s.replace(y=s.y + jnp.sum(plain_factor(s))))
    got, expected = make(), make()
    with computations() as counts:
        for _ in range(4):
            before, before_expected = got, expected
            got, expected = step(got), plain(expected)
            same_arrays(got, expected)
            assert are_deleted(before) == are_deleted(before_expected)
    assert counts == {"factor": 1}


def test_a_state_moved_to_a_different_device_is_computed_there() -> None:
    step, state = cachax.jit(flax_step), flax_state()
    state = step(step(state))
    there = first_devices(2)[1]
    with computations() as counts:
        moved = jax.device_put(state, there)
        for _ in range(3):
            moved = step(moved)
    assert moved.factor.devices() == {there}
    assert moved.params["w"].devices() == {there}
    assert counts == {"factor": 1}
    close(moved.factor, factorise(features()))


def test_the_caller_s_arrays_are_not_those_of_the_result() -> None:
    """As with jax.jit: what comes out can be donated without losing what went in."""
    step, state = cachax.jit(flax_step), flax_state()
    new = step(step(state))
    assert new.x is not state.x
    jax.jit(lambda s: jax.tree.map(lambda leaf: leaf + 1, s), donate_argnums=0)(new)
    assert new.x.is_deleted()
    assert not state.x.is_deleted()
    close(step(state).factor, factorise(features()))


# What is kept.


@pytest.mark.parametrize("jit", [cachax.jit, donating])
def test_a_loop_keeps_no_array_of_its_past(jit: Any) -> None:
    step, state = jit(flax_step), flax_state()
    for _ in range(3):
        state = step(state)
    gc.collect()
    before = len(jax.live_arrays())
    for _ in range(3 * STEPS):
        state = step(state)
    gc.collect()
    assert len(jax.live_arrays()) <= before


def test_an_array_of_an_old_state_goes_with_it() -> None:
    step, state = cachax.jit(flax_step), flax_state()
    watched = [weakref.ref(state.x)]
    for _ in range(3):
        state = step(state)
        watched.append(weakref.ref(state.x))
    gc.collect()
    assert [ref() is None for ref in watched] == [True, True, True, False]


def test_a_value_goes_with_the_last_of_its_states() -> None:
    step, first = cachax.jit(flax_step), flax_state()
    watched = weakref.ref(first.factor)
    last = step(step(first))
    del first
    gc.collect()
    assert watched() is not None
    assert last.factor is watched()
    del last
    gc.collect()
    assert watched() is None


def test_a_value_cleared_in_the_loop_is_computed_once_more() -> None:
    def change(i: int, s: Any) -> Any:
        if i == 5:
            cachax.clear(s, "factor")
        return s

    counted, _ = per_step(flax_state(), cachax.jit(flax_step), change)
    assert counted == [1, 0, 0, 0, 0, 1, 0, 0, 0, 0]


def test_a_loop_without_jit_factorises_once() -> None:
    state = flax_state()
    with computations() as counts:
        for _ in range(STEPS):
            state = flax_step(state)
    assert counts == {"factor": 1}


def test_a_loop_with_jit_disabled_factorises_once() -> None:
    step, state = cachax.jit(flax_step), flax_state()
    with jax.disable_jit(), computations() as counts:
        for _ in range(3):
            state = step(state)
    assert counts == {"factor": 1}


def test_a_step_inside_jax_jit_is_correct() -> None:
    step = cachax.jit(flax_step)
    outer = jax.jit(lambda s: step(step(s)))
    state = flax_state()
    for _ in range(3):
        state = outer(state)
    close(state.params["w"], plain_params(flax_state(), replacing, 6)["w"])


def test_a_gradient_through_the_step_is_correct() -> None:
    step = cachax.jit(flax_step)

    def loss(x: Any, step: Any) -> Any:
        return jnp.sum(step(step(flax_state().replace(x=x))).params["w"] ** 2)

    plain = jax.jit(lambda s: replacing(s, plain_factor))
    close(jax.grad(loss)(features(), step), jax.grad(loss)(features(), plain))
    warm = step(flax_state())
    close(jax.grad(loss)(warm.x, step), jax.grad(loss)(features(), plain))


@pytest.mark.skipif(not NNX_IS_PYTREE, reason="nnx.Module is not a pytree before 0.12")
def test_an_nnx_module_that_is_split_and_merged_is_correct() -> None:
    graph, variables = nnx.split(NnxState(features(), targets(), new_params()))

    @cachax.jit
    def step(variables: Any) -> Any:
        model = nnx.merge(graph, variables)
        return nnx.split(nnx_step(model, cached_factor))[1]

    for _ in range(4):
        variables = step(variables)
    expected = plain_params(flax_state(), replacing, 4)
    close(nnx.merge(graph, variables).w[...], expected["w"])


@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize("donate", [None, 0])
@pytest.mark.parametrize(
    "container", [tuple, lambda arrays: ({"first": [*arrays]},), lambda x: ((), *x)]
)
def test_a_state_with_tuples_of_arrays(
    frozen: bool, donate: int | None, container: Any
) -> None:
    """As those of optimisers, beside a static number."""

    @dataclasses.dataclass(frozen=frozen)
    class State:
        x: Any
        moments: Any
        n: int

        @cachax.cached_property
        def scaled(self) -> Any:
            computing("scaled")
            return self.x * self.n

    jax.tree_util.register_dataclass(State, ["x", "moments"], ["n"])

    def step(s: Any) -> Any:
        moments = jax.tree.map(lambda m: m + s.scaled.sum(), s.moments)
        return dataclasses.replace(s, moments=moments)

    step = cachax.jit(step, donate_argnums=donate)
    state = State(jnp.arange(3.0), container((jnp.zeros(2), jnp.ones(2))), 2)
    with computations() as counts:
        for _ in range(5):
            state = step(state)
    assert [x.tolist() for x in jax.tree.leaves(state.moments)] == [[30, 30], [31, 31]]
    assert counts == {"scaled": 1}


@pytest.mark.filterwarnings("error")
def test_a_donated_loop_of_a_class_whose_value_was_once_assigned() -> None:
    """Then values are found by object. This one holds an array of its object."""

    @jax.tree_util.register_dataclass
    @dataclass
    class State:
        x: Any
        y: Any

        @cachax.cached_property
        def pair(self) -> Any:
            computing("pair")
            return 2 * self.x, self.x

    assigned = State(jnp.ones(2), jnp.ones(2))
    assigned.pair = (jnp.ones(2), jnp.ones(2))

    def step(s: Any) -> Any:
        return dataclasses.replace(s, y=s.y + s.pair[0] + s.pair[1])

    step = cachax.jit(step, donate_argnums=0)
    state = State(jnp.arange(2.0), jnp.zeros(2))
    with computations() as counts:
        for _ in range(4):
            state = step(state)
    assert state.y.tolist() == [0, 12]
    assert counts == {"pair": 1}
    assert step(assigned).y.tolist() == [3, 3]


MESH_OF_ONE = Mesh(jax.devices()[:1], ("i",))


@pytest.mark.parametrize(
    "body",
    [
        lambda x: jax.device_put(x, jax.devices()[0]),
        lambda x: jax.random.key_data(jax.random.wrap_key_data(x)),
        lambda x: (jax.device_put(x, jax.devices()[0]), x),
        lambda x: jax.device_put(x, NamedSharding(MESH_OF_ONE, PartitionSpec())),
    ],
)
@pytest.mark.parametrize("uses_it", [True, False])
def test_a_value_in_the_memory_of_a_donated_array(body: Any, uses_it: bool) -> None:
    class Moved(struct.PyTreeNode):
        x: jax.Array
        y: jax.Array

        @cachax.cached_property
        def moved(self) -> Any:
            computing("moved")
            return body(self.x)

    @functools.partial(cachax.jit, donate_argnums=0)
    def step(state: Moved) -> Moved:
        more = jax.tree.leaves(state.moved)[0].sum() if uses_it else 3
        return state.replace(y=state.y + more)

    state = Moved(jnp.array([1, 2], "uint32"), jnp.zeros((), "uint32"))
    with computations() as counts:
        for _ in range(STEPS):
            state = step(state)
            assert jax.tree.leaves(state.moved)[0].tolist() == [1, 2]
    # In the first step: to a different sharding, or committed to one of the devices.
    is_committed = state.x._committed and jax.local_device_count() > 1
    is_moved = isinstance(state.x.sharding, NamedSharding) or is_committed
    assert counts["moved"] == 1 + is_moved
    assert state.y == 3 * STEPS


def test_a_value_of_an_object_in_the_memory_of_a_donated_array(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """It uses a numpy array too, and so it belongs to its object."""

    class Moved(struct.PyTreeNode):
        x: jax.Array
        y: jax.Array
        order: Any = struct.field(pytree_node=False, default=(1, 0))

        @cachax.cached_property
        def moved(self) -> Any:
            return jax.device_put(self.x, jax.devices()[0]), np.asarray(self.table)

        @property
        def table(self) -> Any:
            return np.asarray(self.order)

    @functools.partial(cachax.jit, donate_argnums=0)
    def step(state: Moved) -> Moved:
        moved, table = state.moved
        return state.replace(y=state.y + moved[jnp.asarray(table)])

    class WithArray(Moved):
        table: Any = struct.field(default=None)

    for cls, more in ((Moved, {}), (WithArray, {"table": np.array([1, 0])})):
        state = cls(jnp.array([1.0, 2.0]), jnp.zeros(2), **more)
        for _ in range(3):
            state = step(state)
        assert state.y.tolist() == [6, 3]
    assert "donate" not in capfd.readouterr().err


def test_a_plan_that_is_replaced_by_a_thread_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Summed(struct.PyTreeNode):
        x: jax.Array

        @cachax.cached_property
        def total(self) -> Any:
            return jnp.sum(self.x)

    original = Function._program

    def program(self: Any, entry: Any, *rest: Any) -> Any:
        entry.plan = Plan()  # as it is for an object with a supplied value
        return original(self, entry, *rest)

    fun = cachax.jit(lambda s: s.total + 1)
    for i in range(12):
        if i == 8:
            monkeypatch.setattr(Function, "_program", program)
        assert fun(Summed(jnp.full(2, float(i)))) == 2 * i + 1


class Regression(struct.PyTreeNode):
    """One value is reused in every step, and one is new."""

    x: jax.Array
    w: jax.Array

    @cachax.cached_property
    def gram(self) -> Any:
        computing("gram")
        return self.x.T @ self.x

    @cachax.cached_property
    def gradient(self) -> Any:
        computing("gradient")
        return self.gram @ self.w - 1

    @cachax.cached_property
    def count(self) -> int:
        return len(self.x)

    @cachax.cached_property
    def grid(self) -> Any:
        computing("grid")
        return jnp.linspace(0, 1, len(self.w))


def test_values_of_shapes_beside_one_that_is_new() -> None:
    """They are passed in, and don't keep the other from being computed inside."""

    def step(state: Regression) -> Regression:
        less = 0.01 * state.gradient / state.count + state.grid * 1e-3
        return state.replace(w=state.w - less)

    state = Regression(jnp.arange(6.0).reshape(3, 2) / 5, jnp.zeros(2))
    expected, plain, ours = state, jax.jit(step), cachax.jit(step)
    with computations() as counts:
        for _ in range(3 * STEPS):
            state = ours(state)
    assert counts == {"gram": 1, "grid": 1, "gradient": 3 * STEPS}
    for _ in range(3 * STEPS):
        expected = plain(expected)
    np.testing.assert_allclose(state.w, expected.w, rtol=1e-5)
    smaller = Regression(jnp.ones((2, 2)), jnp.zeros(2))
    np.testing.assert_allclose(ours(smaller).w, plain(smaller).w, rtol=1e-5)


@pytest.mark.parametrize("uses_both", [True, False])
@pytest.mark.parametrize("options", [{}, {"donate_argnums": 0}])
def test_a_value_that_is_reused_and_one_that_is_new(
    uses_both: bool, options: Any
) -> None:
    def step(state: Regression) -> Regression:
        more = jnp.trace(state.gram) if uses_both else 0
        return state.replace(w=state.w - 0.01 * state.gradient - 0.001 * more)

    def start() -> Regression:
        return Regression(jnp.arange(6.0).reshape(3, 2) / 5, jnp.zeros(2))

    plain, ours = jax.jit(step, **options), cachax.jit(step, **options)
    expected, state = start(), start()
    with computations() as counts:
        for _ in range(3 * STEPS):
            state = ours(state)
    assert counts["gram"] == 1
    assert counts["gradient"] == 3 * STEPS
    for _ in range(3 * STEPS):
        expected = plain(expected)
    np.testing.assert_allclose(state.w, expected.w, rtol=1e-5)
    with computations() as counts:
        assert state.gradient.shape == (2,)
        ours(state.replace(w=state.w + 0))
    assert counts == {"gradient": 2}


def _pickled(key: Any) -> bytes:
    try:
        return pickle.dumps(key)
    except TypeError:  # JAX 0.8 can't pickle keys
        return b""


@pytest.mark.parametrize("first", ["typed", "raw"])
def test_random_keys_and_their_data_in_the_same_place(first: str) -> None:
    class Noisy(struct.PyTreeNode):
        key: Any
        x: jax.Array

        @cachax.cached_property
        def noise(self) -> Any:
            computing("noise")
            return jax.random.normal(self.key, (2,))

    keys = [jax.random.key(1), jax.random.PRNGKey(1)]
    step = cachax.jit(lambda s: s.replace(x=s.x + s.noise))
    for key in keys if first == "typed" else keys[::-1]:
        before = _pickled(key)
        state = Noisy(key, jnp.zeros(2))
        with computations() as counts:
            for _ in range(STEPS):
                state = step(state)
        assert counts == {"noise": 1}
        np.testing.assert_allclose(state.x, STEPS * state.noise, rtol=1e-5)
        assert _pickled(key) == before
    for i in range(12):  # new ones
        for key in (jax.random.key(i), jax.random.PRNGKey(i)):
            before = _pickled(key)
            state = Noisy(key, jnp.zeros(2))
            np.testing.assert_allclose(step(state).x, state.noise, rtol=1e-5)
            assert _pickled(key) == before


@pytest.mark.parametrize(
    "trees",
    [
        # What the first trace has learned doesn't hold for the others.
        [lambda a, b: {"a": a, "b": b}, lambda a, b: [a, b], lambda a, b: (b, a)],
        [lambda a, b: [a, b], lambda a, b: [a, jax.random.key(0)]],
        [lambda a, b: [a, jax.random.key(0)], lambda a, b: [a, b]],
        [lambda a, b: [a, b], lambda a, b: [jnp.ones(7), a]],
    ],
)
def test_arrays_pass_through_in_arguments_of_several_structures(trees: Any) -> None:
    @cachax.cache
    def total(x: Any) -> Any:
        computing("total")
        return jnp.sum(x)

    leaves = cachax.jit(jax.tree.leaves)
    a, b = jnp.arange(3.0), jnp.arange(4.0)
    with computations() as counts:
        sums = {id(a): total(a), id(b): total(b)}
        for tree in 3 * trees:
            given = tree(a, b)
            pairs = zip(leaves(given), jax.tree.leaves(given), strict=True)
            for returned, argument in pairs:
                if id(argument) in sums:
                    assert total(returned) == sums[id(argument)]
    assert counts == {"total": 2}


def test_a_result_with_jit_disabled_beside_results_of_programs() -> None:
    step, state = cachax.jit(flax_step), flax_state()
    x = cachax.jit(lambda x: {"same": x})
    for _ in range(2):
        state = step(state)
        assert [*x(state.x)] == ["same"]
        with jax.disable_jit():
            state = step(state)
            assert x(state.x)["same"] is state.x
    close(state.params["w"], plain_params(flax_state(), replacing, 4)["w"])


def test_states_that_pass_through_before_a_value_is_known() -> None:
    @cachax.jit
    def step(state: Any) -> Any:  # reads no value
        return state.replace(params=jax.tree.map(lambda p: p * 0.9, state.params))

    evaluate = cachax.jit(lambda state: jnp.sum(state.factor) * state.params["b"])
    states = [FlaxState(features(), targets(), new_params())]
    for _ in range(4):
        states.append(step(states[-1]))
    with computations() as counts:
        for state in states:
            evaluate(state)
    assert counts == {"factor": 1}
