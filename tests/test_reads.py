"""What a body reads of its object, in whatever way."""

import dataclasses
import gc
import operator
import pickle
import threading
import weakref
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pydantic
import pytest

import cachax

from measure import computations, computing

if hasattr(jax, "enable_x64"):
    enable_x64 = jax.enable_x64
else:  # before 0.8
    from jax.experimental import enable_x64

ONES = jnp.ones(2)


def test_slots_beside_a_dict() -> None:
    class Base:
        __slots__ = ("scale",)

    class Scaled(Base):
        def __init__(self, x: Any, scale: float) -> None:
            self.x, self.scale = x, scale

        @cachax.cached_property
        def value(self) -> Any:
            return self.x * self.scale

    first = Scaled(ONES, 2.0)
    assert first.value[0] == 2
    assert Scaled(ONES, 3.0).value[0] == 3
    first.scale = 5.0
    assert first.value[0] == 5


def test_private_attributes_of_pydantic() -> None:
    class Model(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)
        x: jax.Array
        _scale: float = pydantic.PrivateAttr(1.0)

        @cachax.cached_property
        def value(self) -> Any:
            return self.x * self._scale

    model = Model(x=ONES)
    assert model.value[0] == 1
    model._scale = 2.0
    assert model.value[0] == 2


def test_a_body_that_is_written_in_c() -> None:
    @jax.tree_util.register_dataclass
    @dataclasses.dataclass(frozen=True)
    class Numbered:
        x: jax.Array
        n: float
        value = cachax.cached_property(operator.attrgetter("n"))

    assert [Numbered(ONES, float(n)).value for n in range(3)] == [0, 1, 2]


def test_names_of_fields_are_strings() -> None:
    @jax.tree_util.register_dataclass
    @dataclasses.dataclass(frozen=True)
    class Named:
        x: jax.Array
        n: float

        @cachax.cached_property
        def doubled(self) -> Any:
            return {name: 2 * part for name, part in vars(self).items()}

        @cachax.cached_property
        def names(self) -> Any:
            return (*vars(self), *vars(self).keys(), *{**vars(self)})

    for i in range(2):
        named = Named(ONES * i, 2.0)
        assert {type(name) for name in (*named.doubled, *named.names)} == {str}


def test_which_object_it_is() -> None:
    class Solver:
        def __init__(self, **options: Any) -> None:
            self.options = options

    direct, other = Solver(pivot=True), Solver()

    class System:
        def __init__(self, x: Any, solver: Any) -> None:
            self.x, self.solver = x, solver

        @cachax.cached_property
        def value(self) -> Any:
            return self.x * {direct: 2.0, other: 4.0}[self.solver]

    for i in (1, 2):
        assert System(ONES * i, direct).value[0] == 2 * i
        assert System(ONES * i, other).value[0] == 4 * i


def test_what_a_body_puts_into_an_object_inside() -> None:
    class Workspace:
        gram: Any = None

    class Points:
        def __init__(self, x: Any) -> None:
            self.x, self.workspace = x, Workspace()

        @cachax.cached_property
        def total(self) -> Any:
            if self.workspace.gram is None:
                self.workspace.gram = jnp.outer(self.x, self.x)
            return self.workspace.gram.sum()

    points = Points(ONES)
    assert points.total == 4
    assert pickle.loads(pickle.dumps(points.workspace.gram)).sum() == 4


def test_a_body_that_returns_a_function_is_started_twice_at_most() -> None:
    starts = []

    class Scaled:
        def __init__(self, x: Any) -> None:
            self.x = x

        @cachax.cached_property
        def apply(self) -> Any:
            starts.append(1)
            doubled = 2 * self.x
            return lambda y: y * doubled

    assert Scaled(ONES).apply(3)[0] == 6
    assert len(starts) <= 2


