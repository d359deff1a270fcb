"""Warm calls in the shapes that people's code has, relative to passing values by hand.

By hand means: the value was computed once, and a `jax.jit` function takes it as an
extra argument, beside an object of a class without cached properties. The bodies are
slow on purpose (`slow`): a value that is computed again shows in the ratio.
"""

import collections
import functools
import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import chex
import equinox as eqx
import flax.linen as nn
import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import optax
from _bench import CACHAX, Case, main
from flax import nnx
from flax.training.train_state import TrainState

import cachax

NO_OBJECT, SMALL, GENERAL, NEW = 1.10, 1.15, 1.25, 1.30
"""The targets: without cached objects, one small object, in general, and for objects
that are new on every call."""

ONES = jnp.ones(4)
BATCH = {"x": jnp.ones((8, 4)), "y": jnp.ones(8)}

Call = Callable[[], Any]
Build = Callable[[], tuple[Call, Call]]
SHAPES: list[tuple[str, float, Build]] = []


def shape(title: str, target: float = GENERAL) -> Callable[[Build], Build]:
    """Add a row: what it decorates returns the call with cachax and the one by hand."""

    def add(build: Build) -> Build:
        SHAPES.append((title, target, build))
        return build

    return add


@jax.jit
def slow(x: jax.Array) -> jax.Array:
    """A number that takes some 100 µs: far more than a call."""
    return jnp.sum(jax.lax.fori_loop(0, 3000, lambda _, v: jnp.cos(v), x))


# The classes: each without cached properties for the contender by hand, and with them.


class Bare(flax.struct.PyTreeNode):
    x: jax.Array
    y: jax.Array


class Cached(Bare):
    @cachax.cached_property
    def total(self) -> jax.Array:
        return slow(self.x)

    @cachax.cached_property
    def half(self) -> jax.Array:
        return self.total / 2

    @cachax.cached_property
    def quarter(self) -> jax.Array:
        return self.half / 2

    @cachax.cached_property
    def pair(self) -> dict[str, jax.Array]:
        return {"low": slow(self.x) - 1, "high": slow(self.x) + 1}

    @cachax.cached_method
    def power(self, n: int) -> jax.Array:
        return slow(self.x**n)

    @cachax.jit
    def scaled(self, by: jax.Array) -> jax.Array:
        return by * self.total


class One(flax.struct.PyTreeNode):
    x: jax.Array


class CachedOne(One):
    @cachax.cached_property
    def total(self) -> jax.Array:
        return slow(self.x)


class Numbers(flax.struct.PyTreeNode):
    """With a Python number among the leaves, and a static field."""

    x: jax.Array
    scale: float = 2.0
    order: int = flax.struct.field(default=2, pytree_node=False)


class CachedNumbers(Numbers):
    @cachax.cached_property
    def total(self) -> jax.Array:
        return self.order * slow(self.scale * self.x)


class State(flax.struct.PyTreeNode):
    """Data that stays, and parameters that do not."""

    data: jax.Array
    params: Any


class CachedState(State):
    @cachax.cached_property
    def total(self) -> jax.Array:
        return slow(self.data)


class Box(flax.struct.PyTreeNode):
    inside: Any


class Layer(eqx.Module):
    weight: jax.Array
    bias: jax.Array


class CachedLayer(Layer):
    @cachax.cached_property
    def norm(self) -> jax.Array:
        return slow(self.weight)


class Model(eqx.Module):
    layers: list[Any]


class CachedModel(Model):
    @cachax.cached_property
    def norm(self) -> jax.Array:
        return slow(self.layers[0].weight)


class Module(nnx.Module):
    def __init__(self) -> None:
        self.x, self.y = nnx.Param(ONES), nnx.Param(ONES)


class CachedModule(Module):
    @cachax.cached_property
    def total(self) -> jax.Array:
        return slow(self.x[...])


@chex.dataclass(frozen=True)
class Chex:
    x: jax.Array
    y: jax.Array


@chex.dataclass(frozen=True)
class CachedChex(Chex):
    @cachax.cached_property
    def total(self) -> jax.Array:
        return slow(self.x)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Data:
    x: jax.Array
    y: jax.Array
    order: int = field(default=1, metadata={"static": True})


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class CachedData(Data):
    @cachax.cached_property
    def total(self) -> jax.Array:
        return slow(self.x)


class Objects(NamedTuple):
    prior: Any
    likelihood: Any


TOTAL = slow(ONES)
HALF, QUARTER = TOTAL / 2, TOTAL / 4


def many(count: int) -> dict[str, jax.Array]:
    return {f"w{i}": ONES + i for i in range(count)}


def layers(cls: Any, count: int = 8) -> list[Any]:
    return [cls(ONES + i, ONES) for i in range(count)]


def deep(leaf: Any) -> Any:
    """Five modules deep, through dicts and lists."""
    return Box({"a": Box([Box({"b": [Box(Box(leaf)), ONES]}), ONES])})


def bottom(box: Any) -> Any:
    return box.inside["a"].inside[0].inside["b"][0].inside.inside


# Calls without cached objects


@shape("no cached object: two arguments", NO_OBJECT)
def _() -> tuple[Call, Call]:
    ours, theirs = (jit(lambda a, b: a + b) for jit in (cachax.jit, jax.jit))
    return lambda: ours(ONES, ONES), lambda: theirs(ONES, ONES)


@shape("no cached object: parameters, a batch and a key", NO_OBJECT)
def _() -> tuple[Call, Call]:
    def fun(params: Any, batch: Any, key: Any) -> Any:
        return BATCH["x"] @ params["w0"] + batch["y"]

    params, key = many(20), jax.random.key(0)
    ours, theirs = cachax.jit(fun), jax.jit(fun)
    return lambda: ours(params, BATCH, key), lambda: theirs(params, BATCH, key)


@shape("no cached object: an equinox model", NO_OBJECT)
def _() -> tuple[Call, Call]:
    model = Model(layers(Layer))
    ours, theirs = (
        jit(lambda m, x: m.layers[0].weight * x) for jit in (cachax.jit, jax.jit)
    )
    return lambda: ours(model, ONES), lambda: theirs(model, ONES)


