"""A cached property with a JAX array is dropped at every jit boundary.

## What it does

Finds `functools.cached_property`, and lazy properties that write to `self`, on
classes that JAX rebuilds from their fields: equinox, `flax.struct`, registered
dataclasses and classes, penzai, tjax, zodiax, netket's `struct.dataclass`, numpyro's
distributions.

## Why is this bad?

JAX takes an object apart at every `jit`, `grad` or `vmap`, and puts another one
together from the fields. What was cached is not among them, so it is computed again
in every call. And an object that is first read inside a trace, but was made outside
of it, keeps a tracer: the next read fails with an `UnexpectedTracerError`. On
`equinox.Module` (since 0.13) an object with something cached also has another tree
structure than one without.

## Example

```python
import functools

import equinox as eqx
import jax
import jax.numpy as jnp


class Process(eqx.Module):
    x: jax.Array

    @functools.cached_property
    def factor(self) -> jax.Array:
        return jnp.linalg.cholesky(self.x)
```

## Use instead

```python
import cachax
import equinox as eqx
import jax
import jax.numpy as jnp


class Process(eqx.Module):
    x: jax.Array

    @cachax.cached_property
    def factor(self) -> jax.Array:
        return jnp.linalg.cholesky(self.x)
```

`cachax.jit` in place of `jax.jit` then carries the value into the function. Under
plain `jax.jit` it is computed inside, as before, and never leaks.

## When it is fine

The object never meets JAX: it is neither passed to a transformed function nor read in
one. A cached property without arrays (a shape, a name, a numpy table) is not
reported. Where it cannot be told what the value is, the finding is information.
"""

from collections.abc import Iterator

from .._code import Code, Found
from .._descriptors import Caching
from .._families import Keeps
from .._finding import Severity
from .._kept import kept_values, reported

CODE = "CX101"
SEVERITY = Severity.WARNING
FIXABLE = True
MENTIONS = r"cached_property|class\s"


def check(code: Code) -> Iterator[Found]:
    for kept in kept_values(code):
        family = kept.cls.family
        if family is None or kept.keeps is not Keeps.NOTHING:
            continue
        if not family.holds_attributes:
            yield reported(kept, f"{family.name} has no `__dict__` to keep it in.")
            continue
        leaks = kept.caching is not Caching.WITHOUT_TRACERS
        also = ", and leaks a tracer if first read in a trace" if leaks else ""
        yield reported(
            kept,
            f"dropped whenever JAX rebuilds the object ({family.name}){also}. Use "
            "cachax.cached_property.",
        )
