"""`cachax explain` runs a script as Python would, and reports."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import cachax

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


def test_output_and_report(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    ended = run(
        tmp_path, "--html", "p.html", "--json", "p.json", "script.py", "-x", "1"
    )
    assert ended.returncode == 0
    assert ended.stdout == "area 9.0 9.0 ['-x', '1'] __main__\n"
    assert "Square.area" in ended.stderr
    assert "\033" not in ended.stderr
    assert "Square.area" in (tmp_path / "p.html").read_text()
    events = json.loads((tmp_path / "p.json").read_text())["events"]
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
