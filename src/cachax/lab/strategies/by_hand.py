"""Computed by hand, and passed in

The fastest approach. Nothing ties `b` to `a`: whoever changes one must remember the
other.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from cachax.lab import Way, derive


class Foo(NamedTuple):
    a: jax.Array
    b: jax.Array
    c: jax.Array | None = None
    others: dict[Any, jax.Array] = {}


def passed_on(
    foo: Foo, name: Any, value: Callable[[], jax.Array]
) -> tuple[jax.Array, Foo]:
    """Any other value: computed where it is first needed, and passed on from there."""
    if name not in foo.others:
        foo = foo._replace(others={**foo.others, name: value()})
    return foo.others[name], foo


way = Way(
    lambda a, c=None: Foo(a, derive(a), c),
    new_batch=lambda batch: jax.vmap(lambda a: Foo(a, derive(a)))(batch),
    visit_power=lambda foo, n: passed_on(foo, n, lambda: derive(foo.a, n)),
    visit_function=lambda fun: lambda foo: passed_on(foo, "f", lambda: fun(foo)),
    replace=lambda foo, a: foo._replace(a=a),
    replace_c=lambda foo, c: foo._replace(c=c),
)
