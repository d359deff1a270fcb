"""`jax.jit` with a static `self` makes the arrays of the object constants.

## What it does

Finds methods jitted with `static_argnums=0` or `static_argnames="self"` that read an
array of the object (a warning), or an attribute that a different method assigns (an
error). An attribute counts as an array if `__init__` assigns one to it, if its
annotation says so, if the class uses it as only arrays can be used (`self.x @ y`,
`jnp.interp(x, self.x, self.y)`, `jax.vmap(f)(self.x)`, `net.apply(self.x, y)`,
`self.x[i]` where `i` is an argument of the jitted method, or as an argument that a
function of the project annotates as an array), if the class is a pytree and the
attribute is one of its leaves, or if it is an object of which arrays are read. An
object that is annotated as a pytree class without leaves holds arrays if a subclass
does. What other methods, `super()` and functions in attributes
(`self.f = jax.vmap(self.g)`) read counts too, and so do subclasses in the same file
that inherit the method. An error is also reported if the bound method, which may be one
of a base class, is jitted and kept, as in `self.f = jax.jit(self.method)` (in a
variable, it is information), or if a function that reads `self` is jitted and kept when
the object is made or on first use, as in `self.f = jax.jit(lambda x: self.w * x)`, or
returned by a cached property. A local variable `w = self.w` that it reads counts too.
If such a method or function reads an array that is not assigned again, that is a
warning. A function of the project that passes what it is given to `jax.jit` counts as
`jax.jit`.

## Why is this bad?

JAX identifies a static object by its hash, mostly its identity. Its arrays become
constants of the compiled program: every object is compiled separately and is never
freed, nothing can be differentiated with respect to the arrays, and after `obj.x = ...`
the program still uses the old array. No error is raised.

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

The object holds only settings (numbers, names, shapes) and defines `__eq__` and
`__hash__` from them. Without arrays and without assignments it is not reported.
A hash by value does not help with assignments: JAX 0.9 and 0.10 do not compute the
hash of an object again that they have used before.
"""

import ast
from collections.abc import Iterator
from dataclasses import replace

from .._classes import Class, is_setter
from .._code import Code, Found
from .._finding import Severity
from .._held import arrays_read, arrays_read_inside
from .._kept import cached_decorator
from .._module import FunctionNode
from .._reach import attributes_read, methods_used, reads_reached
from .._tracing import Traced, TracedNode, jitted_of_bases, parameters, reads_of
from .._writes import is_maker, own_object, writes

CODE = "CX205"
SEVERITY = Severity.ERROR
MENTIONS = r"static_arg(nums|names)|jit\(|cached_property"


def check(code: Code) -> Iterator[Found]:
    for traced in code.traced:
        method = traced.function
        cls = code.class_around(method)
        if cls is None or not traced.is_jit:
            continue
        if _object_of(method, code) is None:
            yield from _closed_over(traced, cls, code)
        if not isinstance(method, FunctionNode):
            continue
        is_static = own_object(method, code.module) in traced.static
        if not is_static and traced.bound_to is None:
            continue
        if not is_static and _is_called_at_once(traced, code):
            continue
        for one in [cls, *_subclasses(cls, method, code)]:
            found = _of_object(traced, method, one, code, is_static)
            if found is not None:
                yield found
                break
    for traced in jitted_of_bases(code.module, code.project):
        cls = code.class_around(traced.said)
        if cls is not None and not _is_called_at_once(traced, code):
            assert isinstance(traced.function, FunctionNode)
            found = _of_object(traced, traced.function, cls, code, is_static=False)
            if found is not None:
                yield found


def _subclasses(cls: Class, method: FunctionNode, code: Code) -> list[Class]:
    """The classes of the file that inherit a method."""
    return [
        other
        for other in code.classes
        if cls in other.ancestors[1:] and other.method(method.name) == (cls, method)
    ]


def _of_object(
    traced: Traced, method: FunctionNode, cls: Class, code: Code, is_static: bool
) -> Found | None:
    read = attributes_read(method, cls)
    apart_from = _where_jitted(traced, code)
    if method not in cls.own_methods.values():
        # A subclass may set itself up in what the method calls.
        apart_from |= set(methods_used(method, cls))
    changed = sorted(read & _assigned_later(cls, apart_from))
    for_good = is_static or _kept_for_good(traced, cls, code) is not None
    arrays = sorted(arrays_read(method, cls, code)) if for_good else []
    if changed:
        found = _found(traced, method.name, cls, changed[0], changed=True)
        kept = is_static or _is_kept(traced, code)
        return found if kept else replace(found, severity=Severity.INFORMATION)
    if arrays:
        return _found(traced, method.name, cls, arrays[0], changed=False)
    return None