@shape("no cached object: static_argnames, a keyword and a number", NO_OBJECT)
def _() -> tuple[Call, Call]:
    def fun(x: Any, scale: float, *, order: int) -> Any:
        return scale * x**order

    ours, theirs = (jit(fun, static_argnames="order") for jit in (cachax.jit, jax.jit))
    return lambda: ours(ONES, 2.0, order=2), lambda: theirs(ONES, 2.0, order=2)


# One small object


@shape("one flax object with one array", SMALL)
def _() -> tuple[Call, Call]:
    bare, cached = One(ONES), CachedOne(ONES)
    ours, by_hand = cachax.jit(lambda o: o.x * o.total), jax.jit(lambda o, t: o.x * t)
    return lambda: ours(cached), lambda: by_hand(bare, TOTAL)


@shape("one flax object with two arrays", SMALL)
def _() -> tuple[Call, Call]:
    bare, cached = Bare(ONES, ONES), Cached(ONES, ONES)
    ours, by_hand = cachax.jit(lambda o: o.y * o.total), jax.jit(lambda o, t: o.y * t)
    return lambda: ours(cached), lambda: by_hand(bare, TOTAL)


@shape("one equinox module", SMALL)
def _() -> tuple[Call, Call]:
    bare, cached = Layer(ONES, ONES), CachedLayer(ONES, ONES)
    ours = cachax.jit(lambda o: o.bias * o.norm)
    by_hand = jax.jit(lambda o, norm: o.bias * norm)
    return lambda: ours(cached), lambda: by_hand(bare, TOTAL)


@shape("one dataclass with a static field", SMALL)
def _() -> tuple[Call, Call]:
    bare, cached = Data(ONES, ONES), CachedData(ONES, ONES)
    ours, by_hand = cachax.jit(lambda o: o.y * o.total), jax.jit(lambda o, t: o.y * t)
    return lambda: ours(cached), lambda: by_hand(bare, TOTAL)


@shape("one small object and a batch", SMALL)
def _() -> tuple[Call, Call]:
    bare, cached = Bare(ONES, ONES), Cached(ONES, ONES)
    ours = cachax.jit(lambda o, x: x @ o.y * o.total)
    by_hand = jax.jit(lambda o, x, t: x @ o.y * t)
    return lambda: ours(cached, BATCH["x"]), lambda: by_hand(bare, BATCH["x"], TOTAL)


# How objects are made up


@shape("chex dataclass")
def _() -> tuple[Call, Call]:
    bare, cached = Chex(x=ONES, y=ONES), CachedChex(x=ONES, y=ONES)
    ours, by_hand = cachax.jit(lambda o: o.y * o.total), jax.jit(lambda o, t: o.y * t)
    return lambda: ours(cached), lambda: by_hand(bare, TOTAL)


@shape("nnx module")
def _() -> tuple[Call, Call]:
    bare, cached = Module(), CachedModule()
    ours = cachax.jit(lambda m: m.y[...] * m.total)
    by_hand = jax.jit(lambda m, t: m.y[...] * t)
    return lambda: ours(cached), lambda: by_hand(bare, TOTAL)


@shape("a Python number among the leaves, and a static field")
def _() -> tuple[Call, Call]:
    bare, cached = Numbers(ONES), CachedNumbers(ONES)
    ours, by_hand = cachax.jit(lambda o: o.x * o.total), jax.jit(lambda o, t: o.x * t)
    total = cached.total
    return lambda: ours(cached), lambda: by_hand(bare, total)


@shape("a Python number that is different in every call")
def _() -> tuple[Call, Call]:
    mine, theirs = itertools.count(), itertools.count()
    ours = cachax.jit(lambda s: s.data * s.total * s.params)
    by_hand = jax.jit(lambda s, t: s.data * t * s.params)
    return (
        lambda: ours(CachedState(ONES, 0.1 * next(mine))),
        lambda: by_hand(State(ONES, 0.1 * next(theirs)), TOTAL),
    )


@shape("state with a dict of 50 arrays, value on an object inside")
def _() -> tuple[Call, Call]:
    params = many(50)
    bare = State(Bare(ONES, ONES), params)
    cached = State(Cached(ONES, ONES), params)
    ours = cachax.jit(lambda s: s.params["w0"] * s.data.total)
    by_hand = jax.jit(lambda s, t: s.params["w0"] * t)
    return lambda: ours(cached), lambda: by_hand(bare, TOTAL)


@shape("equinox model with eight layers in a list, one value")
def _() -> tuple[Call, Call]:
    bare, cached = Model(layers(Layer)), CachedModel(layers(Layer))
    ours = cachax.jit(lambda m, x: m.layers[0].bias * x * m.norm)
    by_hand = jax.jit(lambda m, x, norm: m.layers[0].bias * x * norm)
    return lambda: ours(cached, ONES), lambda: by_hand(bare, ONES, TOTAL)


@shape("equinox model with eight layers in a list, one value each")
def _() -> tuple[Call, Call]:
    bare, cached = Model(layers(Layer)), Model(layers(CachedLayer))
    norms = [slow(layer.weight) for layer in bare.layers]

    @cachax.jit
    def ours(model: Any, x: Any) -> Any:
        return sum(layer.norm for layer in model.layers) * x

    by_hand = jax.jit(lambda model, x, norms: sum(norms) * x)
    return lambda: ours(cached, ONES), lambda: by_hand(bare, ONES, norms)


@shape("five modules deep, through dicts and lists")
def _() -> tuple[Call, Call]:
    bare, cached = deep(Bare(ONES, ONES)), deep(Cached(ONES, ONES))
    ours = cachax.jit(lambda box: bottom(box).y * bottom(box).total)
    by_hand = jax.jit(lambda box, t: bottom(box).y * t)
    return lambda: ours(cached), lambda: by_hand(bare, TOTAL)


@shape("NamedTuple of objects")
def _() -> tuple[Call, Call]:
    bare = Objects(Bare(ONES, ONES), Bare(ONES, ONES))
    cached = Objects(Cached(ONES, ONES), Cached(ONES, ONES))
    ours = cachax.jit(lambda t: t.prior.total + t.likelihood.half)
    by_hand = jax.jit(lambda t, total, half: total + half)
    return lambda: ours(cached), lambda: by_hand(bare, TOTAL, HALF)


