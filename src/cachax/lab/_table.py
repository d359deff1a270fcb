"""The matrix in a terminal, at most 100 columns wide."""

from collections import Counter
from collections.abc import Iterator

from rich.columns import Columns
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ._looks import LOOKS, sign
from ._matrix import Matrix
from ._verdict import Verdict

WIDTH = 100
FEW = 12
"""With no more cells than this, the result of each is printed in words."""


def show(matrix: Matrix) -> None:
    console = Console(width=WIDTH)  # a narrow terminal folds it
    console.print(_matrix(matrix))
    console.print(_probes(matrix))
    console.print(_signs())
    console.print()
    for line in _findings(matrix):
        console.print(line, soft_wrap=False)


def _matrix(matrix: Matrix) -> Table:
    versions = ", ".join(f"{name} {v}" for name, v in matrix.versions.items())
    table = Table(box=None, padding=0, caption=versions, header_style="underline")
    table.add_column("approach", no_wrap=True)
    for number, _ in enumerate(matrix.probes, start=1):
        table.add_column(str(number), justify="center", width=3)
    table.add_column(LOOKS[Verdict.WRONG].sign, justify="right", width=2)
    for strategy in matrix.ranked:
        cells = [
            Text(sign(cell, room=3).center(3), LOOKS[cell.verdict].style)
            for cell in matrix.row(strategy)
        ]
        wrong = matrix.count(strategy)[Verdict.WRONG]
        table.add_row(f"{strategy.name} ", *cells, str(wrong or ""))
    return table


def _probes(matrix: Matrix) -> Columns:
    return Columns(
        [
            Text.assemble((f"{number:>2} ", "bold"), probe.title)
            for number, probe in enumerate(matrix.probes, start=1)
        ],
        column_first=True,
        width=WIDTH // 2 - 1,
        padding=(0, 0),
    )


def _signs() -> Text:
    signs = Text()
    for look in LOOKS.values():
        signs.append(f" {look.sign} ", look.style)
        signs.append(f" {look.meaning}   ")
    return signs


def _findings(matrix: Matrix) -> Iterator[Text]:
    cells = matrix.cells
    if len(cells) <= FEW:
        for (strategy, probe), cell in cells.items():
            yield Text.assemble(
                f"{strategy}, {probe}: ",
                (cell.verdict.value, LOOKS[cell.verdict].style),
                f": {cell.what_happened}",
            )
    published = list(matrix.published)
    disagreeing = [found for found in published if found[2].disagrees]
    for strategy, probe, cell in disagreeing:
        found = "an error" if cell.work is None else f"{cell.work} computations"
        yield Text(
            f"{strategy}, {probe}: {found} on this JAX, published: {cell.published}",
            "bold",
        )
    if published and not disagreeing:
        yield Text(f"All {len(published)} published counts hold here.")
    reasons: dict[str, list[str]] = {}
    for (strategy, probe), cell in cells.items():
        if cell.verdict is Verdict.ABSENT:
            is_row = all(c.verdict is Verdict.ABSENT for c in matrix.row_of(strategy))
            reasons.setdefault(cell.what_happened, []).append(
                strategy if is_row else probe
            )
    for why, names in reasons.items():
        yield Text(f"{why}: {', '.join(dict.fromkeys(names))}", "dim")
    verdicts = Counter(cell.verdict for cell in cells.values())
    measured = verdicts.total() - verdicts[Verdict.ABSENT]
    yield Text(f"{verdicts[Verdict.WRONG]} of {measured} cells are silently wrong.")
