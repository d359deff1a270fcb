"""Law 5. First touch may happen anywhere, and nothing of the trace stays behind."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import cachax

from cases import PYTREES, close, fresh, once, over, over_keys, read, truth
from families import FAMILIES, Family
from measure import computations

pytestmark = pytest.mark.usefixtures("no_leaks")


def custom_jvp(fun: Any) -> Any:
    wrapped = jax.custom_jvp(fun)
    wrapped.defjvp(lambda x, t: (fun(*x), fun(*x) * t[0]))
    return wrapped


def custom_vjp(fun: Any) -> Any:
    wrapped = jax.custom_vjp(fun)
    wrapped.defvjp(lambda x: (fun(x), x), lambda x, t: (t * fun(x),))
    return wrapped


def in_while(fun: Any) -> Any:
    def loop(x: Any) -> Any:
        return jax.lax.while_loop(
            lambda c: c[0] < 1, lambda c: (c[0] + 1, fun(c[1])), (0, x)
        )[1]

    return loop


def without_jit(fun: Any) -> Any:
    def run(x: Any) -> Any:
        with jax.disable_jit():
            return jax.jit(fun)(x)

    return run


TOUCH: dict[str, Callable[[Any], Any]] = {
    "jit": jax.jit,
    "cachax_jit": cachax.jit,
    "nested_jit": lambda f: jax.jit(lambda x: jax.jit(f)(x)),
    "grad": jax.grad,
    "jit_of_grad": lambda f: jax.jit(jax.grad(f)),
    "grad_of_jit": lambda f: jax.grad(jax.jit(f)),
    "vmap": lambda f: lambda x: jax.vmap(f)(x[None])[0],
    "vmap_of_jit_of_grad": lambda f: (
        lambda x: jax.vmap(jax.jit(jax.grad(f)))(x[None])[0]
    ),
    "scan": lambda f: lambda x: jax.lax.scan(lambda c, _: (f(c), None), x, None, 1)[0],
    "while": in_while,
    "cond": lambda f: lambda x: jax.lax.cond(x > 0, f, lambda y: 2 * f(y), x),
    "checkpoint": jax.checkpoint,
    "grad_of_checkpoint": lambda f: jax.grad(jax.checkpoint(f)),
    "custom_jvp": custom_jvp,
    "grad_of_custom_jvp": lambda f: jax.grad(custom_jvp(f)),
    "custom_vjp": custom_vjp,
    "jit_of_grad_of_custom_vjp": lambda f: jax.jit(jax.grad(custom_vjp(f))),
    "linearize": lambda f: lambda x: jax.linearize(f, x)[0],
    "eval_shape": lambda f: lambda x: jnp.zeros(jax.eval_shape(f, x).shape),
    "make_jaxpr": lambda f: lambda x: jnp.zeros(len(jax.make_jaxpr(f)(x).out_avals)),
    "disable_jit": without_jit,
}
"""Transformations of a function of one number."""


def expected(name: str, case: str) -> Any:
    with jax.check_tracer_leaks(False):  # not what is tested
        return TOUCH[case](lambda y: y * truth(name)[0])(jnp.float32(2))


@over(FAMILIES)
@over_keys(TOUCH)
def test_of_a_closed_over_object(family: Family, case: str) -> None:
    """It is computed outside the trace, so it is there afterwards."""
    obj, name = fresh(family), family.chains[-1]
    with computations() as counts:
        got = TOUCH[case](lambda x: x * read(name, obj)[0])(jnp.float32(2))
        assert cachax.is_cached(obj, name)
        close(read(name, obj), truth(name))
    close(got, expected(name, case))
    assert counts == once(name)


@over(PYTREES)
@over_keys(TOUCH)
@pytest.mark.parametrize("jit", [jax.jit, cachax.jit], ids=["jax", "cachax"])
def test_of_a_traced_object(family: Family, case: str, jit: Any) -> None:
    """Touched inside a transformation inside jit, then again further out."""
    obj, name = fresh(family), "scaled"

    @jit
    def outer(o: Any, x: Any) -> Any:
        inside = TOUCH[case](lambda y: y * read(name, o)[0])(x)
        return inside, read(name, o)

    # JAX says that a custom rule made inside a trace leaks it, with no cachax about.
    with jax.check_tracer_leaks("custom" not in case), computations() as counts:
        got = outer(obj, jnp.float32(2))
    close(got, (expected(name, case), truth(name)))
    assert counts == once(name)
