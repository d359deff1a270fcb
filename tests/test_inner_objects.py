"""Objects that a body makes, and things that a body keeps beyond its run."""

import dataclasses
import enum
import functools
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct

import cachax

from measure import computations, computing

X = jnp.array([1.0, 2.0])


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Factor:
    matrix: Any
    offset: Any = 0.0

    @cachax.cached_property
    def lower(self) -> Any:
        computing("lower")
        return self.matrix + 1


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Process:
    x: Any

    @cachax.cached_property
    def factor(self) -> Factor:
        return Factor(self.x * 2)

    @cachax.cached_property
    def warmed(self) -> Factor:
        return cachax.warm(Factor(self.x * 3))

    @cachax.cached_property
    def mean(self) -> Any:
        return self.factor.lower * 2

    @cachax.cached_property
    def variance(self) -> Any:
        return self.factor.lower * 3


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Shifted:
    x: Any
    y: Any

    @cachax.cached_property
    def square(self) -> Any:
        computing("square")
        return self.x**2

    @cachax.cached_property
    def difference(self) -> Any:
        return replace(self, y=self.y + 1).square - self.square


def test_a_value_of_an_object_in_a_value_is_computed_once() -> None:
    for i in range(3):
        process = Process(X + i)
        with computations() as counts:
            lower = process.factor.lower
            np.testing.assert_allclose(process.mean, lower * 2)
            np.testing.assert_allclose(process.variance, lower * 3)
            assert process.factor.lower is lower
        assert counts["lower"] == 1, i


def test_a_value_that_a_body_reads_of_an_object_it_returns_is_kept() -> None:
    for i in range(3):
        process = Process(X + i)
        with computations() as counts:
            np.testing.assert_allclose(process.warmed.lower, (X + i) * 3 + 1)
        assert counts["lower"] == 1, i


def test_a_body_that_rebuilds_its_object_finds_known_values() -> None:
    for i in range(3):
        shifted = Shifted(X + i, X)
        with computations() as counts:
            np.testing.assert_allclose(shifted.square, (X + i) ** 2)
            np.testing.assert_allclose(shifted.difference, 0 * X)
        assert counts["square"] == 1, i


def test_what_an_object_made_in_a_body_depends_on_counts() -> None:
    """Its value is known, and still the outer one depends on the array behind it."""
    assert Process(X).mean is not None
    np.testing.assert_allclose(Process(X + 5).mean, ((X + 5) * 2 + 1) * 2)
    assert Shifted(X, X).difference is not None
    np.testing.assert_allclose(Shifted(X + 1, X).difference, 0 * X)


class Mesh:
    """Equal by name, as a static field has to be."""

    def __init__(self, name: str, nodes: Any) -> None:
        self.name, self.nodes = name, nodes

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mesh) and self.name == other.name

    @functools.partial(jax.jit, static_argnums=0)  # noqa: CX205 (that it works is the point)
    def interpolated(self, y: Any) -> Any:
        return self.nodes * y


@functools.lru_cache  # noqa: CX204
def weights(mesh: Mesh) -> Any:
    return mesh.nodes * 2


LOG: list[Any] = []


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Field:
    y: Any
    mesh: Mesh = field(metadata={"static": True})

    @cachax.cached_property
    def weighted(self) -> Any:
        return weights(self.mesh) + self.y

    @cachax.cached_property
    def interpolated(self) -> Any:
        return self.mesh.interpolated(self.y)

    @cachax.cached_property
    def logged(self) -> Any:
        LOG.append(jnp.sum(self.y))
        return self.y * 2


def test_a_table_keyed_by_equal_objects_holds_values() -> None:
    mesh = Mesh("table", jnp.arange(2.0))
    np.testing.assert_allclose(Field(X, mesh).weighted, [1, 4])
    np.testing.assert_allclose(weights(mesh) + 1, [1, 3])
    np.testing.assert_allclose(jax.jit(lambda x: x + weights(mesh))(X), [1, 4])
    np.testing.assert_allclose(np.asarray(weights(mesh)), [0, 2])
    np.testing.assert_allclose(Field(X + 1, mesh).weighted, [2, 5])


