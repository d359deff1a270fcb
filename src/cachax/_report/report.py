"""The results of a recording: sums, savings, and what to fix."""

import statistics
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .._errors import UsageError, plain_name
from .causes import TO_FIX, what_to_change
from .comparison import Comparison, compared
from .events import Event, What
from .memory import Memory
from .samples import Sample, field_uses
from .sums import Fix, Function, Value
from .text import as_text, count, headline

_REUSED = (What.HIT, What.KNOWN, What.PASSED)


@dataclass(repr=False)
class Report:
    """What happened to cached values in a recording: the result of `record`.

    `print(report)` shows tables, a notebook shows a page, and `save` writes it.

    Example:
        >>> import jax.numpy as jnp, cachax
        >>> class Square:
        ...     def __init__(self, side):
        ...         self.side = side
        ...
        ...     @cachax.cached_property
        ...     def area(self):
        ...         return self.side**2
        >>> square = Square(jnp.float32(3))
        >>> with cachax.record() as report:
        ...     _ = square.area, square.area
        >>> value = report.values[0]
        >>> value.name, value.computed, value.reused
        ('Square.area', 1, 1)
        >>> report.fixes
        []
    """

    events: list[Event] = field(default_factory=list)
    """Everything that happened, in order."""
    samples: dict[str, Sample] = field(default_factory=dict)
    """An object of each class, without its arrays. For `dependencies`."""
    edges: set[tuple[str, str]] = field(default_factory=set)
    """Pairs of properties, of which the first was read to compute the second."""
    title: str = ""
    """The title given to `record`."""
    memory: Memory | None = None
    """The memory that cached values take when the recording ends."""

    def count(self, what: str) -> int:
        """How often something happened.

        Args:
            what: "computed", "hit", "known", "passed in", "returned", "computed
                inside", "inline", "dropped", "called", "traced" or "compiled".

        Returns:
            The number of events of this kind.

        Raises:
            ValueError: There is no such event.
        """
        return sum(event.what is What(what) for event in self.events)

    @property
    def values(self) -> list[Value]:
        """What happened to each property, the slowest first."""
        groups: dict[str, list[Event]] = defaultdict(list)
        for event in [*self.events]:
            if event.what not in (What.CALLED, What.TRACED, What.COMPILED):
                groups[event.name].append(event)
        found = [_value(name, group) for name, group in groups.items()]
        return sorted(found, key=lambda value: -value.seconds)

    @property
    def functions(self) -> list[Function]:
        """What happened to each `cachax.jit` function."""
        names = {e.name: None for e in self.events if e.what is What.CALLED}
        return [_function(name, self.events) for name in names]

    @property
    def saved(self) -> float:
        """The seconds that the reused values would have taken to compute."""
        return sum(value.saved for value in self.values)

    @property
    def fixes(self) -> list[Fix]:
        """Unnecessary work, the most expensive first."""
        found = [*_inline(self), *_same_results(self), *_compiled_again(self)]
        return sorted(found, key=lambda fix: -fix.seconds)

    def reasons(self) -> dict[str, str]:
        """Why values are computed inside programs, except those in `fixes`.

        Returns:
            For each property, the reason, with the line that reads it.
        """
        return {
            f"{event.where}  {event.name}": event.why
            for event in self.events
            if event.what is What.INLINE and not any(w in event.why for w in TO_FIX)
        }

    def dependencies(self) -> dict[str, dict[str, list[str]]]:
        """The fields and other properties that each property is computed from.

        Returns:
            For each class and each of its properties, a list of names.
        """
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
        """The whole report as lists, dictionaries, strings and numbers.

        Returns:
            A dictionary that `json.dumps` takes.
        """
        return {
            "title": self.title,
            "events": [
                asdict(event) | {"what": event.what.value} for event in self.events
            ],
            "values": [asdict(value) for value in self.values],
            "functions": [asdict(function) for function in self.functions],
            "fixes": [asdict(fix) for fix in self.fixes],
            "saved": self.saved,
            "dependencies": self.dependencies(),
            "memory": [asdict(x) for x in self.memory.held] if self.memory else [],
        }

    def compare(self, before: "Report | Mapping[str, Any]") -> Comparison:
        """How often values were computed and reused, compared with an earlier report.

        Args:
            before: The earlier report, or what its `to_dict` returned.

        Returns:
            A `Comparison`. Its text is a table.

        Raises:
            UsageError: `before` is not a report.
        """
        try:
            values: Any = (
                before.values
                if isinstance(before, Report)
                else [Value(**value) for value in before["values"]]
            )
        except (KeyError, TypeError):
            raise UsageError(
                "Report.compare takes a Report, or what `to_dict` returned."
            ) from None
        return compared(values, self.values)

    def save(self, path: str | Path) -> None:
        """Write an HTML page: what to fix, tables, a timeline, and dependencies.

        Args:
            path: The file to write.

        Raises:
            OSError: The file can't be written.
        """
        from .page import page_of

        Path(path).write_text(page_of(self), encoding="utf-8")

    def __str__(self) -> str:
        return as_text(self)

    def __repr__(self) -> str:
        title = f" {self.title!r}" if self.title else ""
        events = f"{count(len(self.events)) if self.events else 'no'} events"
        said = f"{headline(self)}; {events}; print it for the tables"
        return f"<Report{title}: {said}>"

    def _repr_html_(self) -> str:
        from .page import notebook_of

        return notebook_of(self)


