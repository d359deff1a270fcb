"""verify: what is found is computed again, and a difference is said."""

import itertools
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cachax
from cachax import StaleValueError
from cachax._core.computed import Computed
from cachax._core.property import cached_property
from cachax._jit.call import Function

from measure import computations, computing

WATCHED = [
    (cached_property, "__get__"),
    (Computed, "read"),
    (Computed, "evaluate"),
    (Computed, "_found"),
    (Function, "took"),
    (Function, "call"),
]
ORIGINALS = [vars(cls)[name] for cls, name in WATCHED]

FACTOR = 1.0


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Mesh:
    points: Any
    density: Any

    @cachax.cached_property
    def total(self) -> Any:
        computing("total")
        return FACTOR * jnp.sum(self.points)

    @cachax.cached_property
    def twice(self) -> Any:
        return 2 * self.total

    @cachax.cached_property
    @jax.jit
    def jitted(self) -> Any:
        return 3 * self.total

    @cachax.cached_property
    def shape(self) -> tuple[str, int]:
        return ("points", int(self.points[0]))

    @cachax.cached_method
    def power(self, n: int) -> Any:
        return FACTOR * jnp.sum(self.points**n)


@cachax.cache
def spread(mesh: Mesh) -> Any:
    return FACTOR * (jnp.max(mesh.points) - jnp.min(mesh.points))


def made(*, of: Any = np) -> Mesh:
    return Mesh(of.arange(1.0, 4.0), jnp.ones(3))


def reader() -> Any:
    return cachax.jit(lambda mesh: mesh.total + mesh.density)


def plan() -> Any:
    fun = cachax.jit(lambda meshes, x: meshes[0].total + x)
    return lambda mesh: fun([mesh], 1.0)


def several() -> Any:
    fun = cachax.jit(lambda mesh, x, y, z: mesh.total + x + y + z)
    return lambda mesh: fun(mesh, 1.0, 2.0, z=3.0)


def lifted() -> Any:
    return cachax.lift(jax.checkpoint)(lambda mesh: mesh.total + 1)


def batch() -> Any:
    fun = cachax.vmap(lambda mesh: mesh.total)
    return lambda mesh: fun(mesh_of_batch(mesh))


def mesh_of_batch(mesh: Mesh) -> Mesh:
    """The same batch each time, of which the points are those of `mesh`."""
    if id(mesh) not in _batches:
        batch = Mesh(mesh.points[:, None], mesh.density[:, None])
        # Held: an id is used again. Never called in a trace.
        _batches[id(mesh)] = (mesh, batch)  # noqa: CX204
    return _batches[id(mesh)][1]


_batches: dict[int, tuple[Mesh, Mesh]] = {}

USES: dict[str, Callable[[], Any]] = {
    "read": lambda: lambda mesh: mesh.total,
    "chain": lambda: lambda mesh: mesh.twice,
    "jitted body": lambda: lambda mesh: mesh.jitted,
    "static": lambda: lambda mesh: mesh.shape,
    "method": lambda: lambda mesh: mesh.power(2),
    "function": lambda: spread,
    "jit": reader,
    "jit of a list": plan,
    "jit of several": several,
    "lift": lifted,
    "vmap": batch,
}


@pytest.mark.parametrize("name", USES)
@pytest.mark.parametrize("before", [1, 2, 4])
def test_a_numpy_array_written_to_in_place_is_found(name: str, before: int) -> None:
    use, mesh = USES[name](), made()
    with cachax.verify():
        for _ in range(before):
            use(mesh)
        mesh.points[0] = 100.0
        with pytest.raises(StaleValueError, match="field 'points' was written to"):
            use(mesh)


@pytest.mark.parametrize("name", USES)
def test_outside_nothing_is_detected(name: str) -> None:
    """The same program, to show that the one above can fail."""
    use, mesh = USES[name](), made()
    values = [use(mesh) for _ in range(4)]
    mesh.points[0] = 100.0
    np.testing.assert_array_equal(use(mesh), values[0])


@pytest.mark.parametrize("name", [name for name in USES if name != "static"])
def test_unchanged_arrays_are_correct(name: str, no_leaks: None) -> None:
    for of in (np, jnp):
        use, mesh = USES[name](), made(of=of)
        with cachax.verify():
            values = [use(mesh) for _ in range(5)]
        for value in values:
            np.testing.assert_array_equal(value, values[0])