def test_a_jitted_method_of_a_static_object_works_elsewhere() -> None:
    mesh = Mesh("jitted", jnp.arange(2.0))
    np.testing.assert_allclose(Field(X, mesh).interpolated, [0, 2])
    np.testing.assert_allclose(mesh.interpolated(X), [0, 2])
    np.testing.assert_allclose(jax.jit(mesh.interpolated)(X), [0, 2])
    np.testing.assert_allclose(
        jax.grad(lambda y: mesh.interpolated(y).sum())(X), [0, 1]
    )
    np.testing.assert_allclose(Field(X + 1, mesh).interpolated, [0, 3])


def test_what_a_body_puts_into_a_global_list_can_be_used() -> None:
    LOG.clear()
    cachax.warm(Field(X, Mesh("log", X)), "logged")
    entry = LOG[0]
    assert float(entry) == 3.0
    np.testing.assert_allclose(entry + X, [4, 5])
    np.testing.assert_allclose(jax.jit(lambda x: x + entry)(X), [4, 5])


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Hiding:
    """Values that use `y` where no one can see it."""

    x: Any
    y: Any

    @cachax.cached_property
    def local(self) -> Any:
        y = self.y

        class Scaled:
            def __call__(self, z: Any) -> Any:
                return z * y

        return Scaled()

    @cachax.cached_property
    def registered(self) -> Any:
        y = self.y

        @jax.tree_util.register_static
        class Scaled:
            def __call__(self, z: Any) -> Any:
                return z * y

        return Scaled()

    @cachax.cached_property
    def compiled(self) -> Any:
        y = self.y
        return jax.jit(lambda z: z * y).lower(self.x).compile()


@pytest.mark.parametrize("name", ["local", "registered", "compiled"])
def test_a_value_that_hides_an_array_belongs_to_it(name: str) -> None:
    for factor in (1.0, 2.0, 3.0):
        hiding = Hiding(X, jnp.full(2, factor))
        np.testing.assert_allclose(getattr(hiding, name)(X), X * factor)


@dataclass(frozen=True)
class Config:
    scale: float
    table: Any = None


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Configured:
    x: Any
    config: Any = field(metadata={"static": True})

    @cachax.cached_property
    def scaled(self) -> Any:
        return jnp.sum(self.x) * self.config.scale


class Named(Config):
    """With an array, and compared by its number."""

    def __hash__(self) -> int:
        return hash(self.scale)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Named) and self.scale == other.scale


@pytest.mark.parametrize("config", [Config, lambda n: Named(n, X)])
def test_a_number_in_a_static_object_counts(config: Any) -> None:
    fun = cachax.jit(lambda s: s.scaled + 0)
    x, y = X + 0, X + 0
    for n in (1.0, 2.0, 3.0, 2.0, 2, 1.0):
        assert Configured(x, config(n)).scaled == 3 * n
        assert fun(Configured(y, config(n))) == 3 * n


def test_an_object_that_is_compared_by_its_own_code_may_have_assigned_values() -> None:
    class Keyed(Mesh):
        @cachax.cached_property
        def total(self) -> Any:
            return jnp.sum(self.nodes)

        @cachax.cached_property
        def double(self) -> Any:
            return 2 * self.total

    for name in ("assigned first", "computed first"):
        nodes = X + 0
        other, assigned = Keyed(name, nodes), Keyed(name, nodes)
        assigned.total = jnp.float32(100)
        if name == "computed first":
            assert other.double == 6
        assert assigned.double == 200
        assert other.double == 6


def test_a_body_that_sets_a_field_of_its_object() -> None:
    """Then its value is for this object alone, or the field would be missing."""

    class Solver:
        def __init__(self, a: Any) -> None:
            self.a, self.steps = a, None

        @cachax.cached_property
        def root(self) -> Any:
            self.steps = jnp.sum(self.a) * 10
            return jnp.sqrt(self.a)

    @dataclass
    class Around:
        a: Any
        solver: Any = None

        @cachax.cached_property
        def total(self) -> Any:
            solver = self.solver or Solver(self.a)
            root = jnp.sum(solver.root)
            return root if solver.steps is None else root + solver.steps

    squares = jnp.array([1.0, 4.0])
    for _ in range(2):
        assert Around(squares).total == 53
        assert Around(squares, Solver(squares)).total == 53
        assert Around(4 * squares).total == 206