@shape("dict of six objects, one value each")
def _() -> tuple[Call, Call]:
    names = "abcdef"
    bare = {name: Bare(ONES + i, ONES) for i, name in enumerate(names)}
    cached = {name: Cached(ONES + i, ONES) for i, name in enumerate(names)}
    totals = {name: slow(o.x) for name, o in bare.items()}
    ours = cachax.jit(lambda objects: sum(o.total for o in objects.values()))
    by_hand = jax.jit(lambda objects, totals: sum(totals.values()))
    return lambda: ours(cached), lambda: by_hand(bare, totals)


@shape("100 objects with three values each")
def _() -> tuple[Call, Call]:
    bare = [Bare(ONES + i, ONES) for i in range(100)]
    cached = [Cached(o.x, o.y) for o in bare]
    totals = [[t, t / 2, t / 4] for t in (slow(o.x) for o in bare)]

    @cachax.jit
    def ours(objects: list[Cached]) -> Any:
        values = [[o.total, o.half, o.quarter] for o in objects]
        return values[0][0] + values[50][1] + values[-1][2]

    @jax.jit
    def by_hand(objects: list[Bare], values: Any) -> Any:
        return values[0][0] + values[50][1] + values[-1][2]

    return lambda: ours(cached), lambda: by_hand(bare, totals)


# What is read of them


@shape("chain of three properties, the last is used")
def _() -> tuple[Call, Call]:
    bare, cached = Bare(ONES, ONES), Cached(ONES, ONES)
    ours = cachax.jit(lambda o, x: o.quarter * x)
    by_hand = jax.jit(lambda o, x, t: t * x)
    return lambda: ours(cached, ONES), lambda: by_hand(bare, ONES, QUARTER)


@shape("three properties of one object")
def _() -> tuple[Call, Call]:
    bare, cached = Bare(ONES, ONES), Cached(ONES, ONES)
    ours = cachax.jit(lambda o, x: (o.total + o.half + o.quarter) * x)
    by_hand = jax.jit(lambda o, x, a, b, c: (a + b + c) * x)
    values = TOTAL, HALF, QUARTER
    return lambda: ours(cached, ONES), lambda: by_hand(bare, ONES, *values)


@shape("a property whose value is a dict")
def _() -> tuple[Call, Call]:
    bare, cached = Bare(ONES, ONES), Cached(ONES, ONES)
    ours = cachax.jit(lambda o, x: x * o.pair["low"] + o.pair["high"])
    by_hand = jax.jit(lambda o, x, pair: x * pair["low"] + pair["high"])
    pair = {"low": TOTAL - 1, "high": TOTAL + 1}
    return lambda: ours(cached, ONES), lambda: by_hand(bare, ONES, pair)


@shape("cached_method with an int")
def _() -> tuple[Call, Call]:
    bare, cached = Bare(ONES, ONES), Cached(ONES, ONES)
    ours = cachax.jit(lambda o, x: x * o.power(2) + o.power(3))
    by_hand = jax.jit(lambda o, x, two, three: x * two + three)
    return lambda: ours(cached, ONES), lambda: by_hand(bare, ONES, TOTAL, TOTAL)


# How arguments are passed


@shape("keyword arguments")
def _() -> tuple[Call, Call]:
    bare, cached = Bare(ONES, ONES), Cached(ONES, ONES)
    ours = cachax.jit(lambda obj, x: obj.y * x * obj.total)
    by_hand = jax.jit(lambda obj, x, total: obj.y * x * total)
    return (
        lambda: ours(obj=cached, x=ONES),
        lambda: by_hand(obj=bare, x=ONES, total=TOTAL),
    )


@shape("keyword-only, a batch dict and a flag with a default")
def _() -> tuple[Call, Call]:
    def loss(*, model: Any, batch: Any, total: Any = None, train: bool = True) -> Any:
        return batch["x"] @ model.y * (model.total if total is None else total)

    bare, cached = Bare(ONES, ONES), Cached(ONES, ONES)
    ours, by_hand = cachax.jit(loss), jax.jit(loss)
    return (
        lambda: ours(model=cached, batch=BATCH),
        lambda: by_hand(model=bare, batch=BATCH, total=TOTAL),
    )


@shape("object second")
def _() -> tuple[Call, Call]:
    bare, cached = Bare(ONES, ONES), Cached(ONES, ONES)
    ours = cachax.jit(lambda x, o: o.y * x * o.total)
    by_hand = jax.jit(lambda x, o, t: o.y * x * t)
    return lambda: ours(ONES, cached), lambda: by_hand(ONES, bare, TOTAL)


@shape("two objects")
def _() -> tuple[Call, Call]:
    bare = Bare(ONES, ONES), Bare(ONES + 1, ONES)
    cached = Cached(ONES, ONES), Cached(ONES + 1, ONES)
    ours = cachax.jit(lambda o, p: o.y * o.total + p.total)
    by_hand = jax.jit(lambda o, p, t, u: o.y * t + u)
    other = slow(ONES + 1)
    return lambda: ours(*cached), lambda: by_hand(*bare, TOTAL, other)


@shape("one object passed twice")
def _() -> tuple[Call, Call]:
    bare, cached = Bare(ONES, ONES), Cached(ONES, ONES)
    ours = cachax.jit(lambda o, p: o.y * o.total + p.total)
    by_hand = jax.jit(lambda o, p, t: o.y * t + t)
    return lambda: ours(cached, cached), lambda: by_hand(bare, bare, TOTAL)


@shape("static_argnums")
def _() -> tuple[Call, Call]:
    bare, cached = Bare(ONES, ONES), Cached(ONES, ONES)
    ours = cachax.jit(lambda o, n, x: o.total * x**n, static_argnums=1)
    by_hand = jax.jit(lambda o, n, x, t: t * x**n, static_argnums=1)
    return lambda: ours(cached, 3, ONES), lambda: by_hand(bare, 3, ONES, TOTAL)


