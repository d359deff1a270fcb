"""The table of scenarios in the docs is that of the scenarios there are."""

import re
from pathlib import Path

from . import random_program as random_program
from .scenarios import SCENARIOS

PAGE = Path(__file__).parent.parent.parent / "docs" / "processes.md"


def test_the_docs_have_a_row_for_each_scenario() -> None:
    table = re.search(r"<!-- scenarios -->\n(.*?)<!-- end -->", PAGE.read_text(), re.S)
    assert table is not None
    _, _, *rows = table[1].splitlines()
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    assert [row[0] for row in cells] == [*SCENARIOS]
    assert {row[2].partition(",")[0] for row in cells} == {"correct"}
    assert sum("4 processes" in row[2] for row in cells) == 3
