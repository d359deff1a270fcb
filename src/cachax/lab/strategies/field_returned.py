"""A hand-made cache field, the object returned

The value comes out of jit as well, if every caller goes on with what it got back. All
else is as with the field alone.
"""

import flax.struct
import jax

from cachax.lab import Way, derive


class Foo(flax.struct.PyTreeNode):
    a: jax.Array
    kept: jax.Array | None = None

    def with_b(self) -> tuple[jax.Array, "Foo"]:
        kept = derive(self.a) if self.kept is None else self.kept
        return kept, self.replace(kept=kept)


way = Way(Foo, visit=Foo.with_b)