@shape("static_argnames, given by keyword")
def _() -> tuple[Call, Call]:
    bare, cached = Bare(ONES, ONES), Cached(ONES, ONES)

    @functools.partial(cachax.jit, static_argnames=("order", "activation"))
    def ours(obj: Any, x: Any, order: int = 2, activation: Any = jnp.tanh) -> Any:
        return activation(obj.total * x**order)

    @functools.partial(jax.jit, static_argnames=("order", "activation"))
    def by_hand(
        obj: Any, x: Any, total: Any, order: int = 2, activation: Any = jnp.tanh
    ) -> Any:
        return activation(total * x**order)

    return (
        lambda: ours(cached, ONES, order=3, activation=jnp.sin),
        lambda: by_hand(bare, ONES, TOTAL, order=3, activation=jnp.sin),
    )


@shape("PRNG key and object")
def _() -> tuple[Call, Call]:
    bare, cached, key = Bare(ONES, ONES), Cached(ONES, ONES), jax.random.key(0)
    ours = cachax.jit(lambda key, o: o.total * jax.random.normal(key, (4,)))
    by_hand = jax.jit(lambda key, o, t: t * jax.random.normal(key, (4,)))
    return lambda: ours(key, cached), lambda: by_hand(key, bare, TOTAL)


@shape("numpy batch")
def _() -> tuple[Call, Call]:
    bare, cached, batch = Bare(ONES, ONES), Cached(ONES, ONES), np.ones((8, 4), "f")
    ours = cachax.jit(lambda o, x: x @ o.y * o.total)
    by_hand = jax.jit(lambda o, x, t: x @ o.y * t)
    return lambda: ours(cached, batch), lambda: by_hand(bare, batch, TOTAL)


@shape("Python scalar")
def _() -> tuple[Call, Call]:
    bare, cached = Bare(ONES, ONES), Cached(ONES, ONES)
    ours = cachax.jit(lambda o, rate: o.y * rate * o.total)
    by_hand = jax.jit(lambda o, rate, t: o.y * rate * t)
    return lambda: ours(cached, 0.5), lambda: by_hand(bare, 0.5, TOTAL)


@shape("None among the arguments")
def _() -> tuple[Call, Call]:
    bare, cached = Bare(ONES, ONES), Cached(ONES, ONES)
    ours = cachax.jit(lambda o, mask, x: o.total * x)
    by_hand = jax.jit(lambda o, mask, x, t: t * x)
    return lambda: ours(cached, None, ONES), lambda: by_hand(bare, None, ONES, TOTAL)


@shape("linen style: a dict of parameters, an object, a batch")
def _() -> tuple[Call, Call]:
    bare, cached, params = Bare(ONES, ONES), Cached(ONES, ONES), {"params": many(12)}
    ours = cachax.jit(lambda p, o, b: b["x"] @ p["params"]["w0"] * o.total)
    by_hand = jax.jit(lambda p, o, b, t: b["x"] @ p["params"]["w0"] * t)
    return (
        lambda: ours(params, cached, BATCH),
        lambda: by_hand(params, bare, BATCH, TOTAL),
    )


@shape("eight objects in turn")
def _() -> tuple[Call, Call]:
    bare = [Bare(ONES + i, ONES) for i in range(8)]
    cached = itertools.cycle([Cached(o.x, o.y) for o in bare])
    beside = itertools.cycle([(o, slow(o.x)) for o in bare])
    ours, by_hand = cachax.jit(lambda o: o.y * o.total), jax.jit(lambda o, t: o.y * t)
    return lambda: ours(next(cached)), lambda: by_hand(*next(beside))


@shape("another batch on every call")
def _() -> tuple[Call, Call]:
    bare, cached = Bare(ONES, ONES), Cached(ONES, ONES)
    batches = [{"x": BATCH["x"] + i, "y": BATCH["y"]} for i in range(16)]
    mine, theirs = itertools.cycle(batches), itertools.cycle(batches)
    ours = cachax.jit(lambda o, b: b["x"] @ o.y * o.total)
    by_hand = jax.jit(lambda o, b, t: b["x"] @ o.y * t)
    return (
        lambda: ours(cached, next(mine)),
        lambda: by_hand(bare, next(theirs), TOTAL),
    )


@shape("objects of two shapes in turn")
def _() -> tuple[Call, Call]:
    arrays = ONES, jnp.ones(7)
    mine = itertools.cycle([Cached(x, x) for x in arrays])
    theirs = itertools.cycle([(Bare(x, x), slow(x)) for x in arrays])
    ours, by_hand = cachax.jit(lambda o: o.y @ o.y * o.total), jax.jit(by_hand_squares)
    return lambda: ours(next(mine)), lambda: by_hand(*next(theirs))


def by_hand_squares(o: Any, t: Any) -> Any:
    return o.y @ o.y * t


@shape("objects of two classes in turn")
def _() -> tuple[Call, Call]:
    mine = itertools.cycle([Cached(ONES, ONES), CachedOne(ONES)])
    theirs = itertools.cycle([Bare(ONES, ONES), One(ONES)])
    ours, by_hand = cachax.jit(lambda o: o.x * o.total), jax.jit(lambda o, t: o.x * t)
    return lambda: ours(next(mine)), lambda: by_hand(next(theirs), TOTAL)


@shape("a static flag, True and False in turn")
def _() -> tuple[Call, Call]:
    bare, cached = Bare(ONES, ONES), Cached(ONES, ONES)
    mine, theirs = itertools.cycle([True, False]), itertools.cycle([True, False])
    ours = cachax.jit(
        lambda o, train: o.x * o.total if train else o.total,
        static_argnames="train",
    )
    by_hand = jax.jit(
        lambda o, t, train: o.x * t if train else t, static_argnames="train"
    )
    return (
        lambda: ours(cached, train=next(mine)),
        lambda: by_hand(bare, TOTAL, train=next(theirs)),
    )


@shape("an object with numpy arrays")
def _() -> tuple[Call, Call]:
    array = np.ones(4, "f")
    bare, cached = Bare(array, array), Cached(array, array)
    ours, by_hand = cachax.jit(lambda o: o.x * o.total), jax.jit(lambda o, t: o.x * t)
    return lambda: ours(cached), lambda: by_hand(bare, TOTAL)


@shape("a value that was preset")
def _() -> tuple[Call, Call]:
    class Known(Bare):
        @cachax.cached_property
        def total(self) -> jax.Array:
            return slow(self.x)

    bare, known = Bare(ONES, ONES), cachax.preset(Known(ONES, ONES), total=TOTAL)
    ours, by_hand = cachax.jit(lambda o: o.x * o.total), jax.jit(lambda o, t: o.x * t)
    return lambda: ours(known), lambda: by_hand(bare, TOTAL)


