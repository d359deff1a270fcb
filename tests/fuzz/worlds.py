"""The same classes and functions twice: with cachax, and without any cache."""

import contextlib
import dataclasses
import functools
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import chex
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx, struct

import cachax

NEEDS_CONCRETE = (
    jax.errors.ConcretizationTypeError,
    jax.errors.NonConcreteBooleanIndexError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)
"""What JAX raises where a body needs concrete values and has tracers."""

NNX_IS_PYTREE = issubclass(nnx.Module, getattr(nnx, "Pytree", ()))
"""Since flax 0.12."""


def array(value: Any) -> Any:
    """What is in a field: with nnx, in a Variable in it."""
    return value[...] if isinstance(value, nnx.Variable) else value


@dataclass(frozen=True)
class Prop:
    """What a property of `properties` is, for the model and for the generator."""

    uses: frozenset[str] = frozenset({"a"})
    """The fields whose arrays its value comes from."""
    reads: tuple[str, ...] = ()
    """Other properties of the same object that its body reads."""
    of_parts: str = ""
    """A property that its body reads of the objects inside."""
    is_jitted: bool = False


def _uses(*fields: str) -> frozenset[str]:
    return frozenset(fields)


PROPS = {
    "one": Prop(),
    "several": Prop(_uses("a", "b", "n")),
    "by_shape": Prop(),
    "size": Prop(_uses()),
    "chain": Prop(reads=("one",)),
    "chain_of_chain": Prop(_uses("a", "b", "n"), reads=("chain", "several")),
    "branch": Prop(_uses("a", "b", "n")),
    "branch_on_shape": Prop(_uses("a", "b")),
    "distinct": Prop(),
    "ordered": Prop(_uses("a", "b", "n", "inside")),
    "own": Prop(),
    "pair": Prop(_uses("a", "b")),
    "label": Prop(_uses()),
    "nothing": Prop(_uses()),
    "weak": Prop(_uses("n")),
    "picky": Prop(),
    "jitted": Prop(is_jitted=True, uses=_uses("a", "b")),
    "jitted_chain": Prop(is_jitted=True, uses=_uses("a", "b"), reads=("jitted",)),
    "parts": Prop(_uses("a", "inside"), of_parts="one"),
    "power(2)": Prop(),
    "power(m=3)": Prop(),
}
"""A body that looks at the contents of an array uses it."""

FIELDS = ("a", "b", "n", "k", "child", "items")


def inside(obj: Any) -> Iterator[Any]:
    """The objects directly inside."""
    if obj.child is not None:
        yield obj.child
    yield from obj.items.values() if isinstance(obj.items, dict) else obj.items


def properties(property_: Any, method: Any, jit: Any, computing: Any) -> type:
    """The properties that every class has, made with these decorators."""

    class Derived:
        @property_
        def one(self: Any) -> Any:
            computing("one", self)
            return jnp.sum(array(self.a) ** 2)

        @property_
        def several(self: Any) -> Any:
            computing("several", self)
            return jnp.sum(array(self.a)) * jnp.mean(array(self.b)) + array(self.n)

        @property_
        def by_shape(self: Any) -> Any:
            computing("by_shape", self)
            return jnp.sum(array(self.a)) + 100 * len(array(self.b))

        @property_
        def size(self: Any) -> Any:
            computing("size", self)
            return len(array(self.a)) + 10 * len(array(self.b))

        @property_
        def chain(self: Any) -> Any:
            computing("chain", self)
            return self.one * array(self.a)

        @property_
        def chain_of_chain(self: Any) -> Any:
            computing("chain_of_chain", self)
            return {"sum": self.chain + self.several, "other": self.several}

        @property_
        def branch(self: Any) -> Any:
            computing("branch", self)
            return jnp.sum(array(self.a if array(self.n) > 1 else self.b))

        @property_
        def branch_on_shape(self: Any) -> Any:
            computing("branch_on_shape", self)
            return jnp.sum(array(self.a if len(array(self.a)) > 4 else self.b))

        @property_
        def distinct(self: Any) -> Any:
            computing("distinct", self)
            return len(np.unique(np.asarray(array(self.a))))

        @property_
        def ordered(self: Any) -> Any:
            computing("ordered", self)
            return np.sort(np.asarray(array(self.a)))

        @property_
        def own(self: Any) -> Any:
            computing("own", self)
            return array(self.a)

        @property_
        def pair(self: Any) -> Any:
            computing("pair", self)
            return 2 * array(self.a), (jnp.max(array(self.b)), array(self.b))

        @property_
        def label(self: Any) -> Any:
            computing("label", self)
            return "label", self.k

        @property_
        def nothing(self: Any) -> Any:
            computing("nothing", self)

        @property_
        def weak(self: Any) -> Any:
            computing("weak", self)
            return jnp.multiply(2, array(self.n))

        @property_
        def picky(self: Any) -> Any:
            computing("picky", self)
            if len(array(self.a)) > 4:
                raise ValueError("too long")
            return jnp.sum(array(self.a))

        @property_
        @jax.jit
        def jitted(self: Any) -> Any:
            computing("jitted", self)
            return jnp.sum(array(self.a)) * array(self.b)

        @property_
        @jax.jit
        def jitted_chain(self: Any) -> Any:
            computing("jitted_chain", self)
            return self.jitted + 1

        @property_
        def parts(self: Any) -> Any:
            computing("parts", self)
            return jnp.sum(array(self.a)) + sum(part.one for part in inside(self))

        @method
        def power(self: Any, m: int = 2) -> Any:
            computing(f"power({'m=' * (m == 3)}{m})", self)
            return array(self.a) ** m

        @jit
        def called(self: Any, x: Any) -> Any:
            return x * self.one + self.power(2)

    return Derived


