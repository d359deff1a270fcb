"""Record what happens to cached values in a whole program."""

import hashlib
import threading
import time
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from ._cached import cached_property
from ._carry import Brought, Loan
from ._causes import Signature, why_inline, why_traced
from ._compat import Tracer
from ._computed import Computed
from ._events import Clock, Event, What, Where, bytes_of, where_now
from ._find import layout_of
from ._fresh import NOT_FRESH, Fresh
from ._jit import Jitted
from ._kin import NOT_KEPT, Kin
from ._levels import traces_in
from ._memo import Key, Memo, keys_of, memo_of, memos
from ._parts import instance_dict
from ._ready import Moulds, Plan
from ._rebuilt import NOT_KNOWN, Rebuilt
from ._report import Report
from ._uses import is_looking, sample_of
from ._vmap import BatchKey
from ._watch import Wrap, watching

_LOWERED = "/jax/core/compile/jaxpr_to_mlir_module_duration"
_COMPILED = "/jax/core/compile/backend_compile_duration"  # 0.4.36 and later


@contextmanager
def record() -> Iterator[Report]:
    """Everything that happens to cached values inside this context, in all threads.

    Each value is waited for when it is computed, so that its time is its own. When
    nobody records, nothing is in the way of a call.

    >>> import jax.numpy as jnp, cachax
    >>> class Square:
    ...     side = jnp.float32(3)
    ...     @cachax.cached_property
    ...     def area(self):
    ...         return self.side**2
    >>> square = Square()
    >>> with cachax.record() as report:
    ...     square.area, square.area, square.area
    (Array(9., dtype=float32), Array(9., dtype=float32), Array(9., dtype=float32))
    >>> report.count("computed"), report.count("hit")
    (1, 2)
    """
    with recording() as recorder:
        yield recorder.report


@contextmanager
def recording() -> "Iterator[Recorder]":
    recorder = Recorder()
    with watching(recorder.wraps()), _listening(recorder):
        yield recorder


@dataclass
class _Call:
    """A call of a `cachax.jit` function that is under way."""

    where: Where | None = None
    carried: Moulds = ()
    was_inside: bool = False
    was_known: bool = False
    """Whether the function has been called before."""
    traces: int = 0
    compilations: list[tuple[float, float]] = field(default_factory=list)


class _Doing(threading.local):
    def __init__(self) -> None:
        self.calls: list[_Call] = []
        self.names: list[str] = []
        """Of the values being computed, innermost last."""
        self.keys: list[Key] = []
        self.asked_a_lender: list[bool] = []
        self.gathers = 0


