"""A value is in the pieces, on the devices, that the same body has inside `jax.jit`.

On the four devices that `conftest.py` makes of a CPU.
"""

import dataclasses
import functools
import gc
import weakref
from collections.abc import Callable
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import cachax

from devices import first_devices, shard_map
from measure import compilations, computations, computing

ROWS = Mesh(np.array(first_devices(4)), ("d",))
GRID = Mesh(np.array(first_devices(4)).reshape(2, 2), ("a", "b"))
SHARDINGS = {
    "rows": NamedSharding(ROWS, P("d")),
    "columns": NamedSharding(ROWS, P(None, "d")),
    "both": NamedSharding(GRID, P("a", "b")),
    "everywhere": NamedSharding(ROWS, P()),
}
BODIES: dict[str, Callable[[Any], Any]] = {
    "gram": lambda x: x.T @ x,
    "outer": lambda x: x @ x.T,
    "centred": lambda x: x - x.mean(axis=0),
    "factor": lambda x: jnp.linalg.cholesky(x.T @ x + jnp.eye(x.shape[1])),
    "variance": lambda x: jnp.var(x, axis=0),
    "sorted": lambda x: jnp.sort(x, axis=0),
    "every second": lambda x: x[::2],
    "flat": lambda x: x.reshape(-1),
    "twice": lambda x: jnp.concatenate([x, x]),
    "kernel": lambda x: jnp.exp(-((x[:, None] - x[None]) ** 2).sum(-1)),
    "zeros": jnp.zeros_like,
    "lower": lambda x: jnp.tril(x @ x.T),
    "constant": lambda x: jnp.linspace(0.0, 1.0, len(x)),
    "in pieces": lambda x: jax.lax.with_sharding_constraint(
        x @ x.T, NamedSharding(ROWS, P(None, "d"))
    ),
    "scanned": lambda x: jax.lax.scan(lambda c, row: (c + row, c), x[0], x)[1],
}


def table(body: Callable[[Any], Any]) -> Any:
    @jax.tree_util.register_dataclass
    @dataclasses.dataclass(frozen=True)
    class Table:
        x: jax.Array

        @cachax.cached_property
        def value(self) -> Any:
            return body(self.x)

    return Table


def numbers(seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=(16, 8)).astype(np.float32)


def pieces(x: Any) -> list[Any]:
    """The device, the place and the bytes of each."""
    shards = sorted(x.addressable_shards, key=lambda shard: shard.device.id)
    return [(s.device, s.index, s.data.nbytes) for s in shards]


CASES = [(body, sharding) for body in BODIES for sharding in ("rows", "both")]
CASES += [("centred", "columns"), ("every second", "columns"), ("gram", "everywhere")]
CASES.remove(("in pieces", "both"))  # its devices are in a different order


@pytest.mark.parametrize(("body", "sharding"), CASES)
def test_a_value_is_in_the_same_pieces_as_inside_jit(body: str, sharding: str) -> None:
    """For the first object, for others like it, and for one that is passed to jit."""
    made, place = table(BODIES[body]), SHARDINGS[sharding]
    read = cachax.jit(lambda t: t.value)
    for seed in range(3):
        x = jax.device_put(numbers(seed), place)
        expected = jax.jit(BODIES[body])(x)
        t = made(x)
        if seed == 2:
            read(t)
        assert pieces(t.value) == pieces(expected)
        np.testing.assert_allclose(t.value, expected, rtol=1e-4, atol=1e-4)


def test_equivalent_shardings_compile_once() -> None:
    counted = {}
    for name, prop, jit in [
        ("jax", property, jax.jit),
        ("cachax", cachax.cached_property, cachax.jit),
    ]:

        @jax.tree_util.register_dataclass
        @dataclasses.dataclass(frozen=True)
        class Table:
            x: jax.Array
            y: jax.Array

            @prop
            def centred(self) -> Any:
                return self.x - self.x.mean(axis=0)

        use = jit(lambda t: t.centred.T @ t.y)
        counts = []
        for spec in [P("d"), P("d", None), P("d"), P("d", None)]:
            sharding = NamedSharding(ROWS, spec)
            t = Table(*(jax.device_put(numbers(seed), sharding) for seed in (0, 1)))
            jax.block_until_ready(t.centred)
            with compilations() as compiled:
                use(t)
            counts.append(len(compiled))
        counted[name] = counts
    assert counted["cachax"] == counted["jax"]
    assert counted["cachax"] == [1, 0, 0, 0]


