"""An approach to caching: how to make an object, read its values and change it."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from ._counting import derive

Object = Any
"""Holds an array and its derived value: usually an instance of a class `Foo` with a
field `a`, a property `b`, and a field `c` that `b` does not use."""

Value = Callable[[Object], jax.Array]
Visit = Callable[[Object], tuple[jax.Array, Object]]
"""For an approach that returns a new object: the value, and that object."""


def numbers() -> jax.Array:
    """The array that the probes start from."""
    return jnp.array([1.0, 2.0, 3.0])


def _read_b(foo: Object) -> jax.Array:
    return foo.b  # type: ignore[no-any-return]


def _assign(foo: Object, a: jax.Array) -> None:
    foo.a = a


class Derived:
    """A derived value, and how to read it."""

    def __init__(self, value: Value | None, visit: Visit | None = None) -> None:
        self._value = value
        self._visit = visit

    def of(self, foo: Object) -> jax.Array:
        return self.read(foo)[0]

    def read(self, foo: Object) -> tuple[jax.Array, Object]:
        """The value, and the object to continue with."""
        if self._visit is not None:
            return self._visit(foo)
        assert self._value is not None
        return self._value(foo), foo

    def under(self, transform: Callable[..., Any]) -> "Derived":
        """The same, read inside a function under a transform."""
        # A separate function: JAX caches programs by function, and JAX 0.10 can treat
        # two classes with the same fields as one (their structures are equal).
        if self._visit is not None:
            return Derived(None, transform(lambda foo: self.read(foo)))
        return Derived(transform(lambda foo: self.of(foo)))


@dataclasses.dataclass
class Way:
    """What a probe needs to know about a strategy.

    The defaults are those of a dataclass under plain JAX. A strategy lists what is
    different, in its own idiom. Nothing may be done here that a user would have to
    remember: `replace` replaces the field and nothing else.
    """

    new: Callable[..., Object]
    """A new object around an array `a`, and an array `c` if there is one."""
    new_batch: Callable[[jax.Array], Object] | None = None
    """A new object around a batch of arrays, if that is made differently."""
    b: Value = _read_b
    """Its derived value."""
    visit: Visit | None = None
    """The same, for an approach that returns a new object."""
    power: Callable[[Object, int], jax.Array] | None = None
    """The sum of n-th powers, a method with an argument; by default it is computed at
    every call."""
    visit_power: Callable[[Object, int], tuple[jax.Array, Object]] | None = None
    function: Callable[[Value], Value] = lambda fun: fun
    """Caches a function that is not a method of the class; by default it does not."""
    visit_function: Callable[[Value], Visit] | None = None
    jit: Callable[..., Any] = jax.jit
    vmap: Callable[..., Any] = jax.vmap
    checkpoint: Callable[..., Any] = jax.checkpoint
    a: Callable[[Object], jax.Array] = lambda foo: foo.a
    """The array in an object, or in a gradient."""
    c: Callable[[Object], jax.Array] = lambda foo: foo.c
    """The array in an object that `b` does not depend on."""
    replace: Callable[[Object, jax.Array], Object] = lambda foo, a: dataclasses.replace(
        foo, a=a
    )
    """A copy with a different array."""
    replace_c: Callable[[Object, jax.Array], Object] = lambda foo, c: (
        dataclasses.replace(foo, c=c)
    )
    """A copy with a different `c`."""
    assign: Callable[[Object, jax.Array], None] = _assign
    """Assign a different array to this object."""
    gradient: Callable[[Callable[..., Any], Object], Any] = lambda fun, foo: jax.grad(
        fun
    )(foo)
    """The gradient of a function of an object."""
    parameters: Callable[[Object], Any] = lambda foo: foo
    """What an optimizer updates."""
    with_parameters: Callable[[Object, Any], Object] = lambda foo, parameters: (
        parameters
    )
    exact: Callable[[jax.Array], jax.Array] = lambda a: jnp.sum(a**2)
    """The derived value of an array, computed without a cache."""
    exact_power: Callable[[jax.Array, int], jax.Array] = lambda a, n: jnp.sum(a**n)

    def __post_init__(self) -> None:
        self.derived = Derived(self.b, self.visit)
        if self.visit is not None:
            self.b = self.derived.of
        self._jitted = self.derived.under(self.jit)
        self.jitted_b = self.jit(lambda foo: self.b(foo))

    def power_of(self, n: int) -> Derived:
        """The sum of n-th powers."""
        power, visit = self.power, self.visit_power
        if visit is not None:
            return Derived(None, lambda foo: visit(foo, n))
        if power is not None:
            return Derived(lambda foo: power(foo, n))
        return Derived(lambda foo: derive(self.a(foo), n))

    def calling(self, fun: Value) -> Derived:
        """The result of a function that is not a method."""
        if self.visit_function is not None:
            return Derived(None, self.visit_function(fun))
        return Derived(self.function(fun))

    def read(self, foo: Object) -> tuple[jax.Array, Object]:
        """Read the value, as in `foo.b`: it, and the object to continue with."""
        return self.derived.read(foo)

    def use(self, foo: Object) -> tuple[jax.Array, Object]:
        """Read the value inside a jitted function, as in `use(foo)`."""
        return self._jitted.read(foo)

    def warm(self, a: jax.Array, c: jax.Array | None = None) -> Object:
        """A new object whose value has been read."""
        foo = self.new(a) if c is None else self.new(a, c)
        return self.read(foo)[1]

    def cold_batch(self, batch: jax.Array) -> Object:
        """A new object around a batch of arrays."""
        return (self.new_batch or self.new)(batch)

    def warm_batch(self, batch: jax.Array) -> Object:
        """The same, read; one that was made as a batch has its values."""
        if self.new_batch is not None:
            return self.new_batch(batch)
        return self.warm(batch)
