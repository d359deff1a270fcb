"""What traced code writes to `self` is lost, or is a tracer.

## What it does

Finds assignments to attributes of `self` (also by `object.__setattr__`) and of objects
that it holds, in functions that `jax.jit` or a loop of `jax.lax` traces, and values
that they append to its lists. Finds the same in methods that such a function calls, and
arrays in methods of a subclass that a traced method of its base class calls (a
warning); in methods of a frozen pytree class, where they raise; and for arrays in
properties of other pytree classes, or by `object.__setattr__` on a frozen one (a
warning). In other methods of an unfrozen pytree class, and if the value is not an
array, or the linter can't tell and no argument goes into it, the finding is
information. `nnx` has its own rules for this and is not checked.

## Why is this bad?

A traced function runs once, with tracers. If the object is an argument, the write goes
to a copy and is lost. If it is static or closed over, the write leaves a tracer on the
object, once, and does not happen in later calls.

## Example

```python
import functools

import jax
import jax.numpy as jnp


class Counter:
    def __init__(self):
        self.total = 0

    @functools.partial(jax.jit, static_argnums=0)
    def add(self, x):
        self.total = self.total + jnp.sum(x)
        return self.total
```

## Use instead

```python
import jax
import jax.numpy as jnp


@jax.jit
def add(total, x):
    return total + jnp.sum(x)
```

## When it is fine

The write should happen once for each trace, and the value is not an array: for example
a count of traces. A jitted method that has its object as an argument and returns it is
not reported.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from .._classes import Class, is_property, is_setter
from .._code import Code, Found
from .._families import Keeps
from .._finding import Severity
from .._jax_names import Kind
from .._module import FunctionNode, dotted
from .._project import Definition
from .._reach import members_read, methods_used
from .._tracing import Traced, parameters, traced_functions
from .._writes import (
    Write,
    is_maker,
    own_object,
    put_into_lists,
    writes,
    writes_inside,
)

CODE = "CX203"
SEVERITY = Severity.ERROR
MENTIONS = r"class\s"
_CALLBACK = re.compile(r"(callback|id_tap|host_callback\.call)$")


def check(code: Code) -> Iterator[Found]:
    reached = _reached(code)
    for function in code.module.functions:
        inside = _inside(function, code)
        if inside is None or is_setter(inside.method):
            continue
        traced = _traced_around(inside, code)
        if traced is None and is_maker(inside.method, inside.cls):
            continue
        if traced is not None and _is_given_back(inside, traced, code):
            continue
        caller = reached.get(inside.method)
        for write in put_into_lists(function, inside.obj, inside.cls, code.module):
            if traced is not None:
                yield _in_traced(write, inside, traced, code)
            elif caller is not None:
                yield from _in_called(write, inside, caller, code)
        if traced is not None:
            for write in writes_inside(function, inside.obj, code.module):
                yield _in_traced(write, inside, traced, code)
        for write in writes(function, inside.obj, code.module):
            if write.is_item and not _is_name(write.key):
                continue  # `self.ref[...] = x`: a Ref is made to be written to
            if traced is not None:
                yield _in_traced(write, inside, traced, code)
            elif write.is_item or (write.is_lazy and inside.cls.family):
                continue  # a cache: CX101, CX201, CX202
            elif caller is not None:
                yield from _in_called(write, inside, caller, code)
            elif inside.cls.family is not None:
                yield from _in_pytree(write, inside, code)


@dataclass(frozen=True)
class _Caller:
    """A traced function that calls a method."""

    by: str  # the full name of the transform
    where: str
    of_base: bool = False


@dataclass(frozen=True)
class _Inside:
    """A function in a method (or the method itself) that sees its `self`."""

    function: FunctionNode
    method: FunctionNode
    cls: Class
    obj: str

    @property
    def name(self) -> str:
        return f"`{self.cls.name}.{self.method.name}`"


def _inside(function: FunctionNode, code: Code) -> _Inside | None:
    own: set[str] = set()  # variables of the functions in between
    for method in [function, *code.module.around(function)]:
        if isinstance(method, FunctionNode):
            obj = own_object(method, code.module)
            if obj in own:
                return None
            own |= {*parameters(method), *code.module.bound_in(method)}
            cls = code.class_around(method)
            if obj is not None and cls is not None:
                nnx = cls.family is not None and cls.family.keeps is Keeps.STATIC
                return None if nnx else _Inside(function, method, cls, obj)
    return None


def _traced_around(inside: _Inside, code: Code) -> Traced | None:
    """The trace that runs the function: its own, or that of one around it."""
    on_host = code.module.remember(_called_back, lambda: _called_back(code))
    for outer in [inside.function, *code.module.around(inside.function)]:
        if outer in on_host:
            return None
        traced = code.traced_nodes.get(outer)
        if traced is not None and not traced.by.startswith("flax."):
            return traced
        if outer is inside.method:
            break
    return None


def _is_given_back(inside: _Inside, traced: Traced, code: Code) -> bool:
    """The object is an argument, and the copy that is changed is returned."""
    return inside.obj in traced.traced_parameters and any(
        isinstance(part, ast.Name) and part.id == inside.obj
        for node in code.module.own_nodes(inside.function)
        if isinstance(node, ast.Return) and node.value is not None
        for part in getattr(node.value, "elts", [node.value])
    )


def _called_back(code: Code) -> set[ast.AST]:
    """Functions that run outside of the trace: `jax.debug.callback(f, x)`."""
    calls = [
        call
        for call in code.module.calls
        if call.args
        and _CALLBACK.search(dotted(call.func) or "")
        and code.name_of(call.func).startswith("jax.")
    ]
    first = [code.project.resolve(call.args[0], code.module) for call in calls]
    return {found.node for found in first if isinstance(found, Definition)}


def _reached(code: Code) -> dict[FunctionNode, _Caller]:
    """The methods that traced functions call, and from where."""
    found: dict[FunctionNode, _Caller] = {}
    for traced in code.traced:
        if not traced.by.startswith("flax."):
            caller = _Caller(traced.by, f"line {traced.function.lineno}")
            for function in members_read(traced, code, of_arguments=True):
                found[function] = caller
    for cls in code.classes:
        for method, caller in _inherited(cls, code):
            for function in methods_used(method, cls):
                found.setdefault(function, caller)
    return found


def _inherited(cls: Class, code: Code) -> Iterator[tuple[FunctionNode, _Caller]]:
    """The traced methods that a class has from its bases: they call what the class
    overrides. If `jax.jit(self.method)` is in a base class, that is what is traced."""
    for owner in cls.ancestors[1:]:
        for traced in traced_functions(owner.module, code.project):
            method = traced.function
            if not isinstance(method, FunctionNode) or traced.by.startswith("flax."):
                continue
            if method is not owner.own_methods.get(method.name):
                continue
            if traced.bound_to or cls.method(method.name) == (owner, method):
                where = f"`{owner.name}.{method.name}`"
                yield method, _Caller(traced.by, where, of_base=True)


def _is_no_array(write: Write, code: Code) -> bool:
    return code.kinds.of(write.value, code.module) is Kind.OTHER


def _in_traced(write: Write, inside: _Inside, traced: Traced, code: Code) -> Found:
    by_name = write.attribute
    target = f"`{inside.obj}.{by_name}`" if by_name else f"attributes of `{inside.obj}`"
    severity = None if by_name else _of_any_name(traced)
    if _is_no_array(write, code) or not _may_be_traced(write, inside, traced, code):
        severity = Severity.INFORMATION
    return Found(
        write.node,
        f"{inside.name} writes to {target} where {traced.by} traces it: the write "
        "happens once, on a copy or with a tracer. Return the value instead.",
        severity,
    )


def _of_any_name(traced: Traced) -> Severity:
    """`setattr(self, name, value)`: if only one call is traced, there may be no names
    in it."""
    decorated = traced.said in getattr(traced.function, "decorator_list", ())
    return Severity.WARNING if decorated else Severity.INFORMATION


def _may_be_traced(write: Write, inside: _Inside, traced: Traced, code: Code) -> bool:
    """Whether the value is an array, or anything is in it that the traced function was
    given. What is computed from settings alone may be for the host."""
    if write.value is None or code.kinds.of(write.value, code.module).has_arrays:
        return True
    if inside.obj in traced.traced_parameters:
        return True
    around = [inside.function, *code.module.around(inside.function)]
    scopes = [s for s in around if isinstance(s, FunctionNode | ast.Lambda)]
    given = set().union(*map(_all_parameters, scopes)) - {inside.obj, *traced.static}
    values: list[ast.expr | None] = [write.value]
    seen: set[str] = set()
    for value in values:  # grows while it is walked
        if value is None:
            return True
        names = {n.id for n in ast.walk(value) if isinstance(n, ast.Name)} - seen
        if names & given:
            return True
        seen |= names
        for scope in scopes:
            bound_in = code.module.bound_in(scope)
            values += [b.value for name in names for b in bound_in.get(name, [])]
    return False


def _all_parameters(function: FunctionNode | ast.Lambda) -> set[str]:
    more = (function.args.vararg, function.args.kwarg)  # `*args`, `**kwargs`
    return {*parameters(function), *(argument.arg for argument in more if argument)}


def _in_called(
    write: Write, inside: _Inside, caller: _Caller, code: Code
) -> Iterator[Found]:
    kind = code.kinds.of(write.value, code.module)
    if caller.of_base and (write.is_lazy or not kind.has_arrays):
        return  # what a subclass sets up on the host, once, before it is traced
    yield Found(
        write.node,
        f"{inside.name} writes to `{inside.obj}.{write.attribute}` and is called from "
        f"{caller.where}, which {caller.by} traces: the write is lost or leaves a "
        "tracer. Return the value instead.",
        Severity.INFORMATION if kind is Kind.OTHER else Severity.WARNING,
    )


def _in_pytree(write: Write, inside: _Inside, code: Code) -> Iterator[Found]:
    """Outside of any trace of this file: a method may be meant to change an object that
    is not frozen. A property is not expected to."""
    assert inside.cls.family is not None
    target = f"{inside.name} writes to `{inside.obj}.{write.attribute}`"
    is_array = code.kinds.of(write.value, code.module).has_arrays
    around = isinstance(write.node, ast.Call)
    if inside.cls.is_frozen and not around:
        yield Found(
            write.node,
            f"{target}, but the class is frozen ({inside.cls.family.name}): that "
            "raises. Return a new object instead.",
            Severity.INFORMATION if _may_be_helper(inside, code) else None,
        )
    elif is_array or is_property(inside.method):
        unexpected = around or is_property(inside.method)
        yield Found(
            write.node,
            f"{target}: under jit, JAX rebuilds the object ({inside.cls.family.name}) "
            "and the write is lost. Return a new object instead.",
            Severity.WARNING if is_array and unexpected else Severity.INFORMATION,
        )


def _may_be_helper(inside: _Inside, code: Code) -> bool:
    """Private, and not called in its file: perhaps by constructors of subclasses in
    others, where writing is allowed."""
    name = inside.method.name
    called = any(
        isinstance(call.func, ast.Attribute) and call.func.attr == name
        for call in code.module.calls
    )
    return name.startswith("_") and not name.endswith("__") and not called


def _is_name(key: ast.expr | None) -> bool:
    return isinstance(key, ast.Constant) and isinstance(key.value, str)
