"""What a function has learned about arguments of one structure."""

import threading
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import jax
from jax.tree_util import tree_flatten

from .._compat import CONCRETE, has_processes, settings, trace_context
from .._core import index
from .._core.inputs import double
from .._core.memo import (
    contents_of_object,
    has_preset,
    may_have_values,
    supplied_on,
)
from .._core.recent import Recent
from .._core.slots import layout_of
from .._core.spread import are_global
from .demand import Answers, Ask, Course, Map, Slot, map_of, may_get_fields, objects_in
from .inside import UNKNOWN, New
from .options import Options
from .paths import Reader, joined
from .plan import Call, Plan, Read, bits, identity, nothing, signature_of
from .results import take


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
        self.spans: list[slice] = []
        """For each object, which of the leaves are in it."""
        self.is_open: list[bool] = []
        """Which objects can get fields that are not in their tree structure."""
        if self.layout is not None:
            objects = self.layout.objects(tree)
            self.spans = self.layout.spans(tree)
            pairs = zip(objects, self.spans, strict=True)
            self.maps = [map_of(obj, span.start) for obj, span in pairs]
            self.is_open = [may_get_fields(obj) for obj in objects]
        self._reader: Reader | None = None
        self.courses: dict[Any, Course] = Recent()
        self.programs: dict[Any, Any] = Recent(64)
        self.plan = Plan()
        self.inside_plan = Plan()
        """The same for calls that compute values inside."""
        self.find = self.plan.find
        self.by_signature = False
        """Whether calls with the same arrays take different programs."""
        self.mistaken = False
        """Whether the last call was first tried with a wrong program."""
        self.static_numpy = False
        self.inside_asks: dict[Ask, None] = {}
        """What can't be an input, unless the user supplies a value that can."""
        self.new_calls = 0
        """For which values had to be computed."""
        self.lock = threading.RLock()
        """While one thread computes values of new arrays, the others wait."""
        self.new = New()
        """What was, when a program computed values inside."""
        self.is_new: Read = nothing
        """Whether it is."""
        self.inside: Any = None
        """A program that computes the values itself."""

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
                "bits": bits,
                "contents_of": contents_of_object,
                "double": double,
                "follow": index.follow,
                "has_preset": has_preset,
                "identity": identity,
                "settings": settings,
                "supplied_on": supplied_on,
                "whole": int.__pos__,
                "signature": lambda *call: (*signature_of(leaves(*call)), settings()),
            }
            arguments = ("args", "kwargs")
            self._reader = Reader(tree, layout, arguments, names, leaves, objects)
        return self._reader

    def reading_object(self, slot: Slot, tree: Any) -> Read:
        """A function that finds the object of a slot."""
        reader = self.reader(tree)
        if isinstance(slot, int):
            return reader.function(reader.object(slot))
        (outer, key), number = slot  # in a value
        read = self.reading_object(outer, tree)

        def object_in(args: Any, kwargs: Any) -> Any:
            value = key.read(read(args, kwargs))
            if number == 0 and may_have_values(type(value)):
                return value
            return objects_in(value)[number]

        return object_in

    def launch(self, program: Any, values: Any, args: Any, kwargs: Any) -> Any:
        """Run a program with these values, traced and compiled first if need be.

        (Not a method of `Program`: an error at run time may show the line, and one in
        `program.py` is taken for one of JAX about the arguments.)
        """
        out = program.bound(values)(*args, **kwargs)
        return take(out, self, args, kwargs) if type(out) is dict else out

    def objects(self, tree: Any) -> list[Any]:
        """Those that may have values, by slot."""
        return [] if self.layout is None else self.layout.objects(tree)

    # What calls take.

    def note(
        self,
        answers: Answers,
        program: Any,
        was_traced: bool,
        call: Call,
        order: Iterable[Ask],
    ) -> Plan:
        """What a call used, in which order, and which program it took."""
        may_have_more = any(key.was_supplied for _, key in self.inside_asks)
        passes_on = program is not None and program.passes_on(self.objects(call.tree))
        if self.mistaken and not was_traced:  # there was a program, and not that one
            self.by_signature = True
        self.mistaken = False
        plan = Plan()
        owned = {ask: x for ask, x in answers.items() if x.by_object}
        plan.by_object = bool(owned) or may_have_more or passes_on
        plan.has_key = not (may_have_more or passes_on)
        plan.has_key &= all(value.is_fixed for value in owned.values())
        if plan.has_key:
            plan.owners = tuple(dict.fromkeys(slot for slot, _ in owned))
        plan.program = None if may_have_more else program
        plan.find_by(self, call, answers, self.plan, order=order)
        self.plan = plan
        self._set_find(call)
        return plan

    def note_inside(
        self, answers: Answers, program: Any, values: Any, new: New, call: Call
    ) -> None:
        """A call took a program that computes values itself, because something was new.
        Otherwise calls take what is planned."""
        inside = Plan()
        inside.program, inside.typed = program, [*new.types]
        inside.find_by(self, call, answers, self.inside_plan, new.leaves)
        inside.keep(call.args, call.kwargs, values)
        self.inside_plan, self.new = inside, new
        self._set_find(call)
        ready = inside.ready.get(inside.key(call.args, call.kwargs))
        if ready is not None:
            ready.call = self._one_thread(ready.call)

    def _set_find(self, call: Call) -> None:
        """What is ready for a call: as it is planned, or for new arrays."""
        plan, inside, reader = self.plan, self.inside_plan, self._reader
        new = self.new
        if reader is None or not new.leaves or plan.by_object:
            self.find = plan.find  # (an object that has its own value is not new)
            return
        leaves = [*map(reader.leaf, new.leaves)]
        arrays = [reader.array(i, call.leaves) for i in new.leaves]
        conditions = [f"'_cachax' not in {array}.__dict__" for array in arrays]
        if plan.supplied_code != "False":
            conditions.append(f"not ({plan.supplied_code})")
        conditions.append("here.trace is concrete")
        if has_processes():
            conditions.append(f"are_global({joined(leaves)}) is {self.is_global}")
        arrays_of: dict[Any, dict[Any, str]] = {}
        for need in plan.needs:
            if not {*need.positions}.isdisjoint(new.leaves):
                for key, places in need.reads:
                    ids = [f"id({reader.leaf(i)})" for i in places]
                    arrays_of.setdefault(key, {})[need.ask[0]] = joined(ids)
        for each in arrays_of.values():  # inside, one object in two places is two
            if len(each) > 1:
                codes = ", ".join(each.values())
                conditions.append(f"len({{{codes}}}) == {len(each)}")
        is_new = " and ".join(conditions)
        names = {"here": trace_context, "concrete": CONCRETE, "are_global": are_global}
        self.is_new = reader.function(is_new, **names)
        self.find = reader.function(
            f"ready_inside[{inside.find_code}] if {is_new} "
            f"else ready[{plan.find_code}]",
            ready_inside=inside.ready,
            ready=plan.ready,
            **names,
            **plan.names,
        )

    def compute_outside(self) -> None:
        """From now on, no program computes values itself."""
        self.inside, self.new = UNKNOWN, New()
        self.find = self.plan.find

    def _one_thread(self, launch: Callable[..., Any]) -> Callable[..., Any]:
        """A program for new arrays: of threads that call it with the same ones, the
        first computes the value."""
        is_new, lock = self.is_new, self.lock
        weakly = weakref.ref(self)  # which has what is ready

        def call(*args: Any, **kwargs: Any) -> Any:
            if threading.active_count() == 1:
                return launch(*args, **kwargs)
            is_alone = lock.acquire(timeout=1)  # it may wait for this thread
            try:
                if not is_new(args, kwargs):
                    raise NoLongerNew
                out = launch(*args, **kwargs)
                return take(out, weakly(), args, kwargs) if type(out) is dict else out
            finally:
                if is_alone:
                    lock.release()

        return call


class NoLongerNew(BaseException):
    """The value was computed meanwhile, in a different thread."""
