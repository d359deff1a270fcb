"""A drop-in for `jax.jit` that carries cached values in and out."""

import functools
import types
from collections.abc import Callable
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    TypeVar,
    overload,
)

import jax
from jax.tree_util import tree_flatten

from ._carry import Brought, Carried, NewSubject
from ._compat import (
    CONCRETE,
    UNSPECIFIED,
    current_trace,
    forget_failed_traces,
    jit_is_disabled,
)
from ._find import Layout, layout_of
from ._fresh import ENOUGH, NOT_FRESH, Fresh, what_comes_inside
from ._habit import Habit, active_loan, call_lending
from ._makeup import makeup_of
from ._memo import memo_of, memos, subjects
from ._options import Arguments, one_further, one_result_more
from ._pack import is_hashable
from ._parts import instance_dict, parts_of, plain_leaves
from ._program import apart_from, bringing, carrying
from ._ready import (
    Moulds,
    Plan,
    Unprepared,
    by_root,
    in_front,
    one_or_all,
    put_on_shelf,
)
from ._rebuilt import NOT_KNOWN, Rebuilt, values_of, what_is_known
from ._recent import Recent
from ._shelf import Shelf

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


_NOTHING: Any = type("Nothing", (), {})()
"""An argument that was not given."""


class Jitted(Generic[P, R]):
    """What `cachax.jit` returns: called like the function it wraps."""

    __slots__ = (
        "__dict__",
        "__weakref__",
        "_bare",
        "_fresh",
        "_plain",
        "_rebuilt",
        "_shelf",
        "_unaided",
    )
    __wrapped__: Callable[P, R]
    __qualname__: str

    def __init__(
        self,
        fun: Callable[P, R],
        options: dict[str, Any],
        transform: Callable[..., Any] = jax.jit,
    ) -> None:
        self._plain: Any = transform(fun, **options)  # at once: it checks the options
        self._transform = transform
        # In front of the arguments, when no values are: other transforms count them.
        self._nothing: tuple[Any, ...] = () if transform is jax.jit else ((),)
        self._shelf = Shelf()  # for calls in which one argument has all that is needed
        self._bare: dict[type, None] = Recent()  # with which nothing is needed
        self._unaided: Any = None
        self._options = options
        self._static = Arguments.static(fun, options)
        self._donates = any(options.get(f"donate_arg{x}") for x in ("nums", "names"))
        # Without programs of its own, it runs the function at every call, which must
        # then have something lent to it.
        keeps_programs = hasattr(self._plain, "lower")
        self._may_guess = (
            keeps_programs and not self._donates and not self._shards_by_number()
        )
        self._programs: dict[Any, Any] = Recent()
        self._habits: dict[Any, Habit] = Recent()
        self._returned: dict[Any, Layout | None] = Recent()
        self._plans: dict[Any, list[Plan]] = Recent()
        self._wrong_guesses: dict[Any, int] = Recent()
        self._met: dict[type, int] = Recent()
        self._fresh: dict[type, Fresh] = Recent()
        self._rebuilt: dict[type, Rebuilt] = Recent()
        self._borrower = object()
        functools.update_wrapper(self, fun, updated=())

    if TYPE_CHECKING:

        def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R: ...

    else:

        def __call__(self, first=_NOTHING, second=_NOTHING, /, *rest, **kwargs):
            # A warm call with an object that has all that is asked for, or with none,
            # ends in here. Every line counts: all of JAX takes 5 µs. So do arguments
            # that are packed and unpacked, which most calls have not so many of.
            guessed = False
            if not rest and not kwargs:
                if self._shelf:
                    ready = self._shelf.get(id(first))
                    if ready is not None:
                        holds, values, _, program = ready
                        if holds(first):
                            try:
                                if second is _NOTHING:
                                    out = program(values, first)
                                else:
                                    out = program(values, first, second)
                                return (
                                    out if type(out) is not Brought else self._take(out)
                                )
                            except Unprepared:
                                guessed = True
                foremost = type(first)
                if foremost in plain_leaves:
                    if second is _NOTHING:
                        return self._plain(first)
                    foremost = type(second)
                    if foremost in plain_leaves:
                        return self._plain(first, second)
                if foremost in self._bare:
                    try:
                        if second is _NOTHING:
                            out = self._unaided(first)
                        else:
                            out = self._unaided(first, second)
                        return out if type(out) is not Brought else self._take(out)
                    except Unprepared:
                        guessed = True
                rebuilt = self._rebuilt.get(type(first))
                if rebuilt is not None:
                    out = rebuilt.call(first, () if second is _NOTHING else (second,))
                    if out is not NOT_KNOWN:
                        return out if type(out) is not Brought else self._take(out)
                fresh = self._fresh.get(type(first))
                if fresh is not None:
                    out = fresh.call(first, () if second is _NOTHING else (second,))
                    if out is not NOT_FRESH:
                        return out if type(out) is not Brought else self._take(out)
                if first is not _NOTHING:
                    rest = () if second is _NOTHING else (second,)
                    return self._call_by_plan((first, *rest), kwargs, guessed)
            if second is not _NOTHING:
                return self._call((first, second, *rest), kwargs)
            return self._call(() if first is _NOTHING else (first,), kwargs)

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
        for program in (self._plain, *self._programs.values()):
            if hasattr(program, "clear_cache"):  # not every lifted transform has one
                program.clear_cache()
        for table in (
            self._programs,
            self._habits,
            self._returned,
            self._plans,
            self._met,
            self._wrong_guesses,
            self._bare,
            self._fresh,
            self._rebuilt,
            self._shelf,
        ):
            table.clear()

    def _call(self, args: Any, kwargs: Any) -> R:
        """The same, for any number of arguments and keywords."""
        guessed = False
        ready = self._shelf.get(id(args[0])) if args else None
        if ready is not None and ready[0](args[0]):
            try:
                return self._take(ready[3](ready[1], *args, **kwargs))
            except Unprepared:
                guessed = True
        foremost = _foremost(args, kwargs)
        if foremost is None:
            return self._plain(*args, **kwargs)  # type: ignore[no-any-return]
        if foremost in self._bare:
            try:
                return self._take(self._unaided(*args, **kwargs))
            except Unprepared:
                guessed = True
        return self._call_by_plan(args, kwargs, guessed)

    def _call_by_plan(self, args: Any, kwargs: Any, guessed: bool) -> R:
        """With several objects, or with objects inside other things; or with none, but
        other things that may have some inside."""
        kind: Any = (*map(type, args),)
        if kwargs:
            kind = (*kind, *kwargs, *map(type, kwargs.values()))
        for plan in self._plans.get(kind, ()):
            values = plan.values(args, kwargs)
            if values is not None:
                try:
                    result = plan.program(*values, *args, **kwargs)
                except Unprepared:
                    guessed = True
                    continue
                if guessed:
                    self._doubt(kind)
                return self._take(result)
            if plan.misfits > _PATIENCE:
                self._doubt(kind)
        return self._call_taking_apart(kind, args, kwargs, guessed)

    def _doubt(self, kind: Any) -> None:
        """A guess was wrong. To try a program that is not for a call costs more than to
        take the call apart, so it must not be done again and again."""
        self._wrong_guesses[kind] = self._wrong_guesses.get(kind, 0) + 1
        self._shelf.clear()
        self._bare.clear()
        if self._wrong_guesses[kind] >= _PATIENCE:
            self._plans.pop(kind, None)

    def _call_taking_apart(self, kind: Any, args: Any, kwargs: Any, guessed: bool) -> R:
        """With values that are not at hand: to be found, or computed, or asked for by
        a function that has not been traced yet."""
        for each in (*args, *kwargs.values()):
            parts_of(type(each))  # if it is a plain leaf, it is known to be from now on
        foremost = _foremost(args, kwargs)
        if foremost is None:
            return self._plain(*args, **kwargs)  # type: ignore[no-any-return]
        is_new = bool(args) and not kwargs and id(args[0]) not in memos
        is_new = is_new and current_trace() is CONCRETE
        tree, statics = self._static.take_out(args, kwargs)
        if jit_is_disabled() or (statics is not None and not is_hashable(statics)):
            return self._plain(*args, **kwargs)  # type: ignore[no-any-return]
        leaves, structure = tree_flatten(tree)
        key = (structure, statics, subjects())
        habit = self._habits.get(key)
        if habit is None:
            habit = self._habits[key] = Habit(layout_of(tree))
            for leaf in leaves:
                parts_of(type(leaf))  # a plain leaf, from now on

        if guessed:
            for wrong in self._programs.values():
                forget_failed_traces(wrong)

        def program(carried: Carried) -> Any:
            if self._donates:
                carried = apart_from(leaves, carried)
            program = self._program(carried.moulds, len(tree[0]))
            values = in_front(carried) if carried.moulds else self._nothing
            return program(*values, *args, **kwargs)

        try:
            lent = call_lending(habit, tree, leaves, program, self._borrower)
        except NewSubject:
            if active_loan() is not None:  # further out they must be found first
                raise
            return self._call_taking_apart(kind, args, kwargs, guessed)
        if guessed and not lent.was_traced:  # there was a program, and not that one
            self._doubt(kind)
        if lent.was_warm and self._may_guess and not self._is_doubtful(kind):
            if lent.moulds or self._nothing or self._wrong_guesses:
                self._expect(kind, args, tree, habit.layout, lent.moulds)
            else:
                self._unaided = self._program((), len(tree[0]))
                self._bare[foremost] = None
        elif is_new and lent.moulds and 0 not in self._static.among(len(args)):
            memo = memos.get(id(args[0]))
            if memo is not None and memo.from_kin:
                self._meet_rebuilt(args[0], lent.moulds, len(tree[0]))
            else:
                self._meet(args, lent.moulds)
        return self._take(lent.result)

    def _is_doubtful(self, kind: Any) -> bool:
        return self._wrong_guesses.get(kind, 0) >= _PATIENCE

    def _meet(self, args: Any, moulds: Moulds) -> None:
        """A new object, for which `moulds` had to be computed."""
        first = args[0]
        fresh = self._fresh.get(type(first))
        if fresh is not None:
            if fresh.wants_a_trace:
                fresh.trace(args)
            else:
                fresh.found_no_kin()
            if fresh.has_failed:
                self._fresh.pop(type(first), None)
            return
        met = self._met[type(first)] = self._met.get(type(first), 0) + 1
        is_barred = _BARRED_FROM_FRESH & self._options.keys()
        if met == ENOUGH and not is_barred and self._transform is jax.jit:
            inside = what_comes_inside(first, moulds)
            if inside is not None:
                fun = bringing(self.__wrapped__)
                fresh = Fresh(fun, self._static, self._options, first, inside)
                fresh.trace(args)
                self._fresh[type(first)] = fresh

    def _meet_rebuilt(self, first: Any, moulds: Moulds, arguments: int) -> None:
        """A new object, for which `moulds` were known."""
        if not self._may_guess or self._wrong_guesses:
            return
        known = what_is_known(first, moulds)
        values = None if known is None else values_of(first, moulds)
        if known is None or values is None:
            return
        used, records = known
        names = (*instance_dict(first, "__dict__"),)
        rebuilt = self._rebuilt.get(type(first))
        if rebuilt is None or (rebuilt.names, rebuilt.used) != (names, (*used,)):
            rebuilt = self._rebuilt[type(first)] = Rebuilt(names, used)
        program = self._program(moulds, arguments)
        rebuilt.put(first, moulds, values, program, records)

    def _expect(
        self,
        kind: Any,
        args: Any,
        tree: Any,
        layout: Layout | None,
        moulds: Moulds,
    ) -> None:
        """Have the values of a call at hand for the next one like it."""
        program = self._program(moulds, len(tree[0]))
        owners = {} if layout is None else layout.by_slot(tree)
        is_sure = not self._wrong_guesses  # of what is asked, whatever comes with it
        if is_sure and self._all_is_in_the_first(args, moulds):
            put_on_shelf(self._shelf, args[0], moulds, owners, one_or_all, program)
            return
        plans = self._plans.setdefault(kind, [])
        for plan in plans:
            if (plan.layout, plan.moulds) == (layout, moulds):
                break
        else:
            if len(plans) >= _PATIENCE:
                return
            plan = Plan(layout, moulds, program, self._static, self._nothing)
            # One that needs no values fits everything: it comes last.
            self._plans[kind] = sorted([*plans, plan], key=lambda p: -len(p.moulds))
        plan.put_on_shelf(owners)

    def _all_is_in_the_first(self, args: Any, moulds: Moulds) -> bool:
        """Whether all that is asked for is of one argument and the objects in it."""
        return (
            bool(args and moulds)
            and type(args[0]).__weakrefoffset__ != 0
            and 0 not in self._static.among(len(args))
            and all(root.startswith("[0][0]") for root in by_root(moulds))
        )

    def moulds_of(self, program: Any) -> Moulds:
        """Of the values that one of its programs takes."""
        for (moulds, _), known in [*self._programs.items()]:
            if known is program:
                return moulds  # type: ignore[no-any-return]
        return ()

    def _program(self, moulds: Moulds, arguments: int) -> Any:
        """The compiled function for these values, and so many positional arguments.

        Their number does not matter, but that a single sharding given for all must be
        written out for each, now that one more goes before them.
        """
        if not self._shards_by_number():
            arguments = -1
        program = self._programs.get((moulds, arguments))
        if program is None:
            options = one_result_more(self._options)
            if moulds or self._nothing:
                options = one_further(options, arguments)
            traced = carrying(
                self.__wrapped__,
                self._borrower,
                self._static,
                moulds,
                options,
                self._transform,
            )
            program = self._transform(traced, **options)
            self._programs[moulds, arguments] = program
        return program

    def _shards_by_number(self) -> bool:
        given = self._options.get("in_shardings", UNSPECIFIED)
        return given is not UNSPECIFIED and not isinstance(given, tuple | list)

    def _take(self, result: Any) -> R:
        """What the function returned, with the values that came along laid on it."""
        if type(result) is not Brought:
            return result  # type: ignore[no-any-return]
        out, brought = result.out, result.carried
        if brought.moulds:
            key = (jax.tree.structure(out), subjects())
            if key not in self._returned:
                self._returned[key] = layout_of((out,))
            layout = self._returned[key]
            assert layout is not None
            objects = layout.by_slot((out,))
            for (slot, key), _, value in brought.values():
                obj = objects[slot]
                if key.peek(obj, brought) is brought:  # not laid by the class
                    memo = memo_of(obj)
                    memo.keep(key, value)
                    memo.on_trust |= slot in brought.on_trust
                    key.note_kin(obj, makeup_of(obj), value)
        return out  # type: ignore[no-any-return]


def _foremost(args: Any, kwargs: Any) -> type | None:
    """The class of the first argument that is more than a number or an array."""
    for each in (*args, *kwargs.values()):
        if type(each) not in plain_leaves:
            return type(each)
    return None


_BARRED_FROM_FRESH = {"donate_argnums", "donate_argnames", "out_shardings"}
_PATIENCE = 8
"""How often a guess may be wrong until a function is taken to ask for other values each
time; how many kinds of calls that look alike are told apart."""
