"""A jax.new_ref slot, filled at the first read

JAX's own mutable cell goes in and out of jit. Whether it is filled is known at run time
only, so it takes a `cond`, through which no derivative is taken of a cell.
"""

import dataclasses
from typing import Any

import jax

from cachax.lab import Way, derive

if not hasattr(jax, "new_ref"):
    raise ImportError(f"JAX {jax.__version__} has no jax.new_ref")


@dataclasses.dataclass
class Foo:
    a: jax.Array
    kept: Any
    filled: Any

    @property
    def b(self) -> jax.Array:
        def fill() -> None:
            self.kept[...] = derive(self.a)
            self.filled[...] = True

        jax.lax.cond(self.filled[...], lambda: None, fill)
        return self.kept[...]


jax.tree_util.register_dataclass(Foo, ["a", "kept", "filled"], [])

way = Way(
    lambda a: Foo(a, jax.new_ref(0.0), jax.new_ref(False)),
    a=lambda foo: foo.a if isinstance(foo, Foo) else foo,
    gradient=lambda fun, foo: jax.grad(lambda a: fun(dataclasses.replace(foo, a=a)))(
        foo.a
    ),
    parameters=lambda foo: foo.a,
    with_parameters=lambda foo, a: dataclasses.replace(foo, a=a),
)
