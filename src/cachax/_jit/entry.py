"""What a function has learned about arguments of one structure."""

import threading
import weakref
from typing import Any, NamedTuple

import jax
from jax.tree_util import tree_flatten

from .._compat import CONCRETE, has_several_devices, settings, trace_context
from .._core import index
from .._core.memo import (
    contents_of_object,
    has_preset,
    may_have_values,
    supplied_for,
)
from .._core.parts import double
from .._core.recent import Recent
from .._core.slots import layout_of
from .._core.spread import are_global
from .demand import Answers, Ask, Course, Slot, Under, objects_in
from .inside import New, are_unknown, is_new_code
from .map import Map, map_of
from .options import Options
from .paths import Reader
from .plan import Call, Plan, Read, Ready, bits, identity, plan_for, signature_of


class Entry:
    """For one structure of arguments, or for all without objects. `tree` is of that
    structure: the arguments, with None for the static ones."""

    def __init__(self, options: Options, tree: Any) -> None:
        self.options = options
        self.is_global = are_global(jax.tree.leaves(tree))
        """Whether it is for calls with global arrays. What a process does with its own
        arrays must make no difference to what it launches together with others."""
        self.layout = layout_of(tree)
        self.maps: list[Map | None] = []
        self.spans: list[range] = []
        """For each object, which of the leaves are in it."""
        if self.layout is not None:
            self.spans = [range(x.start, x.stop) for x in self.layout.spans(tree)]
            pairs = zip(self.layout.objects(tree), self.spans, strict=True)
            self.maps = [map_of(obj, span) for obj, span in pairs]
        self._reader: Reader | None = None
        self.courses: dict[Any, dict[Course, None]] = Recent()
        """What traces used, by the shapes of the arguments."""
        self.programs: dict[Any, Any] = Recent()
        self.plan = Plan()
        self.earlier: tuple[Plan, ...] = ()
        """Plans of other calls, which are not read like those of this one: a number and
        an array in turn, or objects with a value from `preset` and without."""
        self.inside: tuple[Plan, ...] = ()
        """The same for calls that compute values inside: one for each choice of what is
        new, the last one first."""
        self.find = self.plan.find
        self.distinctions: dict[str, None] = {}
        """Expressions that distinguish calls with the same arrays, if such calls have
        taken different programs: of the configuration of JAX, and of shapes."""
        self.mistaken = False
        """Whether the last call was first tried with a wrong program."""
        self.static_numpy = False
        self.inside_asks: dict[Ask, None] = {}
        """What can't be an input, unless the user supplies a value that can."""
        self.new_calls = 0
        """For which values had to be computed."""
        self.may_compute_inside = True
        self._new_calls_of: dict[Any, int] = Recent(100)
        """The same for each choice of what is new, from the second one on."""

    # How to read the arguments.

    def reader(self, tree: Any) -> Reader:
        if self._reader is None or self.layout is None:
            take_out, layout = self.options.static.take_out, self.layout

            def leaves(args: Any, kwargs: Any) -> list[Any]:
                return tree_flatten(take_out(args, kwargs)[0])[0]

            def objects(args: Any, kwargs: Any) -> list[Any]:
                tree, _ = take_out(args, kwargs)
                return [] if layout is None else layout.objects(tree)

            names = {
                "all_leaves": leaves,
                "all_objects": objects,
                "are_global": are_global,
                "bits": bits,
                "concrete": CONCRETE,
                "contents_of": contents_of_object,
                "double": double,
                "follow": (
                    index.follow_in_place if has_several_devices() else index.follow
                ),
                "has_preset": has_preset,
                "here": trace_context,
                "identity": identity,
                "object_in": _object_in,
                "settings": settings,
                "sharding_of": _sharding_of,
                "supplied_on": lambda obj: frozenset(supplied_for(obj)),
                "whole": int.__pos__,
                "signature": lambda *call: signature_of(leaves(*call)),
            }
            arguments = ("args", "kwargs")
            self._reader = Reader(tree, layout, arguments, names, "")
        return self._reader

    def object(self, slot: Slot, tree: Any) -> str:
        """The expression for the object of a slot."""
        reader = self.reader(tree)
        if type(slot) is Under:
            slot = slot.slot
        if isinstance(slot, int):
            return reader.object(slot)
        (outer, key), number = slot  # in a value
        owner = self.object(outer, tree)
        return f"object_in({reader.constant(key)}, {owner}, {number})"

    def launch(self, program: Any, values: Any, args: Any, kwargs: Any) -> Any:
        """Run a program with these values, traced and compiled first if need be.

        (Not a method of `Program`: an error at run time may show the line, and one in
        `program.py` is taken for one of JAX about the arguments.)
        """
        out = program.bound(values)(*args, **kwargs)
        return program.take(out, self, args, kwargs)

    def objects(self, tree: Any) -> list[Any]:
        """Those that may have values, by slot."""
        return [] if self.layout is None else self.layout.objects(tree)

    # What calls take.

    def note(
        self, answers: Answers, program: Any, was_traced: bool, call: Call
    ) -> Plan:
        """What a call used, and which program it took."""
        before = self.plan
        if self.mistaken and not was_traced:  # there was a program, and not that one
            is_same = before.settings == settings()
            self.distinctions[_SHAPES if is_same else "settings()"] = None
        self.plan = plan = plan_for(self, call, answers, program, before)
        others = () if self.mistaken else (before, *self.earlier)
        codes = {x.key_code: x for x in reversed(others) if x.program is not None}
        codes.pop(plan.key_code, None)
        self.earlier = tuple([*codes.values()][-_EARLIER:])
        self.mistaken = False
        if plan.key_code != before.key_code or plan.asks != before.asks:
            self.inside = self.inside[:1]
        self._set_find(call)
        return plan

    def plan_inside(self, answers: Answers, program: Any, new: New, call: Call) -> Plan:
        """For calls in which something is new, whose values the program computes."""
        same = (plan for plan in self.inside if plan.program is program)
        before = next(same, None) or Plan()
        plan = plan_for(self, call, answers, program, before, new)
        reader = self.reader(call.tree)
        arrays = [reader.array(i, call.leaves) for i in plan.leaves]
        sources = [*plan.leaves.values()]
        plan.launcher = self._in_one_thread(
            program,
            reader.function(arrays),
            sources,
            are_unknown(self, self.plan, new, call),
        )
        return plan

    def note_inside(self, plan: Plan, values: Any, call: Call) -> None:
        """A call was as this plan says. Others take what is planned otherwise."""
        others = [x for x in self.inside if not x.is_like(plan)]
        self.inside = (plan, *others[: _INSIDE - 1])
        self._set_find(call)
        plan.keep(call.args, call.kwargs, values)

    def is_frequent(self, what_is_new: Any, enough: int) -> bool:
        """Whether there have been enough calls in which the same was new. (Or a program
        would be compiled for each subset of the objects of a random sample.)"""
        counts = self._new_calls_of
        counts[what_is_new] = counts.get(what_is_new, 0 if counts else enough) + 1
        return counts[what_is_new] > enough

    def look_up(self, args: Any, kwargs: Any, may_compute: bool = True) -> Ready | None:
        """What a call takes that is unlike the last one; None if one of its values is
        not known, and if it is not computed inside."""
        if not (self.inside or self.earlier):  # as it is for most
            return self.plan.look_up(args, kwargs)
        for plan in self.inside if may_compute else ():
            if (ready := plan.look_up(args, kwargs)) is not None:
                return ready
        for plan in self.earlier:
            try:
                return plan.find(args, kwargs)
            except Exception:  # it is not ready, or can't be read like this
                pass
        found = (plan.look_up(args, kwargs) for plan in (self.plan, *self.earlier))
        return next(filter(None, found), None)

    def _set_find(self, call: Call) -> None:
        """What is ready for a call: as it is planned, or for new arrays."""
        plan = self.plan
        self.find = plan.find
        if plan.by_object:  # an object that has its own value is not new
            self.inside = ()
        for inside in self.inside[:1]:
            is_new = is_new_code(self, plan, inside, call)
            code = f"inside[{inside.key_code}] if {is_new} else ready[{plan.key_code}]"
            if inside.unknown:  # which takes longer to find out
                code = f"ready.get({plan.key_code}) or ({code})"
            reader = self.reader(call.tree)
            inside.applies = reader.function(
                f"{is_new} and is_as_then(args, kwargs)",
                is_as_then=inside.is_as_then,
                needs=plan.needs,
            )
            self.find = reader.function(
                code, inside=inside.ready, ready=plan.ready, needs=plan.needs
            )

    def compute_outside(self) -> None:
        """From now on, no program computes values itself."""
        self.may_compute_inside, self.inside = False, ()
        self.find = self.plan.find

    def _in_one_thread(
        self, program: Any, arrays: Read, sources: Any, are_unknown: Read
    ) -> Any:
        """Launches a program for new arrays: of threads that call it with the same
        ones, the first computes the value."""
        weakly = weakref.ref(self)  # which has what is ready

        def launcher(values: Any) -> tuple[Any, Any]:
            launch = program.bound(values)

            def call(*args: Any, **kwargs: Any) -> Any:
                if threading.active_count() == 1:
                    return program.take(launch(*args, **kwargs), weakly(), args, kwargs)
                with index.computing_inside(arrays(args, kwargs), sources) as is_new:
                    if not (is_new and are_unknown(args, kwargs)):
                        raise NoLongerNew
                    return program.take(launch(*args, **kwargs), weakly(), args, kwargs)

            return call, _Taken(program.call)

        return launcher


_SHAPES = "*signature(args, kwargs)"
"""One of the distinctions between calls."""
_EARLIER = 3
"""How many plans of other calls are kept."""
_INSIDE = 32
"""How many choices of what is new."""


class _Taken(NamedTuple):
    """A program, for calls that keep what comes out themselves."""

    call: Any
    about: None = None


def _sharding_of(leaf: Any) -> Any:
    return getattr(leaf, "sharding", None), getattr(leaf, "committed", None)


def _object_in(key: Any, owner: Any, number: int) -> Any:
    """One of the objects in a value."""
    value = key.read(owner)
    if number == 0 and may_have_values(type(value)):
        return value
    return objects_in(value)[number]


class NoLongerNew(BaseException):
    """The value was computed meanwhile, in a different thread."""
