"""What the pages show is what happens."""

import re
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from pages import ROOT, Shown, blocks, play, played
from xla_flags import COMPILE_QUICKLY

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_AMOUNT = re.compile(r"\d[\d.,]*( ?(?:ns|µs|ms|s|B|kB|MB)\b)")
_FRACTION = re.compile(r"-?\d+\.\d+(?:e[+-]?\d+)?")


def agree(shown: str, printed: str) -> bool:
    """To the letter; but the last digits of a number may differ with the processor, and
    times and sizes at will, and the order of the rows and the ends of the lines with
    them."""
    if _AMOUNT.search(shown):
        shown, printed = (" ".join(sorted(words(text))) for text in (shown, printed))
    elif " computed " in shown:  # a row for each value, the slowest first
        shown, printed = ("\n".join(sorted(t.splitlines())) for t in (shown, printed))
    ours, theirs = (list(map(float, _FRACTION.findall(t))) for t in (shown, printed))
    shown, printed = (_FRACTION.sub("#", text).rstrip() for text in (shown, printed))
    return shown == printed and np.allclose(ours, theirs, rtol=1e-4, atol=1e-6)


def words(text: str) -> list[str]:
    return _AMOUNT.sub(r"#\1", re.sub(r"µs|ms", "s", text)).split()


@pytest.mark.skipif(
    jax.__version_info__ < (0, 10), reason="the pages show what the newest JAX prints"
)
@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_the_page_shows_the_output_of_its_code(path: Path) -> None:
    for shown, printed in played(path, COMPILE_QUICKLY):
        assert agree(shown, printed), f"shown:\n{shown}\ncame out:\n{printed}"


def test_every_block_is_of_a_kind_that_is_looked_at() -> None:
    kinds = {block["language"] for path in PAGES for block in blocks(path.read_text())}
    shown = {kind for kind in kinds - {None} if not kind.startswith("{")}
    assert shown <= {"python", "output", "console", "sh", "diff", "toml", "yaml"}


def commands() -> list[str]:
    """What the pages tell the reader to type."""
    found = []
    for path in PAGES:
        for block in blocks(path.read_text()):
            if block["language"] == "sh":
                lines = block["text"].splitlines()
                found += [line.partition("  #")[0].strip() for line in lines]
    return sorted(set(filter(None, found)))


@pytest.mark.parametrize("command", commands())
def test_a_command_exists(command: str) -> None:
    # What follows a script is for the script.
    words = command.split("|")[-1].partition(".py ")[0].split()
    if words[0] == "make":
        targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert set(words[1:]) <= set(targets)
    elif words[0] == "cachax":
        module = ["-m", "cachax", words[1], "--help"]
        told = subprocess.check_output([sys.executable, *module], text=True)
        assert all(word in told for word in words if word.startswith("--"))
    else:
        assert words[0] in {"pip", "pytest", "git", "cd", "python"}


def on_a_page(tmp_path: Path, text: str) -> list[Shown]:
    page = tmp_path / "page.md"
    page.write_text(text)
    return play(page)


def test_blocks_share_a_namespace_and_print(tmp_path: Path) -> None:
    page = "```python\nx = 1\n```\n\n```python\nprint(x)\n```\n\n```output\n2\n```\n"
    assert on_a_page(tmp_path, page) == [("2\n", "1\n")]


def test_a_directive_is_not_taken_for_code(tmp_path: Path) -> None:
    page = "```{raw} html\n<p>\n```\n\n```python\nprint(1)\n```\n```output\n```\n"
    assert on_a_page(tmp_path, page) == [("", "1\n")]


def test_setup_is_run_and_a_file_is_written(tmp_path: Path) -> None:
    page = (
        "<!-- setup\ny = 3\n-->\n<!-- file: a.py -->\n```python\nprint(4)\n```\n"
        "```python\nprint(y)\n```\n```output\n```\n"
        f"```console\n$ {sys.executable} a.py\n```\n"
    )
    (_, first), (_, second) = on_a_page(tmp_path, page)
    assert first == "3\n"
    assert second.endswith("a.py\n4\n")


def test_a_block_that_is_to_raise_must(tmp_path: Path) -> None:
    page = "<!-- raises -->\n```python\n{}\n```\n```output\n```\n"
    raised = on_a_page(tmp_path, page.format("1 / 0"))
    assert raised == [("", "ZeroDivisionError: division by zero\n")]
    with pytest.raises(AssertionError, match="and did not"):
        on_a_page(tmp_path, page.format("1"))


def test_only_amounts_may_differ() -> None:
    assert agree("a computed 1\nb computed 2\n", "b computed 2\na computed 1\n")
    assert not agree("a computed 1\nb computed 2\n", "b computed 1\na computed 2\n")
    assert agree("took 3 ms\n", "took 12.5 µs")
    assert not agree("took 3 ms in 2 steps", "took 3 ms in 4 steps")
    assert not agree("2 steps", "3 steps")


def test_only_the_last_digits_of_a_number_may_differ() -> None:
    assert agree("0.84174395", "0.84174401\n")
    assert not agree("0.84174395", "0.8427")
    assert not agree("0.84174395", "0.84174395 0.1")
