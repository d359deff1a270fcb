"""A way of caching: how to make an object, read its derived value and change it."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

Object = Any
"""What a strategy keeps its array and its derived value in: mostly an instance of a
class `Foo` with a field `a` and a property `b`."""


def numbers() -> jax.Array:
    """The array that the probes start from."""
    return jnp.array([1.0, 2.0, 3.0])


def _read_b(foo: Object) -> jax.Array:
    return foo.b  # type: ignore[no-any-return]


def _assign(foo: Object, a: jax.Array) -> None:
    foo.a = a


@dataclasses.dataclass
class Way:
    """What a probe needs to know of a strategy.

    The defaults are those of a dataclass under plain JAX; a strategy names what is
    different about its own way, in that way's own idiom. Nothing may be done here
    that a user would have to remember: `replace` replaces the field and nothing else.
    """

    new: Callable[[jax.Array], Object]
    """A new object around an array."""
    new_batch: Callable[[jax.Array], Object] | None = None
    """A new object around a batch of arrays, if that is made in another way."""
    b: Callable[[Object], jax.Array] = _read_b
    """Its derived value."""
    visit: Callable[[Object], tuple[jax.Array, Object]] | None = None
    """For a way that hands back an object to go on with: the value, and that object."""
    jit: Callable[..., Any] = jax.jit
    vmap: Callable[..., Any] = jax.vmap
    a: Callable[[Object], jax.Array] = lambda foo: foo.a
    """The array in an object, or in a gradient."""
    replace: Callable[[Object, jax.Array], Object] = lambda foo, a: dataclasses.replace(
        foo, a=a
    )
    """A copy with another array."""
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

    def __post_init__(self) -> None:
        if self.visit is not None:
            visit = self.visit
            self.b = lambda foo: visit(foo)[0]
            self.jitted_visit = self.jit(lambda foo: visit(foo))
        b = self.b
        # A function of its own: JAX keeps programs by the function, and JAX 0.10 may
        # take two classes with the same fields for one (their structures are equal).
        self.jitted_b = self.jit(lambda foo: b(foo))

    def read(self, foo: Object) -> tuple[jax.Array, Object]:
        """Ask for the value, as in `foo.b`; the value, and the object to go on with."""
        return self.visit(foo) if self.visit else (self.b(foo), foo)

    def use(self, foo: Object) -> tuple[jax.Array, Object]:
        """Ask for the value inside a jitted function, as in `use(foo)`."""
        if self.visit:
            return self.jitted_visit(foo)  # type: ignore[no-any-return]
        return self.jitted_b(foo), foo

    def warm(self, a: jax.Array) -> Object:
        """A new object whose value has been read."""
        return self.read(self.new(a))[1]

    def warm_batch(self, batch: jax.Array) -> Object:
        """The same around a batch; one that was made as a batch has its values."""
        if self.new_batch is not None:
            return self.new_batch(batch)
        return self.warm(batch)
