"""Law 3. Derivatives are those of the code without a cache."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import cachax

from cases import PYTREES, A, B, close, fresh, over, over_chains, over_keys, read
from families import FAMILIES, TRUTH, Family

pytestmark = pytest.mark.usefixtures("no_leaks")

DERIVATIVES: dict[str, Callable[[Any, Any], Any]] = {
    "grad": lambda f, x: jax.grad(f)(x),
    "jvp": lambda f, x: jax.jvp(f, (x,), (jax.tree.map(jnp.ones_like, x),)),
    "vjp": lambda f, x: jax.vjp(f, x)[1](jnp.float32(2)),
    "linearize": lambda f, x: jax.linearize(f, x)[1](jax.tree.map(jnp.ones_like, x)),
    "jacfwd": lambda f, x: jax.jacfwd(f)(x),
    "grad_of_checkpoint": lambda f, x: jax.grad(jax.checkpoint(f))(x),
    "hessian": lambda f, x: jax.hessian(f)(x),
}


def scalar_of(name: str) -> Callable[[Any], Any]:
    return lambda o: jnp.sum(jnp.sin(read(name, o)))


@functools.cache
def expected(case: str, name: str) -> Any:
    """The derivative with respect to the two arrays."""
    with jax.check_tracer_leaks(False):  # not what is tested
        fun = jax.jit(lambda ab: jnp.sum(jnp.sin(TRUTH[name](*ab))))
        return DERIVATIVES[case](fun, (jnp.asarray(A), jnp.asarray(B)))


@over(PYTREES)
@over_keys(DERIVATIVES)
def test_of_a_function_of_the_object(family: Family, warm: bool, case: str) -> None:
    obj = fresh(family, warm=warm)
    close(DERIVATIVES[case](scalar_of("scaled"), obj), expected(case, "scaled"))


@over_chains(PYTREES)
@over_keys(DERIVATIVES)
def test_of_a_jitted_function_of_the_object(
    family: Family, name: str, warm: bool, case: str
) -> None:
    obj = fresh(family, warm=warm)
    close(DERIVATIVES[case](cachax.jit(scalar_of(name)), obj), expected(case, name))


@over_chains(PYTREES)
@pytest.mark.parametrize("jit", [jax.jit, cachax.jit])
def test_inside_jit(family: Family, name: str, warm: bool, jit: Any) -> None:
    obj = fresh(family, warm=warm)
    close(jit(jax.grad(scalar_of(name)))(obj), expected("grad", name))


@over_chains(FAMILIES)
def test_of_an_object_made_inside(family: Family, name: str) -> None:
    def fun(ab: Any) -> Any:
        obj = family.make(*ab)
        return scalar_of(name)(obj) + 0 * jnp.sum(read(name, obj))

    ab = (jnp.asarray(A), jnp.asarray(B))
    close(jax.grad(fun)(ab), expected("grad", name))
    close(jax.jit(jax.grad(fun))(ab), expected("grad", name))
