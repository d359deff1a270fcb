"""A cached property that traced code reads on a plain object keeps a tracer.

## What it does

Finds `functools.cached_property`, other caching properties, and lazy properties that
write to `self`, on classes that are not pytrees, if a traced function of the same file
reads them: a method with a static `self`, or a jitted function or loop body that closes
over the object.

## Why is this bad?

Inside `jit` or `scan` everything that JAX computes is a tracer, even if it is computed
from concrete arrays. The property keeps that tracer on an object that outlives the
trace, and the next read fails with an `UnexpectedTracerError`, often far away. If the
property is read outside first, it works: the result depends on the order of calls.

## Example

```python
import functools

import jax
import jax.numpy as jnp


class Table:
    def __init__(self, x):
        self.x = x

    @functools.cached_property
    def total(self):
        return jnp.sum(self.x)

    def scaled(self, factor):
        return jax.jit(lambda f: f * self.total)(factor)
```

## Use instead

```python
import cachax
import jax
import jax.numpy as jnp


class Table:
    def __init__(self, x):
        self.x = x

    @cachax.cached_property
    def total(self):
        return jnp.sum(self.x)

    def scaled(self, factor):
        return jax.jit(lambda f: f * self.total)(factor)
```

## When it is fine

The property is always read outside of a trace first. (A body under
`jax.ensure_compile_time_eval()` is not reported.)
"""

import ast
from collections.abc import Iterator

from .._code import Code, Found
from .._descriptors import Caching
from .._finding import Severity
from .._kept import Kept, kept_values, reported
from .._reach import members_read
from .._tracing import Traced

CODE = "CX104"
SEVERITY = Severity.WARNING
FIXABLE = True
MENTIONS = r"cached_property|class\s"


def check(code: Code) -> Iterator[Found]:
    plain = [
        kept
        for kept in kept_values(code)
        if kept.cls.family is None
        and kept.kind.has_arrays
        and kept.caching is not Caching.WITHOUT_TRACERS
    ]
    if not plain:
        return
    readers = _readers(code)
    for kept in plain:
        traced = readers.get(kept.function)
        if traced is not None:
            yield reported(kept, _message(kept, traced))


def _readers(code: Code) -> dict[ast.AST, Traced]:
    """Which traced function reads a member of an object that is not its argument."""
    readers: dict[ast.AST, Traced] = {}
    for traced in code.traced:
        for function in members_read(traced, code):
            readers.setdefault(function, traced)
    return readers


def _message(kept: Kept, traced: Traced) -> str:
    name = traced.function.name if not isinstance(traced.function, ast.Lambda) else ""
    where = f"`{name}`" if name else "a lambda"
    return (
        f"read in {where} (line {traced.function.lineno}), which {traced.by} traces; "
        "the object is not an argument there and would keep a tracer. Use "
        "cachax.cached_property."
    )
