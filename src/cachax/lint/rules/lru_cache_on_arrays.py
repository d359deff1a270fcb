"""`lru_cache` on a function of JAX arrays leaks tracers, or fails.

## What it does

Finds `functools.lru_cache`, `functools.cache` and similar tables (methodtools,
cachetools, or a property made with one: `property(lru_cache(None)(f))`) on functions
and methods that return JAX arrays, or a function that reads arrays which they compute,
have a parameter annotated as an array (an error), or get an argument of a jitted
function (an error). For a function of a file that returns a function, the finding is
information. Also finds them on methods of objects that
hold arrays: of any pytree class with an array field, and of a plain class if the method
reads an array of its object and the linter can't tell what it returns. Also finds
functions that keep JAX arrays in a dictionary or a global variable, look whether they
are there, and return them or read them back (information), unless the function returns
before that if the key is None.

## Why is this bad?

The table outlives every trace. If the first call happens inside `jit` or `scan`, the
result is a tracer, even if the arguments are plain numbers, and the next call outside
fails with an `UnexpectedTracerError`. JAX arrays are not hashable, so they can't be
arguments at all. On a method the object is part of the key. A dataclass or equinox
module with array fields can't be hashed. A class that is hashed by identity gets a new
entry whenever JAX rebuilds the object. The table keeps every object alive, and returns
the old value after a field has changed.

## Example

```python
import functools

import jax.numpy as jnp


@functools.lru_cache
def window(n):
    return jnp.sin(jnp.linspace(0, jnp.pi, n)) ** 2
```

## Use instead

```python
import functools

import numpy as np


@functools.lru_cache
def window(n):
    return np.sin(np.linspace(0, np.pi, n)) ** 2
```

On a method, use `cachax.cached_method` or `cachax.cached_property`.

## When it is fine

It is never called inside a trace and no field of the object changes, or its body is
under `jax.ensure_compile_time_eval()` (which is not reported).
"""

import ast
from collections.abc import Iterator

from .._classes import called_in_the_end
from .._closures import closures_returned
from .._code import Code, Found
from .._descriptors import Caching, caching, is_table
from .._finding import Severity
from .._held import arrays_read
from .._jax_names import Kind
from .._kept import is_concrete, mentions_tracers
from .._module import FunctionNode, dotted
from .._project import Definition
from .._tables import entries
from .._tracing import Traced
from .._writes import own_object

CODE = "CX204"
SEVERITY = Severity.ERROR
MENTIONS = r"cache|functools|= \{\}|= None|[Dd]ict\("


def check(code: Code) -> Iterator[Found]:
    cached: dict[ast.AST, ast.expr] = {}
    for function in code.module.functions:
        for decorator in function.decorator_list:
            if _is_table(decorator, code):
                cached[function] = decorator
                yield from _of_function(function, decorator, code)
    for call in code.module.calls:
        wrapped = _wrapped(call, code)
        if wrapped is not None:
            yield from _of_function(wrapped, call, code)
    yield from _called_with_tracers(cached, code)
    for function in code.module.functions:
        yield from _by_hand(function, code)


def _by_hand(function: FunctionNode, code: Code) -> Iterator[Found]:
    """A dictionary or a global variable that a function fills. Whether it is called in
    a trace is rarely seen in its file."""
    for entry in entries(function, code.module):
        if not code.kinds.kept(entry.value, code.module).has_arrays:
            continue
        if is_concrete(function, code) or mentions_tracers(function):
            continue
        yield Found(
            entry.node,
            f"`{function.name}` keeps a JAX array in `{entry.table}`: if it is first "
            "called in a trace, it keeps a tracer. Use numpy instead.",
            Severity.INFORMATION,
        )


def _is_table(decorator: ast.expr, code: Code) -> bool:
    """`lru_cache`, or what makes such a property: `property(lru_cache(None)(f))`."""
    return (
        is_table(decorator, code.module, code.project)
        or caching(decorator, code.module, code.project) is Caching.IN_TABLE
    )


def _wrapped(call: ast.Call, code: Code) -> FunctionNode | None:
    """The function of this file in `lru_cache(f)` or `lru_cache(maxsize=3)(f)`."""
    wrapper = called_in_the_end(call.func)
    may = "cache" in (dotted(wrapper) or "")  # most calls are not one
    if not call.args or not may or not is_table(call, code.module, code.project):
        return None
    match code.project.resolve(call.args[0], code.module):
        case Definition(module, ast.FunctionDef() as function):
            return function if module is code.module else None
    return None