def test_an_array_that_is_in_a_key_and_somewhere_else() -> None:
    class Material:
        def __init__(self, density: Any) -> None:
            self.density = density

    class Grid(Mesh):
        def __init__(self, material: Any) -> None:
            super().__init__("grid", X)
            self.material = material

    class Part:
        def __init__(self, material: Any) -> None:
            self.filling, self.grid = material, Grid(material)

        @cachax.cached_property
        def mass(self) -> Any:
            return 3 * self.grid.material.density

    part = Part(Material(jnp.float32(1)))
    assert part.mass == 3
    assert Part(Material(jnp.float32(2))).mass == 6
    part.filling.density = jnp.float32(5)
    assert part.mass == 15


def test_a_body_that_makes_an_object_which_is_compared_by_its_own_code() -> None:
    class Sized(Mesh):
        @cachax.cached_property
        def size(self) -> Any:
            computing("size")
            return jnp.sum(self.nodes)

    @jax.tree_util.register_dataclass
    @dataclass(frozen=True)
    class Around:
        x: Any
        y: Any

        @cachax.cached_property
        def total(self) -> Any:
            return 2 * Sized("same name", self.x).size

    with computations() as counts:
        for i in range(3):
            around = Around(X + i, X)
            assert around.total == 6 + 4 * i
            assert replace(around, y=X + 1).total == 6 + 4 * i
    assert counts["size"] == 3


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Spline:
    x: Any
    y: Any

    @cachax.cached_property
    def evaluate(self) -> Any:
        x = self.x
        return lambda t: x * t

    @cachax.cached_property
    def known(self) -> Any:
        """With a value that isn't what its body computes."""
        return cachax.preset(Factor(2 * self.x), lower=self.y)


def test_a_function_as_a_value_does_not_come_out_of_a_trace() -> None:
    @cachax.jit
    def step(s: Any) -> Any:
        return replace(s, y=s.y + s.evaluate(1.0)), Spline(s.y, s.y).evaluate(2.0)

    spline = Spline(X, X)
    for _ in range(3):
        spline, _ = step(spline)
    np.testing.assert_allclose(spline.evaluate(2.0), 2 * X)
    np.testing.assert_allclose(Spline(X, X).evaluate(2.0), 2 * X)
    np.testing.assert_allclose(spline.y, 4 * X)


def test_a_preset_value_of_an_object_in_a_value_is_kept() -> None:
    fun = cachax.jit(lambda s: s.known.lower + 0)
    for _ in range(2):
        for k in (1, 2, 3):
            spline = Spline(X, X + 100 * k)
            np.testing.assert_allclose(spline.known.lower, X + 100 * k)
            np.testing.assert_allclose(fun(spline), X + 100 * k)
            np.testing.assert_allclose(fun(Spline(X + 0, X + k)), X + k)


def test_an_object_whose_hash_reads_a_cached_value() -> None:
    class Fingerprinted:
        def __init__(self, x: Any) -> None:
            self.x = x

        @cachax.cached_property
        def fingerprint(self) -> bytes:
            computing("fingerprint")
            return np.asarray(self.x).tobytes()

        def __hash__(self) -> int:
            return hash(self.fingerprint)

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Fingerprinted) and hash(self) == hash(other)

    thing = Fingerprinted(X)
    with computations() as counts:
        assert thing == Fingerprinted(X)
        assert hash(thing) == hash(thing.fingerprint)
    assert counts == {"fingerprint": 1}


def test_a_body_that_reads_a_preset_value_of_an_object_in_a_value() -> None:
    @jax.tree_util.register_dataclass
    @dataclass(frozen=True)
    class Reader(Spline):
        @cachax.cached_property
        def total(self) -> Any:
            return jnp.sum(self.known.lower)

    fun = cachax.jit(lambda s: s.total + 0)
    x = X + 0
    for k in (1.0, 2.0, 3.0):
        assert Reader(X, jnp.full(2, k)).total == 2 * k
        assert fun(Reader(x, jnp.full(2, k))) == 2 * k


