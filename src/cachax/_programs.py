"""The programs of one function, and which values each call of it takes along."""

import functools
import weakref
from collections.abc import Callable
from typing import Any

import jax
from jax.tree_util import tree_flatten

from ._carry import Brought, Carried, NewSubject
from ._compat import (
    CONCRETE,
    UNSPECIFIED,
    Tracer,
    current_trace,
    forget_failed_traces,
    jit_is_disabled,
)
from ._computed import Inside
from ._errors import LeakedTracerError
from ._find import Layout, layout_of
from ._fresh import ENOUGH, Fresh, what_comes_inside
from ._habit import Habit, active_loan, call_lending
from ._makeup import makeup_of
from ._memo import Key, late_sources, memo_of, memos, subjects
from ._options import Arguments, one_further, one_result_more
from ._pack import is_hashable
from ._parts import instance_dict, parts_of, plain_leaves
from ._program import apart_from, bringing, carrying
from ._ready import (
    Declined,
    Moulds,
    Plan,
    Unprepared,
    by_root,
    in_front,
    one_or_all,
    put_on_shelf,
)
from ._rebuilt import Rebuilt, values_of, what_is_known
from ._recent import Guesses, Recent
from ._shelf import Shelf
from ._core.watch import watchers_of


class _Nothing:
    """An argument that was not given."""

    def __reduce__(self) -> str:
        return "NOTHING"


NOTHING: Any = _Nothing()