def _of_function(
    function: FunctionNode, decorator: ast.expr, code: Code
) -> Iterator[Found]:
    name = f"`{function.name}` (@{ast.unparse(called_in_the_end(decorator))})"
    array = _array_parameter(function, code)
    if array is not None:
        yield Found(
            decorator,
            f"{name} has the parameter `{array}`, a JAX array: arrays are not "
            "hashable, so the call fails.",
        )
    elif is_concrete(function, code):
        return
    elif _value(function, code).has_arrays:
        cls = code.class_around(function)
        instead = "numpy" if cls is None else "cachax.cached_method"
        yield Found(
            decorator,
            f"{name} returns a JAX array: if it is first called in a trace, it keeps a "
            f"tracer. Use {instead} instead.",
            Severity.WARNING,
        )
    else:
        yield from list(_of_method(function, decorator, name, code)) or list(
            _of_maker(function, decorator, name, code)
        )


def _value(function: FunctionNode, code: Code) -> Kind:
    """Outside of a class only what is sure: many such tables are made with numpy."""
    if own_object(function, code.module) is None:
        return code.kinds.returned(function, code.module)
    return code.kinds.sometimes_returned(function, code.module)


def _of_maker(
    function: FunctionNode, decorator: ast.expr, name: str, code: Code
) -> Iterator[Found]:
    taken = _taken_along(function, code)
    if taken is not None:
        yield Found(
            decorator,
            f"{name} returns a function that reads `{taken}`, a JAX array that is "
            "computed in it: if it is first called in a trace, that is a tracer. "
            "Compute it with numpy, or outside.",
            Severity.WARNING if _is_inside(function, code) else Severity.INFORMATION,
        )


def _is_inside(function: FunctionNode, code: Code) -> bool:
    """Whether it is defined in a function, which may be traced. What is defined in a
    file is often made for concrete arguments, and called before any trace."""
    return any(isinstance(n, FunctionNode) for n in code.module.around(function))


def _taken_along(function: FunctionNode, code: Code) -> str | None:
    closures = closures_returned(function, code.module, code.project)
    return next(filter(None, map(code.kinds.array_in, closures)), None)


def _of_method(
    function: FunctionNode, decorator: ast.expr, name: str, code: Code
) -> Iterator[Found]:
    """On an object that holds arrays, the object is the key."""
    cls = code.class_around(function)
    obj = own_object(function, code.module)
    if cls is None or obj is None or "__hash__" in cls.own_methods:
        return
    if cls.family is not None:
        leaves = [f for n, f in cls.fields.items() if n in cls.leaf_fields]
        held = [f.name for f in leaves if code.kinds.of_field(f).has_arrays]
        if held:
            yield Found(
                decorator,
                f"{name} uses the object as a key, and `{obj}.{held[0]}` is an array: "
                "the object can't be hashed, or is a new key whenever JAX rebuilds "
                "it. Use cachax.cached_method instead.",
                Severity.WARNING,
            )
        return
    if _value(function, code) is not Kind.UNKNOWN:
        return
    read = sorted(arrays_read(function, cls, code))
    if read:
        yield Found(
            decorator,
            f"{name} is computed from `{obj}.{read[0]}`, an array: it keeps every "
            "object alive, is stale when the array is replaced, and keeps a tracer if "
            "it is first called in a trace. Use cachax.cached_method instead.",
            Severity.WARNING,
        )


def _array_parameter(function: FunctionNode, code: Code) -> str | None:
    of = function.args
    for argument in [*of.posonlyargs, *of.args, *of.kwonlyargs]:
        kind = code.kinds.of_annotation(argument.annotation, code.module)
        if kind is Kind.ARRAY:
            return argument.arg
    return None


def _called_with_tracers(
    cached: dict[ast.AST, ast.expr], code: Code
) -> Iterator[Found]:
    """Where a jitted function passes an argument to a cached one."""
    for traced in code.traced if cached else ():
        if not traced.is_jit:
            continue
        for call in ast.walk(traced.function):
            if not isinstance(call, ast.Call):
                continue
            target = code.project.resolve(call.func, code.module)
            if not isinstance(target, Definition) or target.node not in cached:
                continue
            argument = _traced_argument(call, traced, code)
            if argument is not None:
                yield Found(
                    call,
                    f"`{argument}` is traced by {traced.by}, and a tracer is not "
                    "hashable: the cached function fails.",
                )


def _traced_argument(call: ast.Call, traced: Traced, code: Code) -> str | None:
    rebound = code.module.bound_in(traced.function)
    for node in [*call.args, *(keyword.value for keyword in call.keywords)]:
        name = node.id if isinstance(node, ast.Name) else ""
        if name in traced.traced_parameters and name not in rebound:
            return name
    return None
