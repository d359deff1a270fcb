"""jax.new_ref slot, filled at the first read

JAX's own mutable reference goes in and out of jit. Whether it is filled is known at run
time only, so reading it takes a `cond`, and JAX neither differentiates nor maps a
`cond` that writes to a reference.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from cachax.lab import Way, derive

if not hasattr(jax, "new_ref"):
    raise ImportError(f"JAX {jax.__version__} has no jax.new_ref")


class Slot(NamedTuple):
    kept: Any
    filled: Any

    @staticmethod
    def empty(shape: tuple[int, ...] = ()) -> "Slot":
        return Slot(jax.new_ref(jnp.zeros(shape)), jax.new_ref(jnp.zeros(shape, bool)))

    def read(self, value: Callable[[], jax.Array]) -> jax.Array:
        def fill() -> None:
            self.kept[...] = value()
            self.filled[...] = True

        jax.lax.cond(self.filled[...], lambda: None, fill)
        return self.kept[...]


@dataclasses.dataclass
class Foo:
    a: jax.Array
    c: jax.Array | None = None
    slot: Slot = dataclasses.field(default_factory=Slot.empty)
    powers: dict[int, Slot] = dataclasses.field(default_factory=dict)

    @property
    def b(self) -> jax.Array:
        return self.slot.read(lambda: derive(self.a))

    def power(self, n: int) -> jax.Array:
        if n not in self.powers:
            self.powers[n] = Slot.empty()
        return self.powers[n].read(lambda: derive(self.a, n))


jax.tree_util.register_dataclass(Foo, ["a", "c", "slot", "powers"], [])

way = Way(
    Foo,
    new_batch=lambda batch: Foo(batch, slot=Slot.empty(batch.shape[:1])),
    power=Foo.power,
    a=lambda foo: foo.a if isinstance(foo, Foo) else foo,
    gradient=lambda fun, foo: jax.grad(lambda a: fun(dataclasses.replace(foo, a=a)))(
        foo.a
    ),
    parameters=lambda foo: foo.a,
    with_parameters=lambda foo, a: dataclasses.replace(foo, a=a),
)
