"""Drawings for reports, as SVG: a timeline, and what depends on what."""

from collections.abc import Sequence
from html import escape
from typing import Any

from .._errors import plain_name
from .events import Event, What
from .text import seconds

_WIDTH = 960
_LANE = 18


def timeline(events: Sequence[Event]) -> str:
    """A lane for each thread and depth: bars for what takes time, marks for others."""
    shown = [e for e in events if e.what is not What.TRACED]
    if not shown:
        return ""
    end = max(e.start + e.wall_seconds for e in shown)
    begin = min(e.start for e in shown)
    scale = (_WIDTH - 20) / max(end - begin, 1e-9)
    lanes = sorted({(e.thread, e.depth) for e in shown})
    tops = {lane: 24 + i * (_LANE + 4) for i, lane in enumerate(lanes)}
    height = 24 + len(lanes) * (_LANE + 4) + 20
    parts = [_axis(end - begin, height)]
    parts += [
        _mark(e, (e.start - begin) * scale, tops[e.thread, e.depth], scale)
        for e in shown
    ]
    label = f"Timeline of {len(shown)} events over {seconds(end - begin)}"
    return _svg(_WIDTH, height, label, parts)


def _axis(total: float, height: int) -> str:
    ticks = []
    for i in range(5):
        x = 10 + (_WIDTH - 20) * i / 4
        anchor = ("start", "middle", "middle", "middle", "end")[i]
        ticks.append(
            f'<line class="tick" x1="{x}" y1="18" x2="{x}" y2="{height - 16}"/>'
        )
        said = seconds(total * i / 4) if i else "0"
        ticks.append(f'<text x="{x}" y="12" text-anchor="{anchor}">{said}</text>')
    return "".join(ticks)


def _mark(event: Event, x: float, top: int, scale: float) -> str:
    kind = event.what.value.replace(" ", "-")
    shown = plain_name(event.name)
    about = f"{shown}: {event.what.value}"
    about += f" in {seconds(event.seconds)}" if event.seconds else ""
    about += f" at {event.where}" if event.where else ""
    about += f"; {event.why}" if event.why else ""
    title = f"<title>{escape(about)}</title>"
    x += 10
    if not event.wall_seconds:
        at = f'cx="{x:.1f}" cy="{top + _LANE / 2}"'
        return f'<circle class="{kind}" {at} r="4">{title}</circle>'
    width = max(event.wall_seconds * scale, 2)
    bar = (
        f'<rect class="{kind}" x="{x:.1f}" y="{top}" width="{width:.1f}" '
        f'height="{_LANE}" rx="3">{title}</rect>'
    )
    letters = int(width // 7)
    if letters < 4:
        return bar
    name = shown if len(shown) <= letters else f"{shown[: letters - 1]}…"
    return f'{bar}<text class="on" x="{x + 4:.1f}" y="{top + 13}">{escape(name)}</text>'


def dependency_graph(cls: str, uses: dict[str, list[str]]) -> str:
    """Fields to the left; each property to the right of all it is computed from."""
    direct = {name: _direct(name, uses) for name in uses}
    fields = sorted({x for xs in direct.values() for x in xs if x not in uses})
    column: dict[str, int] = dict.fromkeys(fields, 0)
    for _ in uses:
        for name, sources in direct.items():
            column[name] = 1 + max((column.get(s, 0) for s in sources), default=0)
    rows: dict[int, int] = {}
    place: dict[str, tuple[int, int]] = {}
    for name in [*fields, *uses]:
        row = rows.get(column[name], 0)
        rows[column[name]] = row + 1
        place[name] = (20 + column[name] * 200, 20 + row * 44)
    parts = [
        _arrow(place[source], place[name])
        for name, sources in direct.items()
        for source in sources
    ]
    for name, (x, y) in place.items():
        kind = "property" if name in uses else "field"
        shown = name if len(name) <= 20 else f"{name[:19]}…"
        parts.append(
            f'<g class="{kind}"><rect x="{x}" y="{y}" width="150" height="28" rx="6"/>'
            f'<text x="{x + 75}" y="{y + 18}" text-anchor="middle">'
            f"{escape(shown)}</text><title>{escape(name)}</title></g>"
        )
    width = 190 + 200 * max(column.values(), default=0)
    height = 30 + 44 * max(rows.values(), default=0)
    label = f"What the properties of {cls} are computed from"
    return _svg(width, height, label, parts)


def _direct(name: str, uses: dict[str, list[str]]) -> list[str]:
    """Without the fields that a property it reads uses already."""
    through = {
        f for source in uses[name] for f in uses.get(source, []) if f not in uses
    }
    return [s for s in uses[name] if s in uses or s not in through]


def _arrow(start: tuple[int, int], end: tuple[int, int]) -> str:
    (x1, y1), (x2, y2) = start, end
    x1, y1, y2 = x1 + 150, y1 + 14, y2 + 14
    bend = (x2 - x1) / 2
    return (
        f'<path class="edge" d="M{x1},{y1} C{x1 + bend},{y1} '
        f'{x2 - bend},{y2} {x2},{y2}"/>'
        f'<path class="head" d="M{x2},{y2} l-7,-4 v8 z"/>'
    )


def _svg(width: Any, height: Any, label: str, parts: list[str]) -> str:
    return (
        f'<svg role="img" aria-label="{escape(label)}" viewBox="0 0 {width} {height}" '
        f'style="max-width:{width}px" xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg>'
    )
