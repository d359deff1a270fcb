"""Plain `jax.jit` does not use the values that cachax has cached.

## What it does

Finds functions and methods under `jax.jit` (or `equinox.filter_jit`) that read a
`cachax.cached_property` of an argument whose class is known: `self`, or a parameter
with an annotation.

## Why is this bad?

The result is correct, but the value is computed inside in every call: the cache has no
effect.

## Example

```python
import dataclasses

import cachax
import jax
import jax.numpy as jnp


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Process:
    x: jax.Array

    @cachax.cached_property
    def factor(self):
        return jnp.linalg.cholesky(self.x)


@jax.jit
def predict(process: Process, y):
    return process.factor @ y
```

## Use instead

```python
import dataclasses

import cachax
import jax
import jax.numpy as jnp


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Process:
    x: jax.Array

    @cachax.cached_property
    def factor(self):
        return jnp.linalg.cholesky(self.x)


@cachax.jit
def predict(process: Process, y):
    return process.factor @ y
```

For `equinox.filter_jit`, `cachax.lift(equinox.filter_jit)`.

## When it is fine

The object is new in every call, the function is only called from a `cachax.jit`
function, or the value is cheap.
"""

import ast
from collections.abc import Iterator

from .._code import Code, Found
from .._finding import Severity
from .._kept import cachax_values, is_cachax
from .._tracing import Traced

CODE = "CX304"
SEVERITY = Severity.WARNING
MENTIONS = r"cachax"
_INSTEAD = {
    "jax.jit": "cachax.jit",
    "equinox.filter_jit": "cachax.lift(equinox.filter_jit)",
}


def check(code: Code) -> Iterator[Found]:
    bodies = {function for _, function, _ in cachax_values(code)}
    for traced in code.traced:
        # A cached property that is jitted itself is given its values by cachax.
        if traced.by not in _INSTEAD or traced.function in bodies:
            continue
        read = _first_read(traced, code)
        if read is not None:
            yield Found(
                traced.said,
                f"under {traced.by} `{ast.unparse(read)}` is computed inside in every "
                f"call. Use {_INSTEAD[traced.by]}.",
            )


def _first_read(traced: Traced, code: Code) -> ast.Attribute | None:
    for node in ast.walk(traced.function):
        match node:
            case ast.Attribute(ast.Name(name) as obj, attribute, ast.Load()):
                if name not in traced.traced_parameters:
                    continue
                cls = code.objects.class_of(obj, code.module)
                method = cls.method(attribute) if cls else None
                if method and is_cachax(method[1], method[0].module, code.project):
                    return node
    return None
