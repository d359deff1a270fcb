"""Random programs over random nested objects, against a model that has no cache.

The model knows for each object which properties have been computed since its fields
last changed. After every step each cached value is what numpy says, and no body has
run more often than the model allows. It may run less often: a rebuilt object keeps what
still holds.
"""

import copy
import pickle
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    multiple,
    rule,
)

import cachax

from measure import computations, computing


class Node:
    @cachax.cached_property
    def energy(self: Any) -> Any:
        computing("energy")
        return jnp.sum(self.a**2)

    @cachax.cached_property
    def total(self: Any) -> Any:
        """A chain: over the object's own property, and over its child's."""
        computing("total")
        return self.energy + (0 if self.child is None else self.child.total)

    @cachax.cached_method
    def power(self: Any, n: int) -> Any:
        computing("power")
        return jnp.sum(self.a**n)


@cachax.cache
def extent(obj: Any) -> Any:
    """A free function, over a property."""
    computing("extent")
    return obj.energy + jnp.sum(obj.a)


class Frozen(eqx.Module, Node):
    a: Any
    child: Any


@dataclass(eq=False)
class Mutable(Node):
    a: Any
    child: Any


jax.tree_util.register_dataclass(Mutable, data_fields=["a", "child"], meta_fields=[])

NAMES = ("energy", "total", "power(2)", "power(3)", "extent")


def value(obj: Any, name: str) -> Any:
    if name.startswith("power"):
        return obj.power(int(name[6]))
    return extent(obj) if name == "extent" else getattr(obj, name)


JITTED = {name: cachax.jit(lambda o, name=name: value(o, name)) for name in NAMES}
LIFTED = {
    name: cachax.lift(jax.checkpoint)(lambda o, name=name: value(o, name))
    for name in NAMES
}
MAPPED = {name: cachax.vmap(lambda o, name=name: value(o, name)) for name in NAMES}


@cachax.jit
def of_two(first: Any, others: list[Any]) -> Any:
    return first.total + sum(other.energy for other in others)


@cachax.jit
def doubled_and_warm(obj: Any) -> Any:
    new = jax.tree.map(lambda x: 2 * x, obj)
    return {"new": new, "total": new.total}


def nodes(obj: Any) -> Iterator[Any]:
    """The object, its child, its child's child, ..."""
    while obj is not None:
        yield obj
        obj = obj.child


def depth_in(obj: Any, node: Any) -> int:
    """How far inside `obj` this node is; -1 if it is not."""
    inside = [id(x) for x in nodes(obj)]
    return inside.index(id(node)) if id(node) in inside else -1


def energy(obj: Any) -> float:
    return float(np.sum(np.asarray(obj.a, dtype=np.float64) ** 2))


def total(obj: Any) -> float:
    return sum(map(energy, nodes(obj)))


def power(obj: Any, n: int) -> float:
    return float(np.sum(np.asarray(obj.a, dtype=np.float64) ** n))


TRUTH = {
    "energy": energy,
    "total": total,
    "power(2)": lambda obj: power(obj, 2),
    "power(3)": lambda obj: power(obj, 3),
    "extent": lambda obj: energy(obj) + power(obj, 1),
}


def close(got: Any, expected: Any) -> None:
    np.testing.assert_allclose(got, expected, rtol=1e-5)


arrays = st.lists(st.integers(-4, 4), min_size=2, max_size=2).map(
    lambda numbers: jnp.array(numbers, dtype=jnp.float32)
)
names = st.sampled_from(NAMES)


