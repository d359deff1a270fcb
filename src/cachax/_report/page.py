"""Reports as HTML: a page in one file, and what a notebook shows."""

import re
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from .._errors import plain_name
from .drawings import dependency_graph, timeline
from .text import count, function_table, headline, seconds, size, value_table

_TEMPLATE = Path(__file__).parent / "report.html"
_STYLE = ("<style>", "</style>")


def page_of(report: Any) -> str:
    """The whole page."""
    text = _TEMPLATE.read_text(encoding="utf-8")
    title = escape(report.title or "Report on cached values")
    parts = {
        "title": title,
        "headline": escape(headline(report)),
        "body": _body(report),
    }
    return re.sub(r"<!-- (\w+) -->", lambda mark: parts[mark[1]], text)


def notebook_of(report: Any) -> str:
    """A report in a notebook: the headline, and the rest folded."""
    said = f"{report.title}: {headline(report)}" if report.title else headline(report)
    return (
        f'<div class="cachax">{_style()}<details><summary>{escape(said)}'
        f"</summary>{_body(report)}</details></div>"
    )


def comparison_of(comparison: Any) -> str:
    """A comparison in a notebook."""
    heads, rows = comparison.table()
    table = _table(heads, rows, numbers=len(heads) - 1)
    return f'<div class="cachax">{_style()}{table}</div>'


def explanation_of(explanation: Any) -> str:
    """An explanation in a notebook."""
    rows = [
        [
            p.argument,
            p.name,
            p.status,
            p.why,
            _where(p.where),
            seconds(p.seconds),
            size(p.bytes),
        ]
        for p in explanation.properties
    ]
    heads = ["argument", "property", "status", "why", "read at", "time", "size"]
    programs = [
        [plain_name(e.name), e.what.value, e.why, seconds(e.seconds)]
        for e in explanation.programs
    ]
    inner = _table(heads, rows, numbers=2)
    if programs:
        inner += _table(["program", "what", "why", "time"], programs, numbers=1)
    title = escape(explanation.function)
    return (
        f'<div class="cachax">{_style()}<details open><summary>{title}</summary>'
        f"{inner}</details></div>"
    )


def _style() -> str:
    text = _TEMPLATE.read_text(encoding="utf-8")
    start, end = (text.index(mark) for mark in _STYLE)
    return text[start : end + len(_STYLE[1])]


def _body(report: Any) -> str:
    parts = [_section("What to fix", _fixes(report))]
    for title, (heads, rows) in (
        ("Values", value_table(report)),
        ("Functions", function_table(report)),
    ):
        if rows:
            table = _table(heads, rows, numbers=len(heads) - 1)
            parts.append(_section(title, table))
    reasons = [[name, why] for name, why in report.reasons().items()]
    if reasons:
        parts.append(_section("Inline", _table(["value", "why"], reasons)))
    parts.append(_section("Timeline", _legend() + _scrolling(timeline(report.events))))
    for cls, uses in report.dependencies().items():
        if any(uses.values()):
            parts.append(
                _section(
                    f"What {cls} is computed from",
                    _scrolling(dependency_graph(cls, uses)),
                )
            )
    if report.memory is not None and report.memory.held:
        rows = [[h.name, count(h.values), size(h.bytes)] for h in report.memory.held]
        table = _table(["value", "values", "size"], rows, numbers=2)
        total = size(report.memory.bytes)
        title = f"In the cache at the end: {total}"
        parts.append(_section(title, table))
    parts.append(_section("All events", _events(report), folded=True))
    return "".join(parts)


def _section(title: str, inner: str, folded: bool = False) -> str:
    is_open = "" if folded else " open"
    title = f"<summary>{escape(title)}</summary>"
    return f"<details{is_open}>{title}<div>{inner}</div></details>"


def _fixes(report: Any) -> str:
    if not report.fixes:
        return "<p>Nothing. No value was computed twice.</p>"
    return "".join(
        f"<article><p><b>{escape(seconds(fix.seconds)) if fix.seconds else ''}</b> "
        f"<code>{escape(_where(fix.where))}</code> {_prose(fix.what)}</p>"
        f"<p>{_prose(fix.instead[:1].upper() + fix.instead[1:])}</p></article>"
        for fix in report.fixes
    )


def _prose(text: str) -> str:
    """Text with code in backticks."""
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text))


def _events(report: Any) -> str:
    return _table(
        ["at", "what", "name", "object", "where", "time", "size", "why", "thread"],
        [
            [
                f"{e.start:.4f} s",
                e.what.value,
                plain_name(e.name),
                count(e.object),
                _where(e.where),
                seconds(e.seconds),
                size(e.bytes),
                e.why,
                e.thread,
            ]
            for e in report.events
        ],
    )


def _legend() -> str:
    kinds = [
        "computed",
        "hit",
        "known",
        "passed in",
        "returned",
        "computed inside",
        "inline",
        "called",
        "compiled",
        "dropped",
    ]
    marks = [
        f'<span><i class="{kind.replace(" ", "-")}"></i>{kind}</span>' for kind in kinds
    ]
    return f'<p class="legend">{"".join(marks)}</p>'


def _scrolling(drawing: str) -> str:
    return f'<div class="scroll">{drawing}</div>'


def _where(where: Any) -> str:
    return "" if where is None else str(where)


def _table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], numbers: int = 0
) -> str:
    """A table whose last `numbers` columns are aligned to the right."""
    first_number = len(heads) - numbers

    def cells(tag: str, row: Sequence[str]) -> str:
        return "".join(
            f"<{tag}{' class=n' if i >= first_number else ''}>{_prose(cell)}</{tag}>"
            for i, cell in enumerate(row)
        )

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    head = f"<thead><tr>{cells('th', heads)}</tr></thead>"
    return f'<div class="scroll"><table>{head}<tbody>{body}</tbody></table></div>'