@shape("a value of an object that is a value")
def _() -> tuple[Call, Call]:
    class Outer(Bare):
        @cachax.cached_property
        def inside(self) -> Cached:
            return Cached(self.x + 0, self.y)

    bare, outer = Bare(ONES, ONES), Outer(ONES, ONES)
    ours = cachax.jit(lambda o: o.x * o.inside.total)
    by_hand = jax.jit(lambda o, t: o.x * t)
    return lambda: ours(outer), lambda: by_hand(bare, TOTAL)


@shape("grad of a jitted function, from outside")
def _() -> tuple[Call, Call]:
    bare, cached = Bare(ONES, ONES), Cached(ONES, ONES)
    ours = cachax.jit(lambda x, o: jnp.sum(x * o.total))
    by_hand = jax.jit(lambda x, o, t: jnp.sum(x * t))
    return (
        lambda: jax.grad(ours)(ONES, cached),
        lambda: jax.grad(by_hand)(ONES, bare, TOTAL),
    )


# How functions are made


@shape("a jitted method")
def _() -> tuple[Call, Call]:
    bare, cached = Bare(ONES, ONES), Cached(ONES, ONES)
    by_hand = jax.jit(lambda o, x, t: x * t)
    return lambda: cached.scaled(ONES), lambda: by_hand(bare, ONES, TOTAL)


@shape("a bound method, jitted")
def _() -> tuple[Call, Call]:
    class Bound(Cached):
        def times(self, x: Any) -> Any:
            return x * self.total

    ours = cachax.jit(Bound(ONES, ONES).times)
    by_hand = jax.jit(lambda x: x * TOTAL)
    return lambda: ours(ONES), lambda: by_hand(ONES)


@shape("object in a closure")
def _() -> tuple[Call, Call]:
    cached = Cached(ONES, ONES)
    ours, by_hand = cachax.jit(lambda x: x * cached.total), jax.jit(lambda x: x * TOTAL)
    return lambda: ours(ONES), lambda: by_hand(ONES)


@shape("lift(eqx.filter_jit), a model with a function in it")
def _() -> tuple[Call, Call]:
    bare = Model([*layers(Layer, 3), jnp.tanh])
    cached = CachedModel([*layers(Layer, 3), jnp.tanh])
    ours = cachax.lift(eqx.filter_jit)(lambda m, x: m.layers[3](x) * m.norm)
    by_hand = eqx.filter_jit(lambda m, x, norm: m.layers[3](x) * norm)
    return lambda: ours(cached, ONES), lambda: by_hand(bare, ONES, TOTAL)


@shape("vmap inside")
def _() -> tuple[Call, Call]:
    bare, cached, xs = Bare(ONES, ONES), Cached(ONES, ONES), BATCH["x"]
    ours = cachax.jit(lambda o, xs: jax.vmap(lambda x: x @ o.y * o.total)(xs))
    by_hand = jax.jit(lambda o, xs, t: jax.vmap(lambda x: x @ o.y * t)(xs))
    return lambda: ours(cached, xs), lambda: by_hand(bare, xs, TOTAL)


@shape("grad inside, with respect to parameters beside the object")
def _() -> tuple[Call, Call]:
    bare, cached, params = Bare(ONES, ONES), Cached(ONES, ONES), many(4)

    @cachax.jit
    def ours(params: Any, o: Any) -> Any:
        return jax.value_and_grad(lambda p: p["w0"] @ o.y * o.total)(params)

    @jax.jit
    def by_hand(params: Any, o: Any, t: Any) -> Any:
        return jax.value_and_grad(lambda p: p["w0"] @ o.y * t)(params)

    return lambda: ours(params, cached), lambda: by_hand(params, bare, TOTAL)


@shape("scan inside")
def _() -> tuple[Call, Call]:
    bare, cached, xs = Bare(ONES, ONES), Cached(ONES, ONES), BATCH["x"]

    @cachax.jit
    def ours(o: Any, xs: Any) -> Any:
        return jax.lax.scan(lambda c, x: (c + x * o.total, None), o.y, xs)[0]

    @jax.jit
    def by_hand(o: Any, xs: Any, t: Any) -> Any:
        return jax.lax.scan(lambda c, x: (c + x * t, None), o.y, xs)[0]

    return lambda: ours(cached, xs), lambda: by_hand(bare, xs, TOTAL)


# What is returned, and loops


def loop(step: Callable[..., Any], state: Any, *values: Any) -> Call:
    """Each call is one step, from the state that the last one returned."""

    def call() -> Any:
        nonlocal state
        state = step(state, *values)
        return state

    return call


@shape("returns its own object")
def _() -> tuple[Call, Call]:
    bare, cached = Bare(ONES, ONES), Cached(ONES, ONES)
    ours = cachax.jit(lambda o: (o, o.y * o.total))
    by_hand = jax.jit(lambda o, t: (o, o.y * t))
    return lambda: ours(cached), lambda: by_hand(bare, TOTAL)


def stepped(s: Any, total: Any) -> Any:
    return s.replace(params=jax.tree.map(lambda p: p - 1e-6 * total, s.params))


@shape("state = step(state)")
def _() -> tuple[Call, Call]:
    ours, by_hand = cachax.jit(lambda s: stepped(s, s.total)), jax.jit(stepped)
    return (
        loop(ours, CachedState(ONES, ONES)),
        loop(by_hand, State(ONES, ONES), TOTAL),
    )


@shape("state = step(state), a dict of 20 parameters")
def _() -> tuple[Call, Call]:
    ours, by_hand = cachax.jit(lambda s: stepped(s, s.total)), jax.jit(stepped)
    return (
        loop(ours, CachedState(ONES, many(20))),
        loop(by_hand, State(ONES, many(20)), TOTAL),
    )


@shape("state = step(state), donated")
def _() -> tuple[Call, Call]:
    ours = cachax.jit(lambda s: stepped(s, s.total), donate_argnums=0)
    by_hand = jax.jit(stepped, donate_argnums=0)
    return (
        loop(ours, CachedState(ONES.copy(), ONES.copy())),
        loop(by_hand, State(ONES.copy(), ONES.copy()), TOTAL),
    )


