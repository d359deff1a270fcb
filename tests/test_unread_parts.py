"""A value depends on what its body has read: other fields make no difference, whatever
is in them."""

import collections
import copy
import dataclasses
import enum
import operator
import pickle
from collections.abc import Callable
from typing import Any

import flax.core
import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cachax
from cachax._core.copies import Copy
from test_hot_path import counted

from measure import computations, computing

ONES = jnp.ones(2)


class Tagged(flax.struct.PyTreeNode):
    x: jax.Array
    beside: Any = None
    tag: Any = flax.struct.field(pytree_node=False, default=None)

    @cachax.cached_property
    def total(self) -> Any:
        computing("total")
        return jnp.sum(self.x)


@cachax.jit
def total(obj: Any) -> Any:
    return obj.total


def test_a_static_field_that_is_not_read() -> None:
    x = jnp.arange(3.0)
    with computations() as counts:
        for tag in ("a", "b", None, jnp.sum, "a"):
            assert Tagged(x, tag=tag).total == 3
            assert total(Tagged(x, tag=tag)) == 3
    assert counts["total"] == 1


def test_a_static_field_that_is_different_in_every_step() -> None:
    @cachax.jit
    def step(state: Any) -> Any:
        return state.replace(beside=state.beside + state.total)

    state = Tagged(jnp.arange(3.0), beside=jnp.float32(0))
    with computations() as counts:
        for number in range(5):
            state = step(state.replace(tag="abc"[number % 3]))
    assert state.beside == 15
    assert counts["total"] == 1


class Reading(flax.struct.PyTreeNode):
    """Its body reads the tag in one of many ways."""

    x: jax.Array
    tag: Any = flax.struct.field(pytree_node=False, default=1)
    how: Any = flax.struct.field(pytree_node=False, default=None)

    @cachax.cached_property
    def value(self) -> Any:
        return jnp.sum(self.x) * self.how(self)

    def __str__(self) -> str:
        return f"{self.tag}"


def by_tree(obj: Any) -> Any:
    return jax.tree.unflatten(jax.tree.structure(obj), jax.tree.leaves(obj)).tag


WAYS: dict[str, Callable[[Any], Any]] = {
    "attribute": lambda self: self.tag,
    "getattr": lambda self: getattr(self, "ta" + "g"),
    "attrgetter": operator.attrgetter("tag"),
    "vars": lambda self: vars(self)["tag"],
    "items": lambda self: dict(vars(self).items())["tag"],
    "values": lambda self: [*vars(self).values()][1],
    "get": lambda self: self.__dict__.get("tag"),
    "astuple": lambda self: dataclasses.astuple(self)[1],
    "fields": lambda self: getattr(self, dataclasses.fields(self)[1].name),
    "replace": lambda self: self.replace(x=self.x).tag,
    "copy": lambda self: copy.copy(self).tag,
    "tree": by_tree,
    "text": lambda self: float(str(self)),
    "repr": lambda self: float(repr(self).split("tag=")[1].split(",")[0]),
    "object": lambda self: object.__getattribute__(self, "tag"),
    "match": lambda self: len("." * int(self.tag)),
}


@pytest.mark.parametrize("how", WAYS)
def test_a_static_field_that_is_read(how: str) -> None:
    x = jnp.arange(3.0)
    fun = cachax.jit(lambda obj: obj.value)
    for tag in (1, 2, 3, 2):
        assert Reading(x, tag, WAYS[how]).value == 3 * tag
        assert fun(Reading(x, tag, WAYS[how])) == 3 * tag
    for tag in (5, 6):
        assert fun(Reading(x, tag, WAYS[how])) == 3 * tag
        assert Reading(x, tag, WAYS[how]).value == 3 * tag


class Inner(flax.struct.PyTreeNode):
    w: jax.Array
    name: str = flax.struct.field(pytree_node=False, default="a")

    @cachax.cached_property
    def norm(self) -> Any:
        return jnp.sum(self.w) * len(self.name)


