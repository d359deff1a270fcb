"""`jax.checking_leaks`, without compiling every operation again."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import jax
from jax._src import dispatch

from cachax._jit import call, jit


@contextlib.contextmanager
def checking_leaks() -> Iterator[None]:
    """JAX turns off its caches when it looks for leaks, also those of operations on
    concrete arrays, which no tracer can leak from. Most of the time of such a test was
    spent on compiling these. Here they are compiled once.

    A leak is not hidden by a call of the plain function, as other errors are that name
    the arguments of a program."""
    with (
        jax.checking_leaks(),
        mock.patch.object(dispatch, "xla_primitive_callable", _operation),
        mock.patch.object(call, "names_arguments", _names_arguments),
        mock.patch.object(jit, "names_arguments", _names_arguments),
    ):
        yield


_compiled = dispatch.xla_primitive_callable
_named = call.names_arguments


def _names_arguments(error: Exception) -> bool:
    return "Leaked" not in str(error) and _named(error)


def _operation(prim: Any, **params: Any) -> Callable[..., Any]:
    """One operation on concrete arrays, with JAX's caches."""
    if prim.multiple_results:  # those with functions inside are among these
        return _compiled(prim, **params)
    with jax.check_tracer_leaks(False):
        operation = _compiled(prim, **params)

    def run(*args: Any) -> Any:
        with jax.check_tracer_leaks(False):
            return operation(*args)

    return run
