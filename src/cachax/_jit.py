"""A drop-in for `jax.jit` that carries cached values in and out."""

import functools
import inspect
import types
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

import jax
import jax.numpy as jnp
from jax.tree_util import PyTreeDef, tree_flatten

from ._carry import Carried
from ._compat import UNSPECIFIED, Tracer, jit_is_disabled
from ._errors import UnhashableValueError
from ._find import Layout, layout_of
from ._habit import Habit, active_loan, call_lending
from ._memo import memo_of
from ._options import Arguments, one_further
from ._pack import is_hashable, pack
from ._parts import parts_of, plain_leaves
from ._recent import Recent

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")


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
    return Jitted(fun, options)


class Jitted(Generic[P, R]):
    """What `cachax.jit` returns: called like the function it wraps."""

    __wrapped__: Callable[P, R]
    __qualname__: str

    def __init__(self, fun: Callable[P, R], options: dict[str, Any]) -> None:
        self._plain: Any = jax.jit(fun, **options)  # at once: it checks the options
        self._options = options
        self._static = Arguments.static(fun, options)
        self._donates = any(options.get(f"donate_arg{x}") for x in ("nums", "names"))
        self._carrying = _carrying(fun, self._static)
        self._programs: dict[int, Any] = {}
        self._habits: dict[Any, Habit] = Recent()
        self._returned: dict[PyTreeDef, Layout | None] = Recent()
        functools.update_wrapper(self, fun, updated=())

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        plain: Callable[P, R] = self._plain
        if not kwargs and plain_leaves.issuperset(map(type, args)):
            return plain(*args, **kwargs)  # arrays and numbers: there is no object
        if jit_is_disabled():
            return plain(*args, **kwargs)
        tree, statics = self._static.take_out(args, kwargs)
        leaves, structure = tree_flatten(tree)
        key = structure if statics is None else (structure, statics)
        if statics is not None and not is_hashable(statics):
            return plain(*args, **kwargs)  # JAX says it better
        habit = self._habits.get(key)
        if habit is None:
            habit = self._habits[key] = Habit(layout_of(tree))
        if habit.layout is None:
            for leaf in leaves:
                parts_of(type(leaf))  # a plain leaf, next time
            return plain(*args, **kwargs)

        def program(carried: Carried) -> tuple[R, Carried]:
            if self._donates:
                carried = _apart_from(leaves, carried)
            both: tuple[R, Carried]
            both = self._program(len(tree[0]))(carried, *args, **kwargs)
            return both

        out, brought = call_lending(habit, tree, leaves, program)
        if brought.moulds:
            self._lay_on_returned(out, brought)
        return out

    def __get__(
        self: "Jitted[Concatenate[Any, Q], R]", instance: Any, owner: Any = None
    ) -> Callable[Q, R]:
        if instance is None:
            return self  # type: ignore[return-value]  # on the class: as a function is
        return types.MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<cachax.jit of {self.__wrapped__!r}>"

    def __reduce__(self) -> str:
        """As a function: by its name in its module, so it is not copied either."""
        return getattr(self, "__qualname__", repr(self))

    def lower(self, /, *args: P.args, **kwargs: P.kwargs) -> jax.stages.Lowered:
        """The program on its own, as `jax.jit` would lower it.

        What leaves here (to be compiled ahead of time, exported, looked at) takes
        the arguments of the function and nothing else, so it computes cached values
        inside.
        """
        lowered: jax.stages.Lowered = self._plain.lower(*args, **kwargs)
        return lowered

    def trace(self, /, *args: P.args, **kwargs: P.kwargs) -> jax.stages.Traced:
        """The trace of the program on its own; see `lower`."""
        traced: jax.stages.Traced = self._plain.trace(*args, **kwargs)
        return traced

    def eval_shape(self, /, *args: P.args, **kwargs: P.kwargs) -> Any:
        """The shapes of what the function returns, without computing anything."""
        return self._plain.eval_shape(*args, **kwargs)

    def clear_cache(self) -> None:
        """Forget all traces and compiled programs."""
        self._plain.clear_cache()
        for program in self._programs.values():
            program.clear_cache()
        self._habits.clear()
        self._returned.clear()

    def _program(self, arguments: int) -> Any:
        """The compiled function for so many positional arguments, static ones apart.

        All the same one, but that a single sharding given for all arguments must be
        written out for each, now that one more goes before them.
        """
        given = self._options.get("in_shardings", UNSPECIFIED)
        if given is UNSPECIFIED or isinstance(given, tuple | list):
            arguments = -1
        program = self._programs.get(arguments)
        if program is None:
            options = one_further(self._options, arguments)
            program = self._programs[arguments] = jax.jit(self._carrying, **options)
        return program

    def _lay_on_returned(self, out: Any, brought: Carried) -> None:
        structure = jax.tree.structure(out)
        if structure not in self._returned:
            self._returned[structure] = layout_of((out,))
        layout = self._returned[structure]
        assert layout is not None
        objects = layout.objects((out,))
        for (slot, key), _, value in brought.values():
            if key.peek(objects[slot], brought) is brought:  # not laid in by the class
                memo_of(objects[slot]).keep(key, value)


def _carrying(fun: Callable[..., Any], static: Arguments) -> Callable[..., Any]:
    """`fun` as it is traced: with values coming in before its arguments, and values
    going out after its result."""

    @functools.wraps(fun)
    def carrying(carried: Carried, /, *args: Any, **kwargs: Any) -> Any:
        loan = active_loan()
        assert loan is not None
        tree, _ = static.take_out(args, kwargs)
        layout = layout_of(tree)
        assert layout is not None
        loan.lay(layout.objects(tree), carried)
        try:
            out = fun(*args, **kwargs)
        except Exception:
            loan.check_failed()
            raise
        loan.check()
        return out, _values_on(out)

    try:
        signature = inspect.signature(fun)
    except (TypeError, ValueError):  # a builtin
        return carrying
    values = inspect.Parameter("_cached_values", inspect.Parameter.POSITIONAL_ONLY)
    parameters = [values, *signature.parameters.values()]
    carrying.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return carrying


def _values_on(out: Any) -> Carried:
    """The values kept on the objects in the result of a trace, as far as they can
    leave it. The others are computed again when they are asked for."""
    layout = layout_of((out,))
    arrays: list[Any] = []
    moulds = []
    for slot, obj in enumerate(layout.objects((out,)) if layout else ()):
        for key, value in memo_of(obj).values.items():
            try:
                packed = pack(value, key.of(obj))
            except UnhashableValueError:
                continue
            if packed is not None:
                arrays += packed[0]
                moulds.append(((slot, key), packed[1]))
    return Carried(arrays, tuple(moulds))


def _apart_from(leaves: Sequence[Any], carried: Carried) -> Carried:
    """The same values in other memory, where they share it with one of `leaves`: a
    buffer cannot be donated and be used."""
    taken = {_address(x) for x in leaves} - {None}
    copies = [jnp.copy(x) if _address(x) in taken else x for x in carried.arrays]
    return Carried(copies, carried.moulds)


def _address(x: Any) -> int | None:
    if not isinstance(x, jax.Array) or isinstance(x, Tracer):
        return None
    return x.addressable_data(0).unsafe_buffer_pointer()