def test_a_loop_over_a_sharded_state_compiles_once_and_computes_once() -> None:
    @jax.tree_util.register_dataclass
    @dataclasses.dataclass(frozen=True)
    class State:
        x: jax.Array
        w: jax.Array

        @cachax.cached_property
        def gram(self) -> Any:
            computing("gram")
            return self.x.T @ self.x

    @cachax.jit
    def step(s: State) -> State:
        return dataclasses.replace(s, w=s.w - 0.01 * s.gram @ s.w)

    x = jax.device_put(numbers(), SHARDINGS["rows"])
    s = State(x, jax.device_put(jnp.ones(8), SHARDINGS["everywhere"]))
    with computations() as computed:
        s = step(s)
        with compilations() as compiled:
            for _ in range(5):
                s = step(s)
    assert computed["gram"] == 1
    assert len(compiled) == 0
    assert s.x.sharding.is_equivalent_to(x.sharding, 2)


@pytest.mark.skipif(
    not hasattr(jax, "set_mesh"), reason="JAX has explicit shardings since 0.7"
)
def test_explicit_shardings() -> None:
    """They are part of the type of an array, and of that of a value."""
    explicit = jax.sharding.AxisType.Explicit
    mesh = jax.make_mesh((4,), ("d",), axis_types=(explicit,))

    @jax.tree_util.register_dataclass
    @dataclasses.dataclass(frozen=True)
    class Table:
        x: jax.Array

        @cachax.cached_property
        def doubled(self) -> Any:
            computing("doubled")
            assert jax.typeof(self.x).sharding.spec in (P("d", None), P(None, "d"))
            return 2 * self.x

    with jax.set_mesh(mesh), computations() as computed:
        use = cachax.jit(lambda t: t.doubled + t.x)
        for spec in [P("d", None), P(None, "d")]:
            for t in (Table(jax.device_put(numbers(), spec)),) * 2:
                assert jax.typeof(use(t)).sharding.spec == spec
                assert jax.typeof(t.doubled).sharding.spec == spec
            np.testing.assert_allclose(use(t), 3 * numbers(), rtol=1e-5)
    assert computed["doubled"] == 2


def mapped(fun: Callable[..., Any], in_specs: Any, out_specs: Any) -> Any:
    return shard_map(fun, mesh=ROWS, in_specs=in_specs, out_specs=out_specs)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Local:
    x: jax.Array

    @cachax.cached_property
    def mean(self) -> Any:
        return self.x.mean(axis=0, keepdims=True)

    @cachax.cached_property
    def means_of_shards(self) -> Any:
        """`shard_map` inside of a body."""
        computing("means")
        means = mapped(lambda x: x.mean(axis=0, keepdims=True), P("d"), P("d"))
        return means(self.x)


@pytest.mark.parametrize("is_warm", [False, True])
def test_shard_map_around_an_object_and_inside_of_a_body(is_warm: bool) -> None:
    local = Local(jax.device_put(numbers(), SHARDINGS["rows"]))
    expected = numbers().reshape(4, 4, 8).mean(axis=1)
    with computations() as computed:
        if is_warm:
            jax.block_until_ready((local.mean, local.means_of_shards))
        around = mapped(lambda one: one.mean, P("d"), P("d"))
        np.testing.assert_allclose(around(local), expected, rtol=1e-4, atol=1e-6)
        jitted = cachax.jit(lambda one: around(one) + one.means_of_shards)
        for _ in range(2):
            np.testing.assert_allclose(
                jitted(local), 2 * expected, rtol=1e-4, atol=1e-6
            )
        assert local.means_of_shards.sharding.is_equivalent_to(local.x.sharding, 2)
    assert computed["means"] == 1
    np.testing.assert_allclose(local.mean[0], numbers().mean(axis=0), atol=1e-5)


