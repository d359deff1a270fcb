"""Hand-made cache field, flax PyTreeNode

Scenario 2 of the published experiment. The value is a leaf: it is passed into jit, and
it is replaced, mapped, differentiated and optimized as if it were data.
"""

import flax.struct
import jax

from cachax.lab import Way, derive


class Foo(flax.struct.PyTreeNode, frozen=False):
    a: jax.Array
    c: jax.Array | None = None
    kept: jax.Array | None = None
    powers: dict[int, jax.Array] = flax.struct.field(default_factory=dict)

    @property
    def b(self) -> jax.Array:
        if self.kept is None:
            self.kept = derive(self.a)
        return self.kept

    def power(self, n: int) -> jax.Array:
        if n not in self.powers:
            self.powers = {**self.powers, n: derive(self.a, n)}
        return self.powers[n]


way = Way(Foo, power=Foo.power)
