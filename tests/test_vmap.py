"""A value of each example is computed once for the whole batch."""

import gc
import weakref
from dataclasses import dataclass, replace
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cachax

from cases import PYTREES, A, B, arrays_of, close, fresh, over, over_chains, truth
from families import Family
from measure import computations, computing


def batch_of(family: Family, count: int = 3, axis: int = 0) -> Any:
    one = fresh(family)
    return jax.tree.map(
        lambda x: jnp.stack([x + i for i in range(count)], axis=axis), one
    )


def truths(name: str, count: int = 3) -> Any:
    return np.stack([truth(name, A + i, B + i) for i in range(count)])


# Over the families


@over_chains(PYTREES)
def test_once_for_the_batch_and_for_all_calls(family: Family, name: str) -> None:
    batch = batch_of(family)
    read = cachax.vmap(lambda o: getattr(o, name))
    with computations() as counts:
        close(read(batch), truths(name))
        close(read(batch), truths(name))
        close(
            cachax.vmap(lambda o, q: q * getattr(o, name))(batch, jnp.ones(3)),
            truths(name),
        )
        close(cachax.jit(read)(batch), truths(name))
    assert set(counts.values()) == {1}


@over_chains(PYTREES)
def test_inside_jit_it_is_computed_outside(family: Family, name: str) -> None:
    batch = batch_of(family)
    read = cachax.jit(cachax.vmap(lambda o: getattr(o, name)))
    with computations() as counts:
        close(read(batch), truths(name))
        close(read(batch), truths(name))
        close(cachax.vmap(lambda o: getattr(o, name))(batch), truths(name))
    assert set(counts.values()) == {1}


@over(PYTREES)
def test_correct_derivatives(family: Family, warm: bool, no_leaks: None) -> None:
    batch = batch_of(family)
    read = cachax.vmap(lambda o: jnp.sum(o.scaled))
    if warm:
        read(batch)

    def total(o: Any) -> Any:
        return jnp.sum(read(o))

    plain = jax.grad(lambda o: jnp.sum(jax.vmap(lambda o: jnp.sum(o.scaled))(o)))(batch)
    for fun in (total, cachax.jit(total), jax.jit(total)):
        close(arrays_of(jax.grad(fun)(batch)), arrays_of(plain))
    each = cachax.vmap(jax.grad(lambda o: jnp.sum(o.scaled)))(batch)
    close(arrays_of(each), arrays_of(plain))


@over(PYTREES)
def test_a_method_of_each(family: Family) -> None:
    batch = batch_of(family)
    with computations() as counts:
        for _ in range(2):
            close(cachax.vmap(lambda o: o.power(3))(batch)[1], (A + 1) ** 3)
    assert counts == {"power": 1}


@over(PYTREES)
def test_never_stale(family: Family) -> None:
    batch = batch_of(family)
    read = cachax.vmap(lambda o: o.energy)
    close(read(batch), truths("energy"))
    close(read(jax.tree.map(lambda x: 2 * x, batch)), 4 * truths("energy"))
    if family.mutable:
        family.assign(batch, jnp.zeros((3, 3)))
        close(read(batch), np.zeros(3))


# How it is mapped


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Process:
    x: Any
    y: Any
    noise: Any

    @cachax.cached_property
    def factor(self) -> Any:
        computing("factor")
        kernel = jnp.exp(-((self.x[:, None] - self.x) ** 2))
        return jnp.linalg.cholesky(kernel + self.noise * jnp.eye(len(self.x)))

    @cachax.cached_property
    def weights(self) -> Any:
        computing("weights")
        return jax.scipy.linalg.cho_solve((self.factor, True), self.y)

    @cachax.cached_property
    def sized(self) -> tuple[int, Any]:
        """A static part beside an array."""
        return len(self.x), jnp.sum(self.x)


def ensemble(count: int = 64) -> Process:
    x = jnp.linspace(0, 1, 5) + jnp.arange(count, dtype=jnp.float32)[:, None]
    return Process(x, jnp.sin(x), jnp.float32(0.1))


EACH = Process(0, 0, None)


def predict(process: Process, q: Any) -> Any:
    return jnp.exp(-((q - process.x) ** 2)) @ process.weights


def test_an_ensemble_of_processes_is_factorised_once() -> None:
    processes = ensemble()
    predict_all = cachax.vmap(predict, in_axes=(EACH, None))
    expected = jax.vmap(predict, in_axes=(EACH, None))(processes, 0.5)
    with computations() as counts:
        np.testing.assert_allclose(predict_all(processes, 0.5), expected, rtol=1e-5)
    assert counts == {"factor": 1, "weights": 1}
    with computations() as counts:
        predict_all(processes, 0.7)
        cachax.jit(predict_all)(processes, 0.7)
        predict_all(replace(processes, y=2 * processes.y), 0.5)
    assert counts == {"weights": 1}


