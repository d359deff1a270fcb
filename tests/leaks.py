"""`jax.checking_leaks`, without compiling every operation again."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import jax
from jax._src import dispatch


@contextlib.contextmanager
def checking_leaks() -> Iterator[None]:
    """JAX turns off its caches when it looks for leaks, also those of operations on
    concrete arrays, which no tracer can leak from. Most of the time of such a test was
    spent on compiling these. Here they are compiled once."""
    with (
        jax.checking_leaks(),
        mock.patch.object(dispatch, "xla_primitive_callable", _operation),
    ):
        yield


_compiled = dispatch.xla_primitive_callable


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