@shape("tuple of (model, optimizer state), a batch, equinox and optax")
def _() -> tuple[Call, Call]:
    optimizer = optax.adam(1e-6)

    def step(carry: Any, model_norm: Callable[[Any], Any]) -> Any:
        model, state = carry
        norm = model_norm(model)

        def loss(weights: Any) -> Any:
            return jnp.mean((BATCH["x"] @ weights * norm - BATCH["y"]) ** 2)

        weights = [layer.bias for layer in model.layers]
        grads = jax.tree.map(jax.grad(loss), weights)
        updates, state = optimizer.update(grads, state, weights)
        weights = optax.apply_updates(weights, updates)
        new = [Layer(a.weight, b) for a, b in zip(model.layers, weights, strict=True)]
        return type(model)(new), state

    start = optimizer.init([ONES] * 4)
    ours = cachax.jit(lambda carry: step(carry, lambda m: m.norm))
    by_hand = jax.jit(lambda carry, norm: step(carry, lambda m: norm))
    return (
        loop(ours, (CachedModel(layers(Layer, 4)), start)),
        loop(by_hand, (Model(layers(Layer, 4)), start), TOTAL),
    )


@shape("flax TrainState and an object with the data, donated state")
def _() -> tuple[Call, Call]:
    def step(state: Any, data: Any, total: Any) -> Any:
        loss = lambda p: jnp.sum(p["w0"] * data.y) * total  # noqa: E731
        return state.apply_gradients(grads=jax.grad(loss)(state.params))

    def start() -> Any:
        return TrainState.create(
            apply_fn=jnp.dot, params=jax.tree.map(jnp.copy, many(6)), tx=transform
        )

    transform = optax.sgd(1e-6)
    bare, cached = Bare(ONES, ONES), Cached(ONES, ONES)
    ours = cachax.jit(lambda s, data: step(s, data, data.total), donate_argnums=0)
    by_hand = jax.jit(step, donate_argnums=0)
    return loop(ours, start(), cached), loop(by_hand, start(), bare, TOTAL)


# Objects that are new on every call


@shape("a new object of the same arrays on every call", NEW)
def _() -> tuple[Call, Call]:
    ours, by_hand = cachax.jit(lambda o: o.y * o.total), jax.jit(lambda o, t: o.y * t)
    return lambda: ours(Cached(ONES, ONES)), lambda: by_hand(Bare(ONES, ONES), TOTAL)


@shape("replace another field on every call", NEW)
def _() -> tuple[Call, Call]:
    bare, cached = Bare(ONES, ONES), Cached(ONES, ONES)
    others = [ONES + i for i in range(1000)]
    mine, theirs = itertools.cycle(others), itertools.cycle(others)
    ours, by_hand = cachax.jit(lambda o: o.y * o.total), jax.jit(lambda o, t: o.y * t)
    return (
        lambda: ours(cached.replace(y=next(mine))),
        lambda: by_hand(bare.replace(y=next(theirs)), TOTAL),
    )


def inline_and_cached() -> tuple[Any, Any]:
    class Inline(Bare):
        @property
        def total(self) -> jax.Array:
            return jnp.sum(self.x)

    class Summed(Bare):
        @cachax.cached_property
        def total(self) -> jax.Array:
            return jnp.sum(self.x)

    return Inline, Summed


@shape("a new object of new arrays on every call, computed inside by hand", NEW)
def _() -> tuple[Call, Call]:
    inline, summed = inline_and_cached()
    arrays = [ONES + i for i in range(5_000)]
    mine, theirs = itertools.cycle(arrays), itertools.cycle(arrays)
    ours, by_hand = (jit(lambda o: o.y * o.total) for jit in (cachax.jit, jax.jit))
    return (
        lambda: ours(summed(next(mine), ONES)),
        lambda: by_hand(inline(next(theirs), ONES)),
    )


@shape("a loop whose state is new in every step, computed inside by hand", NEW)
def _() -> tuple[Call, Call]:
    class Inline(State):
        @property
        def total(self) -> jax.Array:
            return jnp.sum(self.data)

    class Summed(State):
        @cachax.cached_property
        def total(self) -> jax.Array:
            return jnp.sum(self.data)

    def step(s: Any) -> Any:
        return s.replace(data=s.data + 1e-6, params=s.params - 1e-6 * s.total)

    ours, by_hand = cachax.jit(step), jax.jit(step)
    return loop(ours, Summed(ONES, ONES)), loop(by_hand, Inline(ONES, ONES))


@shape("a loop that reuses one value and has a new one in every step", NEW)
def _() -> tuple[Call, Call]:
    class Fitted(State):
        @cachax.cached_property
        def total(self) -> jax.Array:
            return jnp.sum(self.data)

        @cachax.cached_property
        def residual(self) -> jax.Array:
            return self.params - self.total

    def step(s: Any) -> Any:
        return s.replace(params=s.params - 1e-6 * s.residual * s.total)

    def by_hand_step(s: Any, total: Any) -> Any:
        return s.replace(params=s.params - 1e-6 * (s.params - total) * total)

    ours, by_hand = cachax.jit(step), jax.jit(by_hand_step)
    total = jnp.sum(ONES)
    return loop(ours, Fitted(ONES, ONES)), loop(by_hand, State(ONES, ONES), total)


@shape("a loop whose objects in objects are new in every step", NEW)
def _() -> tuple[Call, Call]:
    class Inside(One):
        @cachax.cached_property
        def squares(self) -> jax.Array:
            return self.x**2

    class Outside(Box):
        @cachax.cached_property
        def total(self) -> jax.Array:
            return jnp.sum(self.inside.squares)

    def step(box: Any) -> Any:
        return box.replace(inside=Inside(box.inside.x - 1e-6 * box.total))

    def by_hand_step(box: Any) -> Any:
        x = box.inside.x
        return box.replace(inside=One(x - 1e-6 * jnp.sum(x**2)))

    ours, by_hand = cachax.jit(step), jax.jit(by_hand_step)
    return loop(ours, Outside(Inside(ONES))), loop(by_hand, Box(One(ONES)))