class Programs(RuleBasedStateMachine):
    objects = Bundle("objects")

    def __init__(self) -> None:
        super().__init__()
        self.all: list[Any] = []
        self.computed: dict[int, set[str]] = defaultdict(set)  # by id: all are kept
        self.preset_ones: set[int] = set()
        self.was_cleared = False

    # The model

    def added(self, obj: Any) -> Any:
        self.all += nodes(obj)
        return obj

    def cost(self, obj: Any, name: str, is_read: bool = True) -> int:
        """How many bodies may run for this value, after which they have. (Not those of
        the values that it needs, once some were cleared: it may be there without
        them.)"""
        if name in self.computed[id(obj)]:
            return 0
        if is_read or not self.was_cleared:
            self.computed[id(obj)].add(name)
        if name == "energy" or name.startswith("power"):
            return 1
        of_energy = self.cost(obj, "energy", False)
        if name == "extent":
            return 1 + of_energy
        of_child = 0 if obj.child is None else self.cost(obj.child, "total", False)
        return 1 + of_energy + of_child

    def changed(self, obj: Any) -> None:
        """Nothing computed from `obj` holds any more."""
        for other in self.all:
            if depth_in(other, obj) >= 0:
                self.computed[id(other)].clear()

    def cleared(self) -> None:
        """Values are cleared for all objects with the same arrays."""
        self.was_cleared = True
        for known in self.computed.values():
            known.clear()

    @invariant()
    def every_cached_value_is_right(self) -> None:
        for obj in self.all:
            for name, kept in cachax.cached(obj).items():
                if not name.endswith("of each"):
                    close(kept, TRUTH[name](obj))

    # The steps

    @rule(target=objects, a=arrays, cls=st.sampled_from([Frozen, Mutable]))
    def make(self, a: Any, cls: Any) -> Any:
        return self.added(cls(a, None))

    @rule(
        target=objects,
        a=arrays,
        child=objects,
        cls=st.sampled_from([Frozen, Mutable]),
    )
    def make_around(self, a: Any, child: Any, cls: Any) -> Any:
        if len(list(nodes(child))) > 2:  # deep enough
            return multiple()
        obj = cls(a, child)
        self.all.append(obj)
        return obj

    @rule(obj=objects, name=names)
    def read(self, obj: Any, name: str) -> None:
        with computations() as counts:
            close(value(obj, name), TRUTH[name](obj))
        assert counts.total() <= self.cost(obj, name)

    @rule(obj=objects, name=names, lift=st.booleans())
    def jit(self, obj: Any, name: str, lift: bool) -> None:
        with computations() as counts:
            close((LIFTED if lift else JITTED)[name](obj), TRUTH[name](obj))
        assert counts.total() <= self.cost(obj, name)

    @rule(obj=objects, name=names, data=st.data())
    def rebuild(self, obj: Any, name: str, data: Any) -> None:
        """What has been computed just now holds for an object made of the same. (Of
        what was computed before, two values are known for each array.)"""
        on_trust = any(id(node) in self.preset_ones for node in nodes(obj))
        if not on_trust:
            for node in nodes(obj):
                cachax.clear(node)
            self.cleared()
        close(value(obj, name), TRUTH[name](obj))
        others = {
            "copy": copy.copy,
            "tree_map": lambda o: jax.tree.map(lambda x: x, o),
            "flatten": lambda o: jax.tree.unflatten(*jax.tree.flatten(o)[::-1]),
        }
        other = others[data.draw(st.sampled_from(sorted(others)))](obj)
        with computations() as counts:
            close(value(other, name), TRUTH[name](obj))
        assert on_trust or not counts

    @rule(obj=objects, name=names, jit=st.booleans())
    def vmap_twice(self, obj: Any, name: str, jit: bool) -> None:
        batch = jax.tree.map(lambda x: jnp.stack([x, x + 1]), obj)
        plus_one = jax.tree.map(lambda x: x + 1, obj)
        read = MAPPED[name]
        expected = np.array([TRUTH[name](obj), TRUTH[name](plus_one)])
        with computations() as counts:
            close(cachax.jit(read)(batch) if jit else read(batch), expected)
        assert max(counts.values()) <= len(list(nodes(obj)))
        with computations() as counts:
            close(read(batch), expected)
            close(cachax.jit(read)(batch), expected)
        assert not counts

    @rule(first=objects, others=st.lists(objects, max_size=2))
    def jit_several(self, first: Any, others: list[Any]) -> None:
        with computations() as counts:
            close(of_two(first, others), total(first) + sum(map(energy, others)))
        allowed = self.cost(first, "total")
        allowed += sum(self.cost(other, "energy") for other in others)
        assert counts.total() <= allowed

    @rule(obj=objects)
    def jit_closed_over_in_a_loop(self, obj: Any) -> None:
        loop = jax.jit(lambda x: jax.lax.fori_loop(0, 3, lambda _, c: c + obj.total, x))
        with computations() as counts:
            close(loop(0.0), 3 * total(obj))
        assert counts.total() <= self.cost(obj, "total")

    @rule(obj=objects, jit=st.booleans())
    def grad(self, obj: Any, jit: bool) -> None:
        fun = JITTED["total"] if jit else (lambda o: o.total)
        with computations() as counts:
            gradient = jax.grad(fun)(obj)
        for node, slope in zip(nodes(obj), nodes(gradient), strict=True):
            close(slope.a, 2 * node.a)
        assert counts.total() <= 2 * len(list(nodes(obj)))

    @rule(obj=objects)
    def vmap(self, obj: Any) -> None:
        batch = jax.tree.map(lambda x: jnp.stack([x, x + 1]), obj)
        plus_one = jax.tree.map(lambda x: x + 1, obj)
        with computations() as counts:
            got = jax.vmap(JITTED["total"])(batch)
        close(got, [total(obj), total(plus_one)])
        assert counts.total() <= 2 * 2 * len(list(nodes(obj)))

    @rule(target=objects, obj=objects)
    def scan(self, obj: Any) -> Any:
        def step(o: Any, _: None) -> Any:
            return jax.tree.map(lambda x: -x, o), o.total

        with computations() as counts:
            last, totals = jax.lax.scan(step, obj, None, length=2)
        close(totals, [total(obj)] * 2)
        assert counts.total() <= 2 * 2 * len(list(nodes(obj)))
        return self.added(last)

    @rule(target=objects, obj=objects, a=arrays)
    def replace(self, obj: Any, a: Any) -> Any:
        new = replace(obj, a=a)
        self.all.append(new)
        return new

    @rule(target=objects, obj=objects)
    def tree_map(self, obj: Any) -> Any:
        return self.added(jax.tree.map(lambda x: -x, obj))

    @rule(target=objects, obj=objects)
    def return_from_jit(self, obj: Any) -> Any:
        with computations() as counts:
            out = doubled_and_warm(obj)
        new = self.added(out["new"])
        close(out["total"], 4 * total(obj))
        assert counts.total() == self.cost(new, "total")
        return new

    @rule(obj=objects, a=arrays)
    def assign(self, obj: Any, a: Any) -> None:
        if isinstance(obj, Mutable):
            obj.a = a
            self.changed(obj)

    @rule(obj=objects, child=objects)
    def assign_child(self, obj: Any, child: Any) -> None:
        above = max(depth_in(other, obj) for other in self.all)
        depth = above + 1 + len(list(nodes(child)))
        if isinstance(obj, Mutable) and depth_in(child, obj) < 0 and depth <= 3:
            obj.child = child
            self.changed(obj)

    @rule(target=objects, obj=objects)
    def copy(self, obj: Any) -> Any:
        new = copy.copy(obj)
        self.all.append(new)
        return new

    @rule(target=objects, obj=objects)
    def deepcopy(self, obj: Any) -> Any:
        return self.added(copy.deepcopy(obj))

    @rule(target=objects, obj=objects)
    def pickle(self, obj: Any) -> Any:
        return self.added(pickle.loads(pickle.dumps(obj)))

    @rule(obj=objects, name=names)
    def clear(self, obj: Any, name: str) -> None:
        cachax.clear(obj, *([] if "(" in name or name == "extent" else [name]))
        self.cleared()

    @rule(target=objects, obj=objects)
    def preset(self, obj: Any) -> Any:
        new = self.added(cachax.preset(obj, energy=jnp.float32(energy(obj))))
        self.computed[id(new)].add("energy")
        self.preset_ones.add(id(new))
        return new

    @rule(obj=consumes(objects))
    def drop(self, obj: Any) -> None:
        """Its id may be used again by the next object."""
        if not any(depth_in(o, obj) > 0 for o in self.all):
            self.all = [o for o in self.all if o is not obj]
            self.computed.pop(id(obj), None)
            self.preset_ones.discard(id(obj))


TestPrograms = Programs.TestCase
TestPrograms.settings = settings(
    max_examples=100,
    stateful_step_count=40,
    deadline=None,  # compiling takes as long as it takes
    suppress_health_check=[HealthCheck.too_slow],
)