class Outer(flax.struct.PyTreeNode):
    inner: Inner
    x: jax.Array

    @cachax.cached_property
    def through(self) -> Any:
        return self.x[0] * self.inner.norm

    @cachax.cached_property
    def direct(self) -> Any:
        return self.x[0] * len(self.inner.name)

    @cachax.cached_property
    def of_a_part(self) -> Any:
        return self.x[0] * jax.tree.map(lambda x: x, self.inner).norm


@pytest.mark.parametrize("name", ["through", "direct", "of_a_part"])
def test_a_static_field_of_a_part_that_is_read(name: str) -> None:
    fun = cachax.jit(lambda obj: getattr(obj, name))
    w = x = jnp.ones(1)
    for label in ("a", "bb", "a", "ccc"):
        assert getattr(Outer(Inner(w, label), x), name) == len(label)
        assert fun(Outer(Inner(w, label), x)) == len(label)


@jax.tree_util.register_pytree_node_class
class Dropping:
    """A class that does not give all of its attributes to JAX."""

    def __init__(self, x: Any) -> None:
        self.x = x
        self.scales: list[float] = []
        self._table: dict[str, Any] = {}
        self._last = None

    def tree_flatten(self) -> Any:
        return (self.x,), None

    @classmethod
    def tree_unflatten(cls, _: Any, children: Any) -> "Dropping":
        return cls(*children)

    @cachax.cached_property
    def total(self) -> Any:
        computing("total")
        return jnp.sum(self.x)

    @cachax.cached_property
    def scaled(self) -> Any:
        return jnp.sum(self.x) * (sum(self.scales) or 1)


def test_an_attribute_that_is_dropped_and_sometimes_empty() -> None:
    x = jnp.ones(3)
    fun = cachax.jit(lambda obj: obj.scaled)
    other = Dropping(x)
    other.scales = [2.0]
    for _ in range(3):
        assert fun(Dropping(x)) == 3
        assert fun(other) == 6
        assert other.scaled == 6
    other.scales.append(1.0)
    assert fun(other) == 9


def test_attributes_that_are_dropped_and_not_read() -> None:
    x = jnp.ones(3)
    with computations() as counts:
        for number in range(4):
            obj = Dropping(x)
            obj._last, obj._table["number"] = number, number  # type: ignore[assignment]
            obj.scales.append(number)
            assert total(obj) == 3
            assert obj.total == 3
    assert counts["total"] == 1