def _value(name: str, events: list[Event]) -> Value:
    computed = [e for e in events if e.what is What.COMPUTED]
    inside = sum(e.what is What.INSIDE for e in events)
    reused = sum(e.what in _REUSED and not e.is_first_use for e in events)
    once = statistics.median([e.seconds for e in computed]) if computed else 0.0
    return Value(
        name,
        len(computed) + inside,
        sum(e.own_seconds for e in computed),
        max((e.bytes for e in events), default=0),
        reused,
        sum(e.what is What.INLINE for e in events),
        reused * once,
        inside,
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
    """Values that a program computes each time it runs."""
    once = {
        v.name: v.seconds / (v.computed - v.inside)
        for v in report.values
        if v.computed > v.inside
    }
    found = {}
    for event in report.events:
        if event.what is What.INLINE and any(w in event.why for w in TO_FIX):
            found[event.name, event.where] = Fix(
                once.get(event.name, 0.0),
                event.where,
                f"{event.name} is computed inside the program, each time it runs",
                event.why,
                "inline",
            )
    return [*found.values()]


_OTHER_ARRAYS = (
    "the arrays are different ones with equal contents. If a `jax.jit` function "
    "returned them, use `cachax.jit`: arrays that it returns unchanged keep their "
    "values. Otherwise make the object once, before the loop, and change it with "
    "`replace`."
)


def _same_results(report: Report) -> list[Fix]:
    """Values that were computed again from equal arrays, with equal results."""
    groups: dict[tuple[str, str], list[Event]] = defaultdict(list)
    for event in report.events:
        if event.what is What.COMPUTED:
            groups[event.name, event.digest].append(event)
    found = []
    for (name, _), events in groups.items():
        if len(events) > 1:
            is_one = len({e.object for e in events}) == 1
            whose = "for one object" if is_one else "from equal arrays"
            instead = events[-1].why if is_one else _OTHER_ARRAYS
            found.append(
                Fix(
                    sum(e.own_seconds for e in events[1:]),
                    events[-1].via or events[-1].where,
                    f"{name} was computed {len(events)} times {whose}",
                    instead,
                )
            )
    return found


def _compiled_again(report: Report) -> list[Fix]:
    """Functions that were compiled again for more than one change of arguments."""
    groups: dict[str, list[Event]] = defaultdict(list)
    names = {e.name for e in report.events if e.what is What.CALLED}
    for event in report.events:
        if event.what is What.COMPILED and event.name in names:
            groups[event.name].append(event)
    found = []
    for name, events in groups.items():
        changes = [event for event in events if " changed" in event.why]
        if len(changes) > 1:
            instead = what_to_change(changes[-1].why)
            found.append(
                Fix(
                    sum(event.seconds for event in changes),
                    changes[-1].where,
                    f"{plain_name(name)} was compiled {len(events)} times: "
                    f"{changes[-1].why}",
                    instead,
                    "recompiled",
                )
            )
    return found