def test_other_axes_are_other_values() -> None:
    square = Process(jnp.arange(9.0).reshape(3, 3), jnp.ones((3, 3)), jnp.ones(3))
    fun = lambda p: p.weights  # noqa: E731
    for axes in (Process(0, 0, 0), Process(1, 0, None), Process(-1, 1, 0)):
        shared = axes.noise is None
        one = replace(square, noise=jnp.float32(1)) if shared else square
        for _ in range(2):
            got = cachax.vmap(fun, in_axes=(axes,), out_axes=1)(one)
            expected = jax.vmap(fun, in_axes=(axes,), out_axes=1)(one)
            np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def test_an_object_that_is_not_mapped_is_the_same_for_all() -> None:
    one = jax.tree.map(lambda x: x, Process(jnp.arange(3.0), jnp.ones(3), 0.5))
    with computations() as counts:
        for _ in range(2):
            got = cachax.vmap(predict, in_axes=(None, 0))(one, jnp.arange(4.0))
        close(one.weights, one.weights)
    assert counts == {"factor": 1, "weights": 1}
    expected = jax.vmap(predict, in_axes=(None, 0))(one, jnp.arange(4.0))
    np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_nested() -> None:
    grid = jax.tree.map(lambda x: jnp.stack([x, x + 1]), ensemble(3))
    twice = cachax.vmap(cachax.vmap(predict, in_axes=(EACH, None)), in_axes=(0, None))
    plain = jax.vmap(jax.vmap(predict, in_axes=(EACH, None)), in_axes=(0, None))
    with computations() as counts:
        for fun in (twice, twice, cachax.jit(twice)):
            np.testing.assert_allclose(fun(grid, 0.3), plain(grid, 0.3), rtol=1e-4)
    assert counts["factor"] == 1 + 3  # the plain one keeps nothing


def test_named_axes() -> None:
    @jax.tree_util.register_dataclass
    @dataclass(frozen=True)
    class Named:
        x: Any

        @cachax.cached_property
        def share(self) -> Any:
            computing("share")
            return self.x / jax.lax.psum(self.x, "i")

    batch = Named(jnp.arange(4.0))
    with computations() as counts:
        for _ in range(2):
            got = cachax.vmap(lambda o: o.share, axis_name="i")(batch)
            close(got, np.arange(4) / 6)
    assert counts == {"share": 1}
    with pytest.raises(NameError):
        cachax.vmap(lambda o: o.share)(batch)


def test_static_parts_stay_static() -> None:
    def pad(process: Process) -> Any:
        size, total = process.sized
        return jnp.full(size, total)

    close(cachax.vmap(pad, in_axes=(EACH,))(ensemble(2))[0], np.full(5, 2.5))


def test_keywords_options_and_plain_calls() -> None:
    @cachax.vmap(in_axes=(EACH,))
    def total(process: Process, by: Any = 1) -> Any:
        """Doc."""
        return by * jnp.sum(process.weights)

    assert total.__doc__ == "Doc."
    processes = ensemble(2)
    close(
        total(processes, by=jnp.array([1.0, 2.0])), total(processes) * np.array([1, 2])
    )
    close(cachax.vmap(jnp.sin)(jnp.ones(2)), np.sin(np.ones(2)))
    close(cachax.vmap(lambda: jnp.ones(()), axis_size=2)(), np.ones(2))


def test_wrong_arguments_raise_the_error_of_jax() -> None:
    with pytest.raises(ValueError, match="vmap"):
        cachax.vmap(predict, in_axes=(EACH,))(ensemble(2), 0.5)
    with pytest.raises(ValueError, match="inconsistent sizes"):
        cachax.vmap(predict, in_axes=(EACH, 0))(ensemble(2), jnp.ones(3))
    with pytest.raises(TypeError, match="in_axes"):
        cachax.vmap(predict, in_axes="rows")


def test_inside_loops_and_branches(no_leaks: None) -> None:
    def looped(process: Process) -> Any:
        total, _ = jax.lax.scan(
            lambda c, _: (c + jnp.sum(process.weights), None), 0.0, None, length=3
        )
        return jax.lax.cond(total > 0, lambda: total, lambda: process.weights[0])

    processes = ensemble(2)
    with computations() as counts:
        for fun in (looped, looped):
            np.testing.assert_allclose(
                cachax.vmap(fun, in_axes=(EACH,))(processes),
                [
                    looped(
                        jax.tree.map(lambda x, i=i: x[i] if x.ndim else x, processes)
                    )
                    for i in range(2)
                ],
                rtol=1e-4,
            )
    assert counts["factor"] == 1 + 2 * 2


def test_what_is_kept_goes_with_the_batch() -> None:
    processes = ensemble(2)
    cachax.vmap(predict, in_axes=(EACH, None))(processes, 0.5)
    (value,) = (v for k, v in cachax.cached(processes).items() if k == "factor of each")
    watched = weakref.ref(value)
    del value
    cachax.clear(processes)
    assert cachax.cached(processes) == {}
    gc.collect()
    assert watched() is None
    with computations() as counts:
        cachax.vmap(predict, in_axes=(EACH, None))(processes, 0.5)
    assert counts == {"factor": 1, "weights": 1}