@pytest.mark.parametrize("kind", [dict, lambda items: defaultdict(list, items)])
def test_a_dictionary_keeps_its_order(kind: Any) -> None:
    @jax.tree_util.register_dataclass
    @dataclass(frozen=True)
    class Features:
        x: Any

        @cachax.cached_property
        def features(self) -> Any:
            inner = kind({"z": self.x, "b": kind({"y": self.x + 1, "a": self.x + 2})})
            return kind({"width": self.x, "area": self.x**2, "more": [inner]})

        @cachax.cached_property
        def names(self) -> str:
            return names_in(self.features)

        @cachax.cached_property
        def first(self) -> Any:
            return next(iter(self.features.values())) + 0

    def names_in(features: Any) -> str:
        inner = features["more"][0]
        return " ".join([*features, *inner, *inner["b"]])

    expected = "width area more z b y a"
    read = cachax.jit(lambda s: (next(iter(s.features.values())) + 0, s.first))
    step = cachax.jit(lambda s: Features(s.x), donate_argnums=())
    for x in (X, X + 1, X):
        features = Features(x)
        assert features.names == names_in(features.features) == expected
        assert names_in(Features(x).features) == expected
        for each in (features, Features(x), step(features)):
            for found in (*read(each), each.first):
                np.testing.assert_allclose(found, x)


@jax.tree_util.register_pytree_node_class
class Fit:
    """It has more than it gives to JAX."""

    def __init__(self, w: Any) -> None:
        self.w, self.converged, self.steps = w, None, None

    def tree_flatten(self) -> Any:
        return (self.w,), None

    @classmethod
    def tree_unflatten(cls, _: None, children: Any) -> "Fit":
        return cls(*children)


def test_a_value_whose_class_drops_something() -> None:
    @jax.tree_util.register_dataclass
    @dataclass(frozen=True)
    class Model:
        x: Any
        y: Any

        @cachax.cached_property
        def fit(self) -> Any:
            fit = Fit(2 * self.x)
            fit.converged = "yes"  # type: ignore[assignment]
            fit.steps = jnp.sum(self.y)  # type: ignore[assignment]
            return fit

        @cachax.cached_property
        def result(self) -> Any:
            return self.fit.w[0] + self.fit.steps

    fun = cachax.jit(lambda m: m.fit.w[0] + m.fit.steps)
    x = jnp.ones(3)
    for y in (1.0, 2.0, 1.0):
        model = Model(x, jnp.full(3, y))
        assert model.fit.converged == "yes"
        assert model.result == fun(model) == 2 + 3 * y


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Odd:
    """With values that are not trees, or that hide an array."""

    x: Any
    y: Any

    @cachax.cached_property
    def by_colour(self) -> Any:
        return {Colour.RED: self.x * 2, Colour.BLUE: self.y}

    @cachax.cached_property
    def mixed(self) -> Any:
        return {None: self.x * 2, "b": self.y, 1: "a text"}

    @cachax.cached_property
    def double(self) -> Any:
        return self.by_colour[Colour.RED] + self.mixed[None] - 2 * self.x

    @cachax.cached_property
    def filling(self) -> Any:
        y = self.y
        return defaultdict(lambda: y, z=self.x)


def test_values_that_are_not_trees() -> None:
    fun = cachax.jit(
        lambda s: (s.by_colour[Colour.RED], s.mixed[None], s.double, s.filling["q"])
    )
    for x in (X, X + 1, X):
        for y in (X + 2, X + 3):
            odd = Odd(x, y)
            for _ in range(2):
                found = [odd.by_colour[Colour.RED], odd.mixed[None], odd.double]
                for value in (*found, *fun(odd)[:3]):
                    np.testing.assert_allclose(value, 2 * x)
                np.testing.assert_allclose(odd.filling["q"], y)
                np.testing.assert_allclose(fun(odd)[3], y)
                assert [*odd.by_colour] == [Colour.RED, Colour.BLUE]


def test_a_value_that_holds_its_object_keeps_its_order() -> None:
    @jax.tree_util.register_dataclass
    @dataclass(frozen=True)
    class Holding:
        x: Any

        @cachax.cached_property
        def parts(self) -> Any:
            return {"z": self, "b": 2 * self.x, "a": self.x}

    for x in (X, X + 1):
        holding = Holding(x)
        assert [*holding.parts] == [*holding.parts] == ["z", "b", "a"]
        assert holding.parts["z"] is holding