def get(obj: Any, name: str) -> Any:
    if name == "power(2)":
        return obj.power(2)
    return obj.power(m=3) if name == "power(m=3)" else getattr(obj, name)


def numbers(value: Any) -> Any:
    """A value as a jitted function can return it: without its strings."""
    return [x for x in jax.tree.leaves(value) if not isinstance(x, str)]


def total(value: Any) -> Any:
    return sum(jnp.sum(x) for x in numbers(value)) + jnp.float32(0)


def classes(derived: Any) -> dict[str, type]:
    """One class of each family."""

    class Flax(derived, struct.PyTreeNode):
        a: Any
        b: Any
        n: Any
        k: Any = struct.field(pytree_node=False)
        child: Any
        items: Any

    class FlaxMutable(derived, struct.PyTreeNode, frozen=False):
        a: Any
        b: Any
        n: Any
        k: Any = struct.field(pytree_node=False)
        child: Any
        items: Any

    class Equinox(eqx.Module, derived):
        a: Any
        b: Any
        n: Any
        k: Any = eqx.field(static=True)
        child: Any
        items: Any

    @chex.dataclass
    class Chex(derived):
        a: Any
        b: Any
        n: Any
        child: Any
        items: Any
        k = 1  # chex has no static fields

    @dataclass(frozen=True)
    class Frozen(derived):
        a: Any
        b: Any
        n: Any
        k: Any
        child: Any
        items: Any

    @dataclass(eq=False)
    class Mutable(derived):
        a: Any
        b: Any
        n: Any
        k: Any
        child: Any
        items: Any

    class Node(derived):
        def __init__(self, a: Any, b: Any, n: Any, k: Any, child: Any, items: Any):
            self.a, self.b, self.n, self.k = a, b, n, k
            self.child, self.items = child, items

    class Nnx(derived, nnx.Module):
        items = ()

        def __init__(self, a: Any, b: Any, n: Any, k: Any, child: Any):
            self.a, self.b, self.k, self.child = nnx.Param(a), nnx.Param(b), k, child
            self.n = nnx.Param(n) if isinstance(n, jax.Array) else n

    class Plain(derived):
        def __init__(self, a: Any, b: Any, n: Any, k: Any, child: Any, items: Any):
            self.a, self.b, self.n, self.k = a, b, n, k
            self.child, self.items = child, items

    data = ["a", "b", "n", "child", "items"]
    for cls in (Frozen, Mutable):
        jax.tree_util.register_dataclass(cls, data_fields=data, meta_fields=["k"])
    jax.tree_util.register_pytree_node(
        Node,
        lambda o: ((o.a, o.b, o.n, o.child, o.items), o.k),
        lambda k, parts: Node(*parts[:3], k, *parts[3:]),
    )
    made = [Flax, FlaxMutable, Equinox, Chex, Frozen, Mutable, Node, Nnx, Plain]
    return {cls.__name__: cls for cls in made}


