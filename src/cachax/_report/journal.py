"""The journal of a recording: what each thread is doing, and the events so far."""

import threading
import time
import weakref
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import jax

from .._compat import Tracer
from .._core.computed import Computed
from .._core.memo import Key, keys_of
from .._errors import plain_name
from .events import Clock, Event, What, Where, where_now
from .report import Report
from .samples import sample_of


@dataclass
class Call:
    """A running call of a `cachax.jit` function."""

    where: Where | None = None
    name: str = ""
    """The name of its programs."""
    carried: list[tuple[Key, Any]] = field(default_factory=list)
    """The values it took: keys, and their objects."""
    inside: list[tuple[Key, Any]] = field(default_factory=list)
    """The same for those that it computed itself."""
    was_inside: bool = False
    was_known: bool = False
    """Whether the function has been called before."""
    got: set[tuple[int, Key]] = field(default_factory=set)
    """The values that were computed or found for it: ids of objects, and keys."""
    qualname: str = ""
    traces: int = 0
    compilations: list[tuple[float, float]] = field(default_factory=list)


class _Doing(threading.local):
    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.names: list[str] = []
        """Of the values being computed, innermost last."""
        self.keys: list[Key] = []
        self.had_provider: list[bool] = []
        """Whether a value from outside the trace was tried first, innermost last."""
        self.gathers = 0
        self.for_new_objects = False
        """Whether the program that is traced computes the values itself."""


class Journal:
    """Events in the order they arrive, with their times and numbered objects."""

    def __init__(self, title: str = "") -> None:
        self.report = Report(title=title)
        self.clock = Clock()
        self.doing = _Doing()
        self.read_at: dict[Key, Where | None] = {}
        """Where a value of a traced object was read."""
        self._began = time.perf_counter()
        self._numbers: dict[int, tuple[weakref.ref[Any], int]] = {}
        self._met: dict[str, int] = defaultdict(int)
        self._lock = threading.Lock()

    def add(
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
        about.setdefault("depth", self.clock.depth)
        if self.doing.calls:
            about.setdefault("via", self.doing.calls[0].where)
        number = 0 if obj is None else self.number(obj)
        event = Event(
            what, name, where or where_now(), now - self._began, object=number, **about
        )
        self.report.events.append(event)

    def note_edge(self, name: str) -> None:
        """The value being computed uses this one."""
        if self.doing.names:
            self.report.edges.add((name, self.doing.names[-1]))

    def note_got(self, key: Key, obj: Any) -> None:
        """A value was computed or found during the calls that are running."""
        for call in self.doing.calls:
            call.got.add((id(obj), key))

    def number(self, obj: Any) -> int:
        """Of an object among those of its class."""
        with self._lock:
            found = self._numbers.get(id(obj))
            if found is not None and found[0]() is obj:
                return found[1]
            cls = plain_name(type(obj))
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


def is_traced(value: Any) -> bool:
    return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(value))
