"""What a recording hears of calls: carried in, brought out, traced, compiled."""

import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from ._carry import Brought, Loan
from ._causes import Signature, why_traced
from ._events import What, Where, bytes_of, where_now
from ._find import layout_of
from ._fresh import Fresh
from ._journal import Call, Journal, is_traced
from ._levels import traces_in
from ._memo import memo_of
from ._program import name_of
from ._programs import Programs
from ._ready import Declined, Plan
from ._rebuilt import Rebuilt
from ._core.watch import Wrap


class Calls:
    """Wraps what a call of a `cachax.jit` function goes through."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._doing = journal.doing
        self._clock = journal.clock
        self._add = journal.add
        self._signatures: dict[int, list[Signature]] = defaultdict(list)

    def wraps(self) -> dict[tuple[type, str], Wrap]:
        return {
            (Loan, "gather"): self._gather,
            (Loan, "gather_kept"): self._gather_kept,
            (Loan, "lay"): self._lay,
            (Plan, "values"): self._plan,
            (Rebuilt, "call"): self._rebuilt,
            (Fresh, "call"): self._fresh,
            (Fresh, "trace"): self._fresh_trace,
            (Programs, "take"): self._take,
            (Programs, "call"): self._call,
        }

    def _gather(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def gather(loan: Loan, asks: Any) -> Any:
            self._doing.gathers += 1
            try:
                carried = original(loan, asks)
            finally:
                self._doing.gathers -= 1
            self._set_carried(loan, carried)
            return carried

        return gather

    def _gather_kept(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def gather_kept(loan: Loan, usual: Any) -> Any:
            carried = original(loan, usual)
            if carried is not None:
                self._set_carried(loan, carried)
            return carried

        return gather_kept

    def _set_carried(self, loan: Loan, carried: Any) -> None:
        if loan.borrower is not None and self._doing.calls:
            self._doing.calls[-1].carried = carried.moulds

    def _lay(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def lay(loan: Loan, *args: Any) -> None:
            if loan.borrower is not None and self._doing.calls:
                self._doing.calls[-1].traces += 1
            original(loan, *args)

        return lay

    def _plan(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def values(plan: Plan, args: Any, kwargs: Any) -> Any:
            found = original(plan, args, kwargs)
            if found is not None and self._doing.calls:
                self._doing.calls[-1].carried = plan.moulds
            return found

        return values

    def _rebuilt(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(rebuilt: Rebuilt, first: Any, rest: Any) -> Any:
            out = original(rebuilt, first, rest)
            if out is not Declined and self._doing.calls:
                self._doing.calls[-1].carried = rebuilt.moulds
            return out

        return call

    def _fresh(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(fresh: Fresh, first: Any, rest: Any) -> Any:
            out = original(fresh, first, rest)
            if out is not Declined and self._doing.calls:
                self._doing.calls[-1].carried = fresh.moulds
                self._doing.calls[-1].was_inside = True
            return out

        return call

    def _fresh_trace(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def trace(fresh: Fresh, args: Any) -> None:
            self._doing.for_new_objects = True
            try:
                original(fresh, args)
            finally:
                self._doing.for_new_objects = False

        return trace

    def _take(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def take(programs: Any, result: Any) -> Any:
            out = original(programs, result)
            if type(result) is Brought and not is_traced(out):
                for (_, key), _, value in result.carried.values():
                    name = key.attrname or ""
                    why = f"{_name(programs)} returned its object"
                    self._add(What.BROUGHT, name, bytes=bytes_of(value), why=why)
            return out

        return take

    def _call(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(programs: Any, /, *args: Any, **kwargs: Any) -> Any:
            name = _name(programs).rpartition(".")[2]
            call = Call(where_now(), name, was_known=bool(programs.habits))
            ready = programs.shelf.get(id(args[0])) if args else None
            if ready is not None and ready.holds(args[0]):
                call.carried = programs.moulds_of(ready.about)
            self._doing.calls.append(call)
            start = self._clock.enter()
            try:
                return original(programs, *args, **kwargs)
            finally:
                self._doing.calls.pop()
                self._add_call(
                    programs, args, kwargs, call, start, self._clock.leave(start)
                )

        return call

    def _add_call(
        self,
        programs: Any,
        args: Any,
        kwargs: Any,
        call: Call,
        start: float,
        times: dict[str, Any],
    ) -> None:
        name, where = _name(programs), where_now()
        inside_a_trace = bool(traces_in(args, kwargs))
        self._add(What.CALLED, name, where=where, start=start, **times)
        tree, _ = programs.static.take_out(args, kwargs)
        layout = layout_of(tree)
        owners = {} if layout is None else layout.by_slot(tree)
        for (slot, key), mould in call.carried:
            owner = owners.get(slot)
            if owner is None or inside_a_trace:
                continue
            what, why = What.CARRIED, f"into {name}"
            if call.was_inside:
                what, why = What.BROUGHT, f"a new object: computed inside {name}"
            elif mould.holes == 0:
                why = f"static result: a constant of {name}"
            value = memo_of(owner).get(key, ())
            at = self._journal.asked_at.get(key) or where
            self._add(
                what,
                key.of(owner),
                obj=owner,
                where=at,
                bytes=bytes_of(value),
                why=why,
                is_first_use=(id(owner), key) in call.got,
            )
        self._add_traces(programs, args, kwargs, call, where)

    def _add_traces(
        self, programs: Any, args: Any, kwargs: Any, call: Call, where: Where | None
    ) -> None:
        signature = Signature(args, kwargs)
        before = self._signatures[id(programs)]
        if call.traces or call.compilations:
            why = why_traced(signature, before)
            if not before and call.was_known:
                why = "the first call in this recording, and not like those before it"
            for number in range(call.traces):
                found_out = number < call.traces - 1
                said = "to find out what it asks for" if found_out else why
                self._add(What.TRACED, _name(programs), where=where, why=said)
            for start, seconds in call.compilations:
                times = {"start": start, "seconds": seconds, "wall_seconds": seconds}
                depth = self._clock.depth + 1
                self._add(
                    What.COMPILED,
                    _name(programs),
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


def _name(programs: Any) -> str:
    return name_of(programs.__wrapped__)
