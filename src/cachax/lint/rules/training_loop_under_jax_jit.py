"""A training loop under plain `jax.jit` computes a cached value in every step.

## What it does

Finds loops with `state = step(state)`, where `step` is under `jax.jit` (or
`equinox.filter_jit`), reads a cached property of the state (of functools, of cachax, or
any other kind), and returns the state with other fields replaced than those that the
property is computed from. The class of the state is known by the annotation of the
parameter, or by what the variable was bound to before the loop.

## Why is this bad?

The value would be the same in every step. But `jax.jit` rebuilds the state from its
leaves when it goes in and when it comes out, so the value is lost twice in every step
and computed again in the next one.

## Example

```python
import dataclasses
import functools

import jax
import jax.numpy as jnp


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
    x: jax.Array
    weights: jax.Array

    @functools.cached_property
    def factor(self):
        return jnp.linalg.cholesky(self.x)


@jax.jit
def step(state):
    gradient = state.factor @ state.weights
    return dataclasses.replace(state, weights=state.weights - 0.1 * gradient)


def train(x, weights):
    state = State(x, weights)
    for _ in range(100):
        state = step(state)
    return state
```

## Use instead

```python
import dataclasses

import cachax
import jax
import jax.numpy as jnp


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
    x: jax.Array
    weights: jax.Array

    @cachax.cached_property
    def factor(self):
        return jnp.linalg.cholesky(self.x)


@cachax.jit
def step(state):
    gradient = state.factor @ state.weights
    return dataclasses.replace(state, weights=state.weights - 0.1 * gradient)


def train(x, weights):
    state = State(x, weights)
    for _ in range(100):
        state = step(state)
    return state
```

## When it is fine

The value is cheap. If the step replaces a field that the property is computed from, the
value has to be computed again anyway, and the loop is not reported.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from .._classes import Class
from .._code import Code, Found
from .._finding import Severity
from .._jax_names import Kind
from .._kept import cached_decorator, is_cachax
from .._module import FunctionNode
from .._project import Definition
from .._reach import attributes_read, methods_used
from .._tracing import Traced, parameters

CODE = "CX305"
SEVERITY = Severity.WARNING
MENTIONS = r"(for|while)\s"
_INSTEAD = {
    "jax.jit": "cachax.jit",
    "equinox.filter_jit": "cachax.lift(equinox.filter_jit)",
}
# What the `TrainState` of flax replaces.
_BY_GRADIENTS = {"step", "params", "opt_state"}


@dataclass(frozen=True)
class _Step:
    """`state = step(state)` in a loop."""

    call: ast.Call
    loop: ast.For | ast.While
    traced: Traced
    state: ast.expr  # as the loop names it
    parameter: str  # as the function names it


def check(code: Code) -> Iterator[Found]:
    jitted = {t.said: t for t in code.traced if t.by in _INSTEAD}
    functions: dict[ast.AST, Traced] = {t.function: t for t in jitted.values()}
    if not functions:
        return
    for node in code.module.nodes:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            step = _step(node, node.value, functions, code)
            if step is not None:
                yield from _of_step(step, code)


def _step(
    node: ast.Assign, call: ast.Call, functions: dict[ast.AST, Traced], code: Code
) -> _Step | None:
    loop = _loop_around(node, code)
    traced = functions.get(_called(call.func, code)) if loop else None  # type: ignore[arg-type]
    if loop is None or traced is None:
        return None
    bound = traced.bound_to is not None or _is_method(call.func, traced)
    names = parameters(traced.function)[bound:]
    assigned = {ast.unparse(part) for part in _targets(node)}
    given = [*zip(names, call.args, strict=False)]
    given += [(k.arg, k.value) for k in call.keywords if k.arg is not None]
    for parameter, argument in given:
        if parameter in traced.traced_parameters and ast.unparse(argument) in assigned:
            return _Step(call, loop, traced, argument, parameter)
    return None


def _loop_around(node: ast.AST, code: Code) -> ast.For | ast.While | None:
    for outer in code.module.around(node):
        if isinstance(outer, ast.For | ast.While):
            return outer
        if isinstance(outer, FunctionNode | ast.Lambda | ast.ClassDef):
            return None
    return None


def _targets(node: ast.Assign) -> Iterator[ast.expr]:
    for target in node.targets:
        yield from target.elts if isinstance(target, ast.Tuple) else [target]


def _called(function: ast.expr, code: Code) -> ast.AST | None:
    """The function behind `step`, `self.step`, or `step = jax.jit(one_step)`."""
    match function:
        case ast.Attribute(ast.Name("self"), name):
            cls = code.class_around(function)
            method = cls.method(name) if cls else None
            return method[1] if method else None
    if isinstance(function, ast.Name):
        for scope in code.module.scopes(function):
            bounds = code.module.bound_in(scope).get(function.id, [])
            calls = [bound.value for bound in bounds]
            for traced in code.traced:
                if traced.said in calls and len(calls) == 1:
                    return traced.function
    match code.project.resolve(function, code.module):
        case Definition(module, node) if module is code.module:
            return node
    return None


def _is_method(function: ast.expr, traced: Traced) -> bool:
    is_attribute = isinstance(function, ast.Attribute)
    return is_attribute and parameters(traced.function)[:1] == ["self"]


def _of_step(step: _Step, code: Code) -> Iterator[Found]:
    function = step.traced.function
    use = next(_uses(function, step.parameter), None)
    declared = code.objects.class_of(use, code.module)
    cls = declared or _class_before(step, code)
    changed = _changed(function, step.parameter, code)
    if cls is None or changed is None:
        return
    for read in ast.walk(function):
        cached = _cached(read, step.parameter, cls, code)
        if cached is None:
            continue
        owner, name, fields, of_cachax = cached
        if not fields or fields & changed:
            continue
        if of_cachax and declared is not None:
            continue  # CX304 reports it where the function is jitted
        instead = _INSTEAD[step.traced.by]
        also = "" if of_cachax else "cachax.cached_property and "
        yield Found(
            step.call,
            f"{step.traced.by} loses `{owner.name}.{name}` in every step of the loop "
            f"in line {step.loop.lineno}, and it is computed again although "
            f"{_listed(fields)} did not change. Use {also}{instead}.",
        )
        return


def _listed(fields: set[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(fields))


def _uses(function: ast.AST, name: str) -> Iterator[ast.Name]:
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and node.id == name:
            yield node


def _class_before(step: _Step, code: Code) -> Class | None:
    """By what the variable was bound to before the loop."""
    if not isinstance(step.state, ast.Name):
        return code.objects.class_of(step.state, code.module)
    for scope in code.module.scopes(step.state):
        bounds = code.module.bound_in(scope).get(step.state.id, [])
        before = [b for b in bounds if b.line < step.loop.lineno]
        for bound in reversed(before):
            cls = code.objects.class_made_by(bound.value, code.module)
            if cls is not None:
                return cls
        if bounds:
            break
    return code.objects.class_of(step.state, code.module)


def _changed(function: ast.AST, state: str, code: Code) -> set[str] | None:
    """The fields that the function replaces; None if that is unknown."""
    found: set[str] | None = None
    for node in ast.walk(function):
        match node:
            case ast.Call(
                ast.Attribute(ast.Name(name), "replace" | "_replace"), [], keywords
            ) if name == state:
                found = (found or set()) | {k.arg for k in keywords if k.arg}
            case ast.Call(ast.Attribute(ast.Name(name), "apply_gradients")) if (
                name == state
            ):
                found = (found or set()) | _BY_GRADIENTS
            case ast.Call(called, [ast.Name(name)], keywords) if name == state:
                if code.name_of(called).endswith(".replace"):
                    found = (found or set()) | {k.arg for k in keywords if k.arg}
    return found


def _cached(
    read: ast.AST, state: str, cls: Class, code: Code
) -> tuple[Class, str, set[str], bool] | None:
    """A cached property that is read on the state, on an object in one of its fields,
    or in a method that is called there; with the fields that it depends on."""
    if not isinstance(read, ast.Attribute) or not isinstance(read.ctx, ast.Load):
        return None
    path = [read.attr]
    node = read.value
    while isinstance(node, ast.Attribute):
        path.insert(0, node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id != state:
        return None
    owner: Class | None = cls
    for name in path[:-1]:
        owner = code.objects.class_of_attribute(owner, name) if owner else None
    method = owner.method(path[-1]) if owner else None
    if owner is None or method is None:
        return None
    for function, where in methods_used(method[1], owner).items():
        of_cachax = is_cachax(function, where.module, code.project)
        cached = cached_decorator(function, where.module, code.project)
        if of_cachax or cached is not None:
            if code.kinds.sometimes_returned(function, where.module) is Kind.OTHER:
                continue
            used = attributes_read(function, owner)
            fields = {f for f in used if f in owner.fields and not owner.method(f)}
            return (
                owner,
                function.name,
                fields if owner is cls else {path[0]},
                of_cachax,
            )
    return None
