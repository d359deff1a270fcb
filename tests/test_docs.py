"""What the pages show is what happens."""

import contextlib
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import pytest

DOCS = Path(__file__).parent.parent / "docs"
BLOCKS = re.compile(r"<!-- (run|output) -->\n```(?:python)?\n(.*?)```", re.DOTALL)
_NUMBERS = re.compile(r"\d[\d.,]*( (?:ns|µs|ms|s|B|kB|MB)\b)")


def words_of(text: str) -> list[str]:
    """In any order: times differ from run to run, and with them the order of the rows
    and the ends of the lines."""
    return sorted(_NUMBERS.sub(r"#\1", re.sub(r"µs|ms", "s", text)).split())


def played(path: Path) -> list[tuple[str, str]]:
    """For each output that the page shows: as shown, and as it comes out."""
    namespace: dict[str, Any] = {"__name__": path.stem}
    printed = ""
    found = []
    for kind, text in BLOCKS.findall(path.read_text()):
        if kind == "run":
            # A file, so that the lines of the page can be told.
            code = compile(text, str(path.with_suffix(".py")), "exec")
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(code, namespace)
            printed = out.getvalue()
        else:
            found.append((text, printed))
    return found


@pytest.mark.skipif(
    jax.__version_info__ < (0, 6), reason="JAX does not say yet what it compiles"
)
@pytest.mark.parametrize("name", ["explain", "reuse"])
def test_the_page_shows_what_comes_out(name: str) -> None:
    """In a process of its own, in which nothing is compiled yet, nor kept on disk."""
    here = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")}
    ended = subprocess.run(
        [sys.executable, __file__, name],
        env=here | {"COLUMNS": "88", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    outputs = json.loads(ended.stdout)
    assert outputs
    for shown, printed in outputs:
        assert words_of(shown) == words_of(printed)


def write(name: str) -> None:
    """Put the outputs into the page: `python tests/test_docs.py explain --write`."""
    path = DOCS / f"{name}.md"
    outputs = iter([printed for _, printed in played(path)])

    def replaced(match: re.Match[str]) -> str:
        if match[1] == "run":
            return match[0]
        return f"<!-- output -->\n```\n{next(outputs).rstrip()}\n```"

    path.write_text(BLOCKS.sub(replaced, path.read_text()))


if __name__ == "__main__":
    if sys.argv[2:] == ["--write"]:
        write(sys.argv[1])
    else:
        print(json.dumps(played(DOCS / f"{sys.argv[1]}.md")))
