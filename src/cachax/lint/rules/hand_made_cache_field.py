"""A field that is filled on first use goes stale, and its gradient is zero.

## What it does

Finds methods and properties of pytree classes that test whether a field is set (`if
self._c is None`) and fill it with a JAX array. On plain classes, the same is
information: it finds attributes that start as None, that are computed from the object
on first use, and that no method changes later. Values that are random, that are read
from files, or that the constructor may be given are not reported.

## Why is this bad?

To JAX the field is ordinary data. After `replace` or an optimizer step it still has the
old value, and no error is raised. `jax.grad` does not connect the field with what it
was computed from: the gradient is zero. The tree structure changes on first access
(None is not a leaf), so `jit` compiles again and `scan` rejects the carry. A value that
is written inside a jitted function is lost outside. On a plain class, the attribute
keeps a tracer if the first use is inside a jitted function, and it is stale when what
it was computed from changes.

## Example

```python
import flax.struct
import jax
import jax.numpy as jnp


class Foo(flax.struct.PyTreeNode, frozen=False):
    a: jax.Array
    _energy: jax.Array | None = None

    @property
    def energy(self):
        if self._energy is None:
            self._energy = jnp.sum(self.a**2)
        return self._energy
```

## Use instead

```python
import cachax
import flax.struct
import jax
import jax.numpy as jnp


class Foo(flax.struct.PyTreeNode):
    a: jax.Array

    @cachax.cached_property
    def energy(self):
        return jnp.sum(self.a**2)
```

## When it is fine

The field holds state that is set once, and that is not computed from the other fields.
On a plain class: the attribute is never filled inside a trace, and what it was computed
from doesn't change.
"""

from collections.abc import Iterator

from .._classes import Class
from .._code import Code, Found
from .._families import Keeps
from .._finding import Severity
from .._jax_names import Kind
from .._lazy import lazy_values
from .._module import FunctionNode
from .._reach import reached_in_traces
from .._writes import Write, is_maker, is_returned, own_object, writes

CODE = "CX201"
SEVERITY = Severity.ERROR
MENTIONS = r"class\s"


def check(code: Code) -> Iterator[Found]:
    for cls in code.classes:
        yield from _on_plain_class(cls, code)
        if cls.family is None or cls.family.keeps is Keeps.STATIC:
            continue
        for function in cls.own_methods.values():
            obj = own_object(function, code.module)
            if obj is None or is_maker(function, cls):
                continue
            for write in writes(function, obj, code.module):
                is_field = write.attribute in cls.tree_fields and not write.is_item
                if not is_field or not write.is_lazy:
                    continue
                if is_returned(write, function, obj, code.module):
                    yield from _judged(write, function, cls, code)


def _on_plain_class(cls: Class, code: Code) -> Iterator[Found]:
    """If traced code of the file reads it, CX104 or CX203 reports it. If the class is a
    base of a pytree class, CX101 does."""
    if any(other.family and cls in other.ancestors for other in code.classes):
        return
    for lazy in lazy_values(cls, code):
        if lazy.function not in reached_in_traces(code):
            yield Found(
                lazy.write.node,
                f"`{cls.name}.{lazy.function.name}` keeps a JAX array in "
                f"`self.{lazy.write.attribute}` on first use: stale when what it was "
                "computed from changes, a tracer if that is in a trace. Use "
                "cachax.cached_property.",
                Severity.INFORMATION,
            )


def _judged(
    write: Write, function: FunctionNode, cls: Class, code: Code
) -> Iterator[Found]:
    kind = code.kinds.of(write.value, code.module)
    if kind is Kind.OTHER:
        return
    yield Found(
        write.node,
        f"`{cls.name}.{function.name}` fills the field `{write.attribute}` on first "
        "use: stale after `replace`, zero gradient, and the tree changes. Use "
        "cachax.cached_property.",
        None if kind.has_arrays else Severity.INFORMATION,
    )
