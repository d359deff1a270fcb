"""The main results as a small picture, readable on a phone, light or dark."""

from collections.abc import Iterable, Iterator
from html import escape

from ._cell import Cell
from ._looks import LOOKS, sign
from ._matrix import Matrix
from ._verdict import Verdict

ROWS = {
    "cachax": ["cachax_dataclass", "cachax_equinox", "cachax_flax", "cachax_nnx"],
    "functools.cached_property": ["functools_flax"],
    "the same on nnx.Module": ["functools_nnx"],
    "functools.lru_cache": ["lru_cache"],
    "hand-made cache field": ["field"],
    "computed in __init__": ["init_equinox"],
    "nnx.Cache variable": ["nnx_cache"],
    "netket property_cached": ["netket_cached"],
    "jax.new_ref slot": ["new_ref"],
    "passed in by hand": ["by_hand"],
}
COLUMNS = {
    ("used in", "jit twice"): ["order_use_use"],
    ("training", "loop"): ["training_loop"],
    ("", "gradient"): ["grad_warm", "grad_cold"],
    ("after", "update"): ["replace", "tree_map", "assign", "optimizer"],
    ("vmap,", "scan"): ["vmap", "scan_carry", "scan_body"],
    ("memory", "leaked"): ["retained"],
}
"""Each with the probes it stands for; it shows the worst of them."""

LEFT, CELL, ROW, TOP, FOOT = 204, 52, 30, 50, 44
_BY_HARM = [
    Verdict.ABSENT,
    Verdict.RIGHT,
    Verdict.RECOMPUTED,
    Verdict.ERROR,
    Verdict.WRONG,
]
_STYLE = """\
text { font: 14px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1c2126 }
.ground { fill: #ffffff } .head, .sign { text-anchor: middle } .head { font-size: 12px }
.ours { font-weight: 700 } .silently-wrong + text { font-weight: 700 }
"""
_DARK = {
    Verdict.RIGHT: ("#17324a", "#a9d4f5"),
    Verdict.RECOMPUTED: ("#453a10", "#f4da83"),
    Verdict.ERROR: ("#38313f", "#d6c6e4"),
    Verdict.WRONG: ("#ff7a3d", "#201000"),
    Verdict.ABSENT: ("#14181c", "#9aa5b0"),
}


def summary(matrix: Matrix) -> str:
    """A row for each common approach, a column for each main question."""
    width, height = LEFT + CELL * len(COLUMNS) + 10, TOP + ROW * len(ROWS) + FOOT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img">',
        f"<title>{escape(_about(matrix))}</title>",
        f"<style>\n{_style()}</style>",
        f'<rect class="ground" width="{width}" height="{height}" rx="8"/>',
        *_heads(),
        *_rows(matrix),
        *_legend(height),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _about(matrix: Matrix) -> str:
    return (
        f"{len(ROWS)} approaches to caching by {len(COLUMNS)} questions, "
        f"on JAX {matrix.versions['jax']}"
    )


def _style() -> str:
    light = {verdict: (look.fill, look.ink) for verdict, look in LOOKS.items()}
    dark = f"text {{ fill: #e4e8ec }} .ground {{ fill: #14181c }}\n{_colours(_DARK)}"
    return (
        f"{_STYLE}{_colours(light)}@media (prefers-color-scheme: dark) {{\n{dark}}}\n"
    )


def _colours(colours: dict[Verdict, tuple[str, str]]) -> str:
    return "".join(
        f".{_kind(verdict)} {{ fill: {fill} }} "
        f".{_kind(verdict)} + text {{ fill: {ink} }}\n"
        for verdict, (fill, ink) in colours.items()
    )


def _kind(verdict: Verdict) -> str:
    return verdict.value.replace(" ", "-")


def _heads() -> Iterator[str]:
    for column, words in enumerate(COLUMNS):
        x = LEFT + CELL * (column + 0.5)
        for line, word in enumerate(words):
            yield f'<text class="head" x="{x:.0f}" y="{22 + 16 * line}">{word}</text>'


def _rows(matrix: Matrix) -> Iterator[str]:
    for row, (title, strategies) in enumerate(ROWS.items()):
        y = TOP + ROW * row
        ours = ' class="ours"' if title == "cachax" else ""
        yield f'<text{ours} x="12" y="{y + 20}">{escape(title)}</text>'
        for column, probes in enumerate(COLUMNS.values()):
            cells = [matrix.cells[s, p] for s in strategies for p in probes]
            yield from _square(LEFT + CELL * column, y, _worst(cells))


def _worst(cells: Iterable[Cell]) -> Cell:
    return max(cells, key=lambda cell: _BY_HARM.index(cell.verdict))


def _square(x: float, y: float, cell: Cell) -> Iterator[str]:
    yield (
        f'<rect class="{_kind(cell.verdict)}" x="{x + 2:.0f}" y="{y + 2:.0f}" '
        f'width="{CELL - 4}" height="{ROW - 4}" rx="5"/>'
    )
    middle = x + CELL / 2
    yield f'<text class="sign" x="{middle:.0f}" y="{y + 20:.0f}">{sign(cell)}</text>'


def _legend(height: int) -> Iterator[str]:
    x = 12.0
    for verdict in (Verdict.RIGHT, Verdict.RECOMPUTED, Verdict.ERROR, Verdict.WRONG):
        look = LOOKS[verdict]
        y = height - 34
        yield (
            f'<rect class="{_kind(verdict)}" x="{x:.0f}" y="{y}" width="24" '
            'height="22" rx="5"/>'
        )
        yield f'<text class="sign" x="{x + 12:.0f}" y="{y + 16}">{look.sign}</text>'
        yield f'<text x="{x + 30:.0f}" y="{y + 16}">{look.meaning}</text>'
        x += 48 + 7.5 * len(look.meaning)