@dataclass(frozen=True)
class Kernel:
    """Hashed and compared by its name alone."""

    name: str
    scale: Any = field(compare=False)


def _applied(kernel: Kernel, x: Any) -> Any:
    return kernel.scale * x


applied = jax.jit(_applied, static_argnums=0)


def test_a_dataclass_that_leaves_an_array_out_of_its_hash() -> None:
    @jax.tree_util.register_dataclass
    @dataclass(frozen=True)
    class Applied:
        x: Any
        kernel: Any = field(metadata={"static": True})

        @cachax.cached_property
        def value(self) -> Any:
            return applied(self.kernel, self.x)

    kernel = Kernel("k", jnp.float32(2))
    fun = cachax.jit(lambda s: s.value + 0)
    for x in (X, X + 1, X):
        np.testing.assert_allclose(Applied(x, kernel).value, 2 * x)
        np.testing.assert_allclose(fun(Applied(x, kernel)), 2 * x)
    np.testing.assert_allclose(applied(kernel, X), 2 * X)


def test_a_value_that_is_a_part_with_an_assigned_value() -> None:
    @jax.tree_util.register_dataclass
    @dataclass
    class Part:
        x: Any

        @cachax.cached_property
        def root(self) -> Any:
            return self.x * 2

    @jax.tree_util.register_dataclass
    @dataclass(frozen=True)
    class Whole:
        part: Any

        @cachax.cached_property
        def first(self) -> Any:
            return self.part

    part = Part(X)
    part.root = X + 100
    for _ in range(3):
        np.testing.assert_allclose(Whole(part).first.root, X + 100)


def test_an_attribute_of_a_partial_function() -> None:
    @jax.tree_util.register_dataclass
    @dataclass(frozen=True)
    class Adding:
        x: Any

        @cachax.cached_property
        def add(self) -> Any:
            add = functools.partial(jnp.add, 1.0)
            add.extra = 2 * self.x  # type: ignore[attr-defined]
            return add

    fun = cachax.jit(lambda s: s.add(s.add.extra))
    for x in (X, X + 1, X):
        np.testing.assert_allclose(Adding(x).add.extra, 2 * x)
        np.testing.assert_allclose(fun(Adding(x)), 2 * x + 1)


def test_to_clear_an_object_leaves_those_inside() -> None:
    @jax.tree_util.register_dataclass
    @dataclass(frozen=True)
    class Node:
        a: Any
        child: Any = None

        @cachax.cached_property
        def energy(self) -> Any:
            return jnp.sum(self.a**2)

    inner = Node(jnp.ones(2))
    outer = cachax.warm(Node(jnp.zeros(2), cachax.warm(inner)))
    cachax.clear(outer, "energy")
    assert cachax.is_cached(inner, "energy")
    assert cachax.is_cached(Node(inner.a), "energy")
    assert not cachax.is_cached(Node(outer.a, inner), "energy")


class Part(struct.PyTreeNode):
    a: Any

    @cachax.cached_property
    def wave(self) -> Any:
        computing("wave")
        return jnp.sin(self.a)


class Maker(struct.PyTreeNode):
    x: Any

    @cachax.cached_property
    def part(self) -> Any:
        return Part(jnp.cos(self.x))

    @cachax.cached_property
    def twice(self) -> Any:
        return self.part.wave * 2


def test_an_inner_object_that_is_an_argument_too() -> None:
    """From the ninth call on, values of new objects are computed inside."""

    class Whole(struct.PyTreeNode):
        x: Any
        part: Any

        @cachax.cached_property
        def product(self) -> Any:
            return self.part.wave * self.x

    use = cachax.jit(lambda whole, part: whole.product + part.wave)
    for i in range(12):
        part = Part(jnp.ones(3) * i)
        with computations() as counts:
            use(Whole(jnp.ones(3), part), part)
        assert counts == {"wave": 1}


def test_a_value_of_an_object_that_is_a_value_is_computed_once() -> None:
    use = cachax.jit(lambda maker: maker.twice)
    for i in range(12):
        maker = Maker(jnp.ones(3) * i)
        with computations() as counts:
            assert (use(maker) == 2 * maker.part.wave).all()
        assert counts == {"wave": 1}


