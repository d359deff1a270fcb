"""`jax.jit` under a cached property computes the other properties again.

## What it does

Finds `@functools.cached_property` directly over `@jax.jit`.

## Why is this bad?

The jitted body gets a `self` that is rebuilt from the fields, without cached values.
If the body reads a different cached property of the object, that property is computed
again, although its value exists. If the body reads no other cached property of the
class, only the value itself is lost at the next jit boundary (CX101), and the finding
is information.

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

    @functools.cached_property
    @jax.jit
    def logdet(self) -> jax.Array:
        return 2 * jnp.sum(jnp.log(jnp.diagonal(self.factor)))
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

    @cachax.cached_property
    @jax.jit
    def logdet(self) -> jax.Array:
        return 2 * jnp.sum(jnp.log(jnp.diagonal(self.factor)))
```

## When it is fine

The properties that the body reads are cheap.
"""

import itertools
from collections.abc import Iterator

from .._code import Code, Found
from .._descriptors import FUNCTOOLS
from .._finding import Severity
from .._kept import cached_decorator, kept_values
from .._module import FunctionNode
from .._tracing import JITS, reads_of
from .._writes import own_object

CODE = "CX105"
SEVERITY = Severity.WARNING
FIXABLE = True
MENTIONS = r"cached_property[\s\S]*jit"


def check(code: Code) -> Iterator[Found]:
    for kept in kept_values(code):
        if kept.decorator is None or not isinstance(kept.function, FunctionNode):
            continue
        jit = _jit_below(kept.function, code)
        if jit is None:
            continue
        inner = _cached_properties_read_in(kept.function, code)
        again = ", ".join(f"`{name}`" for name in inner) or "what the body reads of it"
        yield Found(
            kept.node,
            f"`{kept.name}`: {jit} under the cached property rebuilds the object, so "
            f"{again} is computed again. Use cachax.cached_property.",
            None if inner else Severity.INFORMATION,
            kept.decorator if kept.cls.family else None,
        )


def _jit_below(function: FunctionNode, code: Code) -> str | None:
    """The jit that comes directly under the cached property."""
    decorators = code.decorators(function)
    for (_, above), (_, below) in itertools.pairwise(decorators):
        if FUNCTOOLS.fullmatch(above) and JITS.fullmatch(below):
            return below
    return None


def _cached_properties_read_in(function: FunctionNode, code: Code) -> list[str]:
    cls = code.class_around(function)
    obj = own_object(function, code.module)
    if cls is None or obj is None:
        return []
    names = dict.fromkeys(node.attr for node in reads_of(obj, function))
    methods = [(name, cls.method(name)) for name in names]
    return [
        name
        for name, method in methods
        if method and cached_decorator(method[1], method[0].module, code.project)
    ]
