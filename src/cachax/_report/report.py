"""What a recording adds up to: sums, what was saved, what to fix."""

import statistics
from collections import defaultdict
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .._errors import plain_name
from .events import Event, What, Where
from .samples import Sample, field_uses
from .text import as_text

_TO_FIX = ("does not carry", "cannot travel", "cachax.vmap keeps")
"""What is said of values that could be kept."""

_REUSED = (What.HIT, What.KNOWN, What.CARRIED)


@dataclass(frozen=True)
class Value:
    """All that happened to one property."""

    name: str
    computed: int
    seconds: float
    """Of all computations, without what they computed for other properties."""
    bytes: int
    """Of the largest value."""
    reused: int
    inline: int
    saved: float
    """Seconds that the reuse would have taken, if each had been a computation."""


@dataclass(frozen=True)
class Function:
    """All that happened to one `cachax.jit` function."""

    name: str
    calls: int
    traces: int
    compilations: int
    seconds: float


@dataclass(frozen=True)
class Fix:
    """Something that was done needlessly, and what to do about it."""

    seconds: float
    where: Where | None
    what: str
    instead: str


@dataclass
class Report:
    """What `record` gives: complete when its context has ended."""

    events: list[Event] = field(default_factory=list)
    samples: dict[str, Sample] = field(default_factory=dict)
    """An object of each class, without its numbers."""
    edges: set[tuple[str, str]] = field(default_factory=set)
    """Which property was read to compute which."""

    def count(self, what: str) -> int:
        """How often something happened: "computed", "hit", "carried in", ..."""
        return sum(event.what is What(what) for event in self.events)

    @property
    def values(self) -> list[Value]:
        """The properties, the ones that took longest first."""
        groups: dict[str, list[Event]] = defaultdict(list)
        for event in [*self.events]:
            if event.what not in (What.CALLED, What.TRACED, What.COMPILED):
                groups[event.name].append(event)
        found = [_value(name, group) for name, group in groups.items()]
        return sorted(found, key=lambda value: -value.seconds)

    @property
    def functions(self) -> list[Function]:
        names = {e.name: None for e in self.events if e.what is What.CALLED}
        return [_function(name, self.events) for name in names]

    @property
    def saved(self) -> float:
        """Seconds of computing that were not spent."""
        return sum(value.saved for value in self.values)

    @property
    def fixes(self) -> list[Fix]:
        """What was done needlessly, the most expensive first."""
        found = [*_inline(self), *_same_results(self), *_compiled_again(self)]
        return sorted(found, key=lambda fix: -fix.seconds)

    def dependencies(self) -> dict[str, dict[str, list[str]]]:
        """For each class, what each of its properties is computed from: fields, seen in
        the jaxpr of its body, and other properties, seen while it was computed."""
        found: dict[str, dict[str, list[str]]] = {}
        for cls, sample in self.samples.items():
            uses = field_uses(sample)
            found[cls] = {
                name: [*fields, *sorted(self._read_by(cls, name))]
                for name, fields in uses.items()
            }
        return found

    def _read_by(self, cls: str, name: str) -> list[str]:
        mine = f"{cls}.{name}"
        return [a.removeprefix(f"{cls}.") for a, b in self.edges if b == mine]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "events": [
                asdict(event) | {"what": event.what.value} for event in self.events
            ],
            "values": [asdict(value) for value in self.values],
            "functions": [asdict(function) for function in self.functions],
            "fixes": [asdict(fix) for fix in self.fixes],
            "saved": self.saved,
            "dependencies": self.dependencies(),
        }

    def save(self, path: str | Path) -> None:
        """Write one page that needs nothing else: what to fix, a timeline, what depends
        on what."""
        from .page import page_of

        Path(path).write_text(page_of(self), encoding="utf-8")

    def __str__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        from .page import notebook_of

        return notebook_of(self)


def _value(name: str, events: list[Event]) -> Value:
    computed = [e for e in events if e.what is What.COMPUTED]
    reused = sum(e.what in _REUSED and not e.is_first_use for e in events)
    once = statistics.median([e.seconds for e in computed]) if computed else 0.0
    return Value(
        name,
        len(computed),
        sum(e.own_seconds for e in computed),
        max((e.bytes for e in events), default=0),
        reused,
        sum(e.what is What.INLINE for e in events),
        reused * once,
    )


def _function(name: str, events: list[Event]) -> Function:
    mine = [e for e in events if e.name == name]
    return Function(
        plain_name(name),
        sum(e.what is What.CALLED for e in mine),
        sum(e.what is What.TRACED for e in mine),
        sum(e.what is What.COMPILED for e in mine),
        sum(e.seconds for e in mine if e.what is What.CALLED),
    )


def _inline(report: Report) -> list[Fix]:
    """Values that a program computes at each of its runs."""
    once = {v.name: v.seconds / v.computed for v in report.values if v.computed}
    found = {}
    for event in report.events:
        if event.what is What.INLINE and any(w in event.why for w in _TO_FIX):
            found[event.name, event.where] = Fix(
                once.get(event.name, 0.0),
                event.where,
                f"{event.name} is computed inside, at every run of the program",
                event.why,
            )
    return [*found.values()]


def _same_results(report: Report) -> list[Fix]:
    """Values that were computed again, and came out the same."""
    groups: dict[tuple[str, str], list[Event]] = defaultdict(list)
    for event in report.events:
        if event.what is What.COMPUTED:
            groups[event.name, event.digest].append(event)
    found = []
    for (name, _), events in groups.items():
        if len(events) > 1:
            objects = len({e.object for e in events})
            whose = f"for {objects} objects" if objects > 1 else "for one object"
            instead = (
                "make the object once, outside the loop, or rebuild it from the same "
                "arrays (`replace`): then it keeps its values, if JAX can trace them"
                if objects > 1
                else events[-1].why
            )
            found.append(
                Fix(
                    sum(e.own_seconds for e in events[1:]),
                    events[-1].via or events[-1].where,
                    f"{name} was computed {len(events)} times {whose}, with one result",
                    instead,
                )
            )
    return found


def _compiled_again(report: Report) -> list[Fix]:
    """Functions that were compiled for one call after another."""
    groups: dict[str, list[Event]] = defaultdict(list)
    names = {e.name for e in report.events if e.what is What.CALLED}
    for event in report.events:
        if event.what is What.COMPILED and event.name in names:
            groups[event.name].append(event)
    found = []
    for name, events in groups.items():
        if len(events) > 2:
            instead = "keep shapes and structure the same: pad, or stack into one array"
            found.append(
                Fix(
                    sum(e.seconds for e in events[1:]),
                    events[-1].where,
                    f"{plain_name(name)} was compiled {len(events)} times: "
                    f"{events[-1].why}",
                    instead,
                )
            )
    return found
