"""A cached property on a class that flattens its `__dict__` gets into the tree.

## What it does

Finds `functools.cached_property`, other caching properties, and lazy properties that
write to `self`, on distrax and `simple_pytree` classes, on netket's `struct.Pytree`
(errors), and on `chex.dataclass` (a warning). Also finds netket's
`struct.property_cached` (a warning).

## Why is this bad?

When JAX flattens an object of these classes, the class uses its whole `__dict__`, and
the cached value is in it. With distrax the value becomes a leaf like any other: it is
not recomputed when the fields change, and its gradient does not reach them. With chex
it goes into a transformed function as an additional leaf and does not come out: an
object with a cached value has a different tree structure from one without, so `jit`
compiles again, and `scan` and a `tree_map` over both fail. `simple_pytree` and netket
refuse to flatten an object that has an additional attribute. netket's
`property_cached` keeps the value in a field of the tree: `replace` clears it, but
`jax.tree.map` does not, and once the value was read its gradient does not reach the
other fields.

## Example

```python
import functools

import distrax
import jax.numpy as jnp


class Scale(distrax.Bijector):
    def __init__(self, x):
        super().__init__(event_ndims_in=0)
        self.x = x

    @functools.cached_property
    def energy(self):
        return jnp.sum(self.x**2)

    def forward_and_log_det(self, y):
        return y * self.energy, jnp.log(self.energy)
```

## Use instead

```python
import cachax
import distrax
import jax.numpy as jnp


class Scale(distrax.Bijector):
    def __init__(self, x):
        super().__init__(event_ndims_in=0)
        self.x = x

    @cachax.cached_property
    def energy(self):
        return jnp.sum(self.x**2)

    def forward_and_log_det(self, y):
        return y * self.energy, jnp.log(self.energy)
```

## When it is fine

The objects are never flattened after the value was read.
"""

from collections.abc import Iterator

from .._code import Code, Found
from .._families import Keeps
from .._finding import Severity
from .._kept import kept_values, reported

CODE = "CX103"
SEVERITY = Severity.ERROR
FIXABLE = True
MENTIONS = r"cached_property|class\s"
_CONSEQUENCES = {
    Keeps.LEAF: "the value becomes a leaf: stale after an update, its gradient does "
    "not reach the fields",
    Keeps.LEAF_ONE_WAY: "the value goes in as an additional leaf: an object with a "
    "cached value has a different tree structure from one without",
    Keeps.FIELD: "the value is kept in a field of the tree: once it was read, its "
    "gradient does not reach the other fields, and it is stale after `jax.tree.map`",
    Keeps.REFUSED: "an object with a cached value can't be flattened",
}
_MILDER = (Keeps.LEAF_ONE_WAY, Keeps.FIELD)


def check(code: Code) -> Iterator[Found]:
    for kept in kept_values(code):
        family = kept.cls.family
        if family is None or kept.keeps not in _CONSEQUENCES:
            continue
        in_dict = kept.keeps is not Keeps.FIELD
        why = f"{family.name} flattens the `__dict__`, so " if in_dict else ""
        yield reported(
            kept,
            f"{why}{_CONSEQUENCES[kept.keeps]}. Use cachax.cached_property.",
            Severity.WARNING if kept.keeps in _MILDER else None,
        )