def test_objects_that_cannot_be_weakly_referenced_are_not_held() -> None:
    class Inner:
        __slots__ = ("a",)

        def __init__(self, a: Any) -> None:
            self.a = a

    class Outer:
        def __init__(self, inner: Any) -> None:
            self.inner = inner

        @cachax.cached_property
        def value(self) -> Any:
            return self.inner.a * 2

    arrays = []
    for i in range(5):
        outer = Outer(Inner(ONES * i))
        assert outer.value[0] == 2 * i
        arrays.append(weakref.ref(outer.inner.a))
    del outer
    gc.collect()
    assert [array() for array in arrays] == [None] * 5


@pytest.mark.parametrize("is_static", [True, False])
def test_a_value_of_an_object_inside_that_has_numbers_only(is_static: bool) -> None:
    @jax.tree_util.register_dataclass
    @dataclasses.dataclass(frozen=True)
    class Config:
        scale: float

        @cachax.cached_property
        def double(self) -> Any:
            return 2 * self.scale

    @jax.tree_util.register_dataclass
    @dataclasses.dataclass(frozen=True)
    class State:
        x: jax.Array
        y: jax.Array
        config: Config = dataclasses.field(metadata={"static": is_static})

        @cachax.cached_property
        def scaled(self) -> Any:
            computing("scaled")
            return self.x * self.config.double

    step = cachax.jit(lambda s: dataclasses.replace(s, y=s.y + s.scaled))
    with computations() as counts:
        state = State(ONES, ONES, Config(2.0))
        for _ in range(5):
            state = step(state)
    assert counts["scaled"] <= 1 + (not is_static)  # `scale` becomes an array
    assert state.y[0] == 21
    assert State(ONES, ONES, Config(3.0)).scaled[0] == 6


def test_the_text_of_an_array() -> None:
    def remembered(fun: Any) -> Any:
        known: dict[str, Any] = {}

        def wrapper(part: Any) -> Any:
            if repr(part) not in known:
                known[repr(part)] = fun(part)
            return known[repr(part)]

        return wrapper

    class Labelled:
        def __init__(self, x: Any, parts: Any) -> None:
            self.x, self.parts = x, parts

        @cachax.cached_property
        def label(self) -> Any:
            texts = jax.tree.leaves(jax.tree.map(str, self.parts))
            return f"{self.x} {self.x!s} {self.x!r}", str(self.x), texts

        @cachax.cached_property
        def doubled(self) -> Any:
            return jax.tree.map(remembered(lambda part: 2 * part), self.parts)

    for i in (1, 2):
        x, parts = jnp.float32(i), {"a": jnp.float32(i), "b": jnp.float32(5 * i)}
        labelled = Labelled(x, parts)
        expected = f"{x} {x!s} {x!r}", str(x), [str(part) for part in parts.values()]
        assert labelled.label == expected
        assert labelled.doubled == {"a": 2 * i, "b": 10 * i}


def test_what_is_used_depends_on_the_configuration() -> None:
    @jax.tree_util.register_dataclass
    @dataclasses.dataclass(frozen=True)
    class Either:
        a: Any
        b: Any

        @cachax.cached_property
        def value(self) -> Any:
            is_wide = jax.config.jax_enable_x64  # type: ignore[attr-defined]
            return self.a * 1.0 if is_wide else self.b * 1.0

    assert Either(ONES, ONES).value[0] == 1
    with enable_x64(True):
        assert Either(ONES, ONES).value[0] == 1
        assert Either(2 * ONES, ONES).value[0] == 2
        slope = jax.grad(lambda a: jnp.sum(Either(a, ONES).value))
        assert slope(ONES)[0] == 1


