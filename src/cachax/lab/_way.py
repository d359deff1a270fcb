"""A way of caching: how to make an object, ask for derived values and change it."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from ._counting import derive

Object = Any
"""What a strategy keeps its array and its derived value in: mostly an instance of a
class `Foo` with a field `a`, a property `b`, and a field `c` that `b` does not use."""

Value = Callable[[Object], jax.Array]
Visit = Callable[[Object], tuple[jax.Array, Object]]
"""For a way that hands back an object to go on with: the value, and that object."""


def numbers() -> jax.Array:
    """The array that the probes start from."""
    return jnp.array([1.0, 2.0, 3.0])


def _read_b(foo: Object) -> jax.Array:
    return foo.b  # type: ignore[no-any-return]


def _assign(foo: Object, a: jax.Array) -> None:
    foo.a = a


class Derived:
    """A derived value, as it is asked of an object."""

    def __init__(self, value: Value | None, visit: Visit | None = None) -> None:
        self._value = value
        self._visit = visit

    def of(self, foo: Object) -> jax.Array:
        return self.read(foo)[0]

    def read(self, foo: Object) -> tuple[jax.Array, Object]:
        """Ask for it; the value, and the object to go on with."""
        if self._visit is not None:
            return self._visit(foo)
        assert self._value is not None
        return self._value(foo), foo

    def under(self, transform: Callable[..., Any]) -> "Derived":
        """The same, asked for inside a function under a transform."""
        # A function of its own: JAX keeps programs by the function, and JAX 0.10 may
        # take two classes with the same fields for one (their structures are equal).
        if self._visit is not None:
            return Derived(None, transform(lambda foo: self.read(foo)))
        return Derived(transform(lambda foo: self.of(foo)))


@dataclasses.dataclass
class Way:
    """What a probe needs to know of a strategy.

    The defaults are those of a dataclass under plain JAX; a strategy names what is
    different about its own way, in that way's own idiom. Nothing may be done here
    that a user would have to remember: `replace` replaces the field and nothing else.
    """

    new: Callable[..., Object]
    """A new object around an array `a`, and an array `c` if there is one."""
    new_batch: Callable[[jax.Array], Object] | None = None
    """A new object around a batch of arrays, if that is made in another way."""
    b: Value = _read_b
    """Its derived value."""
    visit: Visit | None = None
    """The same, for a way that hands back an object to go on with."""
    power: Callable[[Object, int], jax.Array] | None = None
    """The sum of n-th powers, a method with an argument; if this way keeps no such
    thing, a plain one that computes it."""
    visit_power: Callable[[Object, int], tuple[jax.Array, Object]] | None = None
    function: Callable[[Value], Value] = lambda fun: fun
    """What is made of a function of an object that is no method of its class; if this
    way keeps no such thing, nothing."""
    visit_function: Callable[[Value], Visit] | None = None
    jit: Callable[..., Any] = jax.jit
    vmap: Callable[..., Any] = jax.vmap
    checkpoint: Callable[..., Any] = jax.checkpoint
    a: Callable[[Object], jax.Array] = lambda foo: foo.a
    """The array in an object, or in a gradient."""
    replace: Callable[[Object, jax.Array], Object] = lambda foo, a: dataclasses.replace(
        foo, a=a
    )
    """A copy with another array."""
    replace_c: Callable[[Object, jax.Array], Object] = lambda foo, c: (
        dataclasses.replace(foo, c=c)
    )
    """A copy with another `c`."""
    assign: Callable[[Object, jax.Array], None] = _assign
    """Put another array into this very object."""
    gradient: Callable[[Callable[..., Any], Object], Any] = lambda fun, foo: jax.grad(
        fun
    )(foo)
    """Of a function of an object."""
    parameters: Callable[[Object], Any] = lambda foo: foo
    """What an optimizer steps on."""
    with_parameters: Callable[[Object, Any], Object] = lambda foo, parameters: (
        parameters
    )
    exact: Callable[[jax.Array], jax.Array] = lambda a: jnp.sum(a**2)
    """The derived value of an array, with no cache in sight."""
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
        """What a free function returns."""
        if self.visit_function is not None:
            return Derived(None, self.visit_function(fun))
        return Derived(self.function(fun))

    def read(self, foo: Object) -> tuple[jax.Array, Object]:
        """Ask for the value, as in `foo.b`; the value, and the object to go on with."""
        return self.derived.read(foo)

    def use(self, foo: Object) -> tuple[jax.Array, Object]:
        """Ask for the value inside a jitted function, as in `use(foo)`."""
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
