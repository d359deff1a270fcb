"""`x.at[...].set(...)` returns a new array, and nobody takes it.

## What it does

Finds `x.at[...].set(...)` and its kin (`add`, `multiply`, `min`, `max`, `apply`, ...)
as a statement of their own.

## Why is this bad?

JAX arrays do not change. The update is a new array, which is thrown away: the
statement does nothing.

## Example

```python
import jax.numpy as jnp

x = jnp.zeros(3)
x.at[0].set(1.0)
```

## Use instead

```python
import jax.numpy as jnp

x = jnp.zeros(3)
x = x.at[0].set(1.0)
```

## When it is fine

In a test that it raises: put a `# noqa: CX401` there.
"""

import ast
from collections.abc import Iterator

from .._code import Code, Found
from .._finding import Severity
from .._kinds import is_update

CODE = "CX401"
SEVERITY = Severity.ERROR
MENTIONS = r"\.at\s*\["


def check(code: Code) -> Iterator[Found]:
    for node in code.module.nodes:
        match node:
            case ast.Expr(ast.Call(ast.Attribute(_, update)) as call) if is_update(
                call
            ):
                yield Found(
                    node,
                    f"the result of `.at[...].{update}(...)` is thrown away: arrays do "
                    "not change in place. Assign it.",
                )