def test_a_tree_structure_that_holds_a_function() -> None:
    class Scaled:
        def __init__(self, x: Any, scale: Any) -> None:
            self.x, self.scale = x, scale

        @cachax.cached_property
        def parts(self) -> Any:
            scale = self.scale
            function = jax.tree_util.Partial(lambda x, y: x * y * scale, self.x)
            return jax.tree.flatten(function)

    for scale in (2.0, 3.0):
        leaves, tree = Scaled(ONES, jnp.float32(scale)).parts
        assert jax.tree.unflatten(tree, leaves)(1.0)[0] == scale


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Fitted:
    """Data, and parameters that most bodies don't read."""

    x: Any
    params: Any

    @cachax.cached_property
    def total(self) -> Any:
        computing("total")
        return jnp.sum(self.x)

    @cachax.cached_property
    def kinds(self) -> Any:
        """Can't be traced."""
        computing("kinds")
        return jnp.unique(self.x)

    @cachax.cached_property
    def largest(self) -> Any:
        """Computed by NumPy."""
        computing("largest")
        return float(np.max(np.asarray(self.x)))

    @cachax.cached_property
    def spread(self) -> Any:
        """Of both."""
        computing("spread")
        return self.largest - jnp.min(self.kinds)

    @cachax.cached_property
    def chosen(self) -> Any:
        """What it reads depends on the numbers in an array."""
        computing("chosen")
        return self.x * 2 if self.x[0] > 0 else self.x * len(self.params)


NAMES = ("total", "kinds", "largest", "spread", "chosen")


def grown(params: Any) -> Any:
    return jnp.concatenate([params, params[:1]])


@pytest.mark.parametrize("jit", [cachax.jit, lambda fun: fun], ids=["jit", "eager"])
@pytest.mark.parametrize("change", [lambda p: p + 1, grown, lambda p: p.astype(int)])
@pytest.mark.parametrize("name", NAMES)
def test_a_loop_that_changes_what_a_body_does_not_read(
    name: str, change: Any, jit: Any
) -> None:
    def step(state: Fitted) -> tuple[Fitted, Any]:
        used = jnp.sum(getattr(state, name))
        return dataclasses.replace(state, params=change(state.params)), used

    for x in (jnp.array([3.0, 1.0, 3.0]), jnp.array([5.0, 7.0, 7.0])):
        state, use = Fitted(x, jnp.ones(2)), jit(step)
        expected = jnp.sum(getattr(Fitted(x + 0, jnp.ones(2)), name))
        with computations() as counts:
            for _ in range(4):
                state, used = use(state)
                assert used == expected
        assert counts[name] == 1


def test_a_parameter_that_is_a_number_first() -> None:
    step = cachax.jit(lambda s: dataclasses.replace(s, params=s.params - 0.1 * s.total))
    state: Any = Fitted(ONES, 0.5)
    with computations() as counts:
        for _ in range(4):
            state = step(state)
    assert counts == {"total": 1}


def test_what_is_read_depends_on_the_numbers_in_an_array() -> None:
    """One object says nothing about others, and of one with the same arrays it says
    which of them were read."""
    positive, negative = jnp.array([1.0, 2.0]), jnp.array([-1.0, 2.0])
    for x in (positive, negative, positive):
        for size in (2, 3, 2):
            factor = 2 if x[0] > 0 else size
            assert Fitted(x, jnp.ones(size)).chosen.tolist() == (x * factor).tolist()


def test_one_array_in_two_fields() -> None:
    """Which of them is read counts, also in a body that can't be followed."""

    @jax.tree_util.register_dataclass
    @dataclasses.dataclass(frozen=True)
    class Outer:
        first: Any
        inner: Any
        last: Any

        @cachax.cached_property
        def value(self) -> Any:
            return float(self.inner.kinds[0])

    one, two = jnp.ones(2), jnp.full(2, 2.0)
    for first in (one, two):
        for x in (one, two):
            for last in (one, two):
                assert Outer(first, Fitted(x, one), last).value == x[0]
                assert Outer(x, Fitted(x, x), x).value == x[0]


def node(cls: Any) -> Any:
    return jax.tree_util.register_dataclass(dataclasses.dataclass(frozen=True)(cls))


@node
class Kernel:
    scale: Any

    @cachax.cached_property
    def squared(self) -> Any:
        return self.scale**2


@node
class Gram:
    kernel: Any
    points: Any

    @cachax.cached_property
    def trace(self) -> Any:
        return jnp.sum(self.points**2) * self.kernel.scale


