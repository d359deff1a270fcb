"""The events of calls: values passed in and out, functions traced and compiled."""

import time
from collections import defaultdict
from collections.abc import Callable
from itertools import islice
from typing import Any

import jax

from .._core.levels import traces_in
from .._errors import plain_name
from .._jit.call import Function
from .._jit.demand import Demand
from .._jit.results import About
from .._watch import Wrap
from .causes import RETURNED, Signature, why_traced
from .events import What, Where, bytes_of, where_now
from .journal import Call, Journal, is_traced
from .one_process import warn_if_in_one_process


class Calls:
    """Wraps the methods that a call of a `cachax.jit` function goes through."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._doing = journal.doing
        self._clock = journal.clock
        self._add = journal.add
        self._signatures: dict[int, list[Signature]] = defaultdict(list)

    def wraps(self) -> dict[tuple[type, str], Wrap]:
        return {
            (Demand, "gather"): self._gather,
            (Demand, "start"): self._start,
            (About, "take"): self._take,
            (Function, "took"): self._took,
            (Function, "_call_computing_inside"): self._inside,
            (Function, "call"): self._call,
        }

    def _gather(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def gather(demand_or_plan: Any, what: Any) -> Any:
            self._doing.gathers += 1
            try:
                return original(demand_or_plan, what)
            finally:
                self._doing.gathers -= 1

        return gather

    def _start(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def start(demand: Demand) -> None:
            if self._doing.calls:
                self._doing.calls[-1].traces += 1
            original(demand)

        return start

    def _took(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def took(
            function: Function,
            entry: Any,
            tree: Any,
            asks: Any,
            is_inside: bool = False,
        ) -> None:
            objects = entry.objects(tree)
            if self._doing.calls:
                call = self._doing.calls[-1]
                call.was_inside = is_inside
                call.carried = [
                    (key, objects[slot]) for slot, key in asks if isinstance(slot, int)
                ]
                if is_inside:
                    call.inside = _read_inside(entry, objects, asks)
            original(function, entry, tree, asks, is_inside)

        return took

    def _inside(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def inside(function: Function, *call: Any) -> Any:
            self._doing.for_new_objects = True
            try:
                return original(function, *call)
            finally:
                self._doing.for_new_objects = False

        return inside

    def _take(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def take(about: About, result: Any, *call: Any) -> Any:
            out = original(about, result, *call)
            arrays = result[1] if about.has_arrays and type(result) is tuple else ()
            calls = self._doing.calls
            if calls and not is_traced(out):
                remaining = iter(arrays)
                for each in about.brought:
                    its = [*islice(remaining, each.packed.form.holes)]
                    if not each.is_argument:
                        why = f"{calls[-1].qualname} {RETURNED}"
                        name = each.name
                        self._add(What.RETURNED, name, bytes=bytes_of(its), why=why)
            return out

        return take

    def _call(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(function: Function, plain: Any, args: Any, kwargs: Any) -> Any:
            warn_if_in_one_process(f"{function.qualname} is called", args, kwargs)
            call = Call(where_now(), function.name, was_known=function.was_called)
            call.qualname = plain_name(function.qualname)
            self._doing.calls.append(call)
            start = self._clock.enter()
            try:
                return original(function, plain, args, kwargs)
            finally:
                self._doing.calls.pop()
                self._add_call(
                    function, args, kwargs, call, start, self._clock.leave(start)
                )

        return call

    def _add_call(
        self,
        function: Function,
        args: Any,
        kwargs: Any,
        call: Call,
        start: float,
        times: dict[str, Any],
    ) -> None:
        name, where = function.qualname, where_now()
        inside_a_trace = bool(traces_in(args, kwargs))
        self._add(What.CALLED, name, where=where, start=start, **times)
        for key, owner in [] if inside_a_trace else call.carried + call.inside:
            value = key.peek(owner, ())
            shown = plain_name(name)
            what, why = What.PASSED, f"into {shown}"
            if any(key == each and owner is its for each, its in call.inside):
                what, why = What.INSIDE, f"a new object: computed inside {shown}"
            elif not any(hasattr(x, "shape") for x in jax.tree.leaves(value)):
                why = f"static result: a constant of {shown}"
            at = self._journal.read_at.get(key) or where
            self._add(
                what,
                key.of(owner),
                obj=owner,
                where=at,
                bytes=bytes_of(value),
                why=why,
                is_first_use=(id(owner), key) in call.got,
            )
        self._add_traces(function, args, kwargs, call, where)

    def _add_traces(
        self,
        function: Function,
        args: Any,
        kwargs: Any,
        call: Call,
        where: Where | None,
    ) -> None:
        signature = Signature(function.fun(), args, kwargs)
        before = self._signatures[id(function)]
        if call.traces or call.compilations:
            why = why_traced(signature, before)
            if call.was_inside:
                why = "to compute values of new objects inside"
            elif not before and call.was_known:
                why = "the first call in this recording, different from those before"
            for number in range(call.traces):
                is_first = number < call.traces - 1
                said = "to determine which values it uses" if is_first else why
                self._add(What.TRACED, function.qualname, where=where, why=said)
            for start, seconds in call.compilations:
                times = {"start": start, "seconds": seconds, "wall_seconds": seconds}
                depth = self._clock.depth + 1
                self._add(
                    What.COMPILED,
                    function.qualname,
                    where=where,
                    why=why,
                    depth=depth,
                    **times,
                )
        before.append(signature)

    def on_lowered(self, seconds: float) -> None:
        self._clock.compiled(seconds)

    def on_compiled(self, name: str, seconds: float) -> None:
        """Something was compiled in this thread."""
        start = time.perf_counter() - seconds
        self._clock.compiled(seconds)
        if self._doing.names:
            what_for = f"to compute {self._doing.names[-1]}"
        elif self._doing.calls:
            self._doing.calls[-1].compilations.append((start, seconds))
            return
        else:
            what_for = ""
        self._add(
            What.COMPILED,
            name,
            start=start,
            seconds=seconds,
            wall_seconds=seconds,
            why=what_for,
        )


def _read_inside(entry: Any, objects: list[Any], passed: Any) -> list[tuple[Any, Any]]:
    """The values that a program computes: keys, and objects."""
    needs = entry.plan.needs
    used = {need.ask: None for need in needs}
    used |= {
        (n.ask[0], key): None for n in needs for key, is_same in n.reads if is_same
    }
    slots = {ask: None for ask in used if isinstance(ask[0], int) and ask not in passed}
    return [(key, objects[slot]) for slot, key in slots]
