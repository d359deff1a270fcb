"""A cached property on an nnx.Module goes stale, and its gradient is zero.

## What it does

Finds `functools.cached_property`, and lazy properties that write to `self`, on
classes derived from `nnx.Module`.

## Why is this bad?

nnx counts every attribute that is no Variable as static. A value that is cached there
is baked into compiled programs as a constant: after an optimizer step it is still the
old one, no gradient flows through it, and nothing says so. If it is first read under
`nnx.jit`, a tracer is left on the module. (Older flax refuses such a module with a
`ValueError`.)

## Example

```python
import functools

import jax.numpy as jnp
from flax import nnx


class Model(nnx.Module):
    def __init__(self, w):
        self.w = nnx.Param(w)

    @functools.cached_property
    def norm(self):
        return jnp.linalg.norm(self.w[...])
```

## Use instead

```python
import cachax
import jax.numpy as jnp
from flax import nnx


class Model(nnx.Module):
    def __init__(self, w):
        self.w = nnx.Param(w)

    @cachax.cached_property
    def norm(self):
        return jnp.linalg.norm(self.w[...])
```

## When it is fine

The value depends on nothing that is ever trained or replaced, and is read before the
first `nnx.jit`. Then it is a constant: compute it with numpy, in `__init__`.
"""

from collections.abc import Iterator

from .._code import Code, Found
from .._families import Keeps
from .._finding import Severity
from .._kept import kept_values, reported

CODE = "CX102"
SEVERITY = Severity.ERROR
FIXABLE = True
MENTIONS = r"cached_property|class\s"


def check(code: Code) -> Iterator[Found]:
    for kept in kept_values(code):
        if kept.keeps is Keeps.STATIC:
            yield reported(
                kept,
                "on an nnx.Module the value becomes a static constant: stale after an "
                "update, and its gradient is zero. Use cachax.cached_property.",
            )
