"""What the pages of the rules claim, run on the code that they show."""

import dataclasses
import functools
import importlib.util
import subprocess
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cachax
from cachax.lint import known_rules

from linted import code_in
from measure import computations, computing

ONES = jnp.ones(3)
Leak = jax.errors.UnexpectedTracerError


def example(code: str, *needs: str, section: str = "Example") -> dict[str, Any]:
    """The names that the code of a page defines."""
    for library in needs:
        pytest.importorskip(library)
    block = code_in(known_rules()[code], section)
    namespace: dict[str, Any] = {"__name__": f"page_{code}"}
    exec(block, namespace)
    return namespace


def instead(code: str, *needs: str) -> dict[str, Any]:
    return example(code, *needs, section="Use instead")


def counting(monkeypatch: pytest.MonkeyPatch) -> None:
    cholesky = jnp.linalg.cholesky

    def counted(x: jax.Array) -> jax.Array:
        computing("factor")
        return cholesky(x)

    monkeypatch.setattr(jnp.linalg, "cholesky", counted)


def test_cx101_is_dropped_at_every_jit_boundary(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counting(monkeypatch)
    for page, times in ((example, 3), (instead, 1)):
        process = page("CX101", "equinox")["Process"](jnp.eye(3))
        jit = jax.jit if page is example else cachax.jit
        use = jit(lambda p: p.factor[0, 0])
        with computations() as counts:
            use(process)
            use(process)
            jax.block_until_ready(process.factor)
        assert counts == {"factor": times}


def test_cx101_leaks_when_first_read_in_a_trace() -> None:
    process = example("CX101", "equinox")["Process"](jnp.eye(3))
    jax.jit(lambda x: x + process.factor)(1.0)
    with pytest.raises(Leak):
        process.factor + 1
    process = instead("CX101", "equinox")["Process"](jnp.eye(3))
    jax.jit(lambda x: x + process.factor)(1.0)
    assert (process.factor == jnp.eye(3)).all()


def test_cx101_warm_objects_of_equinox_have_a_different_structure() -> None:
    equinox = pytest.importorskip("equinox")
    if tuple(map(int, equinox.__version__.split(".")[:2])) < (0, 13):
        pytest.skip("since equinox 0.13")
    process = example("CX101")["Process"](jnp.eye(3))
    cold = jax.tree.structure(process)
    process.factor  # noqa: B018 (kept on first read)
    assert jax.tree.structure(process) != cold


def test_cx102_is_stale_and_its_gradient_is_zero() -> None:
    from flax import nnx

    for page, correct in ((example, False), (instead, True)):
        model = page("CX102", "flax")["Model"](ONES)
        before = model.norm
        try:
            (gradient,) = jax.tree.leaves(nnx.grad(lambda m: m.norm)(model))
        except ValueError as error:  # older flax refuses such a module
            assert "Arrays leaves are not supported" in str(error)  # noqa: PT017
            assert not correct
            continue
        assert bool(jnp.any(gradient != 0)) is correct
        model.w = nnx.Param(2 * ONES)
        assert bool(jnp.allclose(model.norm, 2 * before)) is correct


def test_cx103_is_stale_and_its_gradient_astray() -> None:
    for page, correct in ((example, False), (instead, True)):
        scale = page("CX103", "distrax")["Scale"](ONES)
        scale.energy  # noqa: B018 (kept on first read)
        doubled = jax.tree.map(lambda leaf: 2 * leaf, scale)
        assert bool(doubled.energy == 12.0) is correct
        gradient = jax.grad(lambda s: s.energy)(scale)
        assert bool(jnp.allclose(gradient.x, 2 * ONES)) is correct


def test_cx103_a_warm_chex_dataclass_has_a_different_structure() -> None:
    chex = pytest.importorskip("chex")
    for decorator, correct in (
        (functools.cached_property, False),
        (cachax.cached_property, True),
    ):

        @chex.dataclass
        class Foo:
            x: jax.Array
            energy = decorator(lambda self: jnp.sum(self.x**2))

        foo = Foo(x=ONES)
        cold = jax.tree.structure(foo)
        foo.energy  # noqa: B018 (kept on first read)
        assert (jax.tree.structure(foo) == cold) is correct


def test_cx104_keeps_a_tracer() -> None:
    table = example("CX104")["Table"](ONES)
    table.scaled(2.0)
    with pytest.raises(Leak):
        table.total + 1
    table = instead("CX104")["Table"](ONES)
    assert table.scaled(2.0) == 6.0
    assert table.total == 3.0


def test_cx105_computes_the_other_property_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counting(monkeypatch)
    for page, times in ((example, 2), (instead, 1)):
        process = page("CX105", "equinox")["Process"](jnp.eye(3))
        with computations() as counts:
            jax.block_until_ready(process.factor)
            jax.block_until_ready(process.logdet)
        assert counts == {"factor": times}


def test_cx201_is_stale_has_no_gradient_and_changes_the_tree() -> None:
    for page, correct in ((example, False), (instead, True)):
        foo = page("CX201", "flax")["Foo"](ONES)
        cold = jax.tree.structure(foo)
        foo.energy  # noqa: B018 (filled on first read)
        assert (jax.tree.structure(foo) == cold) is correct
        assert bool(foo.replace(a=2 * ONES).energy == 12.0) is correct
        gradient = jax.grad(lambda f: f.energy)(foo).a
        assert bool(jnp.allclose(gradient, 2 * ONES)) is correct


def test_cx201_on_a_plain_class_is_stale_and_keeps_a_tracer() -> None:
    class Foo:
        def __init__(self, a: jax.Array) -> None:
            self.a = a
            self._energy = None

        def energy(self) -> jax.Array:
            if self._energy is None:
                self._energy = jnp.sum(self.a**2)
            return self._energy

    foo = Foo(ONES)
    before = foo.energy()
    foo.a = 2 * ONES
    assert foo.energy() == before
    foo = Foo(ONES)
    jax.jit(lambda x: x + foo.energy())(1.0)
    with pytest.raises(Leak):
        foo.energy() + 1


def test_cx202_is_stale() -> None:
    cosmology = example("CX202")["Cosmology"](jnp.array(1.0))
    before = cosmology.distances()
    cosmology.omega = jnp.array(2.0)
    assert (cosmology.distances() == before).all()
    cosmology = instead("CX202")["Cosmology"](jnp.array(1.0))
    before = cosmology.distances
    cosmology.omega = jnp.array(2.0)
    assert (cosmology.distances == 2 * before).all()


def test_cx202_keeps_a_tracer() -> None:
    cosmology = example("CX202")["Cosmology"](jnp.array(1.0))
    jax.jit(lambda x: x + cosmology.distances())(1.0)
    with pytest.raises(Leak):
        cosmology.distances() + 1


def test_cx203_writes_once_and_leaves_a_tracer() -> None:
    counter = example("CX203")["Counter"]()
    counter.add(ONES)
    with pytest.raises(Leak):
        counter.total + 1


def test_cx204_keeps_a_tracer() -> None:
    window = example("CX204")["window"]
    jax.jit(lambda x: x + window(3))(1.0)
    with pytest.raises(Leak):
        window(3) + 1
    window = instead("CX204")["window"]
    jax.jit(lambda x: x + window(3))(1.0)
    assert np.allclose(window(3), [0, 1, 0])


def test_cx204_arrays_and_tracers_are_not_hashable() -> None:
    cached = functools.lru_cache(lambda x: x)
    with pytest.raises(TypeError, match="unhashable"):
        cached(ONES)
    with pytest.raises(TypeError, match="unhashable"):
        jax.jit(cached)(ONES)


def test_cx205_keeps_the_old_value() -> None:
    model = example("CX205")["Model"](ONES)
    assert (model.predict(1.0) == ONES).all()
    model.update(2 * ONES)
    assert (model.predict(1.0) == ONES).all()  # stale
    model = instead("CX205")["Model"](2 * ONES)
    assert (model.predict(1.0) == 2 * ONES).all()


@pytest.mark.filterwarnings("ignore:A JAX array is being set as static:UserWarning")
def test_cx206_has_no_gradient() -> None:
    for page, correct in ((example, False), (instead, True)):
        process = page("CX206", "equinox")["Process"](ONES)
        gradient = jax.grad(lambda p: p.energy)(process).x
        assert bool(jnp.allclose(gradient, 2 * ONES)) is correct


@pytest.mark.filterwarnings("ignore:A JAX array is being set as static:UserWarning")
def test_cx206_static_arrays_cannot_be_compared() -> None:
    eqx = pytest.importorskip("equinox")

    class Foo(eqx.Module):  # type: ignore[misc]
        a: jax.Array = eqx.field(static=True)

    use = jax.jit(lambda foo: foo.a)
    with pytest.raises(Exception, match=r"ambiguous|equality|hashable"):
        use(Foo(ONES)), use(Foo(1 * ONES))


@pytest.mark.filterwarnings("ignore:Using `field.init=False.` on:UserWarning")
def test_cx206_a_derived_leaf_is_stale() -> None:
    eqx = pytest.importorskip("equinox")

    class Foo(eqx.Module):  # type: ignore[misc]
        a: jax.Array
        b: jax.Array = eqx.field(init=False)

        def __post_init__(self) -> None:
            self.b = jnp.sum(self.a)

    foo = eqx.tree_at(lambda foo: foo.a, Foo(ONES), 2 * ONES)
    assert foo.b == 3.0
    assert (jax.grad(lambda foo: foo.b)(Foo(ONES)).a == 0).all()


def test_cx207_its_gradient_does_not_reach_the_fields() -> None:
    for page, leaves in ((example, 2), (instead, 1)):
        series = page("CX207")["Series"](ONES)
        assert len(jax.tree.leaves(series)) == leaves


def test_cx101_a_caching_property_of_a_user_is_dropped_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that checks for tracers, as numpyro's does, is dropped but does not leak."""
    counting(monkeypatch)

    class lazy:
        def __init__(self, function: Any) -> None:
            self.function = function

        def __get__(self, instance: Any, owner: Any = None) -> Any:
            value = self.function(instance)
            if not isinstance(value, jax.core.Tracer):
                setattr(instance, self.function.__name__, value)
            return value

    @jax.tree_util.register_pytree_node_class
    class Process:
        def __init__(self, x: jax.Array) -> None:
            self.x = x

        def tree_flatten(self) -> Any:
            return (self.x,), None

        @classmethod
        def tree_unflatten(cls, _: Any, children: Any) -> "Process":
            return cls(*children)

        @lazy
        def factor(self) -> jax.Array:
            return jnp.linalg.cholesky(self.x)

    process = Process(jnp.eye(3))
    with computations() as counts:
        for _ in range(2):
            jax.block_until_ready(jax.jit(lambda p: p.factor[0, 0])(process))
        jax.block_until_ready(process.factor)
        jax.block_until_ready(process.factor)
    assert counts == {"factor": 3}
    process = Process(jnp.eye(3))
    jax.jit(lambda x: x + process.factor)(1.0)
    assert (process.factor == jnp.eye(3)).all()


NETKETS = """
import jax, jax.numpy as jnp
from netket.utils import struct

@struct.dataclass
class Foo:
    x: jax.Array

    @struct.property_cached(pytree_node=True)
    def energy(self) -> jax.Array:
        return jnp.sum(self.x**2)

foo = Foo(jnp.ones(3))
assert foo.energy == 3.0
doubled = jax.tree.map(lambda leaf: 2 * leaf, foo)
assert doubled.energy == 6.0  # of the new field it is 12
assert (jax.grad(lambda f: f.energy)(foo).x == 0).all()
assert foo.replace(x=2 * jnp.ones(3)).energy == 12.0
"""


def test_cx103_netkets_is_stale_after_tree_map_and_its_gradient_is_zero() -> None:
    """In a separate process: importing netket changes the settings of JAX for good."""
    if importlib.util.find_spec("netket") is None:
        pytest.skip("netket is not installed")
    subprocess.run([sys.executable, "-c", NETKETS], check=True)


def test_cx204_an_object_with_arrays_is_not_a_key() -> None:
    eqx = pytest.importorskip("equinox")

    class Foo(eqx.Module):  # type: ignore[misc]
        x: jax.Array

        @functools.lru_cache  # noqa: B019 (that it fails is the point)
        def energy(self) -> jax.Array:
            return jnp.sum(self.x**2)

    with pytest.raises(TypeError, match="unhashable"):
        Foo(ONES).energy()


def test_cx204_a_table_on_a_method_is_stale() -> None:
    class Foo:
        def __init__(self, x: jax.Array) -> None:
            self.x = x

        @functools.lru_cache  # noqa: B019 (that it is stale is the point)
        def energy(self) -> jax.Array:
            return jnp.sum(self.x**2)

    foo = Foo(ONES)
    assert foo.energy() == 3.0
    foo.x = 2 * ONES
    assert foo.energy() == 3.0


def test_cx205_each_object_is_compiled_separately() -> None:
    pytree = instead("CX205")["Model"]
    traces = []

    class Static:
        def __init__(self, w: jax.Array) -> None:
            self.w = w

        @functools.partial(jax.jit, static_argnums=0)
        def predict(self, x: jax.Array) -> jax.Array:
            traces.append(x)
            return self.w * x

    for w in (ONES, 2 * ONES):
        assert (Static(w).predict(1.0) == w).all()
        assert (pytree(w).predict(1.0) == w).all()
    assert len(traces) == 2


def test_cx208_is_stale_and_its_gradient_is_zero() -> None:
    for page, correct in ((example, False), (instead, True)):
        cls = page("CX208")["Arm"]
        arm = cls(ONES) if correct else cls.build(ONES)

        def last(arm: Any, name: str = "tips" if correct else "_tips") -> jax.Array:
            tip: jax.Array = getattr(arm, name)[-1]
            return tip

        moved = dataclasses.replace(arm, angles=0 * ONES)
        assert bool(jnp.allclose(last(moved), 3.0)) is correct
        gradient = jax.grad(last)(arm).angles
        assert bool(jnp.allclose(gradient, -jnp.sin(ONES))) is correct
        bare = jax.tree.structure(cls(ONES))
        assert (jax.tree.structure(arm) == bare) is correct


def test_cx305_computes_the_value_in_every_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counting(monkeypatch)
    train = example("CX305")["train"]
    with computations() as counts:
        jax.block_until_ready(train(jnp.eye(3), ONES))
    assert counts == {"factor": 100}


def test_cx305_cachax_computes_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counting(monkeypatch)
    train = instead("CX305")["train"]
    with computations() as counts:
        jax.block_until_ready(train(jnp.eye(3), jnp.ones(3)))  # of one dtype
    assert counts == {"factor": 1}


def test_cx301_is_refused_when_the_class_is_made() -> None:
    with pytest.raises((RuntimeError, cachax.NowhereToStoreError)) as refused:
        example("CX301")
    error = refused.value.__cause__ or refused.value  # Python 3.11 wraps it
    assert isinstance(error, cachax.NowhereToStoreError)
    point = instead("CX301")["Point"]()
    point.x, point.y = 3.0, 4.0
    assert point.norm == 5.0


def test_cx302_drops_values_cached_before() -> None:
    for page, correct in ((example, False), (instead, True)):

        class Series(page("CX302")["Series"]):  # type: ignore[misc]
            @cachax.cached_property
            def other(self) -> jax.Array:
                return jnp.sum(self.x)

        series = Series(ONES)
        cachax.warm(series, "other")
        cachax.warm(series, "scaled")
        assert cachax.is_cached(series, "other") is correct


def test_cx303_is_a_different_number_in_a_copy() -> None:
    import copy

    sample = example("CX303")["Sample"](3)
    assert not np.array_equal(sample.noise, copy.copy(sample).noise)
    sample = instead("CX303")["Sample"](3, jax.random.key(0))
    assert np.array_equal(sample.noise, copy.copy(sample).noise)


def test_cx304_computes_inside_at_every_call(monkeypatch: pytest.MonkeyPatch) -> None:
    counting(monkeypatch)
    for page, times in ((example, 2), (instead, 1)):
        names = page("CX304")
        process = names["Process"](jnp.eye(3))
        with computations() as counts:
            for _ in range(2):
                jax.block_until_ready(names["predict"](process, ONES))
        assert counts == {"factor": times}


def test_cx401_does_nothing() -> None:
    assert (example("CX401")["x"] == 0).all()
    assert (instead("CX401")["x"] == jnp.array([1, 0, 0])).all()


def test_a_hash_by_value_does_not_help_a_static_object_that_changes() -> None:
    class Foo:
        def __init__(self, n: int) -> None:
            self.n = n

        def __hash__(self) -> int:
            return hash(self.n)

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Foo) and self.n == other.n

        @functools.partial(jax.jit, static_argnums=0)
        def f(self, x: float) -> jax.Array:
            return jnp.asarray(self.n * x)

    foo = Foo(2)
    assert foo.f(1.0) == 2
    foo.n = 3
    asks_again = not (0, 9) <= jax.__version_info__ < (0, 11)
    assert foo.f(1.0) == (3 if asks_again else 2)
