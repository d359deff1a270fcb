"""A drop-in for `jax.jit` that carries cached values in and out."""

import functools
from collections.abc import Callable, Iterator
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

import jax

from ._parts import plain_leaves
from ._program import name_of
from ._programs import NOTHING, Programs
from ._ready import Declined, Unprepared
from ._shelf import NOBODY

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


@overload
def jit(fun: Callable[P, R], /, **options: Any) -> "Jitted[P, R]": ...
@overload
def jit(**options: Any) -> Callable[[Callable[P, R]], "Jitted[P, R]"]: ...
def jit(fun: Any = None, /, **options: Any) -> Any:
    """`jax.jit`, with the cached values of the objects among the arguments.

    A value the function asks for is computed on the caller's own object, once, and
    is an input of the compiled program from then on. An object the function returns
    comes out with the values computed on it inside. Options are those of `jax.jit`;
    argument numbers mean the arguments of `fun`.

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
    >>> @cachax.jit
    ... def centred(line):
    ...     return line.x - line.mean
    >>> line = Line(jnp.array([1.0, 3.0]))
    >>> centred(line)
    computing
    Array([-1.,  1.], dtype=float32)
    >>> centred(line), line.mean
    (Array([-1.,  1.], dtype=float32), Array(2., dtype=float32))
    """
    if fun is None:
        return functools.partial(jit, **options)
    return jitted(fun, options)


class Jitted(Protocol[P, R_co]):
    """What `cachax.jit` returns: a function, with what `jax.jit` gives one."""

    __wrapped__: Callable[..., Any]

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R_co: ...

    @overload
    def __get__(self, instance: None, owner: Any = None) -> "Jitted[P, R_co]": ...
    @overload
    def __get__(
        self: "Jitted[Concatenate[Any, Q], R_co]", instance: object, owner: Any = None
    ) -> Callable[Q, R_co]: ...

    def lower(self, /, *args: P.args, **kwargs: P.kwargs) -> jax.stages.Lowered: ...
    def trace(self, /, *args: P.args, **kwargs: P.kwargs) -> jax.stages.Traced: ...
    def eval_shape(self, /, *args: P.args, **kwargs: P.kwargs) -> Any: ...
    def clear_cache(self) -> None: ...


def jitted(
    fun: Callable[P, R],
    options: dict[str, Any],
    transform: Callable[..., Any] = jax.jit,
) -> Jitted[P, R]:
    """`fun` under `transform`, which is `jax.jit` or one like it.

    A function, since to call any other object takes Python longer. All it has of its
    own is `programs`: so it can be pickled where closures can.
    """
    programs = Programs(fun, options, transform)

    def call(first=NOTHING, second=NOTHING, /, *rest, **kwargs):  # type: ignore[no-untyped-def]
        # A warm call with an object that has all that is asked for, or with none, ends
        # in here. Every line counts: all of JAX takes 5 µs. So do arguments that are
        # packed and unpacked, which most calls have not so many of, and `a.b(c)` where
        # `b` is no method.
        if rest or kwargs or programs.watchers:
            given = [x for x in (first, second) if x is not NOTHING]
            return programs.call(*given, *rest, **kwargs)
        try:
            if programs.shelf and first is not None:
                ready = programs.shelf.last
                ref = ready.ref
                if ref() is not first:
                    ready = programs.shelf.get(id(first), NOBODY)
                holds = ready.holds
                if holds(first):
                    program = ready.about
                    if second is NOTHING:
                        out = program(ready.values, first)
                    else:
                        out = program(ready.values, first, second)
                    return programs.take(out) if programs.brings else out
            if type(first) in plain_leaves:
                program = programs.plain
                if second is NOTHING:
                    return program(first)
                if type(second) in plain_leaves:
                    return program(first, second)
                foremost = type(second)
            else:
                foremost = type(first)
            if foremost in programs.bare:
                program = programs.unaided
                out = program(first) if second is NOTHING else program(first, second)
                return programs.take(out) if programs.brings else out
            if programs.rebuilt:
                rebuilt = programs.rebuilt.get(type(first))
                if rebuilt is not None:
                    out = rebuilt.call(first, () if second is NOTHING else (second,))
                    if out is not Declined:
                        return programs.take(out) if programs.brings else out
            if programs.fresh:
                fresh = programs.fresh.get(type(first))
                if fresh is not None:
                    out = fresh.call(first, () if second is NOTHING else (second,))
                    if out is not Declined:
                        return programs.take(out) if programs.brings else out
            guessed = False
        except Unprepared:
            guessed = True
        if first is NOTHING:
            return programs.call_by_plan((), {}, guessed)
        args = (first,) if second is NOTHING else (first, second)
        return programs.call_by_plan(args, {}, guessed)

    call.__dict__ = _Attributes()
    call.__qualname__ = name_of(fun)
    call.__name__ = name_of(fun).rpartition(".")[2]
    functools.update_wrapper(call, fun)
    for name in _Attributes.own:
        setattr(call, name, getattr(programs, name))
    return call  # type: ignore[return-value]


class _Attributes(dict[str, Any]):
    """Of a function. Some are its own, and `functools.wraps` does not find them to copy
    them: else `jax.jit(f).lower` would be that of `f`, with other options."""

    own = ("lower", "trace", "eval_shape", "clear_cache")

    def keys(self) -> Any:
        return super().keys() - {*self.own}

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, ([*self.items()],)
