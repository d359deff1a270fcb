"""A cached property on a class that flattens its `__dict__` becomes a leaf.

## What it does

Finds `functools.cached_property`, and lazy properties that write to `self`, on
`chex.dataclass`, distrax and `simple_pytree` classes.

## Why is this bad?

These classes hand the whole `__dict__` of an object to JAX, so that a cached value is
one more leaf. It is not computed anew when the others change: after a `tree_map` or
an optimizer step it is wrong, its gradient does not reach the fields it came from,
and a warm object has another tree structure than a cold one.

## Example

```python
import functools

import chex
import jax
import jax.numpy as jnp


@chex.dataclass
class Process:
    x: jax.Array

    @functools.cached_property
    def energy(self) -> jax.Array:
        return jnp.sum(self.x**2)
```

## Use instead

```python
import cachax
import chex
import jax
import jax.numpy as jnp


@chex.dataclass
class Process:
    x: jax.Array

    @cachax.cached_property
    def energy(self) -> jax.Array:
        return jnp.sum(self.x**2)
```

## When it is fine

The objects are never flattened once the value was read.
"""

from collections.abc import Iterator

from .._code import Code, Found
from .._families import Keeps
from .._finding import Severity
from .._kept import found, kept_values

CODE = "CX103"
SEVERITY = Severity.ERROR
FIXABLE = True
MENTIONS = r"cached_property|class\s"


def check(code: Code) -> Iterator[Found]:
    for kept in kept_values(code):
        family = kept.cls.family
        if family is not None and family.keeps is Keeps.LEAVES:
            yield found(
                kept,
                f"{family.name} flattens the `__dict__`, so the value becomes a leaf: "
                "stale after an update, gradients go astray, and the tree changes on "
                "first read. Use cachax.cached_property.",
            )
