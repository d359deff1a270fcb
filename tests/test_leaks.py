"""The fixture `no_leaks` finds leaks, and compiles an operation once."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest

from cachax.lab import compilations

from leaks import checking_leaks


@pytest.mark.parametrize(
    "transform",
    [jax.jit, jax.vmap, lambda fun: lambda x: jax.lax.map(fun, x)],
    ids=["jit", "vmap", "map"],
)
def test_a_leak_is_found(transform: Any, no_leaks: None) -> None:
    leaked: list[Any] = []

    def fun(x: jax.Array) -> jax.Array:
        leaked.append(jax.lax.sin(x))
        return x

    with pytest.raises(Exception, match="Leaked"):
        transform(fun)(jnp.ones(2))


def test_operations_on_arrays_are_compiled_once() -> None:
    """With JAX's own context they are compiled each time (up to 0.10)."""
    x = jnp.ones(2)
    with checking_leaks():
        jax.lax.sin(x)
        with compilations() as compiled:
            jax.lax.sin(x)
    assert not compiled
