"""An example, run as a script in a separate process."""

import contextlib
import dataclasses
import os
import pickle
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

EXAMPLES = Path(__file__).parent.parent / "examples"


@dataclasses.dataclass(frozen=True)
class Played:
    printed: str
    arrays: dict[str, np.ndarray]
    """What the script has under its own names at its end: arrays and numbers."""
    computed: dict[str, int]
    """How often each cached value was computed, if that was recorded."""


def played(
    name: str, folder: Path, more: str = "", recorded: bool = False, **settings: object
) -> Played:
    """`examples/{name}.py` with these environment variables, run in `folder`, and then
    `more`, which can use its names and add others."""
    sizes = {key: str(value) for key, value in settings.items()}
    ended = subprocess.run(
        [
            sys.executable,
            __file__,
            str(EXAMPLES / f"{name}.py"),
            "recorded" if recorded else "",
            more,
        ],
        cwd=folder,
        env=os.environ
        | sizes
        | {
            "MPLBACKEND": "agg",
            "COLUMNS": "88",
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        },
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    left = pickle.loads((folder / "left.pickle").read_bytes())
    return Played(ended.stdout, *left)


def _array(value: Any) -> np.ndarray | None:
    if isinstance(value, int | float) or hasattr(value, "__array__"):
        return np.asarray(value)
    return None


def _run(script: str, recorded: bool, more: str) -> Any:
    """What is left in `left.pickle`: the arrays, and the counts."""
    with contextlib.ExitStack() as stack:
        if recorded:
            import cachax

            report = stack.enter_context(cachax.record())
        names = runpy.run_path(script, run_name="__main__")
    counts = {v.name: v.computed for v in report.values} if recorded else {}
    exec(more, names)
    arrays = {k: a for k, v in names.items() if (a := _array(v)) is not None}
    return arrays, counts


if __name__ == "__main__":
    left = _run(sys.argv[1], sys.argv[2] == "recorded", sys.argv[3])
    Path("left.pickle").write_bytes(pickle.dumps(left))
