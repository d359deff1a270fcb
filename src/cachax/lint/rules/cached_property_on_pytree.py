"""A cached property with a JAX array is dropped at every jit boundary.

## What it does

Finds `functools.cached_property`, other caching properties, and lazy properties that
write to `self`, on classes that JAX rebuilds from their fields: equinox, `flax.struct`,
registered dataclasses and classes, penzai, tjax, zodiax, netket's `struct.dataclass`,
numpyro's distributions.

A caching property is recognised by what it does, in whichever file of the project it is
defined: a class whose `__get__` computes a value and writes it to the instance (such as
numpyro's `lazy_property`), or a function that returns such a property. Both
`@decorator` and `y = cached_property(function)` are found.

## Why is this bad?

At every `jit`, `grad` or `vmap` boundary JAX takes an object apart and builds a new
object from its fields. The cached value is not a field, so it is lost and computed
again in every call. If the object was made outside of a trace and the property is first
read inside it, the object keeps a tracer, and the next read fails with an
`UnexpectedTracerError` (numpyro's `lazy_property` checks for tracers and does not
leak). On `equinox.Module` (since 0.13) an object with a cached value also has a
different tree structure from one without.

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

With `cachax.jit` instead of `jax.jit` the value is passed into the function. Under
plain `jax.jit` it is computed inside, as before, and never leaks.

## When it is fine

The object is never used with JAX transformations: it is neither passed to a transformed
function nor read in one. A cached property without arrays (a shape, a name, a numpy
table) is not reported. If the linter can't tell what the value is, the finding is
information.
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
        if kept.attribute in kept.cls.tree_fields:
            continue  # not dropped: CX207
        leaks = kept.caching is not Caching.WITHOUT_TRACERS
        also = ", and leaks a tracer if first read in a trace" if leaks else ""
        yield reported(
            kept,
            f"dropped whenever JAX rebuilds the object ({family.name}){also}. Use "
            "cachax.cached_property.",
        )
