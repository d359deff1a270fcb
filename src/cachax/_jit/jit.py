"""A drop-in for `jax.jit` that passes cached values in and out."""

import functools
import types
from collections.abc import Callable, Iterator
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, overload
from weakref import WeakKeyDictionary

import jax

from .._compat import api_boundary, forget_failed_traces
from .._core.values import is_hashable
from .call import Function, name_of, names_arguments
from .entry import NoLongerNew
from .program import Unprepared

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


@overload
def jit(fun: Callable[P, R], /, **options: Any) -> "Jitted[P, R]": ...
@overload
def jit(**options: Any) -> Callable[[Callable[P, R]], "Jitted[P, R]"]: ...
def jit(fun: Any = None, /, **options: Any) -> Any:
    """Like `jax.jit`, but cached properties of the arguments are computed once and
    passed in as inputs.

    A value that the function uses is computed on your object, and is an input of the
    compiled program from then on. Values follow arrays that the function returns
    unchanged, so `state = step(state)` computes them once. An object that the function
    returns has the values that were computed on it inside.

    Args:
        fun: The function. Without it, `jit` returns a decorator.
        **options: The options of `jax.jit`, listed below. Argument numbers count the
            arguments of `fun`.
        static_argnums: The numbers of arguments that are static.
        static_argnames: The names of arguments that are static.
        donate_argnums: The numbers of arguments whose memory the results may use.
        donate_argnames: The names of such arguments.
        in_shardings: The shardings of the arguments.
        out_shardings: The shardings of the results.
        keep_unused: Whether to keep inputs that the program doesn't use.
        device: The device to run on (deprecated in JAX).
        backend: The platform to run on (deprecated in JAX).
        inline: Whether to inline the program into an enclosing one.
        compiler_options: Options of the XLA compiler, as a dictionary.

    Returns:
        A function with the same signature. As with `jax.jit` it has the methods
        `lower`, `trace`, `eval_shape` and `clear_cache`, and can decorate a method.
        The methods describe the plain program, which computes cached values inside.

    Raises:
        TypeError: `jax.jit` has no such option. A call raises what `jax.jit` raises,
            with a note if an argument is not a pytree.
        UnhashableValueError: In a call: a value that the function uses has a part that
            is neither an array nor hashable.

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


class _State:
    """What a jitted function refers to. Pickled as new: without what was learned."""

    _is_jitted_state = True  # for `fields.py`: only what it wraps is a part

    def __init__(
        self,
        fun: Callable[..., Any],
        options: dict[str, Any],
        transform: Callable[..., Any],
    ) -> None:
        self.__wrapped__ = fun
        self._options = options
        self._transform = transform
        self.plain: Any = transform(fun, **options)  # at once: it checks the options
        """The program on its own, which computes cached values inside. What leaves
        cachax (to be compiled ahead of time, exported, looked at) is this one."""
        self.function = _function_for(fun, options, transform)
        self.watchers = Function.call_watchers

    def __reduce__(self) -> tuple[Any, ...]:
        return _State, (self.__wrapped__, self._options, self._transform)

    @api_boundary  # type: ignore[untyped-decorator]
    def call(self, args: Any, kwargs: Any) -> Any:
        return self.function.call(self.plain, args, kwargs)

    def lower(self, /, *args: Any, **kwargs: Any) -> Any:
        return self.plain.lower(*args, **kwargs)

    def trace(self, /, *args: Any, **kwargs: Any) -> Any:
        return self.plain.trace(*args, **kwargs)

    def eval_shape(self, /, *args: Any, **kwargs: Any) -> Any:
        return self.plain.eval_shape(*args, **kwargs)

    def clear_cache(self) -> None:
        """Forget all traces and compiled programs."""
        self.function.forget()
        if hasattr(self.plain, "clear_cache"):  # not every lifted transform has it
            self.plain.clear_cache()


_functions: WeakKeyDictionary[Any, dict[Any, Function]] = WeakKeyDictionary()


def _function_for(
    fun: Callable[..., Any], options: dict[str, Any], transform: Callable[..., Any]
) -> Function:
    """One for all uses of `jit` on a function with these options, as in JAX: what is
    compiled in one round of `for ...: cachax.jit(f)(x)` serves the next."""
    key = (transform, *sorted(options.items()))
    if type(fun) is not types.FunctionType or not is_hashable(key):
        return Function(fun, options, transform)
    functions = _functions.setdefault(fun, {})
    if key not in functions:
        functions[key] = Function(fun, options, transform)
    return functions[key]


def jitted(
    fun: Callable[P, R],
    options: dict[str, Any],
    transform: Callable[..., Any] = jax.jit,
) -> Jitted[P, R]:
    """`fun` under `transform`, which is `jax.jit` or one like it.

    A function, because Python calls any other object more slowly.
    """
    state = _State(fun, options, transform)

    def call(*args, **kwargs):  # type: ignore[no-untyped-def]
        # A warm call ends in here. Every line counts: all of JAX takes 5 µs.
        entry: Any = state.function.expected
        if entry is None:
            entry, ready = state.function.find(args, kwargs)
        else:
            try:
                ready = entry.find(args, kwargs)
            except Exception:  # nothing is known of an array, or it isn't where it was
                entry, ready = state.function.find(args, kwargs)
        if ready is None or state.watchers:
            return state.call(args, kwargs)
        try:
            out = ready.call(*args, **kwargs)
            about = ready.program.about
            return out if about is None else about.take(out, entry, args, kwargs)
        except NoLongerNew:
            pass
        except Unprepared:
            entry.mistaken = True
            forget_failed_traces(ready.program.call)
        except Exception as error:
            if not names_arguments(error):
                state.function.note(error, args, kwargs)
                raise
        return state.call(args, kwargs)

    call.__dict__ = _Attributes()
    call.__qualname__ = name_of(fun)
    call.__name__ = name_of(fun).rpartition(".")[2]
    functools.update_wrapper(call, fun)
    for name in _Attributes.own:
        setattr(call, name, getattr(state, name))
    return call  # type: ignore[return-value]


class _Attributes(dict[str, Any]):
    """Of a function. `functools.wraps` doesn't find some of them to copy them: else
    `jax.jit(f).lower` would be that of `f`, with different options."""

    own = ("lower", "trace", "eval_shape", "clear_cache")

    def keys(self) -> Any:
        return super().keys() - {*self.own}

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, ([*self.items()],)
