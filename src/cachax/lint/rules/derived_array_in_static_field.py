"""An array in a static field is a compile-time constant, and its gradient is zero.

## What it does

Finds JAX arrays that `__init__` or `__post_init__` stores in a static field
(`static=True`, `pytree_node=False`, `meta_fields`). On classes that are rebuilt without
running `__init__` (equinox), also finds arrays that are computed from other fields and
stored in a field with `init=False`, or by a method that `__init__` calls and that uses
`object.__setattr__` (a warning).

## Why is this bad?

A static field is part of the tree structure. Its array is a constant of every compiled
program: no gradient flows to what it was computed from, and it does not change with the
other fields. Arrays have no hash, and `==` of two arrays is not a single boolean, so
`jax.jit` fails when it compares two objects. A derived field with `init=False` is an
ordinary leaf: after `tree_at` or an optimizer step it is stale.

## Example

```python
import equinox as eqx
import jax
import jax.numpy as jnp


class Process(eqx.Module):
    x: jax.Array
    energy: jax.Array = eqx.field(static=True)

    def __init__(self, x: jax.Array):
        self.x = x
        self.energy = jnp.sum(x**2)
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
    def energy(self) -> jax.Array:
        return jnp.sum(self.x**2)
```

## When it is fine

The array is a constant table. Then compute it with numpy, and store it in a static
field as something hashable.
"""

import ast
from collections.abc import Iterator

from .._classes import Class
from .._code import Code, Found
from .._fields import Field
from .._fillings import Inputs
from .._finding import Severity
from .._jax_names import Kind
from .._module import FunctionNode
from .._writes import Write, is_maker, own_object, writes

CODE = "CX206"
SEVERITY = Severity.ERROR
MENTIONS = (
    r"static|pytree_node|meta_fields|register_dataclass|init\s*=\s*False|__setattr__"
)
_FIRST = ("__init__", "__post_init__")


def check(code: Code) -> Iterator[Found]:
    for cls in code.classes:
        if cls.family is None:
            continue
        for function in cls.own_functions:
            obj = own_object(function, code.module)
            if obj is None or not is_maker(function, cls):
                continue
            for write in writes(function, obj, code.module):
                found = _judged(write, function, cls, code)
                if found is not None:
                    yield found


def _judged(
    write: Write, function: FunctionNode, cls: Class, code: Code
) -> Found | None:
    field = cls.declared.get(write.attribute)
    kind = code.kinds.of(write.value, code.module)
    if field is None or not kind.has_arrays:
        return None
    if field.static:
        return Found(
            write.node,
            f"`{cls.name}.{field.name}` is static and gets a JAX array: a constant of "
            "every program, zero gradient, and jit can't compare it. Use "
            "cachax.cached_property.",
        )
    assert cls.family is not None
    if kind is not Kind.ARRAY:
        return None
    # `object.__setattr__(self, "x", ...)` in a helper of `__init__`.
    refreshed = function.name not in _FIRST and isinstance(write.node, ast.Call)
    derived = refreshed or not field.in_init
    if derived and not cls.family.runs_init and write.value is not None:
        source = _other_field(write.value, field, function, cls, code)
        if source is not None:
            return Found(
                write.node,
                f"`{cls.name}.{field.name}` is computed from `{source}` once and is a "
                "leaf from then on: stale after an update, no gradient flows back. Use "
                "cachax.cached_property.",
                Severity.WARNING,
            )
    return None


def _other_field(
    value: ast.expr, field: Field, function: FunctionNode, cls: Class, code: Code
) -> str | None:
    """Another field with an array that the value is computed from: `self.x`, or the
    parameter `x` that is stored there."""
    obj = own_object(function, code.module) or ""
    stored = {
        write.value.id: write.attribute
        for write in writes(function, obj, code.module)
        if isinstance(write.value, ast.Name)
    }
    inputs = Inputs(function, code)
    inputs.add(value)
    read = {attribute for name, attribute in inputs.attributes if name == obj}
    read |= {stored[name] for name in inputs.variables & set(stored)}
    for name in sorted(read - {field.name}):
        other = cls.declared.get(name)
        if other is None or other.static:
            continue
        if code.kinds.of_field(other) is Kind.ARRAY:
            return other.name
    return None