def test_a_value_handed_on_to_a_rebuilt_object_is_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mesh = made(of=jnp)
    assert mesh.total == 6.0
    rebuilt = replace(mesh, density=jnp.zeros(3))
    monkeypatch.setattr(f"{__name__}.FACTOR", 2.0)
    with cachax.verify(), pytest.raises(StaleValueError, match="outside the object"):
        rebuilt.total  # noqa: B018 (the read is the test)
    assert replace(mesh, density=jnp.zeros(3)).total == 6.0  # stale, without an error


@cachax.cache
def product(a: Any, b: Any) -> Any:
    return FACTOR * a * b


def test_a_stale_value_of_a_function_of_several_arrays_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    a, b = jnp.ones(2), jnp.ones(2)
    with cachax.verify():
        kept = product(a, b)
        assert product(a, b) is kept
        monkeypatch.setattr(f"{__name__}.FACTOR", 2.0)
        with pytest.raises(StaleValueError, match="product: the cached value is not"):
            product(a, b)
    assert product(a, b) is kept


def test_a_field_replaced_by_a_different_thread_is_not_a_difference() -> None:
    class Slow:
        def __init__(self) -> None:
            self.x = jnp.ones(2)

        @cachax.cached_property
        def total(self) -> Any:
            if cachax.is_cached(self, "total"):  # being computed again
                self.x = jnp.zeros(2)  # as a different thread would
            return jnp.sum(self.x)

    slow = Slow()
    with cachax.verify():
        assert slow.total == 2.0
        assert slow.total == 2.0
        assert slow.total == 0.0


def test_stale_values_of_rebuilt_objects_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mesh, fun = made(of=jnp), reader()

    def call() -> Any:
        return fun(replace(mesh, density=jnp.zeros(3)))

    for _ in range(12):
        call()
    monkeypatch.setattr(f"{__name__}.FACTOR", 2.0)
    with cachax.verify(), pytest.raises(StaleValueError, match=r"Mesh\.total"):
        call()
    np.testing.assert_array_equal(call(), 6.0 * np.ones(3))


class Counter:
    """A body that isn't a function of the fields."""

    def __init__(self) -> None:
        self._numbers = itertools.count()

    @cachax.cached_property
    def next(self) -> float:
        return float(next(numbers))

    @cachax.cached_property
    def fails(self) -> int:
        if next(numbers) > 0:
            raise OSError("no such file")
        return 0


numbers = itertools.count()


def test_a_body_that_returns_a_different_value_each_time_is_recognised() -> None:
    counter = Counter()
    with cachax.verify(), pytest.raises(StaleValueError) as caught:
        counter.next, counter.next  # noqa: B018 (the reads are the test)
    error = caught.value
    assert "Counter.next: the cached value is not" in str(error)
    assert "returns a different value each time" in str(error)
    assert (error.owner, error.field, error.largest) == ("Counter.next", None, 1.0)


def test_a_body_that_raises_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.numbers", itertools.count())
    counter = Counter()
    with cachax.verify(), pytest.raises(StaleValueError, match="It raises OSError"):
        counter.fails, counter.fails  # noqa: B018 (the reads are the test)


def test_the_error_names_the_place_and_the_largest_difference() -> None:
    @dataclass
    class Deep:
        layers: Any

        @cachax.cached_property
        def sums(self) -> Any:
            return {"a": self.layers[0]["w"].sum(), "b": self.layers[1]["w"].sum()}

    deep = Deep([{"w": np.ones(2)}, {"w": np.ones(2)}])
    with cachax.verify():
        deep.sums  # noqa: B018 (the read is the test)
        deep.layers[1]["w"][:] = 5.0
        with pytest.raises(StaleValueError) as caught:
            deep.sums  # noqa: B018 (the read is the test)
    assert caught.value.field == "layers[1]['w']"
    assert caught.value.largest == 8.0
    assert "The largest difference is 8 at ['b']." in str(caught.value)


def test_what_was_computed_before_is_unknown() -> None:
    mesh = made()
    mesh.total  # noqa: B018 (the read is the test)
    mesh.points[0] = 100.0
    with cachax.verify(), pytest.raises(StaleValueError) as caught:
        mesh.total  # noqa: B018 (the read is the test)
    assert "computed before `cachax.verify` began" in str(caught.value)
    assert "NumPy arrays in points" in str(caught.value)


