"""A cached property on a class that flattens its `__dict__` gets into the tree.

## What it does

Finds `functools.cached_property`, and lazy properties that write to `self`, on
distrax and `simple_pytree` classes, on netket's `struct.Pytree` (errors), and on
`chex.dataclass` (a warning).

## Why is this bad?

These classes look at the whole `__dict__` of an object when JAX flattens it, and a
cached value is in there. With distrax it becomes a leaf like any other: it is not
computed anew when the fields change, and its gradient does not reach them. With chex
it goes in as one more leaf and does not come out: a warm object has another tree
structure than a cold one, so that jit compiles again, and `scan` and a `tree_map` of
both fail. `simple_pytree` and netket refuse to flatten an object that has got another
attribute.

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

The objects are never flattened once the value was read.
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
    Keeps.LEAF_ONE_WAY: "the value goes in as one more leaf: an object on which it was "
    "read is another tree than one on which it was not",
    Keeps.FIELD: "the value is kept in a field of the tree: once it was read, its "
    "gradient does not reach the other fields, and it is stale after `jax.tree.map`",
    Keeps.REFUSED: "an object on which it was read cannot be flattened any more",
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
