"""For people: each finding with the code it is about, then how many there are."""

import unicodedata
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from ..._terminal import paint
from .._finding import Finding, Severity
from .._source import Source, UnreadableError, from_bytes

CONTEXT = 2
"""Lines of code shown above and below the one a finding is about."""

WIDEST = 110
"""Columns of a line of code; a longer line is cut around the finding."""

_STYLES = {
    Severity.ERROR: "red",
    Severity.WARNING: "yellow",
    Severity.INFORMATION: "cyan",
}


def render(
    findings: Sequence[Finding],
    colour: bool = False,
    quiet: bool = False,
    stdin: Source | None = None,
) -> str:
    """The findings, each with a frame of code. `stdin` is the source that was read
    from standard input; other files are read again, as a fix has left them."""
    sources: dict[str, Source | None] = {stdin.filename: stdin} if stdin else {}
    parts = []
    for finding in findings:
        if finding.filename not in sources:
            sources[finding.filename] = _read(finding.filename)
        frame = _frame(finding, sources[finding.filename], colour)
        parts += [f"{_line(finding, colour)}\n", *frame, "\n" * bool(frame)]
    return "".join(parts) + ("" if quiet else _summary(findings, colour))


def concise(
    findings: Sequence[Finding], colour: bool = False, quiet: bool = False
) -> str:
    """The findings, a line each."""
    lines = "".join(f"{_line(finding, colour)}\n" for finding in findings)
    return lines + ("" if quiet else _summary(findings, colour))


def _line(finding: Finding, colour: bool) -> str:
    where = paint(finding.where, "bold", colour)
    code = paint(finding.code, _STYLES[finding.severity], colour)
    fixable = f"[{paint('*', 'cyan', colour)}] " if finding.fix else ""
    is_less = finding.severity is Severity.INFORMATION
    note = " (information)" if is_less else ""
    return f"{where}: {code} {fixable}{finding.message}{note}"


def _summary(findings: Sequence[Finding], colour: bool) -> str:
    if not findings:
        return paint("All checks passed!", "green", colour) + "\n"
    counted = Counter(finding.severity for finding in findings)
    numbers = [
        (counted[Severity.ERROR], "error"),
        (counted[Severity.WARNING], "warning"),
        (counted[Severity.INFORMATION], "note"),
    ]
    parts = [f"{n} {word}{'s' * (n != 1)}" for n, word in numbers if n]
    text = f"Found {', '.join(parts)}.\n"
    fixable = sum(finding.fix is not None for finding in findings)
    if fixable:
        star = paint("*", "cyan", colour)
        text += f"[{star}] {fixable} fixable with `--fix`.\n"
    return text


def _read(filename: str) -> Source | None:
    try:
        return from_bytes(filename, Path(filename).read_bytes())
    except (OSError, UnreadableError):
        return None


def _frame(finding: Finding, source: Source | None, colour: bool) -> list[str]:
    """The line of code with its neighbours, and a mark under what the finding is about.

    A finding of more than one line is marked on its first.
    """
    lines = _lines(finding, source)
    if not 1 <= finding.start.line <= len(lines):
        return []
    first = max(1, finding.start.line - CONTEXT)
    last = min(len(lines), finding.start.line + CONTEXT)
    while first < finding.start.line and not lines[first - 1].strip():
        first += 1
    while last > finding.start.line and not lines[last - 1].strip():
        last -= 1
    width = len(str(last))
    bar = paint("|", "blue", colour)
    empty = f"{'':{width}} {bar}"
    text = [f"{empty}\n"]
    for number in range(first, last + 1):
        gutter = paint(f"{number:{width}}", "blue", colour)
        if number == finding.start.line:
            code, mark = _marked(lines[number - 1], finding)
            mark = mark.rstrip("^") + paint(
                "^" * mark.count("^"), _STYLES[finding.severity], colour
            )
            text += [f"{gutter} {bar} {code}\n", f"{empty} {mark}\n"]
        else:
            code = _cut(lines[number - 1].expandtabs(4))
            text.append(f"{gutter} {bar} {code}".rstrip() + "\n")
    text.append(f"{empty}\n")
    if finding.fix:
        text.append(f"{'':{width}} {paint('=', 'blue', colour)} fix: ")
        text.append(f"{finding.fix.message}\n")
    return text


def _lines(finding: Finding, source: Source | None) -> list[str]:
    """Of the file, or of the notebook's cell."""
    if source is None:
        return []
    lines = [line.rstrip("\r\n") for line in source.lines]
    if finding.cell is None:
        return lines
    starts = [cell.first_line - 1 for cell in source.cells]
    for cell, end in zip(source.cells, [*starts[1:], None], strict=True):
        if cell.number == finding.cell:
            return lines[cell.first_line - 1 : end]
    return []


def _marked(line: str, finding: Finding) -> tuple[str, str]:
    """A line of code, and the line of marks below it."""
    start = finding.start.column - 1
    is_one_line = finding.end.line == finding.start.line
    end = finding.end.column - 1 if is_one_line else len(line.rstrip())
    before = _columns(line[:start].expandtabs(4))
    until = max(_columns(line[:end].expandtabs(4)), before + 1)
    code = line.expandtabs(4)
    if len(code) <= WIDEST:
        return code, " " * before + "^" * (until - before)
    skipped = max(0, before - WIDEST // 2)
    marks = " " * (before - skipped) + "^" * (until - before)
    return _cut(code[skipped:]), marks[:WIDEST]


def _cut(code: str) -> str:
    return code if len(code) <= WIDEST else f"{code[: WIDEST - 1]}…"


def _columns(text: str) -> int:
    """How wide a terminal shows it."""
    return sum(_width(character) for character in text)


def _width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
