"""A dictionary of cached arrays on an object goes stale or keeps tracers.

## What it does

Finds `self._cache[key] = value` if the value is a JAX array, or a function that reads
one which is computed where it is made, if the same function tests whether the key is
there, and the class is a pytree or is read in traced code. Also finds
`obj._workspace[key] = value` on a parameter, if the name of the attribute suggests a
cache and the function computes something from the object. On plain classes that no
traced function of the file uses, the finding is information: if the name suggests a
cache, or if the dictionary is private, starts empty, and holds only what one method
computes from the object and returns. What is read from files is not reported there. If
the value is unknown, the function returns it, and is annotated to return an array, it
counts as one.

## Why is this bad?

Nothing empties the dictionary when a field changes. On a pytree the dictionary is lost
at every jit boundary, or passed to JAX as data. If the first access happens inside a
trace and the object was made outside of it, the dictionary keeps a tracer.

## Example

```python
import jax
import jax.numpy as jnp


@jax.tree_util.register_pytree_node_class
class Cosmology:
    def __init__(self, omega):
        self.omega = omega
        self._workspace = {}

    def tree_flatten(self):
        return (self.omega,), None

    @classmethod
    def tree_unflatten(cls, _, children):
        return cls(*children)

    def distances(self):
        if "distances" not in self._workspace:
            self._workspace["distances"] = jnp.cumsum(jnp.ones(100) * self.omega)
        return self._workspace["distances"]
```

## Use instead

```python
import cachax
import jax
import jax.numpy as jnp


@jax.tree_util.register_pytree_node_class
class Cosmology:
    def __init__(self, omega):
        self.omega = omega

    def tree_flatten(self):
        return (self.omega,), None

    @classmethod
    def tree_unflatten(cls, _, children):
        return cls(*children)

    @cachax.cached_property
    def distances(self):
        return jnp.cumsum(jnp.ones(100) * self.omega)
```

For a value with arguments, `cachax.cached_method`.

## When it is fine

No field of the object changes, and the dictionary is filled outside of any trace. (A
body under `jax.ensure_compile_time_eval()` is not reported.)
"""

import ast
import re
from collections.abc import Iterator

from .._classes import Class
from .._closures import closures_in
from .._code import Code, Found
from .._families import Keeps
from .._finding import Severity
from .._kept import holds_arrays, is_concrete
from .._lazy import is_lazy_item, is_loading
from .._module import FunctionNode
from .._reach import reached_in_traces
from .._tracing import parameters
from .._writes import Write, is_maker, own_object, writes

CODE = "CX202"
SEVERITY = Severity.WARNING
MENTIONS = r"\w\[[^\]]*\]\s*=[^=]|setdefault"
_CACHE = re.compile(r"cache|memo|workspace|lazy", re.IGNORECASE)


def check(code: Code) -> Iterator[Found]:
    for function in code.module.functions:
        cls = code.class_around(function)
        obj = own_object(function, code.module)
        if obj is None or cls is None:
            for parameter in parameters(function):
                for write in _kept_items(function, parameter, code):
                    if _CACHE.search(write.attribute):
                        sure = _depends_on(function, parameter, write, code)
                        yield _found(write, function.name, parameter, sure)
        elif not is_maker(function, cls) and not _is_nnx(cls):
            for write in _kept_items(function, obj, code):
                if cls.family or function in reached_in_traces(code):
                    yield _found(write, _name(cls, function), obj, sure=True)
                elif is_loading(function):
                    continue
                elif _CACHE.search(write.attribute) or is_lazy_item(
                    write, function, cls, code
                ):
                    yield _found(write, _name(cls, function), obj, sure=False)


def _depends_on(
    function: FunctionNode, parameter: str, write: Write, code: Code
) -> bool:
    """Whether something is computed from the object besides what it keeps: its other
    attributes are read, or it is passed on; and it may be a pytree for all we know."""
    cls = code.objects.class_of(_use_of(function, parameter), code.module)
    if cls is not None and cls.family is None and cls.is_known_whole:
        return False
    for node in ast.walk(function):
        match node:
            case ast.Attribute(ast.Name(name), attribute) if name == parameter:
                if attribute != write.attribute:
                    return True
            case ast.Call(_, arguments):
                if any(
                    isinstance(a, ast.Name) and a.id == parameter for a in arguments
                ):
                    return True
    return False


def _use_of(function: FunctionNode, name: str) -> ast.Name | None:
    uses = (n for n in ast.walk(function) if isinstance(n, ast.Name) and n.id == name)
    return next(uses, None)


def _is_nnx(cls: Class) -> bool:
    return cls.family is not None and cls.family.keeps is Keeps.STATIC


def _kept_items(function: FunctionNode, obj: str, code: Code) -> Iterator[Write]:
    if is_concrete(function, code):
        return
    for write in writes(function, obj, code.module):
        kept = write.is_item and write.is_lazy and not _is_part(write.key)
        if kept and _has_arrays(write, function, obj, code):
            yield write


def _has_arrays(write: Write, function: FunctionNode, obj: str, code: Code) -> bool:
    """Arrays, or a function that reads some which are computed where it is made."""
    made = closures_in([write.value], function, code.module, code.project)
    kind = code.kinds.kept(write.value, code.module)
    return holds_arrays(write, function, obj, code, kind) or any(
        map(code.kinds.array_in, made)
    )


def _is_part(key: ast.expr | None) -> bool:
    """`x[...] = y`, `x[1:] = y`: x is an array or a Ref, not a dictionary."""
    is_dots = isinstance(key, ast.Constant) and key.value is ...
    return is_dots or isinstance(key, ast.Slice)


def _name(cls: Class, function: FunctionNode) -> str:
    return f"{cls.name}.{function.name}"


def _found(write: Write, name: str, obj: str, sure: bool) -> Found:
    return Found(
        write.node,
        f"`{name}` keeps a JAX array in `{obj}.{write.attribute}`: stale when a field "
        "changes, a tracer if first computed in a trace. Use cachax.cached_property or "
        "cachax.cached_method.",
        None if sure else Severity.INFORMATION,
    )
