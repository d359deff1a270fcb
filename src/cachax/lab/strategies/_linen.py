"""A linen module's variables, changed and differentiated; the same for every way."""

from typing import Any

import jax

IDIOM: dict[str, Any] = {
    "a": lambda variables: variables["params"]["a"],
    "replace": lambda variables, a: {**variables, "params": {"a": a}},
    "assign": lambda variables, a: variables.update(params={"a": a}),
    "gradient": lambda fun, variables: jax.grad(
        lambda params: fun({**variables, **params})
    )({"params": variables["params"]}),
    "parameters": lambda variables: {"params": variables["params"]},
    "with_parameters": lambda variables, params: {**variables, **params},
}
