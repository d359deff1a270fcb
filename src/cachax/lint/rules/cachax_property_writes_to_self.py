"""A cached property must not change its object.

## What it does

Finds assignments to `self` in the body of a `cachax.cached_property` or
`cachax.cached_method`, and what is appended to its lists there.

## Why is this bad?

The body runs once, and you can't rely on when: at the first read, before a jitted
function that uses the value, or on a copy inside one. A write also changes the object,
so values that were cached before are dropped.

## Example

```python
import cachax
import jax.numpy as jnp


class Series:
    def __init__(self, x):
        self.x = x

    @cachax.cached_property
    def scaled(self):
        self.scale = jnp.max(self.x)
        return self.x / self.scale
```

## Use instead

```python
import cachax
import jax.numpy as jnp


class Series:
    def __init__(self, x):
        self.x = x

    @cachax.cached_property
    def scale(self):
        return jnp.max(self.x)

    @cachax.cached_property
    def scaled(self):
        return self.x / self.scale
```

## When it is fine

Never: make each value a separate property.
"""

from collections.abc import Iterator

from .._code import Code, Found
from .._finding import Severity
from .._kept import cachax_values
from .._writes import own_object, put_into_lists, writes

CODE = "CX302"
SEVERITY = Severity.ERROR
MENTIONS = r"cachax"


def check(code: Code) -> Iterator[Found]:
    for cls, function, _ in cachax_values(code):
        obj = own_object(function, code.module)
        if obj is None:
            continue
        lists = put_into_lists(function, obj, cls, code.module)
        for write in [*writes(function, obj, code.module), *lists]:
            yield Found(
                write.node,
                f"`{cls.name}.{function.name}` is cached and writes to "
                f"`{obj}.{write.attribute}`: the body runs once, and you can't rely "
                "on when. Make it a separate cached property.",
            )
