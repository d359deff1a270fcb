"""Hand-made cache field, object returned

As with the field alone, and the value comes out of jit as well, if every caller
continues with the returned object.
"""

import flax.struct
import jax

from cachax.lab import Way, derive


class Foo(flax.struct.PyTreeNode):
    a: jax.Array
    c: jax.Array | None = None
    kept: jax.Array | None = None
    powers: dict[int, jax.Array] = flax.struct.field(default_factory=dict)

    def with_b(self) -> tuple[jax.Array, "Foo"]:
        kept = derive(self.a) if self.kept is None else self.kept
        return kept, self.replace(kept=kept)

    def with_power(self, n: int) -> tuple[jax.Array, "Foo"]:
        power = self.powers[n] if n in self.powers else derive(self.a, n)
        return power, self.replace(powers={**self.powers, n: power})


way = Way(Foo, visit=Foo.with_b, visit_power=Foo.with_power)