def test_a_value_of_an_array_that_may_not_be_moved_any_more() -> None:
    """One committed argument commits all results."""
    cls = table(jnp.sin)
    step = cachax.jit(lambda obj, z: (obj, obj.value * z))
    obj, _ = step(cls(jnp.ones(3)), jax.device_put(jnp.ones(3), jax.devices()[0]))
    assert obj.x.committed
    assert obj.value.committed
    assert cachax.jit(lambda obj: obj.value * 2)(obj).committed


def test_a_value_is_where_the_array_is_that_it_has_the_shape_of() -> None:
    @jax.tree_util.register_dataclass
    @dataclasses.dataclass(frozen=True)
    class Shaped:
        x: Any
        y: Any

        @cachax.cached_property
        def zeros(self) -> Any:
            return jnp.zeros_like(self.x), jnp.zeros_like(self.x) + self.y

    x, y = jnp.arange(3.0), jnp.ones(3)
    Shaped(x, 2 * y).zeros  # noqa: B018 (what it uses is learned)
    use = cachax.jit(lambda obj: obj.zeros[0] + obj.x)
    shaped = Shaped(x, y)
    for device in (*first_devices(3), *first_devices(3)):
        shaped = dataclasses.replace(shaped, x=jax.device_put(x, device))
        for new in (shaped.zeros[0] + shaped.x, shaped.zeros[1] - y + shaped.x):
            assert new.devices() == {device}
            assert new.tolist() == [0, 1, 2]
        assert use(shaped).devices() == {device}
        assert use(shaped).tolist() == [0, 1, 2]


class Noisy(flax.struct.PyTreeNode):
    x: jax.Array
    scale: float

    @cachax.cached_property
    def prior(self) -> dict[str, Any]:
        computing("prior")
        return {"mean": 2 * self.x, "scale": jnp.full(2, self.scale)}

    @cachax.cached_property
    def weights(self) -> Any:
        computing("weights")
        return jnp.full(3, self.scale), jnp.asarray(self.scale)

    @cachax.cached_property
    def halves(self) -> Any:
        computing("halves")
        return jnp.full_like(self.x, 0.5)

    @cachax.cached_property
    def key(self) -> Any:
        computing("key")
        return jax.random.key_data(jax.random.key(0))


@pytest.mark.parametrize("name", ["prior", "weights", "halves", "key"])
@pytest.mark.parametrize("how", ["rows", "everywhere"])
@pytest.mark.parametrize("use", [getattr, cachax.jit(getattr, static_argnums=1)])
def test_a_value_that_is_made_from_a_number(name: str, how: str, use: Any) -> None:
    noisy = Noisy(jax.device_put(jnp.ones((4, 4)), SHARDINGS[how]), 3.0)
    body = getattr(Noisy, name).func
    with computations() as counts:
        value = [use(noisy, name), use(noisy, name)][1]
    assert counts == {name: 1}
    jax.tree.map(np.testing.assert_array_equal, value, body(noisy))


class Scaled(flax.struct.PyTreeNode):
    x: jax.Array
    w: Any = 1.0

    @cachax.cached_property
    def gram(self) -> Any:
        return self.x.T @ self.x

    @cachax.cached_property
    def size(self) -> float:
        computing("size")
        return float(self.gram.sum() + self.x.sum())

    @cachax.cached_property
    def centred(self) -> Any:
        computing("centred")
        return self.x - self.x.mean(0)

    @cachax.cached_property
    def rows(self) -> Any:
        computing("rows")
        return np.asarray(self.x)[: int(self.x[0, 0])].sum()


@pytest.mark.parametrize("name", ["size", "rows"])
@pytest.mark.parametrize("how", ["rows", "everywhere"])
def test_a_body_that_needs_contents_runs_once_in_a_loop(name: str, how: str) -> None:
    @cachax.jit
    def step(scaled: Scaled) -> Scaled:
        return scaled.replace(w=scaled.w * getattr(scaled, name))

    scaled = Scaled(jax.device_put(jnp.ones((4, 4)), SHARDINGS[how]), jnp.ones(4))
    with computations() as counts:
        for _ in range(5):
            scaled = step(scaled)
            scaled = scaled.replace(w=jnp.ones(4))
            assert getattr(scaled, name) == {"size": 80, "rows": 4}[name]
    assert counts == {name: 1}