def test_rebuilt_inside() -> None:
    def louder(process: Process) -> Any:
        return jnp.sum(replace(process, y=2 * process.y).weights)

    processes = ensemble(2)
    with computations() as counts:
        for _ in range(2):
            cachax.vmap(louder, in_axes=(EACH,))(processes)
    assert counts["factor"] == 1


def test_a_cached_function_of_each() -> None:
    @cachax.cache
    def spread(process: Process) -> Any:
        computing("spread")
        return jnp.max(process.x) - jnp.min(process.x)

    processes = ensemble(2)
    with computations() as counts:
        for _ in range(2):
            close(cachax.vmap(spread, in_axes=(EACH,))(processes), np.ones(2))
    assert counts == {"spread": 1}


def test_axes_by_position() -> None:
    mapped = cachax.vmap(predict, (EACH, None), 0)
    np.testing.assert_allclose(mapped(ensemble(2), 0.5).shape, (2,))


def test_what_is_the_same_for_all_is_not_a_tracer() -> None:
    @jax.tree_util.register_dataclass
    @dataclass(frozen=True)
    class Indexed:
        x: Any

        @cachax.cached_property
        def index(self) -> Any:
            return np.array([2, 0, 1]), 2 * self.x

    def picked(one: Indexed) -> Any:
        index, double = one.index
        return double[int(index[0])]

    batch = Indexed(jnp.arange(6.0).reshape(2, 3))
    for _ in range(2):
        close(cachax.vmap(picked)(batch), np.array([4.0, 10.0]))
        close(
            cachax.jit(cachax.vmap(lambda o: o.index[1].sum()))(batch),
            np.array([6.0, 24.0]),
        )


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Inner:
    w: Any

    @cachax.cached_property
    def norm(self) -> Any:
        computing("norm")
        return jnp.sum(self.w**2)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Outer:
    x: Any
    shared: Any

    @cachax.cached_property
    def model(self) -> Any:
        computing("model")
        return {"own": Inner(2 * self.x), "shared": Inner(3 * self.shared)}

    @cachax.cached_property
    def models(self) -> Any:
        return [self.model["own"], Inner(self.x)]

    @cachax.cached_property
    def deep(self) -> Any:
        return Outer(self.x + 1, self.shared)


def _of_values(o: Any) -> Any:
    inner = o.models[1].norm + o.models[0].norm
    return inner, o.model["own"].norm + o.model["shared"].norm, o.deep.models[1].norm


@pytest.mark.parametrize("is_jitted", [False, True])
def test_a_value_of_an_object_that_is_a_value_is_computed_once(
    is_jitted: bool, no_leaks: None
) -> None:
    x = jnp.arange(6.0).reshape(3, 2)
    batch = Outer(x, jnp.ones(2))
    axes = (Outer(0, None),)
    mapped = cachax.vmap(_of_values, in_axes=axes)
    call = cachax.jit(mapped) if is_jitted else mapped
    with jax.disable_jit():
        expected = [_of_values(Outer(each, batch.shared)) for each in x]
    with computations() as counts:
        for _ in range(3):
            for i, found in enumerate(call(batch)):
                close(found, np.stack([each[i] for each in expected]))
        close(mapped(batch)[1], np.stack([each[1] for each in expected]))
    # The models: that of the batch, of the shared part, and of what `deep` returns.
    assert counts == {"model": 2, "norm": 4}


def test_the_values_of_values_follow_their_batch(no_leaks: None) -> None:
    x = jnp.arange(6.0).reshape(3, 2)
    read = cachax.vmap(lambda o: o.model["own"].norm, in_axes=(Outer(0, None),))
    for scale in (1.0, 2.0, 3.0):
        close(read(Outer(scale * x, jnp.ones(2))), jnp.sum((2 * scale * x) ** 2, 1))
    grads = jax.grad(lambda x: jnp.sum(read(Outer(x, jnp.ones(2)))))(x)
    close(grads, 8 * x)


class Shared(flax.struct.PyTreeNode):
    scale: Any

    @cachax.cached_property
    def norm(self) -> Any:
        return jnp.sum(self.scale)


class WithShared(flax.struct.PyTreeNode):
    x: Any
    y: Any

    @cachax.cached_property
    def shared(self) -> Shared:
        return Shared(2 * self.y)


def test_a_value_that_is_an_object_and_the_same_for_all_examples() -> None:
    obj = WithShared(jnp.ones((4, 3)), jnp.ones(2))
    mapped = cachax.vmap(lambda o: o.x * o.shared.norm, in_axes=(WithShared(0, None),))
    assert mapped(obj).tolist() == cachax.jit(mapped)(obj).tolist() == [[4.0] * 3] * 4