def _object_of(function: TracedNode, code: Code) -> str | None:
    if isinstance(function, ast.Lambda):
        return None
    return own_object(function, code.module)


def _is_called_at_once(traced: Traced, code: Code) -> bool:
    """`jax.jit(self.f)(x)`: a bound method is a new object each time, and what was
    compiled for it goes with it."""
    parent = code.module.parent(traced.said)
    return isinstance(parent, ast.Call) and parent.func is traced.said


def _is_kept(traced: Traced, code: Code) -> bool:
    """On the object. In a variable, it may be gone before anything changes."""
    match code.module.parent(traced.said):
        case ast.Assign([ast.Attribute()]) | ast.AnnAssign(ast.Attribute()):
            return True
    return False


def _kept_for_good(traced: Traced, cls: Class, code: Code) -> tuple[str, str] | None:
    """Object and attribute in `self.f = jax.jit(...)`, or in `self.f = f` with a jitted
    function `f` of the same method: where the object is made, or on first use, unless
    `f` is assigned again somewhere. That is compiled once for good, and so is what a
    cached property returns."""
    for method in code.module.around(traced.said):
        if not isinstance(method, FunctionNode):
            continue
        obj = own_object(method, code.module)
        if obj is None:
            continue
        for write in writes(method, obj, code.module):
            for_good = write.is_lazy or is_maker(method, cls)
            if for_good and _is_jitted(write.value, traced):
                again = write.attribute in _assigned_later(cls, set())
                return None if again else (obj, write.attribute)
        if cached_decorator(method, code.module, code.project) is not None:
            for node in code.module.own_nodes(method):
                if isinstance(node, ast.Return) and _is_jitted(node.value, traced):
                    return obj, method.name
    return None


def _is_jitted(value: ast.expr | None, traced: Traced) -> bool:
    """`jax.jit(...)` itself, or the name of the function that it decorates."""
    match value, traced.function:
        case ast.Name(name), ast.FunctionDef(decorated, decorator_list=decorators):
            return name == decorated and traced.said in decorators
    return value is traced.said


def _closed_over(traced: Traced, cls: Class, code: Code) -> Iterator[Found]:
    """`self.f = jax.jit(lambda x: self.w * x)`. What is only assigned later may be
    assigned once: not reported."""
    obj, kept = _kept_for_good(traced, cls, code) or ("", "")
    if not obj or obj in set(parameters(traced.function)) - traced.static:
        return
    later = _assigned_later(cls, set())
    read = {node.attr for node in reads_of(obj, traced.function)}
    read |= {through.attr for through, _ in reads_reached(read, cls)}
    changed = sorted(read & later & set(cls.fields))
    arrays = sorted(arrays_read_inside(traced.function, obj, cls, code))
    if changed or arrays:
        name = changed[0] if changed else arrays[0]
        yield _found(traced, kept, cls, name, changed=bool(changed))


def _where_jitted(traced: Traced, code: Code) -> set[ast.AST]:
    """The method itself, and those that jit it (again)."""
    same = [other for other in code.traced if other.function is traced.function]
    jitted = [traced.said, *(other.said for other in same if other.is_jit)]
    outer = {node for said in jitted for node in code.module.around(said)}
    return {traced.function, *outer}


def _assigned_later(cls: Class, apart_from: set[ast.AST]) -> set[str]:
    """The attributes that methods assign after the object was made."""
    found: set[str] = set()
    for owner in cls.ancestors:
        for function in owner.own_functions:
            obj = own_object(function, owner.module)
            # What a subclass overrides may call a helper of its base.
            makes = is_maker(function, owner) or is_maker(function, cls)
            later = is_setter(function) or not makes
            if obj and later and function not in apart_from:
                lasting = [
                    w for w in writes(function, obj, owner.module) if not w.is_lazy
                ]
                found |= {write.attribute for write in lasting}
    return found


def _found(traced: Traced, method: str, cls: Class, name: str, changed: bool) -> Found:
    what = (
        "is assigned by a different method: the compiled program keeps the old value"
        if changed
        else "is an array, or holds one: it becomes a constant, and each object is "
        "compiled again and kept alive"
    )
    is_static = "self" in traced.static or traced.static & set(
        parameters(traced.function)[:1]
    )
    how = "a static `self`" if is_static else "`self` bound to it"
    return Found(
        traced.said,
        f"`{cls.name}.{method}` is jitted with {how}, and "
        f"`self.{name}` {what}. Register the class as a pytree, or pass the array.",
        None if changed else Severity.WARNING,
    )