@shape("a loop with a size, and a number beside a state that is new", NEW)
def _() -> tuple[Call, Call]:
    class Sized(State):
        @cachax.cached_property
        def total(self) -> jax.Array:
            return jnp.sum(self.data)

        @cachax.cached_property
        def size(self) -> int:
            return len(self.data)

    def step(rate: float, s: Any) -> Any:
        return s.replace(data=s.data - rate * s.total / s.size)

    def by_hand_step(rate: float, s: Any) -> Any:
        return s.replace(data=s.data - rate * jnp.sum(s.data) / len(s.data))

    ours, by_hand = cachax.jit(step), jax.jit(by_hand_step)
    return (
        loop(functools.partial(ours, 1e-6), Sized(ONES, ONES)),
        loop(functools.partial(by_hand, 1e-6), State(ONES, ONES)),
    )


def norm(params: dict[str, jax.Array]) -> jax.Array:
    """A body that iterates over a dictionary and makes an array."""
    return sum(jnp.sum(x * jnp.ones(4)) for x in params.values())


@shape("a value of a dict of parameters that is returned unchanged")
def _() -> tuple[Call, Call]:
    class Normed(State):
        @cachax.cached_property
        def norm(self) -> jax.Array:
            return norm(self.params) + jnp.sum(slow(self.params["w"]))

    def step(s: Any, value: Any = None) -> Any:
        value = s.norm if value is None else value
        return s.replace(data=s.data - 1e-6 * value)

    params = {"w": ONES, "b": ONES}
    value = norm(params) + jnp.sum(slow(ONES))
    ours, by_hand = cachax.jit(step), jax.jit(step)
    return loop(ours, Normed(ONES, params)), loop(by_hand, State(ONES, params), value)


@shape("a value of a dict of parameters that are new in every step", NEW)
def _() -> tuple[Call, Call]:
    class Normed(State):
        @cachax.cached_property
        def norm(self) -> jax.Array:
            return norm(self.params)

    class Inline(State):
        @property
        def norm(self) -> jax.Array:
            return norm(self.params)

    def step(s: Any) -> Any:
        params = {name: x - 1e-6 * s.norm for name, x in s.params.items()}
        return s.replace(params=params)

    params = {"w": ONES, "b": ONES}
    ours, by_hand = cachax.jit(step), jax.jit(step)
    return loop(ours, Normed(ONES, params)), loop(by_hand, Inline(ONES, params))


@shape("an object that is new beside the one of the call before", NEW)
def _() -> tuple[Call, Call]:
    def pairs(jit: Any, cls: Any) -> Call:
        arrays = itertools.cycle([ONES + i for i in range(5_000)])
        change = jit(lambda before, now: now.total - before.total)
        before = cls(next(arrays), ONES)

        def call() -> Any:
            nonlocal before
            now = cls(next(arrays), ONES)
            out, before = change(before, now), now
            return out

        return call

    inline, summed = inline_and_cached()
    return pairs(cachax.jit, summed), pairs(jax.jit, inline)


@shape("a new array beside a field of numpy that the value doesn't read", NEW)
def _() -> tuple[Call, Call]:
    def masked(jit: Any, cls: Any) -> Call:
        arrays = itertools.cycle([ONES + i for i in range(5_000)])
        use, mask = jit(lambda o: o.y * o.total), np.ones(4, np.float32)
        return lambda: use(cls(next(arrays), mask))

    inline, summed = inline_and_cached()
    return masked(cachax.jit, summed), masked(jax.jit, inline)


@shape("a random sample of 8 of 64 objects")
def _() -> tuple[Call, Call]:
    samples = [random.Random(seed).sample(range(64), 8) for seed in range(1_000)]
    mine, theirs = itertools.cycle(samples), itertools.cycle(samples)
    bare = [Bare(ONES + i, ONES) for i in range(64)]
    cached = [Cached(ONES + i, ONES) for i in range(64)]
    totals = [obj.total for obj in cached]
    ours = cachax.jit(lambda objects: sum(o.y * o.total for o in objects))
    by_hand = jax.jit(
        lambda objects, totals: sum(
            obj.y * total for obj, total in zip(objects, totals, strict=True)
        )
    )

    def call_by_hand() -> Any:
        sample = next(theirs)
        return by_hand([bare[i] for i in sample], [totals[i] for i in sample])

    return lambda: ours([cached[i] for i in next(mine)]), call_by_hand


def train_state(prop: Any, jit: Any, value: Callable[[Any], Any]) -> Call:
    """As `TrainState.create` makes it: a Python number and a bound method in it."""

    class Trained(TrainState):
        data: Any = None
        total = prop(value)

    model = nn.Dense(3)
    state = Trained.create(
        apply_fn=model.apply,
        params=model.init(jax.random.key(0), ONES),
        tx=optax.sgd(1e-3),
        data=ONES,
    )

    def step(s: Any) -> Any:
        return s.apply_gradients(grads=jax.tree.map(lambda x: x * s.total, s.params))

    return loop(jit(step), state)


@shape("flax TrainState with a value of its parameters, new in every step", NEW)
def _() -> tuple[Call, Call]:
    def value(s: Any) -> Any:
        return 1e-6 * optax.global_norm(s.params)

    ours = train_state(cachax.cached_property, cachax.jit, value)
    return ours, train_state(property, jax.jit, value)


@shape("a linen module in a static field, a new array in every call", NEW)
def _() -> tuple[Call, Call]:
    def calls(jit: Any, prop: Any) -> Call:
        class Fitted(State):
            model: Any = flax.struct.field(pytree_node=False, default=nn.Dense(3))
            total = prop(lambda self: jnp.sum(self.data))

        arrays = itertools.cycle([ONES + i for i in range(5_000)])
        use = jit(lambda o: o.params * o.total)
        return lambda: use(Fitted(next(arrays), ONES))

    return calls(cachax.jit, cachax.cached_property), calls(jax.jit, property)


@shape("nnx module whose parameter is new in every step", NEW)
def _() -> tuple[Call, Call]:
    def steps(jit: Any, prop: Any) -> Call:
        class Fitted(nnx.Module):
            def __init__(self) -> None:
                self.x, self.y = nnx.Param(ONES), nnx.Param(ONES)

            total = prop(lambda self: jnp.sum(self.x[...]))

        def step(module: Any) -> Any:
            module.x[...] = module.x[...] - 1e-6 * module.total
            return module

        return loop(jit(step), Fitted())

    return steps(cachax.jit, cachax.cached_property), steps(jax.jit, property)


