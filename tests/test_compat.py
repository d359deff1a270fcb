"""What cachax uses of JAX's internals is still there, and does what it did."""

import copy
import dataclasses
import pickle
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cachax
from cachax import _compat
from cachax._core import index

from devices import shard_map
from measure import computations, computing


def test_forgetting_a_failed_trace_keeps_the_others() -> None:
    traces = []

    def fun(x: jax.Array) -> jax.Array:
        traces.append(x.shape)
        return x + 1

    jitted = jax.jit(fun)
    jitted(jnp.ones(2))
    _compat.forget_failed_traces(jitted)
    jitted(jnp.ones(2))
    assert traces == [(2,)]
    _compat.forget_failed_traces(fun)  # of one that is not jitted there is nothing


def test_internals_are_used_in_one_file_only() -> None:
    source = Path(_compat.__file__).parent
    users = {f.name for f in source.rglob("*.py") if "jax._src " in f.read_text()}
    assert users == {"_compat.py"}


@pytest.mark.parametrize(
    "array",
    [jnp.ones(2), jnp.float32(1), jax.random.key(0)],
    ids=["array", "0d", "key"],
)
def test_an_array_can_have_an_attribute(array: jax.Array) -> None:
    """It stays with this array, and nothing else takes notice of it."""
    contents = index.contents_of(array)
    assert index.contents_of(array) is contents
    others = [copy.copy(array), copy.deepcopy(array), jax.jit(lambda x: x)(array)]
    if not jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key):
        others.append(pickle.loads(pickle.dumps(array)))
    assert not any(hasattr(other, index.ATTRIBUTE) for other in others)


@pytest.mark.parametrize("make", [jnp.ones, np.ones], ids=["jnp", "np"])
def test_an_array_is_of_one_class_and_a_tracer_is_not(make: Any) -> None:
    array = jax.device_put(make(3))
    assert type(array) is type(jax.jit(lambda x: x + 1)(array)) is _compat.ArrayImpl
    traced: list[type] = []
    jax.jit(lambda x: traced.append(type(x)))(array)
    assert _compat.ArrayImpl not in traced


def test_outside_any_trace_the_level_is_concrete() -> None:
    assert _compat.current_trace() is _compat.CONCRETE


@pytest.mark.parametrize("wrap", [jax.jit, jax.grad, jax.vmap])
def test_a_tracer_tells_its_trace(wrap: object) -> None:
    def fun(x: jax.Array) -> jax.Array:
        assert _compat.trace_of(x) is _compat.current_trace()
        assert _compat.current_trace() is not _compat.CONCRETE
        return x * 2

    x = jnp.ones(2) if wrap is jax.vmap else jnp.ones(())
    wrap(fun)(x)  # type: ignore[operator]


def test_a_trace_can_be_entered_from_an_inner_one() -> None:
    def outer(x: jax.Array) -> jax.Array:
        def inner(carry: jax.Array, _: None) -> tuple[jax.Array, None]:
            with _compat.at_trace(_compat.trace_of(x)):
                doubled = x * 2
            assert _compat.trace_of(doubled) is _compat.trace_of(x)
            with _compat.at_trace(_compat.CONCRETE):
                three = jnp.ones(()) * 3
            assert not isinstance(three, _compat.Tracer)
            return carry + doubled * three, None

        return jax.lax.scan(inner, x, None, length=2)[0]

    with jax.checking_leaks():
        assert jax.jit(outer)(1.0) == 13


def test_a_callback_runs_at_the_concrete_level_inside_a_trace() -> None:
    ran = []

    @jax.jit
    def fun(x: jax.Array) -> jax.Array:
        with _compat.at_trace(_compat.CONCRETE):
            jax.jit(lambda: jax.debug.callback(lambda: ran.append(1)))()
        return x

    fun(1.0)
    fun(2.0)
    jax.effects_barrier()
    assert ran == [1]


def test_the_trace_of_grad_knows_its_parent() -> None:
    def fun(x: jax.Array) -> jax.Array:
        inside = _compat.trace_of(x)

        def inner(y: jax.Array) -> jax.Array:
            outer = _compat.parent_of(_compat.trace_of(y))
            while outer is not inside:  # up to JAX 0.6 there is another in between
                assert outer is not None
                outer = _compat.parent_of(outer)
            return y * x

        return jax.grad(inner)(x)

    assert jax.grad(fun)(2.0) == 1


def test_references_are_recognised() -> None:
    new_ref = getattr(jax, "new_ref", None) or jax._src.core.mutable_array
    assert _compat.is_ref(new_ref(jnp.ones(2)))
    assert not _compat.is_ref(jnp.ones(2))
    assert not _compat.is_ref("ref")

    @jax.jit
    def fun(x: jax.Array) -> jax.Array:
        assert not _compat.is_ref(x)
        ref = new_ref(x)
        assert _compat.is_ref(ref)
        return ref[...]

    assert fun(1.0) == 1


def test_jitted_functions_are_recognised() -> None:
    assert _compat.is_jitted(jax.jit(len))
    assert not _compat.is_jitted(len)
    assert not _compat.is_jitted(jax.vmap(len))


def test_disabled_jit_is_detected() -> None:
    assert not _compat.jit_is_disabled()
    with jax.disable_jit():
        assert _compat.jit_is_disabled()


def test_unspecified_leaves_a_sharding_to_jax() -> None:
    fun = jax.jit(lambda x: x, in_shardings=(_compat.UNSPECIFIED,))
    assert fun(1.0) == 1


def test_without_other_processes_there_is_no_coordination_service() -> None:
    """With them, its methods are those that tests/processes uses."""
    assert not _compat.has_processes()
    assert _compat.coordination_client() is None


def test_shardings_are_found_for_the_leaves_of_a_prefix() -> None:
    one = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    found = _compat.shardings_for((one, None), ({"a": 1.0, "b": 2.0}, [3.0]))
    assert found == [one, one, None]


def test_a_body_with_shard_map_can_be_followed() -> None:
    """From 0.10 on, JAX has a class for what it returns."""
    mesh = jax.sharding.Mesh(jax.devices()[:1], ("i",))
    spec = jax.sharding.PartitionSpec("i")
    double = shard_map(lambda x: 2 * x, mesh=mesh, in_specs=spec, out_specs=spec)

    @jax.tree_util.register_dataclass
    @dataclasses.dataclass(frozen=True)
    class Pair:
        x: jax.Array
        y: jax.Array

        @cachax.cached_property
        def doubled(self) -> jax.Array:
            computing("doubled")
            return double(self.x)  # type: ignore[no-any-return]

    pair = Pair(jnp.arange(3.0), jnp.ones(3))
    with computations() as counts:
        for _ in range(3):
            assert pair.doubled.tolist() == [0, 2, 4]
            pair = dataclasses.replace(pair, y=pair.y + 1)
    assert counts == {"doubled": 1}