@cachax.cache
def total_scale(kernels: Any) -> Any:
    return sum(kernel.scale for kernel in kernels)


@node
class Model:
    """Its bodies make objects around parts of it, and read values of these."""

    kernel: Any
    points: Any

    @cachax.cached_property
    def traced(self) -> Any:
        return Gram(self.kernel, self.points).trace

    @cachax.cached_property
    def of_numbers(self) -> Any:
        return Gram(self.kernel, jnp.ones(2)).trace * self.points[0]

    @cachax.cached_property
    def host(self) -> Any:
        return float(Gram(self.kernel, self.points).trace)

    @cachax.cached_property
    def of_a_list(self) -> Any:
        return float(total_scale([self.kernel, self.kernel]) + self.points[0])


@pytest.mark.parametrize("as_scale", [float, jnp.float32])
@pytest.mark.parametrize("name", ["traced", "of_numbers", "host", "of_a_list"])
def test_values_of_objects_that_a_body_makes(name: str, as_scale: Any) -> None:
    points = jnp.ones(2)
    use = cachax.jit(lambda model: getattr(model, name))
    for scale in (1, 2, 3):
        expected = 2 * scale + (name == "of_a_list")
        kernel = Kernel(as_scale(scale))
        for _ in range(2):
            assert getattr(Model(kernel, points), name) == expected
            assert use(Model(kernel, points)) == expected
            assert Gram(kernel, points).trace == 2 * scale


@node
class Fit:
    """What its body reads depends on a number that a different body has computed."""

    data: Fitted
    y: Any

    @cachax.cached_property
    def loss(self) -> Any:
        return jnp.sum(self.data.x * self.y if self.data.largest > 2 else self.data.x)


def test_what_is_read_is_learned_in_a_trace() -> None:
    def slope(fit: Fit) -> Any:
        def loss(y: Any) -> Any:
            return dataclasses.replace(fit, y=y).loss * jnp.sum(y)

        return jax.grad(loss)(fit.y)[0]

    small, large = Fitted(ONES, ONES), Fitted(5 * ONES, ONES)
    assert slope(Fit(small, ONES)) == 2
    for factor in (1, 2):
        assert Fit(large, factor * ONES).loss == 10 * factor
        assert slope(Fit(large, factor * ONES)) == 20 * factor