def test_to_clear_a_value_of_an_object_that_is_a_value() -> None:
    use = cachax.jit(lambda maker: maker.part.wave * 2)
    maker = Maker(jnp.ones(3))
    for _ in range(3):
        with computations() as counts:
            for _ in range(4):
                use(maker)
        assert counts == {"wave": 1}
        cachax.clear(maker.part, "wave")
    with computations() as counts:
        cachax.clear(maker, "part")
        use(maker)
    assert counts == {"wave": 1}
    preset = cachax.preset(maker.part, wave=jnp.zeros(3))
    maker = cachax.preset(maker, part=preset)
    assert use(maker).tolist() == [0, 0, 0]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_an_object_that_is_returned_beside_one_of_its_arrays(order: Any) -> None:
    @cachax.jit
    def make(a: Any) -> Any:
        part = Part(a * 2)
        both = (part, part.a)
        return both[order[0]], both[order[1]], part.wave

    with computations() as counts:
        part = make(jnp.ones(3))[order.index(0)]
        assert (part.wave == jnp.sin(2)).all()
    assert counts == {"wave": 1}


def test_the_trace_of_a_function_does_not_outlive_it(no_leaks: None) -> None:
    """A value with an object in it, which has values in its turn."""
    process = Process(X + 1)
    lower = cachax.jit(lambda p: p.factor.lower)
    with computations() as counts:
        for _ in range(2):
            np.testing.assert_array_equal(lower(process), process.factor.lower)
    assert set(counts.values()) == {1}


def test_an_object_that_is_not_rebuilt() -> None:
    """A traced function gets the object of the caller."""

    @jax.tree_util.register_static
    @dataclasses.dataclass(frozen=True)
    class Config:
        n: int

        @cachax.cached_property
        def grid(self) -> Any:
            computing("grid")
            return jnp.linspace(0, 1, self.n)

    @jax.tree_util.register_dataclass
    @dataclasses.dataclass(frozen=True)
    class Model:
        config: Any
        a: Any

        @cachax.cached_property
        def p(self) -> Any:
            computing("p")
            return self.a.sum() * self.config.grid

        @cachax.cached_property
        def parts(self) -> Any:
            return [self.config, self.a]

    model = Model(Config(3), jnp.arange(3.0))
    with computations() as counts:
        for _ in range(2):
            assert cachax.jit(lambda c: c.grid)(model.config)[1] == 0.5
            assert cachax.jit(lambda m: m.a * m.config.n)(model)[1] == 3
            assert cachax.jit(lambda m: m.p * m.config.grid)(model)[1] == 0.75
            assert cachax.jit(lambda m: m.parts[0].grid)(model)[1] == 0.5
            assert cachax.jit(lambda m: m)(model).p[1] == 1.5
    assert counts == {"grid": 1, "p": 1}


class Layer(struct.PyTreeNode):
    params: dict[str, Any]

    @cachax.cached_property
    def norm(self) -> Any:
        computing("norm")
        return jnp.sum(self.params["w"])


class Layers(struct.PyTreeNode):
    w: Any

    @cachax.cached_property
    def by_name(self) -> dict[str, Any]:
        return {"scaled": Layer({"w": 2 * self.w, "b": self.w}), "bias": self.w}


def test_dictionaries_around_objects_with_dictionaries() -> None:
    """Each keeps the order of its keys."""
    layers = Layers(X)

    def use(layers: Layers) -> Any:
        orders.append(([*layers.by_name], [*layers.by_name["scaled"].params]))
        return layers.by_name["scaled"].params["w"] + layers.by_name["scaled"].norm

    orders: list[Any] = []
    with computations() as counts:
        for _ in range(2):
            assert cachax.jit(use)(layers).tolist() == [8.0, 10.0]
            assert use(layers).tolist() == [8.0, 10.0]
    assert counts == {"norm": 1}
    assert orders == [(["scaled", "bias"], ["w", "b"])] * len(orders)
    made = cachax.jit(lambda w: Layers(w).by_name)(X)
    assert made["scaled"].params["w"].tolist() == [2.0, 4.0]
