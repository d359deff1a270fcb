"""A cached property that draws random numbers changes each time it is computed.

## What it does

Finds calls of `random`, `numpy.random` and of an nnx `Rngs` stream in the body of a
`cachax.cached_property` or `cachax.cached_method`. `jax.random` with a key from a
field is fine.

## Why is this bad?

A cached value must be what the body would return now. A body with hidden state is
computed again whenever JAX rebuilds the object (a copy, `grad`, plain `jax.jit`), and
returns a different number.

## Example

```python
import cachax
import numpy as np


class Sample:
    def __init__(self, n):
        self.n = n

    @cachax.cached_property
    def noise(self):
        return np.random.normal(size=self.n)
```

## Use instead

```python
import cachax
import jax


class Sample:
    def __init__(self, n, key):
        self.n = n
        self.key = key

    @cachax.cached_property
    def noise(self):
        return jax.random.normal(self.key, (self.n,))
```

## When it is fine

The generator is seeded in the body itself: `np.random.default_rng(0)` is not
reported.
"""

import ast
import re
from collections.abc import Iterator

from .._code import Code, Found
from .._finding import Severity
from .._kept import cachax_values

CODE = "CX303"
SEVERITY = Severity.ERROR
MENTIONS = r"cachax"
_SEEDED = re.compile(
    r"(numpy\.random\.(default_rng|RandomState|SeedSequence|Generator|Philox|PCG64)"
    r"|random\.Random)"
)


def check(code: Code) -> Iterator[Found]:
    for cls, function, _ in cachax_values(code):
        for node in ast.walk(function):
            if isinstance(node, ast.Call):
                name = _source_of_chance(node, code)
                if name:
                    yield Found(
                        node,
                        f"`{cls.name}.{function.name}` is cached and draws from "
                        f"{name}: it changes each time it is computed. Use "
                        "jax.random with a key that is a field.",
                    )


def _source_of_chance(call: ast.Call, code: Code) -> str:
    name = code.name_of(call.func)
    if _SEEDED.fullmatch(name):
        return "" if call.args or call.keywords else name
    if name.startswith(("numpy.random.", "random.")):
        return name
    match call.func:  # `self.rngs()` or `self.rngs.dropout()` counts up
        case ast.Attribute(ast.Name("self"), "rngs") | ast.Attribute(
            ast.Attribute(ast.Name("self"), "rngs")
        ):
            return ast.unparse(call.func)
    return ""
