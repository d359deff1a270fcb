"""The code blocks of a page, played in order.

- A `python` block is run, all of a page's in one namespace. What it printed must be in
  the `output` block after it, if there is one.
- `<!-- raises -->` above it: it must raise, and what it raised counts as printed.
- `<!-- file: model.py -->` above it: it is written to that file instead.
- `<!-- setup`, code, `-->` is run and not shown.
- In a `console` block, lines that begin with `$ ` are commands; their output follows.

`python tests/pages.py docs/how.md --write` puts into a page what comes out.
"""

import contextlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import types
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent

_BLOCK = re.compile(
    r"^<!-- setup\n(?P<setup>.*?)^-->$"
    r"|(?:^<!-- (?P<mark>raises|file: (?P<file>\S+)) -->\n)?"
    r"^```(?P<language>[^\n`]*)\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)


class Shown(NamedTuple):
    """What a page shows, and what came out."""

    shown: str
    printed: str


def blocks(page: str) -> list[re.Match[str]]:
    """All of them, in order."""
    return list(_BLOCK.finditer(page))


class Stage:
    """Where the blocks of one page are played: a namespace, and the current folder."""

    def __init__(self, name: str) -> None:
        # A module that can be imported, so that objects of its classes can be pickled.
        module = sys.modules[name] = types.ModuleType(name)
        self.name = name
        self.namespace = vars(module)
        self.printed = ""

    def play(self, block: re.Match[str]) -> Iterator[Shown]:
        """One block; yields what is to be compared."""
        if block["setup"] is not None:
            self._run(block["setup"])
        elif block["file"]:
            Path(block["file"]).write_text(block["text"])
        elif block["language"] == "python":
            self._run(block["text"], raises=block["mark"] == "raises")
        elif block["language"] == "output":
            yield Shown(block["text"], self.printed)
        elif block["language"] == "console":
            yield Shown(block["text"], _console(block["text"]))

    def _run(self, text: str, raises: bool = False) -> None:
        # A file, so that messages can name the line.
        code = compile(text, f"{self.name}.py", "exec")
        with contextlib.redirect_stdout(io.StringIO()) as out:
            if raises:
                print(_raised(code, self.namespace))
            else:
                exec(code, self.namespace)
            if "jax" in sys.modules:
                sys.modules["jax"].effects_barrier()  # all that is to be printed is
        self.printed = out.getvalue()


def _raised(code: Any, namespace: dict[str, Any]) -> str:
    try:
        exec(code, namespace)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    raise AssertionError("the block was to raise, and did not")


def _console(text: str) -> str:
    """The block again, each command followed by what it prints now."""
    written = []
    for line in text.splitlines(keepends=True):
        if line.startswith("$ "):
            ended = subprocess.run(
                re.sub(r"^cachax\b", f"{sys.executable} -m cachax", line[2:]),
                shell=True,
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
            written += [line, ended.stdout]
    return "".join(written)


def play(path: Path) -> list[Shown]:
    """A page from beginning to end, in its own folder."""
    page = path.read_text(encoding="utf-8")
    stage = Stage(path.stem)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        return [shown for block in blocks(page) for shown in stage.play(block)]


def environment() -> dict[str, str]:
    """That of a user: without what the tests tell JAX (`conftest.py`)."""
    ours = ("JAX_COMPILATION_", "JAX_PERSISTENT_", "XLA_FLAGS")
    outside = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
    return outside | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def played(path: Path, flags: Sequence[str] = ()) -> list[Shown]:
    """The same in a new process, in which nothing is compiled, nor kept on disk, with
    these flags of XLA."""
    commands = [str(Path(sys.executable).parent), os.environ["PATH"]]
    ended = subprocess.run(
        [sys.executable, __file__, str(path)],
        env=environment()
        | {
            "COLUMNS": "88",
            "JAX_CPU_ENABLE_ASYNC_DISPATCH": "false",  # printed in order
            "PATH": os.pathsep.join(commands),
            "XLA_FLAGS": " ".join(flags),
        },
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    return [Shown(*pair) for pair in json.loads(ended.stdout)]


def write(path: Path) -> None:
    """Put into the page what comes out."""
    outputs = iter(played(path))

    def with_output(block: re.Match[str]) -> str:
        if block["language"] not in ("output", "console"):
            return block[0]
        return f"```{block['language']}\n{next(outputs).printed.rstrip()}\n```"

    page = path.read_text(encoding="utf-8")
    path.write_text(_BLOCK.sub(with_output, page), encoding="utf-8")


if __name__ == "__main__":
    file = Path(sys.argv[1]).resolve()
    if sys.argv[2:] == ["--write"]:
        write(file)
    else:
        print(json.dumps(play(file)))