def test_a_value_that_was_written_to_is_named() -> None:
    class Table:
        @cachax.cached_property
        def rows(self) -> Any:
            return np.zeros(3)

    table = Table()
    with cachax.verify():
        table.rows[0] = 1.0
        with pytest.raises(StaleValueError, match="in the value itself"):
            table.rows  # noqa: B018 (the read is the test)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Rounded:
    """Another value inside jit than outside: by a little, or by much."""

    x: Any
    by: Any

    @cachax.cached_property
    def value(self) -> Any:
        is_traced = isinstance(self.x, jax.core.Tracer)
        return self.x * (1 + self.by) if is_traced else self.x * 1.0


def test_a_value_that_came_out_of_jit_may_be_rounded_differently() -> None:
    @cachax.jit
    def step(parts: Any) -> Any:
        rounded = Rounded(*parts)
        return rounded, rounded.value

    for by, is_stale in ((1e-6, False), (0.1, True)):
        rounded, _ = step([jnp.float32(3.0), jnp.float32(by)])
        assert cachax.is_cached(rounded, "value")
        with cachax.verify():
            if is_stale:
                with pytest.raises(StaleValueError):
                    rounded.value  # noqa: B018 (the read is the test)
            else:
                assert rounded.value != 3.0
    with cachax.verify(rtol=0.2):
        assert rounded.value > 3.2


def test_a_value_computed_inside_must_be_the_same_to_the_last_bit() -> None:
    def read_twice(**tolerance: float) -> None:
        mesh = Mesh(np.ones(1), jnp.ones(1))
        with cachax.verify(**tolerance):
            mesh.total  # noqa: B018 (the read is the test)
            mesh.points[0] = np.nextafter(np.float32(1), np.float32(2))
            mesh.total  # noqa: B018 (the read is the test)

    with pytest.raises(StaleValueError, match=r"1\.19209e-07"):
        read_twice()
    read_twice(rtol=1e-6)
    read_twice(atol=1e-6)


class Odd:
    """Values that are easily taken for different when they are the same."""

    def __init__(self) -> None:
        self.x = jnp.array([jnp.nan, jnp.inf, 1.0])

    @cachax.cached_property
    def numbers(self) -> Any:
        return self.x

    @cachax.cached_property
    def shifted(self) -> Any:
        return np.asarray(self.x) + 1, float("nan"), True, None, "a", {3, 4}

    @cachax.cached_property
    def key(self) -> Any:
        return jax.random.key(3), jax.random.PRNGKey(3)

    @cachax.cached_property
    def closure(self) -> Any:
        x = self.x
        return lambda q: q + x

    @cachax.cached_property
    def thing(self) -> Any:
        return Mesh(self.x, {"lock": threading.Lock()}), Counter

    @cachax.cached_property
    def instance(self) -> Any:
        return Odd()

    @cachax.cached_property
    def small(self) -> Any:
        return self.x.astype(jnp.bfloat16), np.array(["a", None], dtype=object)

    @cachax.cached_property
    def itself(self) -> Any:
        return [self, 1]


@pytest.mark.parametrize("name", [n for n in vars(Odd) if not n.startswith("_")])
def test_the_same_is_not_taken_for_different(name: str) -> None:
    odd = Odd()
    with cachax.verify():
        first = getattr(odd, name)
        assert getattr(odd, name) is first or name == "itself"


DIFFERENT: dict[str, Callable[[int], Any]] = {
    "keys": jax.random.key,
    "shapes": lambda i: np.zeros(i),
    "dtypes": lambda i: np.zeros(2, [np.int32, np.float32][i % 2]),
    "strings": str,
    "types": lambda i: [1, 1.0][i % 2],
    "nan": lambda i: [float("nan"), 1.0][i % 2],
    "closures": lambda i: lambda: i,
    "objects": lambda i: Mesh(i, 0),
    "sets": lambda i: {i},
    "keys of a dict": lambda i: {i: 1},
    "text arrays": lambda i: np.array([str(i)]),
}


@pytest.mark.parametrize("kind", DIFFERENT)
def test_the_different_is_not_taken_for_the_same(kind: str) -> None:
    class Other:
        numbers = itertools.count(1)

        @cachax.cached_property
        def value(self) -> Any:
            return DIFFERENT[kind](next(self.numbers))

    other = Other()
    with cachax.verify():
        other.value  # noqa: B018 (the read is the test)
        with pytest.raises(StaleValueError, match="a different value each time"):
            other.value  # noqa: B018 (the read is the test)


def test_preset_values_are_taken_on_trust() -> None:
    mesh = cachax.preset(made(of=jnp), total=jnp.float32(7.0))
    with cachax.verify():
        assert mesh.total == 7.0
        assert mesh.twice == mesh.twice == 14.0


