"""Draws why.svg: what is passed into a jitted function, and what is not.

`python docs/figures.py`. It is inlined into the page and takes its colours from there
(`_static/cachax.css`), so that it works in light and dark.
"""

from pathlib import Path

WIDTH, LANE, WALL = 480, 196, 232
ABOUT = (
    "Two objects with a field x and a cached factor are passed to a jitted function. "
    "With functools and jax.jit only x is passed in, and every call computes the "
    "factor again. With cachax the factor is passed in with x."
)


def box(x: int, y: int, width: int, height: int, kind: str) -> str:
    size = f'width="{width}" height="{height}"'
    return f'<rect class="{kind}" x="{x}" y="{y}" {size} rx="6"/>'


def word(x: int, y: int, text: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x}" y="{y}" text-anchor="{anchor}">{text}</text>'


def chip(x: int, y: int, text: str, kind: str) -> str:
    """A value, by its name."""
    return box(x, y, 84, 28, kind) + word(x + 42, y + 19, text, "code", "middle")


def arrow(y: int, start: int, end: int, kind: str = "way") -> str:
    head = f"M{end - 6} {y - 5}L{end} {y}L{end - 6} {y + 5}"
    return f'<path class="{kind}" d="M{start} {y}H{end}{head}"/>'


def cross(x: int, y: int) -> str:
    return f'<path class="lost" d="M{x - 6} {y - 6}l12 12m0 -12l-12 12"/>'


def lane(top: int, title: str, jit: str, carried: bool) -> list[str]:
    """An object outside, the jit boundary, and the object inside."""
    x, factor = top + 70, top + 116
    parts = [
        word(0, top + 20, title, "title"),
        box(0, top + 36, 164, 124, "object"),
        word(12, top + 58, "the object", "small"),
        chip(68, x, "x", "leaf"),
        chip(68, factor, "factor", "value"),
        f'<path class="wall" d="M{WALL} {top + 30}V{top + 166}"/>',
        word(WALL, top + 184, jit, "code small", "middle"),
        box(308, top + 36, 172, 124, "object"),
        word(320, top + 58, "inside", "small"),
        arrow(x + 14, 156, 328),
        chip(332, x, "x", "leaf"),
    ]
    if carried:
        parts += [arrow(factor + 14, 156, 328), chip(332, factor, "factor", "value")]
        parts += [word(WALL + 16, factor + 36, "an input", "small")]
    else:
        parts += [
            arrow(factor + 14, 156, WALL - 12, "lost"),
            cross(WALL, factor + 14),
            word(WALL + 16, factor + 19, "not a leaf", "small"),
            chip(332, factor, "factor", "again"),
            f'<path class="way" d="M374 {x + 28}V{factor - 2}"/>',
            word(382, factor - 5, "computed again", "small"),
        ]
    return parts


def why() -> str:
    lanes = [
        *lane(0, "functools.cached_property: at every call", "jax.jit", False),
        *lane(LANE + 12, "cachax.cached_property: once", "cachax.jit", True),
    ]
    return "\n".join(
        [
            f'<svg class="why" viewBox="0 0 {WIDTH} {2 * LANE + 12}" role="img">',
            f"<title>{ABOUT}</title>",
            *lanes,
            "</svg>\n",
        ]
    )


if __name__ == "__main__":
    Path(__file__).with_name("why.svg").write_text(why())
