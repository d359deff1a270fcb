"""Copy, change and differentiate an nnx.Module; the same for every approach."""

from typing import Any

import jax
from flax import nnx


def get(variable: Any) -> Any:
    """What is in a Variable: `.value` is how flax before 0.12 spells it."""
    return variable.get_value() if hasattr(variable, "get_value") else variable.value


def put(variable: Any, value: Any) -> None:
    if hasattr(variable, "set_value"):
        variable.set_value(value)
    else:
        variable.value = value


def array(foo: Any) -> jax.Array:
    state = foo if isinstance(foo, nnx.State) else nnx.state(foo, nnx.Param)
    (leaf,) = jax.tree.leaves(state)
    return leaf  # type: ignore[no-any-return]


def replace(foo: Any, a: jax.Array) -> Any:
    copy = nnx.clone(foo)
    put(copy.a, a)
    return copy


def replace_c(foo: Any, c: jax.Array) -> Any:
    copy = nnx.clone(foo)
    put(copy.c, c)
    return copy


def with_parameters(foo: Any, state: Any) -> Any:
    nnx.update(foo, state)
    return foo


NNX: dict[str, Any] = {
    "jit": nnx.jit,
    "vmap": nnx.vmap,
    "checkpoint": nnx.remat,
    "gradient": lambda fun, foo: nnx.grad(fun)(foo),
    "a": array,
    "c": lambda foo: get(foo.c),
    "assign": lambda foo, a: put(foo.a, a),
    "replace": replace,
    "replace_c": replace_c,
    "parameters": lambda foo: nnx.state(foo, nnx.Param),
    "with_parameters": with_parameters,
}
