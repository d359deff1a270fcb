"""cachax can't keep values for a NamedTuple, or for slots without `__weakref__`.

## What it does

Finds `cachax.cached_property` and `cachax.cached_method` on classes whose objects
can't be referenced weakly.

## Why is this bad?

cachax stores values outside of the object and frees them with it, which requires a weak
reference. Such a class raises a `NowhereToStoreError` when it is created.

## Example

```python
import cachax


class Point:
    __slots__ = ("x", "y")

    @cachax.cached_property
    def norm(self):
        return (self.x**2 + self.y**2) ** 0.5
```

## Use instead

```python
import cachax


class Point:
    __slots__ = ("x", "y", "__weakref__")

    @cachax.cached_property
    def norm(self):
        return (self.x**2 + self.y**2) ** 0.5
```

Instead of a NamedTuple, use a frozen dataclass that is registered with JAX.

## When it is fine

Never.
"""

from collections.abc import Iterator

from .._code import Code, Found
from .._families import NAMED_TUPLE
from .._finding import Severity
from .._kept import cachax_values

CODE = "CX301"
SEVERITY = Severity.ERROR
MENTIONS = r"cachax"


def check(code: Code) -> Iterator[Found]:
    for cls, function, decorator in cachax_values(code):
        if cls.family is NAMED_TUPLE:
            reason = "a NamedTuple can't be referenced weakly: make it a dataclass"
        elif cls.has_slots_without_weakref:
            reason = 'its slots have no "__weakref__": add it'
        else:
            continue
        yield Found(
            decorator,
            f"`{cls.name}.{function.name}`: a cached value can't be stored, {reason}.",
        )