def test_what_a_body_that_needs_contents_reads_is_freed() -> None:
    alive = []
    for i in range(4):
        x = jax.device_put(jnp.full((4, 4), 1.0 + i), SHARDINGS["rows"])
        scaled = Scaled(x)
        assert scaled.size > 0
        alive.append(weakref.ref(scaled.gram))
        del x, scaled
    gc.collect()
    assert [ref() for ref in alive] == [None] * 4


def test_a_body_that_fails_on_several_devices_shows_the_error_of_jax() -> None:
    class Mixed(flax.struct.PyTreeNode):
        x: jax.Array
        y: jax.Array

        @cachax.cached_property
        def product(self) -> Any:
            return jax.jit(jnp.matmul)(self.x, self.y)

    x, y = jnp.ones((4, 4)), jax.device_put(jnp.ones((4, 4)), SHARDINGS["rows"])
    mixed = Mixed(jax.device_put(x, first_devices(4)[1]), y)
    with pytest.raises(ValueError, match="incompatible devices"):
        _ = mixed.product


@pytest.mark.parametrize(
    ("placed", "wanted"),  # (JAX refuses one device where rows are wanted)
    [
        ("nowhere", "rows"),
        ("nowhere", "everywhere"),
        ("one device", "everywhere"),
        ("as wanted", "rows"),
        ("as wanted", "everywhere"),
    ],
)
@pytest.mark.parametrize("is_known", [False, True])
def test_in_shardings_and_arrays_that_are_placed_otherwise(
    placed: str, wanted: str, is_known: bool
) -> None:
    def fun(scaled: Any) -> Any:
        return scaled.centred * 2

    def plain(x: Any) -> Any:
        return (x - x.mean(0)) * 2

    x = jnp.arange(16.0).reshape(4, 4)
    if placed != "nowhere":
        is_one = placed == "one device"
        x = jax.device_put(x, first_devices(4)[1] if is_one else SHARDINGS[wanted])
    scaled = Scaled(x, None)
    shardings = Scaled(SHARDINGS[wanted], None)
    use = cachax.jit(fun, in_shardings=(shardings,))
    other = Scaled(jax.device_put(x + 1, SHARDINGS[wanted]), None)
    expected = jax.jit(plain, in_shardings=(SHARDINGS[wanted],))
    with computations() as counts:
        if is_known:
            assert scaled.centred.sum() == 0
        for obj in (scaled, other, scaled, other):
            result = use(obj)
            plainly = expected(obj.x)
            assert result.sharding.is_equivalent_to(plainly.sharding, 2)
            np.testing.assert_allclose(result, plainly)
            assert len((result + plainly).sharding.device_set) == 4
    if placed == "as wanted":
        assert counts == {"centred": 2}


def test_a_callback_in_a_body() -> None:
    """Its result is placed in a way that JAX takes for no argument (0.10)."""

    class Summed(flax.struct.PyTreeNode):
        x: jax.Array

        @cachax.cached_property
        def total(self) -> Any:
            shape = jax.ShapeDtypeStruct((), self.x.dtype)
            return jax.pure_callback(np.sum, shape, self.x)

    summed = Summed(jax.device_put(jnp.ones((4, 4)), SHARDINGS["rows"]))
    use = cachax.jit(lambda summed: 2 * summed.total)
    assert use(summed) == use(summed) == 32


@pytest.mark.parametrize("wrong", [("rows",), {"a": "rows"}, "rows"])
def test_an_error_about_out_shardings_is_that_of_jax(wrong: Any) -> None:
    shardings = jax.tree.map(SHARDINGS.get, wrong)
    scaled = Scaled(jax.device_put(jnp.ones((4, 3)), SHARDINGS["everywhere"]), None)

    def fun(scaled: Any) -> Any:
        return [scaled.gram[0]]

    texts = []
    for jit in (jax.jit, cachax.jit):
        with pytest.raises(ValueError, match=r"out_shardings|Sharding") as error:
            jit(fun, out_shardings=shardings)(scaled)
        texts.append(str(error.value))
    assert texts[0] == texts[1]


