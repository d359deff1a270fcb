"""The matrix as a picture: SVG, drawn without a library."""

import math
from collections.abc import Iterator
from html import escape

from ._looks import LOOKS, sign
from ._matrix import Matrix
from ._verdict import Verdict

CELL = 27
LETTER = 7.0
"""At most; the reader's fonts decide."""
FOOT = 64
MARGIN = 16
LEGEND = 640
ANGLE = math.radians(55)
"""Of the titles above the columns."""
INK = "#1c2126"


def picture(matrix: Matrix) -> str:
    """The same run gives the same picture, byte for byte."""
    left = MARGIN + LETTER * max(len(entry.title) for entry in matrix.strategies)
    titles = [LETTER * len(probe.title) for probe in matrix.probes]
    top = MARGIN + math.sin(ANGLE) * max(titles)
    right = max(
        left + CELL * (column + 1) + math.cos(ANGLE) * length
        for column, length in enumerate(titles)
    )
    width = round(max(right, LEGEND) + MARGIN)
    height = round(top + CELL * len(matrix.strategies) + FOOT)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" '
        'font-family="system-ui, -apple-system, Segoe UI, sans-serif" font-size="13">',
        f"<title>{escape(_summary(matrix))}</title>",
        f"<desc>{escape(_versions(matrix))}</desc>",
        f'<rect width="{width}" height="{height}" rx="8" fill="#ffffff"/>',
        *_titles(matrix, left, top),
        *_rows(matrix, left, top),
        *_legend(height),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _summary(matrix: Matrix) -> str:
    wrong = sum(cell.verdict is Verdict.WRONG for cell in matrix.cells.values())
    return (
        f"{len(matrix.strategies)} approaches to caching by {len(matrix.probes)} "
        f"probes, {wrong} cells silently wrong, on JAX {matrix.versions['jax']}"
    )


def _versions(matrix: Matrix) -> str:
    libraries = {k: v for k, v in matrix.versions.items() if k != "python"}
    return ", ".join(" ".join(pair) for pair in libraries.items())


def _titles(matrix: Matrix, left: float, top: float) -> Iterator[str]:
    degrees = math.degrees(ANGLE)
    for number, probe in enumerate(matrix.probes):
        x, y = left + CELL * (number + 0.6), top - 8
        yield _text(
            x, y, probe.title, f'transform="rotate({-degrees:.0f} {x:.1f} {y:.1f})"'
        )


def _rows(matrix: Matrix, left: float, top: float) -> Iterator[str]:
    for number, strategy in enumerate(matrix.ranked):
        y = top + CELL * number
        middle = y + CELL / 2 + 4.5
        weight = 'font-weight="700" ' if strategy.name.startswith("cachax") else ""
        yield _text(left - 10, middle, strategy.title, f'{weight}text-anchor="end"')
        for column, cell in enumerate(matrix.row(strategy)):
            yield from _square(left + CELL * column, y, cell.verdict, sign(cell))


def _legend(height: int) -> Iterator[str]:
    x, top = float(MARGIN), height - FOOT + 18
    for verdict, look in LOOKS.items():
        yield from _square(x, top, verdict, look.sign)
        yield _text(x + CELL + 6, top + CELL / 2 + 4.5, look.meaning)
        x += CELL + 24 + LETTER * len(look.meaning)


def _square(x: float, y: float, verdict: Verdict, text: str) -> Iterator[str]:
    look = LOOKS[verdict]
    side = CELL - 3
    yield (
        f'<rect x="{x + 1.5:.1f}" y="{y + 1.5:.1f}" width="{side}" height="{side}" '
        f'rx="4" fill="{look.fill}"/>'
    )
    weight = 'font-weight="700" ' if verdict is Verdict.WRONG else ""
    small = f'font-size="{34 // len(text)}" ' if len(text) > 2 else ""
    yield _text(
        x + CELL / 2,
        y + CELL / 2 + 4.5,
        text,
        f'{weight}{small}text-anchor="middle"',
        look.ink,
    )


def _text(x: float, y: float, text: str, how: str = "", ink: str = INK) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{ink}" {how}>{escape(text)}</text>'
