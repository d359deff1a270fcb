"""A derived array in an optional field goes stale, and its gradient is zero.

## What it does

Finds array fields of pytree classes that are None by default and that the code fills
with a value computed from the other fields: in `__init__` or `__post_init__`, by
`replace` or `equinox.tree_at`, or in a call of the class. A field whose name begins
with an underscore is reported if one of the other fields goes into its value; any other
field only if it is filled by `replace` or `tree_at` from the fields of the same object
and from nothing else.

## Why is this bad?

To JAX the field is an ordinary leaf. After `jax.tree.map`, an optimizer step or a
`replace` of the other fields it still has the old value, and nothing reports that.
`jax.grad` with respect to the object treats the field as an independent input: no
gradient flows from it to the fields it was computed from. An object with the value and
one without it have different tree structures, so `jax.jit` compiles twice.

## Example

```python
import dataclasses

import jax
import jax.numpy as jnp


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Arm:
    angles: jax.Array
    _tips: jax.Array | None = None

    @classmethod
    def build(cls, angles):
        return cls(angles=angles, _tips=jnp.cumsum(jnp.cos(angles)))
```

## Use instead

```python
import dataclasses

import cachax
import jax
import jax.numpy as jnp


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Arm:
    angles: jax.Array

    @cachax.cached_property
    def tips(self):
        return jnp.cumsum(jnp.cos(self.angles))
```

## When it is fine

The field is state that only starts as a function of the other fields, or the fields it
is computed from are replaced in the same call. If it is also filled from itself, or
assigned by a method, it is not reported here (CX201 finds methods that fill a field on
first use).
"""

from collections.abc import Iterator

from .._classes import Class
from .._code import Code, Found
from .._families import Keeps
from .._fields import Field
from .._fillings import Filling, fillings
from .._finding import Severity

CODE = "CX208"
SEVERITY = Severity.WARNING
MENTIONS = r"None"


def check(code: Code) -> Iterator[Found]:
    for cls in code.classes:
        if cls.family is None or cls.family.keeps is Keeps.STATIC:
            continue
        optional = [field for field in cls.own_fields if _may_be_derived(field, code)]
        if not optional:
            continue
        found = fillings(cls, code)
        for field in optional:
            filling = _derived(field, found.get(field.name, []))
            if filling is not None and field.node is not None:
                yield _found(cls, field, filling)


def _may_be_derived(field: Field, code: Code) -> bool:
    is_array = code.kinds.of_field(field).has_arrays or (
        field.annotation is not None and code.kinds.may_be_array(field)
    )
    return field.is_optional and not field.static and field.in_init and is_array


def _derived(field: Field, found: list[Filling]) -> Filling | None:
    """The filling to report: one that is computed from other fields, unless a filling
    shows that the field is state."""
    if any(filling.is_state for filling in found):
        return None
    private = field.name.startswith("_")
    for filling in found:
        alone = filling.updates_object and not filling.other_inputs
        if filling.sources and (private or alone):
            return filling
    return None


def _found(cls: Class, field: Field, filling: Filling) -> Found:
    assert field.node is not None
    return Found(
        field.node,
        f"`{cls.name}.{field.name}` is computed from `{min(filling.sources)}` in line "
        f"{filling.node.lineno} and kept as a leaf: stale after an update, and no "
        "gradient flows back. Use cachax.cached_property.",
    )