@pytest.mark.parametrize("name", ["centred", "size", "rows"])
def test_in_shardings_on_one_device(name: str) -> None:
    """Code for any number of devices: the array is where it has to be."""
    one = NamedSharding(Mesh(np.array(jax.devices()[:1]), ("d",)), P())
    scaled = Scaled(jnp.ones((4, 4)), None)
    use = cachax.jit(lambda scaled: jnp.sum(getattr(scaled, name)), in_shardings=one)
    with computations() as counts:
        for _ in range(3):
            assert use(scaled) == {"centred": 0, "size": 80, "rows": 4}[name]
    assert counts == {name: 1}


def test_a_body_that_needs_contents_of_arrays_that_in_shardings_moves() -> None:
    scaled = Scaled(jnp.ones((4, 4)), None)
    use = cachax.jit(lambda s: s.x * s.size, in_shardings=SHARDINGS["rows"])
    with computations() as counts:
        assert use(scaled)[0, 0] == use(scaled)[0, 0] == 80
    assert counts == {"size": 1}


def test_a_layout_in_in_shardings() -> None:
    if jax.__version_info__ < (0, 7):
        pytest.skip("Format has other arguments, or is missing")
    from jax.experimental import layout

    scaled = Scaled(jnp.ones((4, 4)), None)
    placed = layout.Format(layout.Layout((0, 1)), scaled.x.sharding)
    use = cachax.jit(lambda scaled: scaled.centred + 1, in_shardings=placed)
    assert use(scaled)[0, 0] == use(scaled)[0, 0] == 1


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Doubled:
    x: Any

    @cachax.cached_property
    def double(self) -> Any:
        return 2 * self.x


def test_a_value_of_an_object_that_out_shardings_moves() -> None:
    """It is where it would be computed from the arrays that come out."""
    rows, everywhere = SHARDINGS["rows"], SHARDINGS["everywhere"]
    fun = cachax.jit(lambda o: (o.double.sum(), o), out_shardings=everywhere)

    @functools.partial(cachax.jit, out_shardings=everywhere)
    def make(o: Doubled) -> Any:
        new = Doubled(o.x * 3)
        return new, new.double.sum()

    for i in range(14):
        obj = Doubled(jax.device_put(jnp.arange(8.0) + i, rows))
        for result in (fun(obj)[1], make(obj)[0]):
            assert result.x.sharding == everywhere
            assert result.double.sharding.is_equivalent_to(everywhere, 1)


def test_in_shardings_that_do_not_fit() -> None:
    """JAX says it."""
    for jit in (jax.jit, cachax.jit):
        fun = jit(lambda x: x, in_shardings=SHARDINGS["rows"])
        with pytest.raises(ValueError, match="sharding"):
            fun(jnp.float32(1))


@pytest.mark.skipif(
    not hasattr(jax.sharding, "AxisType"), reason="JAX has no explicit axes"
)
@pytest.mark.parametrize("spec", [P("rows"), P(), P("rows", None)])
def test_arrays_on_a_mesh_with_explicit_axes(spec: Any) -> None:
    """JAX returns them with a longer specification."""
    explicit = jax.sharding.AxisType.Explicit
    mesh = jax.make_mesh((4,), ("rows",), axis_types=(explicit,))

    @jax.tree_util.register_dataclass
    @dataclasses.dataclass(frozen=True)
    class Table:
        x: Any

        @cachax.cached_property
        def double(self) -> Any:
            computing("double")
            return 2 * self.x

    step = cachax.jit(lambda table: (table, table.double.sum()))
    table = Table(jax.device_put(jnp.ones((8, 3)), NamedSharding(mesh, spec)))
    with computations() as counts:
        for _ in range(3):
            table, total = step(table)
    assert total == 48
    assert counts == {"double": 1}
