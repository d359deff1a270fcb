"""How reports look: units, tables, and plain columns for a terminal."""

import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import Any

from .._terminal import paint, wants_colour

Table = tuple[list[str], list[list[str]]]
"""The heads of the columns, and the rows."""


def seconds(value: float) -> str:
    """
    >>> seconds(0.00042), seconds(0.0996), seconds(4.2), seconds(0)
    ('420 µs', '100 ms', '4.2 s', '-')
    """
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= size:
            shown = value / size
            return f"{shown:.2g} {unit}" if shown < 99.5 else f"{shown:.0f} {unit}"
    return "-"


def size(value: int) -> str:
    """
    >>> size(12), size(4_096), size(8_000_000), size(0)
    ('12 B', '4.1 kB', '8.0 MB', '-')
    """
    for unit, much in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if value >= much:
            return f"{value / much:.1f} {unit}"
    return f"{value} B" if value else "-"


def count(value: int) -> str:
    return f"{value:,}" if value else "-"


def as_text(report: Any, colour: bool | None = None) -> str:
    """A report for `print`; in colour, if standard output is a terminal."""
    if colour is None:
        colour = sys.stdout is not None and wants_colour(sys.stdout)
    width = _width()
    lines = [paint(report.title, "bold", colour)] if report.title else []
    lines += [headline(report), ""]
    for heads, rows in (value_table(report), function_table(report)):
        if rows:
            lines += columns(heads, rows, colour)
    if not report.values:
        for function in report.functions:
            if not function.traces:
                lines += [*wrapped(_compiled_before(function.name), width, ""), ""]
    reasons = report.reasons()
    if reasons:
        lines += [paint("inline", "bold", colour)]
        for name, why in reasons.items():
            lines += wrapped(f"{name}: {why}", width, "  ")
        lines.append("")
    if report.fixes:
        lines += [paint("what to fix", "bold", colour)]
        for fix in report.fixes:
            lines += wrapped(
                f"{_time(fix.seconds)}{fix.where}  {fix.what}", width, "  "
            )
            lines += [
                paint(line, "dim", colour)
                for line in wrapped(f"-> {fix.instead}", width, "    ")
            ]
        lines.append("")
    return "\n".join(lines).rstrip()


def _compiled_before(function: str) -> str:
    return (
        f"{function} was compiled before the recording began. Values that its program "
        f"computes inside are not listed: use `cachax.explain({function}, ...)`."
    )


def value_table(report: Any) -> Table:
    heads = ["value", "computed", "time", "size", "reused", "inline", "saved"]
    return heads, [
        [
            v.name,
            count(v.computed),
            seconds(v.seconds),
            size(v.bytes),
            count(v.reused),
            count(v.inline),
            seconds(v.saved),
        ]
        for v in report.values
    ]


def function_table(report: Any) -> Table:
    heads = ["function", "calls", "traces", "compiled", "time"]
    return heads, [
        [
            f.name,
            count(f.calls),
            count(f.traces),
            count(f.compilations),
            seconds(f.seconds),
        ]
        for f in report.functions
    ]


def headline(report: Any) -> str:
    computed = sum(v.computed for v in report.values)
    reused = sum(v.reused for v in report.values)
    inside = sum(v.inside for v in report.values)
    spent = sum(v.seconds for v in report.values)
    said = f"{_many(computed, 'value')} computed"
    said += f" ({inside:,} inside a program)" if inside else ""
    said += f" in {seconds(spent)}" if spent else ""
    said += f", {count(reused) if reused else 'none'} reused"
    said += f", which saved about {seconds(report.saved)}" if report.saved else ""
    inline = sum(v.inline for v in report.values)
    return said + (f", {inline:,} traced into a program" if inline else "")


def wrapped(text: str, width: int, indent: str) -> list[str]:
    return textwrap.wrap(
        text, width, initial_indent=indent, subsequent_indent=indent + "  "
    )


def _many(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _time(value: float) -> str:
    return f"{seconds(value)}  " if value else ""


def columns(
    heads: Sequence[str], rows: Sequence[Sequence[str]], colour: bool = False
) -> list[str]:
    """A table. The first column gets the width that the others leave."""
    width = _width()
    others = [
        max(len(head), *(len(row[i]) for row in rows))
        for i, head in enumerate(heads)
        if i > 0
    ]
    room = max(width - sum(others) - 2 * len(others), 12)
    first = min(max(len(row[0]) for row in [heads, *rows]), room)

    def line(row: Sequence[str]) -> str:
        name = row[0] if len(row[0]) <= first else f"…{row[0][1 - first :]}"
        cells = [cell.rjust(w) for cell, w in zip(row[1:], others, strict=True)]
        return "  ".join([name.ljust(first), *cells])

    return [paint(line(heads), "bold", colour), *map(line, rows), ""]


def _width() -> int:
    return min(shutil.get_terminal_size((100, 24)).columns, 100)