class Programs:
    """What is behind a function that `cachax.jit` returns."""

    __slots__ = (
        "__dict__",
        "__weakref__",
        "bare",
        "brings",
        "fresh",
        "plain",
        "rebuilt",
        "shelf",
        "unaided",
        "watchers",
    )

    def __init__(
        self,
        fun: Callable[..., Any],
        options: dict[str, Any],
        transform: Callable[..., Any] = jax.jit,
    ) -> None:
        self._alone: Any = transform(fun, **options)  # at once: it checks the options
        self._transform = transform
        # In front of the arguments, when no values are: other transforms count them.
        self._nothing: tuple[Any, ...] = () if transform is jax.jit else ((),)
        self.shelf = Shelf()  # for calls in which one argument has all that is needed
        self.bare: dict[type, None] = Guesses()  # with which nothing is needed
        self.unaided: Any = None
        self._options = options
        # The names of the values that results come out with: mostly none. With that
        # option they all come out as if they had some.
        self.brings: set[Any] = {"out_shardings"} & options.keys()
        # For calls with arrays alone. By a proxy: it is to go when it is let go.
        self.plain = self._alone
        if transform is jax.jit and not self.brings:
            self.plain = functools.partial(Programs._find_out, weakref.proxy(self))
        self.static = Arguments.static(fun, options)
        self._donates = any(options.get(f"donate_arg{x}") for x in ("nums", "names"))
        # Without programs of its own, it runs the function at every call, which must
        # then have something lent to it.
        keeps_programs = hasattr(self._alone, "lower")
        # Another transform may do something with the result.
        self._brings_out = keeps_programs
        self._may_guess = (
            keeps_programs and not self._donates and not self._shards_by_number()
        )
        self._programs: dict[Any, Any] = Recent()
        self.habits: dict[Any, Habit] = Recent()
        self._returned: dict[Any, Layout | None] = Recent()
        self.plans: dict[Any, list[Plan]] = Guesses()
        self.wrong_guesses: dict[Any, int] = Recent()
        self._met: dict[type, int] = Recent()
        self.fresh: dict[type, Fresh] = Recent()
        self.rebuilt: dict[type, Rebuilt] = Recent()
        self._making: Any = None
        self._inside: set[Key] = set()  # what it asks for and cannot be lent
        self._borrower = object()
        self.watchers = watchers_of(Programs, "call")
        self.__wrapped__ = fun

    def __reduce__(self) -> tuple[Any, ...]:
        """As new: it has learned nothing."""
        return Programs, (self.__wrapped__, self._options, self._transform)

    def lower(self, /, *args: Any, **kwargs: Any) -> jax.stages.Lowered:
        """The program on its own, as `jax.jit` would lower it.

        What leaves here (to be compiled ahead of time, exported, looked at) takes
        the arguments of the function and nothing else, so it computes cached values
        inside.
        """
        lowered: jax.stages.Lowered = self._alone.lower(*args, **kwargs)
        return lowered

    def trace(self, /, *args: Any, **kwargs: Any) -> jax.stages.Traced:
        """The trace of the program on its own; see `lower`."""
        traced: jax.stages.Traced = self._alone.trace(*args, **kwargs)
        return traced

    def eval_shape(self, /, *args: Any, **kwargs: Any) -> Any:
        """The shapes of what the function returns, without computing anything."""
        return self._alone.eval_shape(*args, **kwargs)

    def clear_cache(self) -> None:
        """Forget all traces and compiled programs."""
        for program in (self._alone, self._making, *self._programs.values()):
            if hasattr(program, "clear_cache"):  # not every lifted transform has one
                program.clear_cache()
        for table in (
            self._programs,
            self.habits,
            self._returned,
            self.plans,
            self._met,
            self.wrong_guesses,
            self.bare,
            self.fresh,
            self.rebuilt,
            self.shelf,
        ):
            table.clear()

    def call(self, /, *args: Any, **kwargs: Any) -> Any:
        """The function, whatever its arguments are. For one or two, the same is written
        out in `_jit.py`, which takes less time."""
        try:
            first = args[0] if args else None
            ready = self.shelf.get(id(first)) if args else None
            if ready is not None and ready.holds(first):
                return self.take(ready.about(ready.values, *args, **kwargs))
            foremost = _foremost(args, kwargs)
            if foremost is None:
                return self.plain(*args, **kwargs)
            if foremost in self.bare:
                return self.take(self.unaided(*args, **kwargs))
            ways = (self.rebuilt.get(type(first)), self.fresh.get(type(first)))
            for way in () if kwargs else ways:
                out = Declined if way is None else way.call(first, args[1:])
                if out is not Declined:
                    return self.take(out)
            guessed = False
        except Unprepared:
            guessed = True
        return self.call_by_plan(args, kwargs, guessed)

    def _find_out(self, /, *args: Any, **kwargs: Any) -> Any:
        """With arrays alone, for the first time: does it make objects, compute values
        of theirs and return them? Mostly not: then it is `jax.jit` and nothing else."""
        # (`self` is a proxy, and so it is in `_make`.)
        if not _are_real(args, kwargs):
            return self._alone(*args, **kwargs)
        inside = Inside()
        traced = self._alone.trace(*args, **kwargs)
        if self._making is None:
            self.plain = self._alone
        if inside and _may_have_objects(traced):
            making = bringing(self.__wrapped__, self.brings)
            self._making = jax.jit(making, **self._options)
            self.plain = functools.partial(Programs._make, self)
        return self.plain(*args, **kwargs)

    def _make(self, /, *args: Any, **kwargs: Any) -> Any:
        """With arrays alone, where objects come out, which may have values."""
        program = self._making if _are_real(args, kwargs) else self._alone
        return self.take(program(*args, **kwargs))

    def call_by_plan(self, args: Any, kwargs: Any, guessed: bool) -> Any:
        """With several objects, or with objects inside other things; or with none, but
        other things that may have some inside."""
        kind: Any = (*map(type, args),)
        if kwargs:
            kind = (*kind, *kwargs, *map(type, kwargs.values()))
        for plan in self.plans.get(kind, ()):
            values = plan.values(args, kwargs)
            if values is not None:
                try:
                    result = plan.program(*values, *args, **kwargs)
                except Unprepared:
                    guessed = True
                    continue
                if guessed:
                    self._doubt(kind)
                return self.take(result) if self.brings else result
            if plan.misfits > _PATIENCE:
                self._doubt(kind)
        return self._call_taking_apart(kind, args, kwargs, guessed)

    def _doubt(self, kind: Any) -> None:
        """A guess was wrong. To try a program that is not for a call costs more than to
        take the call apart, so it must not be done again and again."""
        self.wrong_guesses[kind] = self.wrong_guesses.get(kind, 0) + 1
        self.shelf.clear()
        self.bare.clear()
        if self.wrong_guesses[kind] >= _PATIENCE:
            self.plans.pop(kind, None)

    def _call_taking_apart(
        self, kind: Any, args: Any, kwargs: Any, guessed: bool
    ) -> Any:
        """With values that are not at hand: to be found, or computed, or asked for by
        a function that has not been traced yet."""
        for each in (*args, *kwargs.values()):
            parts_of(type(each))  # if it is a plain leaf, it is known to be from now on
        foremost = _foremost(args, kwargs)
        if foremost is None:
            return self.plain(*args, **kwargs)
        is_new = bool(args) and not kwargs and id(args[0]) not in memos
        is_new = is_new and current_trace() is CONCRETE
        tree, statics = self.static.take_out(args, kwargs)
        if jit_is_disabled() or (statics is not None and not is_hashable(statics)):
            return self._alone(*args, **kwargs)
        leaves, structure = tree_flatten(tree)
        key = (structure, statics, subjects())
        habit = self.habits.get(key)
        if habit is None:
            habit = self.habits[key] = Habit(layout_of(tree))
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

        lent = None
        try:
            lent = call_lending(habit, tree, leaves, program, self._borrower)
        except NewSubject:
            if active_loan() is not None:  # further out they must be found first
                raise
        if lent is None:  # not in there, or what it raises would seem to come of it
            return self._call_taking_apart(kind, args, kwargs, guessed)
        if guessed and not lent.was_traced:  # there was a program, and not that one
            self._doubt(kind)
        self._inside |= {key for _, key in habit.computed_inside}
        if any(key.was_given for key in self._inside):
            self.bare.clear()
            self.plans.clear()
        elif lent.was_warm and self._may_guess and not self._is_doubtful(kind):
            if lent.moulds or self._nothing or self.wrong_guesses:
                self._expect(kind, args, tree, habit.layout, lent.moulds)
            else:
                self.unaided = self._program((), len(tree[0]))
                self.bare[foremost] = None
        elif is_new and lent.moulds and 0 not in self.static.among(len(args)):
            memo = memos.get(id(args[0]))
            if memo is not None and memo.from_kin:
                self._meet_rebuilt(args[0], lent.moulds, len(tree[0]))
            else:
                self._meet(args, lent.moulds)
        return self.take(lent.result)

    def _is_doubtful(self, kind: Any) -> bool:
        return self.wrong_guesses.get(kind, 0) >= _PATIENCE

    def _meet(self, args: Any, moulds: Moulds) -> None:
        """A new object, for which `moulds` had to be computed."""
        first = args[0]
        fresh = self.fresh.get(type(first))
        if fresh is not None:
            if fresh.wants_a_trace:
                fresh.trace(args)
            else:
                fresh.found_no_kin()
            if fresh.has_failed:
                self.fresh.pop(type(first), None)
            return
        met = self._met[type(first)] = self._met.get(type(first), 0) + 1
        is_barred = _BARRED_FROM_FRESH & self._options.keys()
        if met == ENOUGH and not is_barred and self._transform is jax.jit:
            inside = what_comes_inside(first, moulds)
            if inside is not None:
                fun = bringing(self.__wrapped__, self.brings)
                fresh = Fresh(fun, self.static, self._options, first, inside)
                fresh.trace(args)
                self.fresh[type(first)] = fresh

    def _meet_rebuilt(self, first: Any, moulds: Moulds, arguments: int) -> None:
        """A new object, for which `moulds` were known."""
        if not self._may_guess or self.wrong_guesses:
            return
        known = what_is_known(first, moulds)
        values = None if known is None else values_of(first, moulds)
        if known is None or values is None:
            return
        used, records = known
        names = (*instance_dict(first, "__dict__"),)
        rebuilt = self.rebuilt.get(type(first))
        if rebuilt is None or (rebuilt.names, rebuilt.used) != (names, (*used,)):
            rebuilt = self.rebuilt[type(first)] = Rebuilt(names, used)
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
        is_sure = not self.wrong_guesses  # of what is asked, whatever comes with it
        if is_sure and self._all_is_in_the_first(args, moulds):
            put_on_shelf(self.shelf, args[0], moulds, owners, one_or_all, program)
            return
        plans = self.plans.setdefault(kind, [])
        for plan in plans:
            if (plan.layout, plan.moulds) == (layout, moulds):
                break
        else:
            if len(plans) >= _PATIENCE:
                return
            plan = Plan(layout, moulds, program, self.static, self._nothing)
            # One that needs no values fits everything: it comes last.
            self.plans[kind] = sorted([*plans, plan], key=lambda p: -len(p.moulds))
        plan.put_on_shelf(owners)

    def _all_is_in_the_first(self, args: Any, moulds: Moulds) -> bool:
        """Whether all that is asked for is of one argument and the objects in it."""
        return (
            bool(args and moulds)
            and type(args[0]).__weakrefoffset__ != 0
            and 0 not in self.static.among(len(args))
            and all(root.startswith("[0][0]") for root in by_root(moulds))
        )

    def moulds_of(self, program: Any) -> Moulds:
        """Of the values that one of its programs takes."""
        for (moulds, *_), known in [*self._programs.items()]:
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
        key = (moulds, arguments, late_sources())
        program = self._programs.get(key)
        if program is None:
            options = one_result_more(self._options)
            if moulds or self._nothing:
                options = one_further(options, arguments)
            traced = carrying(
                self.__wrapped__,
                self._borrower,
                self.static,
                moulds,
                options,
                self._transform,
                self.brings if self._brings_out else None,
            )
            program = self._transform(traced, **options)
            self._programs[key] = program
        return program

    def _shards_by_number(self) -> bool:
        given = self._options.get("in_shardings", UNSPECIFIED)
        return given is not UNSPECIFIED and not isinstance(given, tuple | list)

    def take(self, result: Any) -> Any:
        """What the function returned, with the values that came along laid on it."""
        if type(result) is not Brought:
            return result
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
                    if memo.on_trust and memo.get(key, brought) is brought:
                        raise LeakedTracerError(key.of(obj))
                    key.note_kin(obj, makeup_of(obj), value)
        return out


def _may_have_objects(traced: jax.stages.Traced) -> bool:
    """Whether the result of a trace has objects that may have values."""
    try:
        return layout_of((traced.out_info,)) is not None
    except Exception:  # a class that does something with its leaves
        return True


def _are_real(args: Any, kwargs: Any) -> bool:
    """Whether these plain leaves are no tracers, and no trace is going on."""
    leaves = (*args, *kwargs.values())
    is_traced = any(isinstance(x, Tracer) for x in leaves)
    return current_trace() is CONCRETE and not is_traced and not jit_is_disabled()


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
