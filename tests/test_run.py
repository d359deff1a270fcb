"""`cachax explain` runs a script as Python would, and reports."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import cachax
from cachax.__main__ import main

SCRIPT = """
import sys, jax, jax.numpy as jnp, cachax

class Square:
    def __init__(self, side): self.side = side
    @cachax.cached_property
    def area(self): return self.side ** 2

square = Square(jnp.float32(3))
print("area", square.area, square.area, sys.argv[1:], __name__)
"""


def run(folder: Path, *arguments: str) -> Any:
    source = str(Path(cachax.__file__).parent.parent)
    return subprocess.run(
        [sys.executable, "-m", "cachax", "explain", *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": source},
        check=False,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    (folder / "script.py").write_text(SCRIPT)
    return folder


@pytest.fixture(scope="module")
def ended(folder: Path) -> Any:
    """The script, run to its end, and reported to two files."""
    return run(folder, "--html", "p.html", "--json", "p.json", "script.py", "-x", "1")


def test_output_and_report(folder: Path, ended: Any) -> None:
    assert ended.returncode == 0
    assert ended.stdout == "area 9.0 9.0 ['-x', '1'] __main__\n"
    assert "Square.area" in ended.stderr
    assert "\033" not in ended.stderr
    assert "Square.area" in (folder / "p.html").read_text()
    events = json.loads((folder / "p.json").read_text())["events"]
    whats = [e["what"] for e in events if e["name"] == "Square.area"]
    assert whats == ["computed", "hit"]


def test_a_module_and_an_exit_code(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(f"{SCRIPT}\nsys.exit(7)")
    ended = run(tmp_path, "-m", "script", "--fast")
    assert ended.returncode == 7
    assert ended.stdout == "area 9.0 9.0 ['--fast'] __main__\n"
    assert "Square.area" in ended.stderr


def test_a_script_that_fails(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(f"{SCRIPT}\n1 / 0")
    ended = run(tmp_path, "script.py")
    assert ended.returncode == 1
    assert "ZeroDivisionError" in ended.stderr
    assert "Square.area" in ended.stderr
    assert "runpy" not in ended.stderr
    assert "_run.py" not in ended.stderr


def test_a_script_whose_output_is_not_read_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(f"{SCRIPT}\nprint('x' * 10_000_000)")
    command = "set -o pipefail; python -m cachax explain script.py | head -c 1"
    command = command.replace("python", sys.executable)
    ended = subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (1, "a")
    assert "Traceback" not in ended.stderr
    assert "BrokenPipe" not in ended.stderr
    assert "Square.area" in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["missing.py"], "missing.py: No such file or directory"),
        (["-m", "missing"], "no module named 'missing'"),
        (["-m", "missing.module"], "missing.module: No module named 'missing'"),
        (["-m", "json"], "no module named 'json.__main__'"),
        (["--html", "no/page.html", "ok.py"], "no/page.html: No such file"),
        (["--json", ".", "ok.py"], ".: Is a directory"),
        (["--compare", "no.json", "ok.py"], "no.json: No such file or directory"),
        (["--compare", "wrong.json", "ok.py"], "wrong.json: not a report of --json"),
        (["--compare", "ok.py", "ok.py"], "ok.py: not JSON: "),
        (["--wrong", "ok.py"], "unrecognized arguments: --wrong"),
        (["--wrong"], "unrecognized arguments: --wrong"),
        ([], "give it a script to run, or a module with -m"),
    ],
)
def test_what_cannot_be_run_or_written_is_refused_before_the_run(
    arguments: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ok.py").write_text("open('ran', 'w')")
    Path("wrong.json").write_text("{}")
    with pytest.raises(SystemExit) as stopped:
        main(["explain", *arguments])
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("usage: cachax explain ")
    assert words in error
    assert sorted(os.listdir()) == ["ok.py", "wrong.json"]


AGAIN = """
import jax.numpy as jnp, cachax

class Square:
    def __init__(self, side): self.side = side
    @cachax.cached_property
    def area(self): return self.side ** 2

for _ in range(3): Square(jnp.float32(3)).area
"""


def test_fail_on_recompute(tmp_path: Path) -> None:
    (tmp_path / "again.py").write_text(AGAIN)
    (tmp_path / "once.py").write_text(SCRIPT)
    (tmp_path / "fails.py").write_text(f"{AGAIN}\nraise SystemExit(7)")
    ended = run(tmp_path, "--fail-on-recompute", "again.py")
    assert ended.returncode == 1
    assert ended.stderr.endswith(
        "cachax explain: failed, because of --fail-on-recompute: Square.area was "
        "computed 3 times from equal arrays\n"
    )
    ended = run(tmp_path, "--fail-on-recompute", "once.py")
    assert (ended.returncode, "failed" in ended.stderr) == (0, False)
    assert run(tmp_path, "--fail-on-recompute", "fails.py").returncode == 7


JITTED = """
import jax, jax.numpy as jnp, cachax

class Square:
    def __init__(self, side): self.side = side
    @cachax.cached_property
    def area(self): return self.side ** 2

jax.tree_util.register_pytree_node(
    Square, lambda s: ((s.side,), None), lambda _, leaves: Square(*leaves)
)
jax.jit(lambda s: s.area)(Square(jnp.float32(3)))
"""


def test_fail_on_a_value_that_a_jitted_function_computes(tmp_path: Path) -> None:
    (tmp_path / "jitted.py").write_text(JITTED)
    ended = run(tmp_path, "--fail-on-recompute", "jitted.py")
    assert ended.returncode == 1
    assert "Square.area is computed inside" in ended.stderr


def test_a_run_compared_with_an_earlier_one(tmp_path: Path) -> None:
    (tmp_path / "again.py").write_text(AGAIN)
    ended = run(tmp_path, "--json", "old.json", "again.py")
    assert ended.returncode == 0  # without --fail-on-recompute
    (tmp_path / "again.py").write_text(AGAIN.replace("range(3)", "range(1)"))
    ended = run(tmp_path, "--compare", "old.json", "again.py")
    assert ended.returncode == 0
    assert "3 → 1" in ended.stderr


def test_the_report_of_a_script_has_its_name_and_the_memory(
    folder: Path, ended: Any
) -> None:
    assert "script.py\n1 value computed" in ended.stderr
    assert "in the cache now" in ended.stderr
    assert "<h1>script.py</h1>" in (folder / "p.html").read_text()
