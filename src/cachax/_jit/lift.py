"""Pass cached values through other transformations than `jax.jit`."""

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, overload

from .._errors import LiftError, not_lifted
from .jit import Jitted, jitted

P = ParamSpec("P")
R = TypeVar("R")

_MAPS = {"vmap", "pmap", "xmap", "shard_map", "smap", "soft_pmap"}
_DERIVATIVES = {"grad", "value_and_grad", "jacfwd", "jacrev", "jacobian", "hessian"}
_DERIVATIVES |= {"jvp", "vjp", "linearize", "custom_jvp", "custom_vjp"}


class Lifted:
    """A transformation that passes cached values in: the result of `lift`."""

    def __init__(self, transform: Callable[..., Any]) -> None:
        self.__wrapped__ = transform

    @overload
    def __call__(self, fun: Callable[P, R], /, **options: Any) -> Jitted[P, R]: ...
    @overload
    def __call__(
        self, /, **options: Any
    ) -> Callable[[Callable[P, R]], Jitted[P, R]]: ...
    def __call__(self, fun: Any = None, /, **options: Any) -> Any:
        if fun is None:
            return functools.partial(self, **options)
        transform: Any = self.__wrapped__
        if not callable(fun):
            raise not_lifted(transform, fun)
        while isinstance(transform, functools.partial) and not transform.args:
            options = transform.keywords | options
            transform = transform.func
        return jitted(fun, options, transform)

    def __repr__(self) -> str:
        return f"cachax.lift({self.__wrapped__!r})"


def lift(transform: Callable[..., Any]) -> Lifted:
    """Pass cached values into functions under a transformation like `jax.jit`.

    `lift(jax.jit)` is `cachax.jit`. Use it for `equinox.filter_jit`, `jax.checkpoint`,
    `jax.named_call`, or your own decorator around one of them.

    Args:
        transform: A transformation that runs the function once, on the same values.

    Returns:
        The transformation, with its own options. As a decorator it takes a function,
        or options only.

    Raises:
        LiftError: The transformation maps or differentiates the function.
        UsageError: When the result is called with something that is not a function.

    Example:
        >>> import dataclasses, jax, jax.numpy as jnp, cachax
        >>> @jax.tree_util.register_dataclass
        ... @dataclasses.dataclass(frozen=True)
        ... class Line:
        ...     x: jax.Array
        ...
        ...     @cachax.cached_property
        ...     def mean(self):
        ...         jax.debug.print("computing")
        ...         return jnp.mean(self.x)
        >>> @cachax.lift(jax.checkpoint)
        ... def centred(line):
        ...     return line.x - line.mean
        >>> line = Line(jnp.array([1.0, 3.0]))
        >>> centred(line), line.mean
        computing
        (Array([-1.,  1.], dtype=float32), Array(2., dtype=float32))
    """
    inner: Any = transform
    while isinstance(inner, functools.partial):
        inner = inner.func
    name = getattr(inner, "__name__", "").removeprefix("filter_")
    if name in _MAPS:
        raise LiftError(
            inner,
            "it maps the function over examples or shards, and each of these has its "
            "own values. (`cachax.vmap` caches those of a batch.)",
        )
    if name in _DERIVATIVES:
        raise LiftError(
            inner,
            "it differentiates the function, and a value that was computed outside has "
            "no derivative with respect to the fields of its object.",
        )
    return Lifted(transform)
