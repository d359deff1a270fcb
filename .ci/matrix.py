"""Run a sample of the tests on every minor version of JAX that cachax supports.

`python .ci/matrix.py [--only 0.5.3 ...] [--list] [TESTS ...]`. Each row has its own
environment in .venv/matrix, made by uv. A row whose environment could not be made, for
example because that Python is not installed, is in the table and counts as failed.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / ".venv" / "matrix"

SAMPLE = [
    "tests/laws",
    "tests/test_cached.py",
    "tests/test_compat.py",
    "tests/test_jit.py",
]
WORKERS = os.environ.get("WORKERS", "logical")


@dataclass(frozen=True)
class Row:
    """One environment. The last patch version stands for a minor version of JAX."""

    python: str
    jax: str
    pins: str = ""
    """The requirements file with the versions of everything else, where there is one.
    Without, it is the newest that claims to work with this JAX."""

    def __str__(self) -> str:
        return f"Python {self.python}, JAX {self.jax}"


ROWS = [
    Row("3.11", "0.4.36", "oldest.txt"),
    Row("3.11", "0.5.3"),
    Row("3.11", "0.6.2"),
    Row("3.11", "0.7.2"),
    Row("3.11", "0.8.3"),
    Row("3.11", "0.9.2"),
    Row("3.11", "0.10.2", "newest.txt"),
    Row("3.12", "0.11.2"),
    Row("3.12", "0.12.0.1", "newest.txt"),
    Row("3.13", "0.4.36", "oldest.txt"),
    Row("3.13", "0.12.0.1", "newest.txt"),
]


@dataclass(frozen=True)
class Result:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: int = 0
    problem: str = ""
    """Why there are no numbers, if there are none."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="JAX", help="only these versions")
    parser.add_argument("--list", action="store_true", help="print the rows, and stop")
    parser.add_argument("tests", nargs="*", metavar="TESTS", help="another sample")
    options = parser.parse_args(arguments)
    rows = [row for row in ROWS if not options.only or row.jax in options.only]
    if not rows:
        parser.error(f"no such row; there are {sorted({row.jax for row in ROWS})}")
    if options.list:
        print(*rows, sep="\n")
        return 0
    results = []
    for row in rows:
        print(f"{row} ...", file=sys.stderr, flush=True)
        results.append((row, measure(row, options.tests or SAMPLE)))
    print(table(results))
    return int(any(result.failed or result.problem for _, result in results))


def measure(row: Row, tests: Sequence[str]) -> Result:
    folder = HOME / f"{row.python}-{row.jax}"
    try:
        python = environment(row, folder)
    except subprocess.CalledProcessError as error:
        return Result(problem=error.stderr.strip().splitlines()[0])
    pytest = [
        str(python),
        "-m",
        "pytest",
        "-q",
        "-n",
        WORKERS,
        "-p",
        "no:cacheprovider",
    ]
    ended = subprocess.run(
        [*pytest, *tests],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    (folder / "log.txt").write_text(ended.stdout)
    result = counted(ended.stdout)
    if result.failed or result.problem:
        print(ended.stdout, file=sys.stderr)
    return result


def environment(row: Row, folder: Path) -> Path:
    """Its Python, after everything is installed that is not."""
    python = folder / "bin" / "python"
    if not python.exists():
        uv("venv", "-q", "--python", interpreter(row.python), str(folder))
    pins = ["--constraint", f"{ROOT}/requirements/{row.pins}"] if row.pins else []
    wanted = [
        "--editable",
        f"{ROOT}[lab,test]",
        f"jax=={row.jax}",
        f"jaxlib=={row.jax}",
    ]
    uv("pip", "install", "-q", "--python", str(python), *pins, *wanted)
    return python


def uv(*arguments: str) -> None:
    subprocess.run(["uv", *arguments], check=True, capture_output=True, text=True)


def interpreter(version: str) -> str:
    """The Python on the PATH, or pyenv's; else the version, for uv to find or get."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [*map(str, pyenv.glob(f"{version}.*/bin/python"))]
    for python in [shutil.which(f"python{version}") or version, *found]:
        # A shim of pyenv is on the PATH even where it finds no Python to run.
        if works(python):
            return python
    return version


def works(python: str) -> bool:
    try:
        return not subprocess.run([python, "--version"], capture_output=True).returncode
    except OSError:
        return False


def counted(output: str) -> Result:
    """The numbers in the last line of pytest.

    >>> counted("...\\n2 failed, 40 passed, 1 skipped, 1 error in 62.70s")
    Result(passed=40, failed=3, skipped=1, seconds=63, problem='')
    """
    last = output.strip().splitlines()[-1] if output.strip() else "no output"
    numbers = {word: int(n) for n, word in re.findall(r"(\d+) ([a-z]+?)s?\b", last)}
    failed = numbers.get("failed", 0) + numbers.get("error", 0)
    passed = numbers.get("passed", 0)
    if not failed and not passed:
        return Result(problem=last)
    seconds = re.search(r" in ([\d.]+)s", last)
    assert seconds, last
    return Result(passed, failed, numbers.get("skipped", 0), round(float(seconds[1])))


def table(results: Sequence[tuple[Row, Result]]) -> str:
    """As Markdown."""
    lines = [
        "| Python | JAX | passed | failed | skipped | seconds |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for row, r in results:
        numbers = f"{r.passed} | {r.failed} | {r.skipped} | {r.seconds}"
        cells = f"{r.problem} | | | " if r.problem else numbers
        lines.append(f"| {row.python} | {row.jax} | {cells} |")
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
