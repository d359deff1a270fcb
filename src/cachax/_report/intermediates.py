"""How much memory the intermediate results of a body take."""

from typing import Any

import jax

from .._core.levels import traces_in
from .._core.memo import inputs_of
from .text import size

_MUCH = 2**24
"""Bytes from which it is worth saying."""


def why_jit_pays(key: Any, obj: Any) -> str:
    """That the body should be jitted, if its intermediate results are large."""
    if traces_in(obj) or inputs_of(obj) is None:
        return ""
    try:
        jaxpr = jax.make_jaxpr(lambda copy: jax.tree.leaves(key.body(copy)))(obj).jaxpr
    except Exception:  # a body that can't be traced can't be jitted
        return ""
    held = intermediate_bytes(jaxpr)
    if held < _MUCH:
        return ""
    return (
        f"operation by operation the body needs {size(held)} for intermediate results: "
        "with `@jax.jit` under `@cachax.cached_property` it needs less"
    )


def intermediate_bytes(jaxpr: Any) -> int:
    """The most that is there at a time, if each operation is run on its own: without
    the inputs and the results."""
    last = {v: i for i, eqn in enumerate(jaxpr.eqns) for v in _variables(eqn.invars)}
    kept = {*_variables(jaxpr.outvars)}
    there: dict[Any, int] = {}
    most = 0
    for i, eqn in enumerate(jaxpr.eqns):
        made = [v for v in _variables(eqn.outvars) if v not in kept]
        there |= {v: _bytes_of(v.aval) for v in made}
        most = max(most, sum(there.values()))
        there = {v: n for v, n in there.items() if last.get(v, -1) > i}
    return most


def _variables(atoms: Any) -> list[Any]:
    return [v for v in atoms if not hasattr(v, "val")]  # no literals


def _bytes_of(aval: Any) -> int:
    itemsize = getattr(getattr(aval, "dtype", None), "itemsize", 0)
    return int(getattr(aval, "size", 0) * itemsize)