def test_traced_objects_are_left_alone(no_leaks: None) -> None:
    mesh = made(of=jnp)

    def loss(mesh: Mesh) -> Any:
        return mesh.total * mesh.twice * mesh.total

    expected = jax.grad(loss)(made(of=jnp)).points
    with cachax.verify():
        for grad in (
            jax.grad(loss),
            jax.jit(jax.grad(loss)),
            cachax.jit(jax.grad(loss)),
        ):
            np.testing.assert_allclose(grad(mesh).points, expected, rtol=1e-6)
            np.testing.assert_allclose(grad(mesh).points, expected, rtol=1e-6)


def test_donated_arrays_are_left_alone() -> None:
    mesh = made(of=jnp)
    total = mesh.total
    mesh.points.delete()
    with cachax.verify():
        assert mesh.total is total


def test_a_body_may_still_set_its_own_field() -> None:
    class Counting:
        def __init__(self) -> None:
            self.x, self.times = jnp.ones(2), 0

        @cachax.cached_property
        def total(self) -> Any:
            self.times += 1
            return jnp.sum(self.x)

    counting = Counting()
    with cachax.verify():
        first = counting.total
        assert counting.total is first
        assert counting.total is first
    assert counting.total is first


class Doubling:
    """Each property reads the one before it twice."""

    def __init__(self) -> None:
        self.x = jnp.ones(())


def _link(i: int) -> Any:
    def further(self: Any) -> Any:
        computing("link")
        return getattr(self, f"p{i - 1}") + getattr(self, f"p{i - 1}")

    return cachax.cached_property(further if i else lambda self: self.x)


for _i in range(12):
    setattr(Doubling, f"p{_i}", _link(_i))
    vars(Doubling)[f"p{_i}"].__set_name__(Doubling, f"p{_i}")


def test_each_link_of_a_chain_is_computed_once_more_and_no_oftener() -> None:
    doubling: Any = Doubling()
    assert doubling.p11 == 2.0**11
    with computations() as counted, cachax.verify():
        assert doubling.p11 == 2.0**11
    assert counted == {"link": 11}


def test_values_and_counts_are_as_before_when_it_ends() -> None:
    mesh, fun = made(of=jnp), reader()
    fun(mesh)
    kept = mesh.total
    with cachax.verify():
        fun(mesh)
        assert mesh.total is kept
    with computations() as counted:
        fun(mesh)
        assert mesh.total is kept
    assert counted == {}


def test_inside_every_hit_is_computed() -> None:
    mesh = made(of=jnp)
    with computations() as counted, cachax.verify():
        for _ in range(5):
            mesh.total  # noqa: B018 (the read is the test)
    assert counted == {"total": 5}


def assert_off() -> None:
    assert [vars(cls)[name] for cls, name in WATCHED] == ORIGINALS


def read_stale(mesh: Mesh) -> None:
    mesh.total  # noqa: B018 (the read is the test)
    mesh.points[0] = 100.0
    mesh.total  # noqa: B018 (the read is the test)


def test_nothing_is_left_switched_on() -> None:
    mesh = made()
    with cachax.verify(), cachax.verify(rtol=1.0):
        mesh.total  # noqa: B018 (the read is the test)
    assert_off()
    with pytest.raises(StaleValueError), cachax.verify(), cachax.verify():
        read_stale(mesh)
    assert_off()
    assert mesh.total == 6.0


def test_the_strictest_of_nested_ones_counts() -> None:
    mesh = made()
    with cachax.verify():
        mesh.total  # noqa: B018 (the read is the test)
        mesh.points[0] += 1e-3
        with cachax.verify(rtol=1.0), pytest.raises(StaleValueError):
            mesh.total  # noqa: B018 (the read is the test)


def test_all_threads_are_watched() -> None:
    meshes = [made() for _ in range(4)]
    found: list[BaseException] = []
    all_there = threading.Barrier(4)

    def read(mesh: Mesh, is_bad: bool) -> None:
        mesh.twice  # noqa: B018 (the read is the test)
        all_there.wait()
        if is_bad:
            mesh.points[0] = 100.0
        try:
            for _ in range(5):
                mesh.twice  # noqa: B018 (the read is the test)
        except StaleValueError as error:
            found.append(error)

    pairs = zip(meshes, [True, False, True, False], strict=True)
    threads = [threading.Thread(target=read, args=pair) for pair in pairs]
    with cachax.verify():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(found) == 2
    assert_off()
