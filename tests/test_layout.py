"""Imports go one way: down the list in CONTRIBUTING.md."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "cachax"


def files_in_order() -> list[str]:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    block = re.search(r"```\n(_errors.*?)```", text, flags=re.DOTALL)
    assert block is not None
    return re.findall(r"(_\w+)(?=[, ])(?:,|\s{2,})", block[1])


def test_every_file_is_in_the_list() -> None:
    files = {path.stem for path in SOURCE.glob("_*.py")} - {"__init__", "__main__"}
    assert set(files_in_order()) == files


def test_a_file_imports_only_from_those_above_it() -> None:
    order = files_in_order()
    for name in order:
        imported = re.findall(
            r"^from \.(_\w+) import", (SOURCE / f"{name}.py").read_text(), flags=re.M
        )
        assert all(order.index(other) < order.index(name) for other in imported), name
