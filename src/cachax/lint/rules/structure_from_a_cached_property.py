"""A cached property that `tree_flatten` reads determines the tree.

## What it does

Finds cached properties, of functools or of cachax, that `tree_flatten` (or
`tree_flatten_with_keys`, or the function given to `register_pytree_node`) reads.
A property that is static data itself, and reads only static data, is not reported.

## Why is this bad?

JAX flattens objects often, also objects that are only partly initialised, with tracers
or placeholders as leaves. The property is then computed on whatever is in the fields.
As a leaf, its value is data: it is mapped, batched and optimized like a parameter, and
its gradient does not reach the fields. As static data it is compared in every call, and
may hold a tracer.

## Example

```python
import functools

import jax
import jax.numpy as jnp


@jax.tree_util.register_pytree_node_class
class Series:
    def __init__(self, x):
        self.x = x

    @functools.cached_property
    def total(self):
        return jnp.sum(self.x)

    def tree_flatten(self):
        return (self.x, self.total), None

    @classmethod
    def tree_unflatten(cls, _, children):
        return cls(children[0])
```

## Use instead

```python
import cachax
import jax
import jax.numpy as jnp


@jax.tree_util.register_pytree_node_class
class Series:
    def __init__(self, x):
        self.x = x

    @cachax.cached_property
    def total(self):
        return jnp.sum(self.x)

    def tree_flatten(self):
        return (self.x,), None

    @classmethod
    def tree_unflatten(cls, _, children):
        return cls(children[0])
```

## When it is fine

The value depends only on static data, and is static data itself.
"""

import ast
from collections.abc import Iterator

from .._classes import Class
from .._code import Code, Found
from .._finding import Severity
from .._kept import cached_decorator, is_cachax
from .._module import FunctionNode
from .._reach import methods_used
from .._tracing import TracedNode, parameters, reads_of
from .._writes import own_object

CODE = "CX207"
SEVERITY = Severity.WARNING
MENTIONS = r"tree_flatten|register_pytree"


def check(code: Code) -> Iterator[Found]:
    for cls, function in _flatteners(code):
        obj = next(iter(parameters(function)), None)
        for read in reads_of(obj, function) if obj else ():
            method = cls.method(read.attr)
            if method is not None and _is_cached(*method, code):
                if _is_static(read.attr, method[1], cls, code):
                    continue
                yield Found(
                    read,
                    f"`{cls.name}.{read.attr}` is a cached property, and is read when "
                    "JAX flattens the object: it determines the tree. Flatten only the "
                    "fields.",
                )


def _is_cached(owner: Class, function: FunctionNode, code: Code) -> bool:
    module = owner.module
    cached = cached_decorator(function, module, code.project)
    return cached is not None or is_cachax(function, module, code.project)


def _is_static(name: str, function: FunctionNode, cls: Class, code: Code) -> bool:
    """Whether it is static data, and is computed only from static data."""
    if not cls.leaf_fields or name in cls.leaf_fields:
        return False
    if code.kinds.sometimes_returned(function, cls.module).has_arrays:
        return False
    for method, owner in methods_used(function, cls).items():
        obj = own_object(method, owner.module)
        uses = [n for n in ast.walk(method) if isinstance(n, ast.Name) and n.id == obj]
        for use in uses:
            match owner.module.parent(use):
                case ast.Attribute(_, attribute, ast.Load()):
                    if attribute in cls.leaf_fields:
                        return False
                case _:
                    return False  # `vars(self)`
    return True


def _flatteners(code: Code) -> Iterator[tuple[Class, TracedNode]]:
    for cls in code.classes:
        for function, module in cls.own_flatteners:
            if module is code.module:
                yield cls, function
