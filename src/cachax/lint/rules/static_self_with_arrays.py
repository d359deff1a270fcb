"""`jax.jit` with a static `self` bakes the arrays of the object in.

## What it does

Finds methods jitted with `static_argnums=0` or `static_argnames="self"` that read an
array of the object (a warning), or an attribute that another method assigns (an
error).

## Why is this bad?

A static object is told from another by its hash, mostly its identity. Its arrays
become constants of the compiled program: every object is compiled anew and kept alive
for ever, nothing can be differentiated by them, and after `obj.x = ...` the program
still has the old one, and nothing says so.

## Example

```python
import functools

import jax


class Model:
    def __init__(self, w):
        self.w = w

    def update(self, w):
        self.w = w

    @functools.partial(jax.jit, static_argnums=0)
    def predict(self, x):
        return self.w * x
```

## Use instead

```python
import dataclasses

import jax


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Model:
    w: jax.Array

    @jax.jit
    def predict(self, x):
        return self.w * x
```

## When it is fine

The object holds settings only (numbers, names, shapes) and defines `__eq__` and
`__hash__` by them. Without arrays and without assignments it is not reported.
"""

from collections.abc import Iterator

from .._classes import Class
from .._code import Code, Found
from .._finding import Severity
from .._jax_names import Kind
from .._module import FunctionNode
from .._reach import attributes_read
from .._tracing import Traced
from .._writes import is_maker, is_setter, own_object, writes

CODE = "CX205"
SEVERITY = Severity.ERROR
MENTIONS = r"static_arg(nums|names)"


def check(code: Code) -> Iterator[Found]:
    for traced in code.traced:
        method = traced.function
        cls = code.class_around(method)
        if cls is None or not isinstance(method, FunctionNode) or not traced.is_jit:
            continue
        if own_object(method, code.module) not in traced.static:
            continue
        read = attributes_read(method, cls)
        changed = sorted(read & _assigned_later(cls, method))
        arrays = sorted(name for name in read if _is_array(name, cls, code))
        if changed:
            yield _found(traced, method, cls, changed[0], changed=True)
        elif arrays:
            yield _found(traced, method, cls, arrays[0], changed=False)


def _assigned_later(cls: Class, method: FunctionNode) -> set[str]:
    """The attributes that other methods assign, after the object was made."""
    found: set[str] = set()
    for owner in cls.ancestors:
        for function in owner.own_methods.values():
            obj = own_object(function, owner.module)
            later = is_setter(function) or not is_maker(function, owner.module)
            if obj and later and function is not method:
                lasting = [
                    w for w in writes(function, obj, owner.module) if not w.is_lazy
                ]
                found |= {write.attribute for write in lasting}
    return found


def _is_array(name: str, cls: Class, code: Code) -> bool:
    field = cls.fields.get(name)
    return field is not None and code.kinds.of_field(field) is Kind.ARRAY


def _found(
    traced: Traced, method: FunctionNode, cls: Class, name: str, changed: bool
) -> Found:
    what = (
        "is assigned by another method: the compiled program keeps the old value"
        if changed
        else "is a JAX array: it becomes a constant, each object is compiled anew and "
        "kept alive"
    )
    return Found(
        traced.said,
        f"`{cls.name}.{method.name}` is jitted with a static `self`, and "
        f"`self.{name}` {what}. Register the class as a pytree, or pass the array.",
        None if changed else Severity.WARNING,
    )
