"""A cached property on an nnx.Module goes stale, and its gradient is zero.

## What it does

Finds `functools.cached_property`, other caching properties, and lazy properties that
write to `self`, on classes derived from `nnx.Module`.

## Why is this bad?

nnx treats every attribute that is not a Variable as static. A value that is cached
there becomes a constant of compiled programs: after an optimizer step it is still the
old value, and no gradient flows through it. No error is raised. If it is first read
under `nnx.jit`, a tracer is left on the module. (Older versions of flax refuse such a
module with a `ValueError`.)

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

The value doesn't depend on anything that is trained or replaced, and is read before the
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
