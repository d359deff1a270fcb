"""How a verdict looks: a sign, a colour and a word, never the colour alone."""

from dataclasses import dataclass

from ._cell import Cell
from ._verdict import Verdict


@dataclass(frozen=True)
class Look:
    """Blue, yellow and grey for harmless results; only silently wrong ones stand out.

    The hues (after Okabe and Ito) differ for every kind of colour blindness.
    """

    sign: str
    meaning: str
    style: str
    """In a terminal."""
    fill: str
    ink: str


LOOKS = {
    Verdict.RIGHT: Look("✓", "correct", "blue", "#dcebf7", "#0b4f80"),
    Verdict.RECOMPUTED: Look("↻", "recomputed", "yellow", "#fbeec2", "#6b4e00"),
    Verdict.ERROR: Look("!", "error", "magenta", "#e4e0e8", "#4c3a5e"),
    Verdict.WRONG: Look(
        "✗", "silently wrong", "bold white on red", "#c43c00", "#ffffff"
    ),
    Verdict.ABSENT: Look("–", "not installed", "dim", "#ffffff", "#777777"),  # noqa: RUF001
}


def sign(cell: Cell, room: int = 4) -> str:
    """The count if there is one, marked if it is more than needed; else the verdict's
    sign. At most `room` characters."""
    short = LOOKS[cell.verdict].sign
    if cell.verdict in (Verdict.RIGHT, Verdict.RECOMPUTED) and cell.work is not None:
        mark = "" if cell.verdict is Verdict.RIGHT else short
        counted = f"{cell.work}{mark}"
        short = counted if len(counted) <= room else short
    return f"{short}≠" if cell.disagrees and len(short) < room else short