MUTABLE = {"FlaxMutable", "Chex", "Mutable", "Node", "Nnx", "Plain"}
BY_OBJECT = {"Nnx", "Plain"}
"""Families whose values may belong to one object, not to the arrays in it."""
PYTREES = [
    *("Flax", "FlaxMutable", "Equinox", "Chex", "Frozen", "Mutable", "Node"),
    *(["Nnx"] if NNX_IS_PYTREE else []),
]
FAMILIES = [*PYTREES, "Plain"]


def fields(obj: Any) -> dict[str, Any]:
    return {name: array(getattr(obj, name)) for name in FIELDS}


def make(cls: Any, **values: Any) -> Any:
    """An object; fields that its family does not have are left out."""
    if cls.__name__ == "Chex":
        del values["k"]
    if cls.__name__ == "Nnx":
        del values["items"]
    return cls(**values)


def replace(obj: Any, **changes: Any) -> Any:
    if dataclasses.is_dataclass(obj) and not isinstance(obj, type):
        return dataclasses.replace(obj, **changes)
    return make(type(obj), **fields(obj) | changes)


def assign(obj: Any, name: str, value: Any) -> None:
    if isinstance(obj, nnx.Module) and name in ("a", "b"):
        getattr(obj, name)[...] = value
    else:
        setattr(obj, name, value)


@dataclass
class Log:
    """Which bodies ran: started by Python, and really computed."""

    started: list[str] = field(default_factory=list)
    computed: Counter[str] = field(default_factory=Counter)
    main: int = field(default_factory=threading.get_ident)

    def start(self, name: str, obj: Any, counted: bool) -> None:
        if threading.get_ident() == self.main:
            # One field: what a body reads counts.
            traced = isinstance(array(obj.a), jax.core.Tracer)
            self.started.append(f"{name}{' (traced)' * traced}")
        if counted:
            jax.debug.callback(lambda: self.computed.update([name]))


@dataclass
class World:
    """One side of the comparison."""

    name: str
    cached: bool
    counted: bool = False
    """Whether bodies count their computations: callbacks are slow."""
    log: Log = field(default_factory=Log)
    fell_back: bool = False
    """Whether a function without a cache had to run without jit, in this operation."""
    functions: dict[Any, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        def computing(name: str, obj: Any) -> None:
            self.log.start(name, obj, self.counted)

        made: dict[str, Any] = (
            {"property_": cachax.cached_property, "method": cachax.cached_method}
            if self.cached
            else {"property_": property, "method": lambda body: body}
        )
        derived = properties(**made, jit=self.jit, computing=computing)
        self.classes = classes(derived)
        for name, cls in self.classes.items():  # pickle finds them here
            cls.__qualname__ = f"{self.name}_{name}"
            setattr(sys.modules[__name__], cls.__qualname__, cls)

    def jit(self, fun: Any, **options: Any) -> Any:
        if self.cached:
            return cachax.jit(fun, **options)
        jitted = jax.jit(fun, **options)

        @functools.wraps(fun)
        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                return jitted(*args, **kwargs)
            except NEEDS_CONCRETE:
                self.fell_back = True
                return jax.tree.map(jnp.asarray, fun(*args, **kwargs))

        return call

    def vmap(self, fun: Any) -> Any:
        return (cachax.vmap if self.cached else jax.vmap)(fun)

    def lift(self, transform: Any) -> Any:
        if self.cached:
            return cachax.lift(transform)

        def without_cache(fun: Any) -> Any:
            lifted = transform(fun)

            def call(*args: Any) -> Any:
                try:
                    return lifted(*args)
                except NEEDS_CONCRETE:
                    self.fell_back = True
                    return fun(*args)

            return call

        return without_cache

    def function(self, key: Any, make: Callable[[], Any]) -> Any:
        """A function that all programs of this world share."""
        if key not in self.functions:
            self.functions[key] = make()
        return self.functions[key]

    def clear(self, obj: Any, *names: str) -> None:
        if self.cached:
            cachax.clear(obj, *names)

    def warm(self, obj: Any, *names: str) -> Any:
        if self.cached:
            return cachax.warm(obj, *names)
        for name in names:
            get(obj, name)
        return obj

    @contextlib.contextmanager
    def counting(self) -> Iterator[Counter[str]]:
        """How often each body was computed inside; filled in at its end."""
        found: Counter[str] = Counter()
        if not self.counted:
            yield found
            return
        jax.effects_barrier()
        before = self.log.computed.copy()
        yield found
        jax.effects_barrier()
        found.update(self.log.computed - before)