def test_a_pydantic_model_that_is_dumped() -> None:
    class Settings(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(arbitrary_types_allowed=True, frozen=True)
        x: Any
        by: Any

        @cachax.cached_property
        def host(self) -> Any:
            return float(sum(jnp.sum(part) for part in self.model_dump().values()))

        @cachax.cached_property
        def scaled(self) -> Any:
            return self.x * self.model_dump()["by"]

    for by in (2.0, 3.0, jnp.float32(4)):
        settings = Settings(x=ONES, by=by)
        assert settings.host == 2 + by
        assert settings.scaled[0] == by


def test_masks() -> None:
    @node
    class Masked:
        x: Any
        params: Any

        @cachax.cached_property
        def positive(self) -> Any:
            computing("positive")
            return jnp.sum(self.x[self.x > 0])

    @cachax.jit
    def step(s: Any) -> Any:
        return dataclasses.replace(s, params=s.params + s.positive)

    with computations() as counts:
        for x in (jnp.array([1.0, -2.0, 3.0]), jnp.array([1.0, 2.0, 3.0])):
            state = Masked(x, jnp.zeros(2))
            for _ in range(3):
                state = step(state)
            assert state.params[0] == 3 * jnp.sum(jnp.maximum(x, 0))
    assert counts == {"positive": 2}


def test_a_body_that_starts_threads() -> None:
    class Sums:
        def __init__(self, x: Any) -> None:
            self.x = x

        @cachax.cached_property
        def total(self) -> Any:
            found: list[Any] = []
            work = threading.Thread(target=lambda: found.append(jnp.sum(self.x)))
            work.start()
            work.join()
            return sum(found)

    assert [float(Sums(n * ONES).total) for n in (1, 2)] == [2, 4]


@pytest.mark.parametrize("put", [set, frozenset, dict.fromkeys, list])
def test_objects_in_a_set(put: Any) -> None:
    class Term:
        weight = 1.0

    class Terms:
        def __init__(self, terms: Any) -> None:
            self.x, self.terms = ONES, terms

        @cachax.cached_property
        def total(self) -> Any:
            return self.x * sum(term.weight for term in self.terms)

    term = Term()
    terms = Terms(put([term]))
    assert terms.total[0] == 1
    term.weight = 2.0
    assert terms.total[0] == 2


def test_the_dictionary_of_an_object_is_a_tree() -> None:
    @node
    class Weights:
        w: Any
        b: Any

        @cachax.cached_property
        def paths(self) -> Any:
            found, _ = jax.tree_util.tree_flatten_with_path(vars(self))
            return [jax.tree_util.keystr(path) for path, _ in found]

        @cachax.cached_property
        def changed(self) -> Any:
            other = {"w": 1.0, "b": 2.0}
            is_large = self.w[0] > 1
            return jax.tree.map(jnp.add, vars(self), other)["w"] if is_large else 0

    assert Weights(ONES, ONES).paths == ["['b']", "['w']"]
    assert Weights(ONES, ONES).changed == 0
    assert Weights(2 * ONES, ONES).changed[0] == 3


def test_a_branch_on_an_array_of_numpy() -> None:
    @node
    class Chosen:
        x: Any
        y: Any
        mask: Any

        @cachax.cached_property
        def value(self) -> Any:
            return self.x * 2 if self.mask.all() else self.y * 3

    x, y = jnp.array([1.0, 2.0]), jnp.array([3.0, 4.0])
    assert Chosen(x, y, np.array([True])).value.tolist() == [2, 4]
    other = Chosen(x, y, np.array([False]))

    def total(y: Any) -> Any:
        return jnp.sum(dataclasses.replace(other, y=y).value)

    for use in (total, jax.jit(total), cachax.jit(total)):
        assert use(y) == 21
        assert jax.grad(use)(y).tolist() == [3, 3]


def test_a_branch_on_an_array_in_a_part_that_is_equal_to_others() -> None:
    class Config:
        def __init__(self, sign: float) -> None:
            self.sign = jnp.array([sign])

        def __eq__(self, other: object) -> bool:
            return type(other) is Config

        def __hash__(self) -> int:
            return 1

    @dataclasses.dataclass(frozen=True)
    class Signed:
        config: Any
        x: Any
        y: Any

        @cachax.cached_property
        def value(self) -> Any:
            return self.x * 2 if self.config.sign[0] > 0 else self.y * 3

    plus, minus = Config(1.0), Config(-1.0)
    assert Signed(plus, ONES, ONES).value[0] == 2
    for factor in (1, 2):
        assert Signed(minus, ONES, factor * ONES).value[0] == 3 * factor
    slope = jax.grad(lambda y: jnp.sum(Signed(minus, ONES, y).value))
    assert slope(ONES).tolist() == [3, 3]


def test_a_value_that_looks_at_contents_is_known_under_grad() -> None:
    state = Fitted(ONES, ONES)
    with computations() as counts:
        state.kinds  # noqa: B018
        for _ in range(3):
            jax.grad(
                lambda p: jnp.sum(dataclasses.replace(state, params=p).kinds) * p[0]
            )(ONES)
    assert counts == {"kinds": 1}


@node
class Selected:
    x: Any
    n: Any

    @cachax.cached_property
    def total(self) -> Any:
        return jnp.sum(self.x)

    @cachax.cached_property
    def doubled(self) -> Any:
        return jnp.sum(self.x) * 100 if self.n > 1 else self.total * 2


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("is_preset", [True, False])
def test_a_supplied_value_that_only_some_runs_read(
    is_first: bool, is_preset: bool
) -> None:
    looks, reads = Selected(jnp.ones(3), jnp.float32(2)), Selected(jnp.ones(3), 1)
    for obj in (looks, reads) if is_first else (reads, looks):
        obj.doubled  # noqa: B018
    if is_preset:
        reads = cachax.preset(reads, total=jnp.float32(7))
    else:
        object.__setattr__(reads, "total", jnp.float32(7))
    assert reads.doubled == 14
    assert cachax.jit(lambda obj: obj.doubled + 0)(reads) == 14
    assert looks.doubled == 300


def test_a_body_that_can_not_always_be_followed_is_started_once() -> None:
    """For the first object it may start twice."""
    compiled = jax.jit(lambda x: x * 2).lower(jnp.ones(3)).compile()

    @node
    class Branch:
        x: Any
        y: Any

        @cachax.cached_property
        def value(self) -> Any:
            computing("value")
            return self.y if self.x[0] > 0 else compiled(self.y)

    def read(sign: float) -> int:
        with computations() as counts:
            assert Branch(jnp.array([sign]), jnp.ones(3)).value[0] == (3 - sign) / 2
        return counts["value"]

    assert read(1) == 1
    assert read(-1) <= 2
    assert [read(-1), read(1), read(-1)] == [1, 1, 1]


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="the memory of a CPU")
def test_a_body_that_gives_memory_to_numpy() -> None:
    @node
    class Shared:
        x: Any
        y: Any

        @cachax.cached_property
        def value(self) -> float:
            computing("value")
            return float(np.from_dlpack(self.y).sum())

    with computations() as counts:
        obj = Shared(ONES, jnp.ones(3))
        assert obj.value == 3
        assert dataclasses.replace(obj, x=2 * ONES).value == 3
        assert dataclasses.replace(obj, y=2 * ONES).value == 4
    assert counts == {"value": 2}


