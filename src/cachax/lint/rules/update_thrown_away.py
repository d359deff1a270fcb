"""`x.at[...].set(...)` returns a new array, which is not used.

## What it does

Finds `x.at[...].set(...)` and similar calls (`add`, `multiply`, `min`, `max`, `apply`,
...) whose result is not used.

## Why is this bad?

JAX arrays are immutable. The update is a new array, which is discarded: the statement
has no effect.

## Example

```python
import jax.numpy as jnp

x = jnp.zeros(3)
x.at[0].set(1.0)
```

## Use instead

```python
import jax.numpy as jnp

x = jnp.zeros(3)
x = x.at[0].set(1.0)
```

## When it is fine

In a test that it raises: add `# noqa: CX401`. At the end of a notebook's cell, where
the value is displayed, it is not reported; nor if the object may be a pandas table.
"""

import ast
import re
from collections.abc import Iterator

from .._code import Code, Found
from .._finding import Severity
from .._jax_names import Kind
from .._kinds import is_update

CODE = "CX401"
SEVERITY = Severity.ERROR
MENTIONS = r"\.at\s*\["
_OF_JAX = re.compile(r"jax|flax|equinox|haiku|optax|chex|numpyro|brax|cachax|\w*jax\w*")


def check(code: Code) -> Iterator[Found]:
    shown = _shown(code)
    for node in code.module.nodes:
        if not isinstance(node, ast.Expr) or node in shown:
            continue
        for call in _thrown_away(node.value):
            match call:
                case ast.Call(
                    ast.Attribute(ast.Subscript(ast.Attribute(array), key), update)
                ) if is_update(call) and _may_be_array(array, key, update, code):
                    yield Found(
                        call,
                        f"the result of `.at[...].{update}(...)` is not used: "
                        "arrays are immutable. Assign it.",
                    )


def _thrown_away(node: ast.expr) -> Iterator[ast.expr]:
    """The values that an expression computes last, if its own is not used."""
    match node:
        case ast.IfExp(_, yes, no):
            yield from _thrown_away(yes)
            yield from _thrown_away(no)
        case ast.BoolOp(_, [*_, last]):
            yield from _thrown_away(last)
        case ast.ListComp(part) | ast.SetComp(part):
            yield from _thrown_away(part)
        case _:
            yield node


def _may_be_array(array: ast.expr, key: ast.expr, update: str, code: Code) -> bool:
    """pandas has an `.at` too, and `table.at[row, "tags"].add(1)` changes a set."""
    kind = code.kinds.of(array, code.module)
    if kind is not Kind.UNKNOWN:
        return kind is Kind.ARRAY
    if any(
        isinstance(part, ast.Constant | ast.JoinedStr) and _is_text(part)
        for part in ast.walk(key)
    ):
        return False
    origins = code.module.imports.values()
    if any("pallas" in origin for origin in origins):
        return False  # it may be a Ref, which is written to
    roots = {origin.partition(".")[0] for origin in origins}
    has_pandas = not roots.isdisjoint({"pandas", "polars", "geopandas"})
    has_jax = any(map(_OF_JAX.fullmatch, roots)) and not has_pandas
    return has_jax or update == "set"


def _is_text(node: ast.Constant | ast.JoinedStr) -> bool:
    return isinstance(node, ast.JoinedStr) or isinstance(node.value, str)


def _shown(code: Code) -> set[ast.AST]:
    """The last statement of a notebook's cell: its value is displayed."""
    last: dict[object, ast.AST] = {}
    for node in code.module.tree.body:
        cell = code.source.cell_of(node.lineno)
        if cell is not None:
            last[cell] = node
    return set(last.values())
