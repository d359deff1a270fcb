"""Two reports side by side."""

from collections.abc import Sequence
from dataclasses import dataclass

from .sums import Value
from .text import Table, columns, count, seconds


@dataclass(frozen=True)
class Change:
    """One property in two reports."""

    name: str
    """`Class.property`."""
    before: Value
    """In the earlier report."""
    after: Value
    """In the later one."""


@dataclass(frozen=True, repr=False)
class Comparison:
    """Two reports side by side: the result of `Report.compare`. Its text is a table."""

    changes: tuple[Change, ...]
    """The properties of both reports."""

    @property
    def more(self) -> list[Change]:
        """The properties that are computed, or traced into programs, more often than
        before."""

        def work(value: Value) -> int:
            return value.computed + value.inline

        return [c for c in self.changes if work(c.after) > work(c.before)]

    def table(self) -> Table:
        """The comparison as a table.

        Returns:
            The heads of the columns, and the rows.
        """
        heads = ["value", "computed", "time", "reused", "inline"]
        return heads, [
            [
                c.name,
                f"{count(c.before.computed)} → {count(c.after.computed)}",
                f"{seconds(c.before.seconds)} → {seconds(c.after.seconds)}",
                f"{count(c.before.reused)} → {count(c.after.reused)}",
                f"{count(c.before.inline)} → {count(c.after.inline)}",
            ]
            for c in self.changes
        ]

    def __str__(self) -> str:
        if not self.changes:
            return "No values in either report."
        return "\n".join(columns(*self.table())).rstrip()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        from .page import comparison_of

        return comparison_of(self)


def compared(before: Sequence[Value], after: Sequence[Value]) -> Comparison:
    old = {value.name: value for value in before}
    new = {value.name: value for value in after}
    names = dict.fromkeys([*old, *new])
    return Comparison(
        tuple(Change(n, old.get(n, _none(n)), new.get(n, _none(n))) for n in names)
    )


def _none(name: str) -> Value:
    return Value(name, 0, 0.0, 0, 0, 0, 0.0)
