"""The same small class, written in every family of classes that cachax serves.

Each has arrays `a` and `b`, and the properties of `Derived`: a chain of two, the same
chain with jitted bodies, one that only numpy can compute, with a static result, and a
cached method.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any

import attrs
import chex
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx, struct

import cachax

from measure import computing


def array(field: Any) -> jax.Array:
    """What is in a field: with nnx, in a Variable in it."""
    return field[...] if isinstance(field, nnx.Variable) else field


class SlottedDerived:
    __slots__ = ()

    @cachax.cached_property
    def energy(self: Any) -> jax.Array:
        computing("energy")
        return jnp.sum(array(self.a) ** 2)

    @cachax.cached_property
    def scaled(self: Any) -> jax.Array:
        computing("scaled")
        return self.energy * array(self.b)

    @cachax.cached_property
    @jax.jit
    def jit_energy(self: Any) -> jax.Array:
        computing("jit_energy")
        return jnp.sum(array(self.a) ** 2)

    @cachax.cached_property
    @jax.jit
    def jit_scaled(self: Any) -> jax.Array:
        computing("jit_scaled")
        return self.jit_energy * array(self.b)

    @cachax.cached_property
    def distinct(self: Any) -> int:
        computing("distinct")
        return len(np.unique(np.asarray(array(self.a))))

    @cachax.cached_method
    def power(self: Any, n: int = 2) -> jax.Array:
        computing("power")
        return array(self.a) ** n


def energy(a: Any, b: Any) -> Any:
    return (a**2).sum()


def scaled(a: Any, b: Any) -> Any:
    return (a**2).sum() * b


TRUTH = {
    "energy": energy,
    "scaled": scaled,
    "jit_energy": energy,
    "jit_scaled": scaled,
}
"""What each property is of the arrays (numpy's or JAX's), with no cache in sight."""

CHAINS = {
    "scaled": ["energy", "scaled"],
    "jit_scaled": ["jit_energy", "jit_scaled"],
}
"""Which bodies must run, once each, for a property to be computed."""


class Derived(SlottedDerived):
    pass


class FlaxNode(Derived, struct.PyTreeNode):
    a: Any
    b: Any


class FlaxNodeMutable(Derived, struct.PyTreeNode, frozen=False):
    a: Any
    b: Any


@struct.dataclass
class FlaxDataclass(Derived):
    a: Any
    b: Any


class Equinox(eqx.Module, Derived):
    a: Any
    b: Any


@chex.dataclass
class Chex(Derived):
    a: Any
    b: Any


@dataclass(frozen=True)
class Dataclass(Derived):
    a: Any
    b: Any


@dataclass
class DataclassMutable(Derived):
    a: Any
    b: Any


@jax.tree_util.register_pytree_node_class
class NodeClass(Derived):
    def __init__(self, a: Any, b: Any) -> None:
        self.a = a
        self.b = b

    def tree_flatten(self) -> Any:
        return (self.a, self.b), None

    @classmethod
    def tree_unflatten(cls, _: None, children: Any) -> Any:
        return cls(*children)


class Slotted(SlottedDerived):
    __slots__ = ("__weakref__", "a", "b")

    def __init__(self, a: Any, b: Any) -> None:
        self.a = a
        self.b = b


@attrs.frozen
class AttrsFrozen(SlottedDerived):
    a: Any
    b: Any


@attrs.define(eq=False)
class AttrsMutable(SlottedDerived):
    a: Any
    b: Any


class Nnx(Derived, nnx.Module):
    def __init__(self, a: Any, b: Any) -> None:
        self.a = nnx.Param(a)
        self.b = nnx.Param(b)


class Plain(Derived):
    def __init__(self, a: Any, b: Any) -> None:
        self.a = a
        self.b = b


for cls in (Dataclass, DataclassMutable):
    jax.tree_util.register_dataclass(cls, data_fields=["a", "b"], meta_fields=[])
for cls in (Slotted, AttrsFrozen, AttrsMutable):
    jax.tree_util.register_pytree_node(
        cls, lambda x: ((x.a, x.b), None), lambda _, ab, cls=cls: cls(*ab)
    )


@dataclass(frozen=True)
class Family:
    """How to make, rebuild and change objects of one of the classes."""

    cls: Any
    mutable: bool = False
    pytree: bool = True

    @property
    def name(self) -> str:
        return self.cls.__name__

    @property
    def chains(self) -> list[str]:
        """The properties to try: a body can be jitted only on a pytree."""
        return list(CHAINS) if self.pytree else ["scaled"]

    @property
    def warmable(self) -> list[str]:
        return [n for n in TRUTH if self.pytree or not n.startswith("jit")]

    def make(self, a: Any, b: Any) -> Any:
        return self.cls(a=a, b=b)

    def replace(self, obj: Any, **changes: Any) -> Any:
        if dataclasses.is_dataclass(obj):
            return dataclasses.replace(obj, **changes)
        if attrs.has(self.cls):
            return attrs.evolve(obj, **changes)
        return self.make(**{"a": array(obj.a), "b": array(obj.b)} | changes)

    def assign(self, obj: Any, a: Any) -> None:
        assert self.mutable
        if not isinstance(obj, nnx.Module):
            obj.a = a
        elif NNX_IS_PYTREE:
            obj.a[...] = a
        else:
            obj.a.value = a


NNX_IS_PYTREE = issubclass(nnx.Module, getattr(nnx, "Pytree", ()))
"""Since flax 0.12. Before, an nnx.Module cannot be an argument of jax.jit."""

FAMILIES = [
    Family(FlaxNode),
    Family(FlaxNodeMutable, mutable=True),
    Family(FlaxDataclass),
    Family(Equinox),
    Family(Chex, mutable=True),
    Family(Dataclass),
    Family(DataclassMutable, mutable=True),
    Family(NodeClass, mutable=True),
    Family(Slotted, mutable=True),
    Family(AttrsFrozen),
    Family(AttrsMutable, mutable=True),
    Family(Nnx, mutable=True, pytree=NNX_IS_PYTREE),
    Family(Plain, mutable=True, pytree=False),
]