@shape("a Python number that is new in every call, beside a known array", NEW)
def _() -> tuple[Call, Call]:
    def calls(jit: Any, prop: Any) -> Call:
        class Scaled(Numbers):
            total = prop(lambda self: jnp.sum(self.scale * self.x))

        numbers = itertools.count()
        use = jit(lambda o: o.x * o.total)
        return lambda: use(Scaled(ONES, 0.5 + next(numbers)))

    return calls(cachax.jit, cachax.cached_property), calls(jax.jit, property)


@shape("a number and an array in one field, in turn")
def _() -> tuple[Call, Call]:
    scales = (2.0, jnp.float32(3.0))
    cached = [CachedNumbers(ONES, scale) for scale in scales]
    pairs = [(Numbers(ONES, each.scale), each.total) for each in cached]
    mine, theirs = itertools.cycle(cached), itertools.cycle(pairs)
    ours, by_hand = cachax.jit(lambda o: o.x * o.total), jax.jit(lambda o, t: o.x * t)
    return lambda: ours(next(mine)), lambda: by_hand(*next(theirs))


@shape("two states, one of them new in turn", NEW)
def _() -> tuple[Call, Call]:
    def turns(jit: Any, cls: Any) -> Call:
        update = jit(lambda a, b: a.replace(x=a.x - 1e-6 * a.total * b.total))
        one, other = cls(ONES, ONES), cls(ONES, ONES)

        def call() -> Any:
            nonlocal one, other
            one = update(one, other)
            one = update(one, other)
            other = update(other, one)
            return one

        return call

    inline, summed = inline_and_cached()
    return turns(cachax.jit, summed), turns(jax.jit, inline)


def cases(quick: bool) -> Iterator[Case]:
    for title, target, build in SHAPES:
        ours, by_hand = build()
        mine, theirs = jax.tree.leaves(ours()), jax.tree.leaves(by_hand())
        for one, other in zip(mine, theirs, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, err_msg=title)
        contenders = {"by hand": by_hand, CACHAX: ours}
        yield Case(title, "by hand", contenders, target, calls=20, rounds=160)


if __name__ == "__main__":
    main(cases)


def in_turn(fun: Callable[..., Any], *objects: tuple[Any, ...]) -> Call:
    """Each call takes the next of these arguments."""
    arguments = itertools.cycle(objects)
    return lambda: fun(*next(arguments))


@shape("objects with different static fields, in turn")
def _() -> tuple[Call, Call]:
    ours = cachax.jit(lambda o: o.x * o.total)
    by_hand = jax.jit(lambda o, t: o.x * t)
    orders = (1, 2, 3)
    return (
        in_turn(ours, *((CachedNumbers(ONES, 2.0, n),) for n in orders)),
        in_turn(by_hand, *((Numbers(ONES, 2.0, n), TOTAL) for n in orders)),
    )


@shape("seven objects with one array, made again in turn")
def _() -> tuple[Call, Call]:
    orders = itertools.cycle(range(7))
    pairs = itertools.cycle([(n, CachedNumbers(ONES, 2.0, n).total) for n in range(7)])
    ours, by_hand = cachax.jit(lambda o: o.x * o.total), jax.jit(lambda o, t: o.x * t)

    def call_by_hand() -> Any:
        order, total = next(pairs)
        return by_hand(Numbers(ONES, 2.0, order), total)

    return lambda: ours(CachedNumbers(ONES, 2.0, next(orders))), call_by_hand


@shape("an object in a jax.tree_util.Partial")
def _() -> tuple[Call, Call]:
    def weighted(o: Any, y: Any) -> Any:
        return o.total * y

    ours, by_hand = cachax.jit(lambda f, y: f(y)), jax.jit(lambda f, t, y: t * y)
    mine = jax.tree_util.Partial(weighted, Cached(ONES, ONES))
    theirs = jax.tree_util.Partial(weighted, Bare(ONES, ONES))
    return lambda: ours(mine, ONES), lambda: by_hand(theirs, TOTAL, ONES)


@shape("a batch of NumPy arrays, new in every call", NEW)
def _() -> tuple[Call, Call]:
    array = np.ones(4, "f")
    ours = cachax.jit(lambda o: o.x * o.total)
    by_hand = jax.jit(lambda o: o.x * slow(o.x))
    return (
        lambda: ours(Cached(array.copy(), array)),
        lambda: by_hand(Bare(array.copy(), array)),
    )


@shape("a loop whose states are kept, beside an array that stays", NEW)
def _() -> tuple[Call, Call]:
    class Weighted(State):
        @cachax.cached_property
        def total(self) -> jax.Array:
            return jnp.sum(self.params * self.data)

    def step(s: Any) -> Any:
        return stepped(s, s.total)

    def by_hand_step(s: Any) -> Any:
        return stepped(s, jnp.sum(s.params * s.data))

    def keeping(step: Callable[..., Any], state: Any) -> Call:
        states: collections.deque[Any] = collections.deque([state], maxlen=1000)
        return lambda: states.append(step(states[-1]))

    ours, by_hand = cachax.jit(step), jax.jit(by_hand_step)
    return keeping(ours, Weighted(ONES, ONES)), keeping(by_hand, State(ONES, ONES))


@shape("a loop with a value that reads a size, new in every step", NEW)
def _() -> tuple[Call, Call]:
    class Sized(State):
        @cachax.cached_property
        def size(self) -> int:
            return len(self.data)

        @cachax.cached_property
        def mean(self) -> jax.Array:
            return jnp.sum(self.data) / self.size

    def step(s: Any) -> Any:
        return s.replace(data=s.data - 1e-6 * s.mean * s.size)

    def by_hand_step(s: Any) -> Any:
        size = len(s.data)
        return s.replace(data=s.data - 1e-6 * jnp.sum(s.data) / size * size)

    ours, by_hand = cachax.jit(step), jax.jit(by_hand_step)
    return loop(ours, Sized(ONES, ONES)), loop(by_hand, State(ONES, ONES))