def test_a_value_that_contains_a_part_of_its_object() -> None:
    """It comes from the arrays of this part, not from all."""

    @node
    class State:
        x: Any
        kernel: Any
        params: Any

        @cachax.cached_property
        def parts(self) -> Any:
            computing("parts")
            return {"kernel": self.kernel, "factor": jnp.linalg.cholesky(self.x)}

    @cachax.jit
    def step(state: State) -> State:
        params = state.params + state.parts["factor"][0] * state.parts["kernel"].scale
        return dataclasses.replace(state, params=params)

    assert State(jnp.eye(2), Kernel(2.0), jnp.zeros(2)).parts["kernel"].scale == 2
    first = State(jnp.eye(2), Kernel(2.0), jnp.zeros(2))
    assert isinstance(step(first).parts["kernel"].scale, jax.Array)  # a number before
    assert dataclasses.replace(first, kernel=Kernel(3.0)).parts["kernel"].scale == 3

    state = State(jnp.eye(2), Kernel(jnp.float32(2)), jnp.zeros(2))
    with computations() as counts:
        assert state.parts["kernel"] is state.kernel
        for _ in range(5):
            state = step(state)
        assert state.parts["kernel"].scale == 2
        assert state.params[0] == 10
    assert counts == {"parts": 1}
    other = dataclasses.replace(state, kernel=Kernel(jnp.float32(3)))
    assert other.parts["kernel"].scale == 3


def test_a_value_that_looks_at_contents_is_known_where_tracing_is_forbidden() -> None:
    runs: list[Any] = []

    @jax.tree_util.register_dataclass
    @dataclasses.dataclass(frozen=True)
    class Signed:
        x: Any
        y: Any

        @cachax.cached_property
        def value(self) -> Any:
            runs.append(1)
            return float(self.x) if float(self.x) > 0 else float(self.y)

    one, two, three = (jnp.float32(i) for i in (1, 2, 3))
    assert Signed(one, two).value == 1
    with jax.no_tracing():
        assert [Signed(three, two).value for _ in range(2)] == [3, 3]
    assert Signed(three, two).value == 3
    assert len(runs) == 2