class Recorder:
    """Turns what the wrapped methods do into events."""

    def __init__(self) -> None:
        self.report = Report()
        self._began = time.perf_counter()
        self._clock = Clock()
        self._doing = _Doing()
        self._numbers: dict[int, tuple[weakref.ref[Any], int]] = {}
        self._met: dict[str, int] = defaultdict(int)
        self._fields: dict[tuple[int, Key], dict[str, int]] = {}
        self.asked_at: dict[Key, Where | None] = {}
        """Where a traced object was asked for a value."""
        self._signatures: dict[int, list[Signature]] = defaultdict(list)
        self._lock = threading.Lock()

    def wraps(self) -> dict[tuple[type, str], Wrap]:
        return {
            (cached_property, "__get__"): self._get,
            (Computed, "read"): self._read,
            (Computed, "_compute"): self._compute,
            (Computed, "evaluate"): self._evaluate,
            (Kin, "find"): self._find,
            (Memo, "forget"): self._forget,
            (Loan, "gather"): self._gather,
            (Loan, "gather_kept"): self._gather_kept,
            (Loan, "lay"): self._lay,
            (Plan, "values"): self._plan,
            (Rebuilt, "call"): self._rebuilt,
            (Fresh, "call"): self._fresh,
            (Jitted, "_take"): self._take,
            (Jitted, "__call__"): self._call,
        }

    # Reads

    def _get(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def get(key: Any, instance: Any, owner: Any = None) -> Any:
            if instance is not None:
                self._note_hit(key, instance)
            return original(key, instance, owner)

        return get

    def _read(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def read(key: Computed, obj: Any) -> Any:
            if not isinstance(key, cached_property) and not self._doing.gathers:
                self._note_hit(key, obj)
            return original(key, obj)

        return read

    def _note_edge(self, name: str) -> None:
        if self._doing.names:
            self.report.edges.add((name, self._doing.names[-1]))

    def _note_hit(self, key: Computed, obj: Any) -> None:
        memo = memos.get(id(obj))
        if memo is None or memo() is not obj or not memo.holds(obj):
            return
        value = memo.get(key, NOT_KEPT)
        if value is not NOT_KEPT and not _is_traced(value):
            self._note_edge(key.of(obj))
            self._add(What.HIT, key.of(obj), obj=obj, bytes=bytes_of(value))

    def _compute(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def compute(key: Computed, obj: Any, memo: Memo) -> Any:
            asks = memo.lender is not None
            if asks:
                self.asked_at[key] = where_now()
            self._doing.asked_a_lender.append(asks)
            try:
                return original(key, obj, memo)
            finally:
                self._doing.asked_a_lender.pop()

        return compute

    def _evaluate(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def evaluate(key: Computed, obj: Any) -> Any:
            if is_looking() or self._is_one_of_a_batch(key):
                return original(key, obj)
            where = self.asked_at.get(key) if self._doing.gathers else where_now()
            asked = bool(self._doing.asked_a_lender) and self._doing.asked_a_lender[-1]
            self._note_edge(key.of(obj))
            self._doing.names.append(key.of(obj))
            self._doing.keys.append(key)
            start = self._clock.enter()
            try:
                value = original(key, obj)
                if not _is_traced(value):
                    wait_for(value)
            except BaseException:
                self._clock.leave(start)
                raise
            finally:
                self._doing.names.pop()
                self._doing.keys.pop()
            about = self._clock.leave(start)
            about |= {"where": where, "start": start, "bytes": bytes_of(value)}
            if _is_traced(value) or traces_in(obj):
                self._add(What.INLINE, key.of(obj), why=why_inline(obj, asked), **about)
            else:
                about |= {"obj": obj, "digest": _digest(value)}
                why = self._why_again(key, obj)
                self._add(What.COMPUTED, key.of(obj), why=why, **about)
            return value

        return evaluate

    def _is_one_of_a_batch(self, key: Computed) -> bool:
        """Whether the value of a batch is being computed, and this is that of one."""
        doing = self._doing.keys
        return (
            bool(doing) and isinstance(doing[-1], BatchKey) and doing[-1].source is key
        )

    def _why_again(self, key: Key, obj: Any) -> str:
        """What has changed since the value was computed for this very object."""
        fields = {name: id(x) for name, x in _fields(obj).items()}
        slot = (self.number(obj), key)
        before = self._fields.get(slot)
        self._fields[slot] = fields
        if before is None:
            return ""
        changed = sorted(n for n in fields if fields[n] != before.get(n))
        if not changed:
            return "it was not kept, or cleared"
        names = ", ".join(changed)
        self._add(What.DROPPED, key.of(obj), obj=obj, why=f"{names} was set")
        return f"a field it depends on may have changed: {names}"

    def _find(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def find(kin: Kin, key: Key, obj: Any, makeup: Any) -> Any:
            value = original(kin, key, obj, makeup)
            if value is not NOT_KEPT and not _is_traced(value):
                self._add(
                    What.KNOWN,
                    key.of(obj),
                    obj=obj,
                    bytes=bytes_of(value),
                    why="the arrays it came from are the same",
                )
            return value

        return find

    def _forget(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def forget(memo: Memo, key: Key) -> None:
            obj = memo()
            if memo.get(key, NOT_KEPT) is not NOT_KEPT:
                self._add(What.DROPPED, key.of(obj), obj=obj, why="cleared")
            original(memo, key)

        return forget

    # Calls

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
            if out is not NOT_KNOWN and self._doing.calls:
                self._doing.calls[-1].carried = rebuilt.moulds
            return out

        return call

    def _fresh(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(fresh: Fresh, first: Any, rest: Any) -> Any:
            out = original(fresh, first, rest)
            if out is not NOT_FRESH and self._doing.calls:
                self._doing.calls[-1].carried = fresh.moulds
                self._doing.calls[-1].was_inside = True
            return out

        return call

    def _take(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def take(jitted: Any, result: Any) -> Any:
            out = original(jitted, result)
            if type(result) is Brought and not _is_traced(out):
                for (_, key), _, value in result.carried.values():
                    name = key.attrname or ""
                    why = f"{_name(jitted)} returned its object"
                    self._add(What.BROUGHT, name, bytes=bytes_of(value), why=why)
            return out

        return take

    def _call(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(jitted: Any, *args: Any, **kwargs: Any) -> Any:
            call = _Call(where_now(), was_known=bool(jitted._habits))
            ready = jitted._shelf.get(id(args[0])) if args else None
            if ready is not None and ready[0](args[0]):
                call.carried = jitted.moulds_of(ready[3])
            self._doing.calls.append(call)
            start = self._clock.enter()
            try:
                return original(jitted, *args, **kwargs)
            finally:
                self._doing.calls.pop()
                self._add_call(
                    jitted, args, kwargs, call, start, self._clock.leave(start)
                )

        return call

    def _add_call(
        self,
        jitted: Any,
        args: Any,
        kwargs: Any,
        call: _Call,
        start: float,
        times: dict[str, Any],
    ) -> None:
        name, where = _name(jitted), where_now()
        inside_a_trace = bool(traces_in(args, kwargs))
        self._add(What.CALLED, name, where=where, start=start, **times)
        tree, _ = jitted._static.take_out(args, kwargs)
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
            at = self.asked_at.get(key) or where
            self._add(
                what, key.of(owner), obj=owner, where=at, bytes=bytes_of(value), why=why
            )
        self._add_traces(jitted, args, kwargs, call, where)

    def _add_traces(
        self, jitted: Any, args: Any, kwargs: Any, call: _Call, where: Where | None
    ) -> None:
        signature = Signature(args, kwargs)
        before = self._signatures[id(jitted)]
        if call.traces or call.compilations:
            why = why_traced(signature, before)
            if not before and call.was_known:
                why = "the first call in this recording, and not like those before it"
            for number in range(call.traces):
                found_out = number < call.traces - 1
                said = "to find out what it asks for" if found_out else why
                self._add(What.TRACED, _name(jitted), where=where, why=said)
            for start, seconds in call.compilations:
                times = {"start": start, "seconds": seconds, "wall_seconds": seconds}
                depth = self._clock.depth + 1
                self._add(
                    What.COMPILED,
                    _name(jitted),
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

    # Events

    def number(self, obj: Any) -> int:
        """Of an object among those of its class."""
        with self._lock:
            found = self._numbers.get(id(obj))
            if found is not None and found[0]() is obj:
                return found[1]
            cls = type(obj).__qualname__
            if cls not in self.report.samples:
                bodies = {
                    n: k.body
                    for n, k in keys_of(type(obj)).items()
                    if isinstance(k, Computed)
                }
                sample = sample_of(obj, bodies)
                if sample is not None:
                    self.report.samples[cls] = sample
            self._met[cls] += 1
            self._numbers[id(obj)] = (weakref.ref(obj), self._met[cls])
            return self._met[cls]

    def _add(
        self,
        what: What,
        name: str,
        *,
        obj: Any = None,
        where: Where | None = None,
        start: float | None = None,
        **about: Any,
    ) -> None:
        now = time.perf_counter() if start is None else start
        about.setdefault("depth", self._clock.depth)
        if self._doing.calls:
            about.setdefault("via", self._doing.calls[0].where)
        number = 0 if obj is None else self.number(obj)
        event = Event(
            what, name, where or where_now(), now - self._began, object=number, **about
        )
        self.report.events.append(event)


_recorders: list[Recorder] = []
_is_listening = False


@contextmanager
def _listening(recorder: Recorder) -> Iterator[None]:
    """To what JAX says about its compilations. Its listeners cannot be taken away one
    by one, so there is one for good, which does nothing when nobody records."""
    global _is_listening
    if not _is_listening:
        _is_listening = True
        listener: Any = _on_duration
        jax.monitoring.register_event_duration_secs_listener(listener)
    _recorders.append(recorder)
    try:
        yield
    finally:
        _recorders.remove(recorder)


def _on_duration(event: str, seconds: float, **about: Any) -> None:
    if event == _LOWERED:
        for recorder in _recorders:
            recorder.on_lowered(seconds)
    if event == _COMPILED:
        name = str(about.get("fun_name", "a program"))
        for recorder in _recorders:
            recorder.on_compiled(name.removeprefix("jit(").removesuffix(")"), seconds)


wait_for: Callable[[Any], Any] = jax.block_until_ready


def _is_traced(value: Any) -> bool:
    return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(value))


def _name(jitted: Any) -> str:
    return getattr(jitted, "__qualname__", None) or repr(jitted)


def _fields(obj: Any) -> dict[str, Any]:
    return instance_dict(obj, "__dict__") if type(obj).__dictoffset__ else {}


def _digest(value: Any) -> str:
    """Of the numbers in a value, to see whether it was computed in vain."""
    found = hashlib.blake2b(digest_size=8)
    for leaf in jax.tree.leaves(value):
        try:
            found.update(np.asarray(leaf).tobytes())
        except Exception:  # a PRNG key, a thing that is no array
            found.update(repr(leaf).encode())
    return found.hexdigest()