KINDS: dict[str, Callable[[Any], Any]] = {
    "a frozen dict": lambda x: flax.core.freeze({"b": x, "a": {"c": x}}),
    "a dict with defaults": lambda x: collections.defaultdict(list, {"b": x, "a": x}),
    "a class that drops": Dropping,
    "an ordered dict": lambda x: collections.OrderedDict(b=x, a=x),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_loop_beside_a_field_of_any_kind(kind: str) -> None:
    """It is found by its arrays, as fast as beside a plain one."""

    def step(state: Any) -> Any:
        new = jax.tree.map(lambda x: x * 0.9, state.beside)
        return state.replace(beside=new), state.total

    fun = cachax.jit(step)
    states = [Tagged(jnp.ones(2), KINDS[kind](ONES)), Tagged(ONES, {"b": ONES})]
    with computations() as counts:
        for _ in range(4):
            states[0], found = fun(states[0])
            assert found == 2
    assert counts["total"] == 1

    def call(number: int) -> None:
        states[number], _ = fun(states[number])

    plain, its = (counted(lambda n=n: call(n)) for n in (1, 0))  # type: ignore[misc]
    assert its["functions"] <= plain["functions"] + 1


class Frozen(flax.struct.PyTreeNode):
    params: Any

    @cachax.cached_property
    def norm(self) -> Any:
        computing("total")
        return jnp.sum(self.params["w"])


def test_a_value_of_a_frozen_dict() -> None:
    params = flax.core.freeze({"w": jnp.ones(3), "b": jnp.ones(2)})
    fun = cachax.jit(lambda obj: (obj, obj.norm))
    obj = Frozen(params)
    with computations() as counts:
        for _ in range(5):
            obj, norm = fun(obj)
            assert norm == 3
        assert Frozen(flax.core.freeze({**obj.params})).norm == 3
    assert counts["total"] == 1


def test_a_factory_of_defaults_is_part_of_a_value() -> None:
    class Table(flax.struct.PyTreeNode):
        x: Any

        @cachax.cached_property
        def value(self) -> Any:
            return jnp.sum(self.x["a"]) * len(self.x.default_factory())

    ones = jnp.ones(2)
    for factory in (str, lambda: "ab", str, lambda: "abc"):
        table = Table(collections.defaultdict(factory, {"a": ones}))
        assert table.value == 2 * len(factory())


def test_a_pickled_object_has_plain_fields() -> None:
    obj = pickle.loads(pickle.dumps(Reading(ONES, 4, by_tree)))
    assert obj.value == 8


def dropping(body: Any, *names: str) -> Any:
    """A class that gives `x` to JAX, and what its constructor makes of other
    attributes again."""

    @jax.tree_util.register_pytree_node_class
    class Class:
        def __init__(self, x: Any, **fields: Any) -> None:
            self.x = x
            vars(self).update(dict.fromkeys(names), **fields)

        def tree_flatten(self) -> Any:
            return (self.x,), None

        @classmethod
        def tree_unflatten(cls, _: Any, children: Any) -> Any:
            return cls(*children)

        value = cachax.cached_property(body)

    Class.value.__set_name__(Class, "value")
    return Class


@jax.tree_util.register_pytree_node_class
class Part:
    def __init__(self, y: Any) -> None:
        self.y = y

    def tree_flatten(self) -> Any:
        return (self.y,), None

    @classmethod
    def tree_unflatten(cls, _: Any, children: Any) -> Any:
        return cls(*children)


class Metres(float):
    unit: str


def metres(number: float) -> Metres:
    found = Metres(number)
    found.unit = "m"
    return found


class Colour(enum.Enum):
    RED = 2
    BLUE = 3


DROPPED: dict[str, tuple[Callable[[Any], Any], list[Any]]] = {
    "a list": (sum, [[2.0], [2.0, 1.0], [2.0, 1.0, 5.0], [2.0]]),
    "a dict": (len, [{"a": 1.0}, {"a": 1.0, "b": 2.0}, {}, {"a": 1.0}]),
    "a tuple": (len, [("a",), ("a", "b"), (), ("a",)]),
    "an object or None": (
        lambda part: 1 if part is None else 2,
        [Part(ONES), None, Part(ONES), None],
    ),
    "a float with a field": (float, [metres(2.0), metres(3.0), metres(2.0)]),
    "defaults": (
        lambda table: len(table["?"]),
        [collections.defaultdict(f, k=1) for f in (lambda: "a", lambda: "ab")],
    ),
    "a number": (lambda n: n, [2, 3, 2.0, 4]),
    "a string": (len, ["a", "bb", "a"]),
    "a function or None": (
        lambda part: 1 if part is None else part(),
        [None, lambda: 2, lambda: 5, None],
    ),
    "a member of an enumeration or a string": (
        lambda part: getattr(part, "value", 7),
        ["a", Colour.RED, Colour.BLUE, "a"],
    ),
    "a set or a string": (len, ["a", frozenset("ab"), frozenset("abc"), "a"]),
    "a number or an array": (
        lambda n: n,
        [2.0, jnp.float32(4), jnp.float32(4), 2.0, jnp.float32(7)],
    ),
}


@pytest.mark.parametrize("is_new", [False, True])
@pytest.mark.parametrize("kind", DROPPED)
def test_an_attribute_that_is_dropped_and_read(kind: str, is_new: bool) -> None:
    read, given = DROPPED[kind]
    cls = dropping(lambda self: jnp.sum(self.x) * read(self.part))
    fun = cachax.jit(lambda obj: obj.value)
    for number in range(4 * len(given)):
        part = copy.copy(given[number % len(given)])
        obj = cls(ONES * (number + 1) if is_new else ONES, part=part)
        assert fun(obj) == 2 * read(part) * (number + 1 if is_new else 1)


def test_a_number_that_is_dropped_and_is_equal_to_the_last_leaf() -> None:
    @jax.tree_util.register_pytree_node_class
    class Weighted:
        def __init__(self, x: Any, weights: Any, n: Any = 1.0) -> None:
            self.x, self.weights, self.n = x, weights, n

        def tree_flatten(self) -> Any:
            return (self.x, self.weights), None

        @classmethod
        def tree_unflatten(cls, _: Any, children: Any) -> Any:
            return cls(*children)

        @cachax.cached_property
        def value(self) -> Any:
            return jnp.sum(self.x) * self.weights["w"] + 100 * self.n

    fun = cachax.jit(lambda obj: obj.value)
    for _ in range(2):
        assert fun(Weighted(ONES, {"w": 2.0}, 2.0)) == 204
    assert Weighted(ONES, {"w": 3.0}, 3.0).value == 306
    assert fun(Weighted(ONES, {"w": 3.0}, 2.0)) == 206


def test_an_attribute_that_is_dropped_and_changed() -> None:
    cls = dropping(lambda self: jnp.sum(self.x) * sum(self.scales))
    fun = cachax.jit(lambda obj: obj.value)
    obj = cls(ONES, scales=[2.0])
    assert fun(obj) == 4
    obj.scales.append(1.0)
    assert fun(obj) == obj.value == 6


@pytest.mark.parametrize("is_dtype", [False, True])
def test_an_attribute_that_is_dropped_and_read_for_some_shapes(is_dtype: bool) -> None:
    def value(self: Any) -> Any:
        is_plain = self.x.dtype == jnp.float32 if is_dtype else self.x.ndim == 1
        return jnp.sum(self.x) * (1 if is_plain else len(self.name or "default"))

    cls = dropping(value, "name")
    fun = cachax.jit(lambda obj: obj.value)
    for number in range(20):
        assert fun(cls(ONES * number, name="ab")) == 2 * number
    for number in range(5):
        x = ONES * (number + 1)
        x = x.astype(jnp.int32) if is_dtype else x[:, None]
        assert fun(cls(x, name="ab")) == 4 * (number + 1)


def test_an_attribute_that_only_some_objects_have() -> None:
    cls = dropping(lambda self: jnp.sum(self.x) * getattr(self, "weight", 1))
    fun = cachax.jit(lambda obj: obj.value)
    for number in range(20):
        assert fun(cls(ONES * number)) == 2 * number
    for number in range(5):
        assert fun(cls(ONES * (number + 1), weight=3)) == 6 * (number + 1)


def test_an_object_made_inside_has_what_its_constructor_gives_it() -> None:
    cls = dropping(lambda self: jnp.sum(self.x) * (self.scale or 1), "scale")
    assert cachax.jit(lambda obj: cls(obj.x).value)(cls(ONES, scale=3)) == 2


@jax.tree_util.register_pytree_node_class
class Axes:
    """One of its attributes is in the tree structure and one is not."""

    def __init__(self, x: Any, axes: Any, out: Any = None) -> None:
        self.x, self.axes, self.out = x, axes, out

    def tree_flatten(self) -> Any:
        assert self.out is None or isinstance(self.out, tuple | str)
        return (self.x,), self.axes

    @classmethod
    def tree_unflatten(cls, axes: Any, children: Any) -> "Axes":
        return cls(*children, axes)

    @cachax.cached_property
    def value(self) -> Any:
        return jnp.sum(self.x) * (len(self.out[0]) if self.out else 5)


@pytest.mark.parametrize("axes", [("i", "j"), (), "same"])
def test_one_thing_in_the_structure_and_dropped(axes: Any) -> None:
    fun = cachax.jit(lambda obj: obj.value)
    for _ in range(3):
        assert fun(Axes(ONES, axes, axes)) == (2 if axes else 10)
        assert fun(Axes(ONES, axes, ("data", "j"))) == 8
        assert fun(Axes(ONES, axes)) == 10
    for number in range(1, 12):
        assert fun(Axes(ONES * number, axes, ("data",))) == 8 * number


def test_a_body_in_c() -> None:
    get = operator.attrgetter("tag")

    class Tags(flax.struct.PyTreeNode):
        x: jax.Array
        tag: str = flax.struct.field(pytree_node=False, default="a")
        method = cachax.cached_method(get)

    fun = cachax.cache(get)
    tags = [Tags(ONES, tag) for tag in "abca"]
    assert [each.method() for each in tags] == [*"abca"]
    assert [fun(each) for each in tags] == [*"abca"]


def test_many_things_that_are_dropped() -> None:
    """The first call takes a copy for all of them, and not one for each."""
    cls = dropping(lambda self: jnp.sum(self.x))
    fun = cachax.jit(lambda obj: obj.value)
    obj = cls(ONES, words=[f"word {i}" for i in range(300)])
    assert fun(obj) == 2
    copies = count_copies(lambda: cachax.jit(lambda obj: 1 + obj.value)(obj))
    assert copies < 20


def count_copies(call: Callable[[], Any]) -> int:
    counts = []
    plain = Copy.__init__

    def init(*args: Any, **kwargs: Any) -> None:
        counts.append(1)
        plain(*args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Copy, "__init__", init)
        call()
    return len(counts)


@dataclasses.dataclass(frozen=True)
class Config:
    name: str = "c"
    size: int = 2


def with_flatten(
    flatten: Callable[[Any], Any], body: Callable[[Any], Any], **defaults: Any
) -> Any:
    """A class with this flatten function. It is rebuilt with `x` alone, or with
    what is in a dictionary of the structure."""
    cls = dropping(body)

    def unflatten(structure: Any, children: Any) -> Any:
        fields = structure if isinstance(structure, dict) else {}
        return Class(children[0], **{**defaults, **fields})

    class Class(cls):  # type: ignore[misc, valid-type]
        def __init__(self, x: Any, **fields: Any) -> None:
            super().__init__(x, **{**defaults, **fields})

        value = cachax.cached_property(body)

    jax.tree_util.register_pytree_node(Class, flatten, unflatten)
    return Class


def test_a_flatten_function_with_a_branch_for_none() -> None:
    def flatten(self: Any) -> Any:
        if self.mask is None:
            return (self.x,), None
        return (self.x, self.mask), self.name

    cls = with_flatten(
        flatten,
        lambda self: jnp.sum(self.x) * len(self.name),
        mask=None,
        name="a",
    )
    fun = cachax.jit(lambda obj: obj.value)
    for name in ("a", "a", "bb", "ccc", "a"):
        assert fun(cls(ONES, name=name)) == 2 * len(name)


def test_a_flatten_function_with_a_branch_for_a_truth_value() -> None:
    def flatten(self: Any) -> Any:
        assert not self.verbose or self.config.name.startswith("c")
        return (self.x,), None

    cls = with_flatten(
        flatten,
        lambda self: jnp.sum(self.x) * (2 if self.verbose else 1),
        verbose=False,
        config=Config(),
    )
    fun = cachax.jit(lambda obj: obj.value)
    for number in range(20):
        is_verbose = number > 12
        obj = cls(ONES * number, verbose=is_verbose)
        assert fun(obj) == 2 * number * (1 + is_verbose)


def test_a_string_that_is_equal_to_one_of_a_different_class() -> None:
    class Mode(enum.StrEnum):
        FAST = "fast"

    cls = dropping(lambda self: jnp.sum(self.x) * (1 + isinstance(self.mode, Mode)))
    fun = cachax.jit(lambda obj: obj.value)
    for mode in ("fast", "fast", Mode.FAST, "fast"):
        assert fun(cls(ONES, mode=mode)) == 2 * (1 + isinstance(mode, Mode))


def test_a_class_that_is_rebuilt_without_what_is_in_its_structure() -> None:
    cls = with_flatten(
        lambda self: ((self.x,), self.name),
        lambda self: jnp.sum(self.x) * len(self.name),
        name="default",
    )
    fun = cachax.jit(lambda obj: obj.value)
    for number in range(20):
        assert fun(cls(ONES * number, name="ab")) == 4 * number


def test_one_object_in_two_fields_of_a_new_one_computes_once() -> None:
    class Pair(flax.struct.PyTreeNode):
        one: Any
        other: Any

        @cachax.cached_property
        def both(self) -> Any:
            return self.one.total + self.other.total

    fun = cachax.jit(lambda pair: pair.both)
    for number in range(20):
        fun(Pair(Tagged(ONES * number), Tagged(ONES + number)))
    for number in range(5):
        tied = Tagged(ONES * number)
        with computations() as counts:
            assert fun(Pair(tied, tied)) == 4 * number
        assert counts["total"] == 1


FAMILIES: dict[str, Callable[[Any], Any]] = {
    "a frozen dict": lambda x: Frozen(flax.core.freeze({"w": x, "b": ONES})),
    "a structure that is a dict": with_flatten(
        lambda self: ((self.x,), {"name": self.name}),
        lambda self: jnp.sum(self.x) * len(self.name),
        name="a",
    ),
    "a part of a configuration": with_flatten(
        lambda self: ((self.x,), {"config": dataclasses.replace(self.config)}),
        lambda self: jnp.sum(self.x) * len(self.config.name),
        config=Config(),
    ),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_new_objects_are_computed_inside(family: str) -> None:
    make = FAMILIES[family]
    fun = cachax.jit(lambda obj: getattr(obj, "value", 0) + getattr(obj, "norm", 0))
    arrays = iter([ONES * number for number in range(60)])
    for _ in range(12):
        fun(make(next(arrays)))
    counts = counted(lambda: fun(make(next(arrays))))
    assert counts["functions"] <= 40


def test_many_truth_values_in_the_structure() -> None:
    class Layers(flax.struct.PyTreeNode):
        x: jax.Array
        layers: tuple[Any, ...] = flax.struct.field(pytree_node=False, default=())

        @cachax.cached_property
        def total(self) -> Any:
            return jnp.sum(self.x) * len(self.layers)

    obj = Layers(ONES, tuple((f"{i}", i, i % 2 == 0) for i in range(100)))
    assert count_copies(lambda: total(obj)) < 20


def test_a_class_that_raises_when_it_is_flattened_takes_no_levels() -> None:
    """JAX counts the levels of a tree in which a class raises, and never forgets."""

    def depth(number: int = 0) -> int:
        try:
            return depth(number + 1)
        except RecursionError:
            return number

    layer = with_flatten(
        lambda self: ((self.x,), {"config": Config(self.config.name + "c")}),
        lambda self: 0,
        config=Config(),
    )
    before = depth()
    for number in range(3):
        layers = [layer(ONES) for _ in range(10 + number)]
        assert cachax.jit(lambda obj: obj.total)(Tagged(ONES, layers)) == 2
    assert depth() == before


class Layer(flax.struct.PyTreeNode):
    x: jax.Array
    tag: Any = flax.struct.field(pytree_node=False, default=None)

    @cachax.cached_property
    def total(self) -> Any:
        return jnp.sum(self.x)


class Net(flax.struct.PyTreeNode):
    """Its values come from values of objects inside, or made in a body."""

    x: jax.Array
    layer: Layer
    number: Any = 0
    beside: Any = 0
    tag: Any = flax.struct.field(pytree_node=False, default=None)

    @cachax.cached_property
    def of_layer(self) -> Any:
        computing("of_layer")
        return self.layer.total + 1

    @cachax.cached_property
    def made(self) -> Any:
        return Layer(self.x * 2)

    @cachax.cached_property
    def of_made(self) -> Any:
        computing("of_made")
        return self.made.total + 1

    @cachax.cached_property
    def of_local(self) -> Any:
        computing("of_local")
        return Layer(self.x * 2).total + 1

    @cachax.cached_property
    def of_wrapped(self) -> Any:
        computing("of_wrapped")
        return Wrapped(self.layer).tagged

    @cachax.cached_property
    def of_number(self) -> Any:
        computing("of_number")
        return Layer(self.x * self.number).total


class Wrapped(flax.struct.PyTreeNode):
    layer: Layer

    @cachax.cached_property
    def tagged(self) -> Any:
        return jnp.sum(self.layer.x) * len(self.layer.tag or "")


CHANGES: list[dict[str, Any]] = [
    {"number": 1},
    {"number": 1.5},
    {"number": jnp.int32(1)},
    {"beside": 2},
    {"tag": "a"},
]


@pytest.mark.parametrize("name", ["of_layer", "of_made", "of_local"])
@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_what_a_value_of_an_object_inside_does_not_read(name: str, change: Any) -> None:
    obj = Net(jnp.ones(2), Layer(jnp.ones(2)))
    value = getattr(obj, name)
    with computations() as counts:
        assert getattr(obj.replace(**change), name) == value
    assert not counts


def test_a_part_that_a_value_of_an_object_inside_reads() -> None:
    obj = Net(ONES, Layer(ONES), number=1)
    assert obj.of_layer == 3
    assert obj.replace(layer=Layer(2 * ONES)).of_layer == 5
    assert obj.of_wrapped == 0
    assert obj.replace(layer=obj.layer.replace(tag="ab")).of_wrapped == 4
    assert obj.of_number == 2
    assert obj.replace(number=3).of_number == 6
    assert obj.of_made == 5
    assert obj.replace(x=2 * ONES).of_made == 9
    assert obj.replace(x=2 * ONES).of_local == 9


def test_a_loop_with_a_counter_and_a_value_of_an_object_in_a_value() -> None:
    @cachax.jit
    def step(obj: Any) -> Any:
        return obj.replace(number=obj.number + obj.of_made)

    obj = Net(jnp.ones(2), Layer(jnp.ones(2)))
    with computations() as counts:
        for _ in range(5):
            obj = step(obj)
    assert obj.number == 25
    assert counts == {"of_made": 1}


class Lattice:
    """A static field that is compared and hashed by what is in its array."""

    def __init__(self, sites: Any) -> None:
        self.sites = sites

    def __hash__(self) -> int:
        return hash(self.sites.tobytes())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Lattice) and bool((self.sites == other.sites).all())


class OnLattice(flax.struct.PyTreeNode):
    x: jax.Array
    params: jax.Array
    lattice: Lattice = flax.struct.field(pytree_node=False)

    @cachax.cached_property
    def total(self) -> Any:
        computing("total")
        return jnp.sum(self.x)

    @cachax.cached_property
    def weighted(self) -> Any:
        return jnp.sum(self.x * self.lattice.sites)


@pytest.mark.parametrize("array", [np.ones, jnp.ones], ids=["numpy", "jax"])
def test_a_loop_beside_a_static_field_with_an_array(array: Any) -> None:
    @cachax.jit
    def step(obj: Any) -> Any:
        return obj.replace(params=obj.params + obj.total + obj.weighted)

    obj = OnLattice(jnp.ones(2), jnp.zeros(2), Lattice(array(2)))
    with computations() as counts:
        for _ in range(5):
            obj = step(obj)
    assert obj.params[0] == 20
    assert counts == {"total": 1}
    other = obj.replace(lattice=Lattice(3 * array(2)))
    assert (other.total, other.weighted) == (2, 6)


@pytest.mark.parametrize(
    ("first", "second"),
    [(None, "default"), ("", "default"), ((), (1,)), ((1,), ())],
    ids=repr,
)
def test_a_flatten_function_that_puts_in_a_default(first: Any, second: Any) -> None:
    """Equal structures, and parts that differ."""
    default = (1,) if isinstance(first, tuple) else "default"
    cls = with_flatten(
        lambda self: ((self.x,), self.config or default),
        lambda self: jnp.sum(self.x) * (7 if self.config else 3),
        config=None,
    )
    fun = cachax.jit(lambda obj: obj.value)
    for config in (first, second, first, second):
        assert fun(cls(ONES, config=config)) == (14 if config else 6)


@dataclasses.dataclass(frozen=True)
class Shared:
    """A static part that an object and a part of it have."""

    factor: float


class Holding(flax.struct.PyTreeNode):
    w: jax.Array
    shared: Any = flax.struct.field(pytree_node=False)

    @cachax.cached_property
    def scaled(self) -> Any:
        return self.w * getattr(self.shared, "factor", len(str(self.shared)))


class Name(str): ...


class Around(flax.struct.PyTreeNode):
    config: Any = flax.struct.field(pytree_node=False)
    part: Holding

    @cachax.cached_property
    def twice(self) -> Any:
        return self.part.scaled * 2

    @cachax.cached_property
    def wrapped(self) -> Any:
        return Wrapping(self.part).scaled * 2

    @cachax.cached_property
    def whole(self) -> Any:
        return self.part


class Wrapping(flax.struct.PyTreeNode):
    part: Holding

    @cachax.cached_property
    def scaled(self) -> Any:
        return self.part.scaled


@pytest.mark.parametrize("make", [Shared, lambda n: Name("a" * int(n))])
@pytest.mark.parametrize("name", ["twice", "wrapped"])
def test_a_static_part_that_is_in_a_part_too(name: str, make: Any) -> None:
    fun, w = cachax.jit(lambda obj: getattr(obj, name)), jnp.ones(2)

    def inside(w: Any, shared: Any) -> Any:
        other = make(10.0)
        objects = [Around(shared, Holding(w, shared)), Around(other, Holding(w, other))]
        return [getattr(obj, name)[0] for obj in objects]

    for number in (1.0, 2.0, 3.0):
        shared = make(number)
        obj = Around(shared, Holding(w, shared))
        assert getattr(obj, name)[0] == fun(obj)[0] == 2 * number
        assert obj.whole.shared is shared
        nested = cachax.jit(inside, static_argnums=1)
        assert [float(x) for x in nested(w, shared)] == [2 * number, 20]


def test_a_part_that_is_given_to_a_cached_method() -> None:
    """The second property finds the key of the first one, which has read the part."""

    class Named:
        def __init__(self, factor: float) -> None:
            self.factor = factor

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Named) and self.factor == other.factor

        def __hash__(self) -> int:
            return 0

        @cachax.cached_property
        def double(self) -> float:
            return self.factor * 2

    class Model(flax.struct.PyTreeNode):
        x: jax.Array
        config: Named = flax.struct.field(pytree_node=False)

        @cachax.cached_method
        def scaled(self, config: Named) -> Any:
            return jnp.sum(self.x) * config.factor

        @cachax.cached_property
        def first(self) -> Any:
            return self.scaled(self.config)

        @cachax.cached_property
        def second(self) -> Any:
            return self.scaled(self.config) + 1

    use = cachax.jit(lambda obj: (obj.first, obj.second))
    for factor in (2.0, 5.0, 7.0):
        obj = Model(ONES, Named(factor))
        assert (obj.first, obj.second) == (2 * factor, 2 * factor + 1)
        assert use(obj) == (2 * factor, 2 * factor + 1)
    obj.config.factor = 3.0
    assert (obj.first, obj.second) == (6, 7)
