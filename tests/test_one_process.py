"""Lines that only some processes run are recognised by their condition."""

from pathlib import Path

from cachax._report.one_process import condition_at
from cachax._where import Where

PROGRAM = """\
import jax

if jax.process_index() == 0:
    print("here")
    for _ in range(2):
        print("and here")
else:
    print("in the others")
if jax.process_count() > 1:
    print("in all")
"""


def test_the_condition_of_a_line(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    found = [condition_at(Where(str(file), line, "")) for line in range(1, 11)]
    condition = "jax.process_index() == 0"
    assert found == [None, None, None, *[condition] * 5, None, None]


def test_a_file_that_cannot_be_parsed_has_none(tmp_path: Path) -> None:
    file = tmp_path / "notebook.ipynb"
    file.write_text("{ if")
    assert condition_at(Where(str(file), 1, "")) is None
    assert condition_at(Where("<stdin>", 1, "")) is None
