"""Change and differentiate a linen module's variables; the same for every approach."""

from typing import Any

import jax


def new(a: jax.Array, c: jax.Array | None = None) -> Any:
    return {"params": {"a": a} if c is None else {"a": a, "c": c}}


def _with(variables: Any, **changes: jax.Array) -> Any:
    return {**variables, "params": {**variables["params"], **changes}}


LINEN: dict[str, Any] = {
    "a": lambda variables: variables["params"]["a"],
    "c": lambda variables: variables["params"]["c"],
    "replace": lambda variables, a: _with(variables, a=a),
    "replace_c": lambda variables, c: _with(variables, c=c),
    "assign": lambda variables, a: variables.update(_with(variables, a=a)),
    "gradient": lambda fun, variables: jax.grad(
        lambda params: fun({**variables, **params})
    )({"params": variables["params"]}),
    "parameters": lambda variables: {"params": variables["params"]},
    "with_parameters": lambda variables, params: {**variables, **params},
}
