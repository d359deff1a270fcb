"""An example, run as a script in a separate process."""

import dataclasses
import pickle
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from pages import environment

EXAMPLES = Path(__file__).parent.parent / "examples"


@dataclasses.dataclass(frozen=True)
class Played:
    printed: str
    arrays: dict[str, np.ndarray]
    """What the script has under its own names at its end: arrays and numbers."""


def played(name: str, folder: Path, **settings: object) -> Played:
    """`examples/{name}.py` with these environment variables, run in `folder`."""
    sizes = {key: str(value) for key, value in settings.items()}
    ended = subprocess.run(
        [sys.executable, __file__, str(EXAMPLES / f"{name}.py")],
        cwd=folder,
        env=environment() | sizes | {"MPLBACKEND": "agg", "COLUMNS": "88"},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    return Played(ended.stdout, pickle.loads((folder / "arrays.pickle").read_bytes()))


def _array(value: Any) -> np.ndarray | None:
    if isinstance(value, int | float) or hasattr(value, "__array__"):
        return np.asarray(value)
    return None


if __name__ == "__main__":
    names = runpy.run_path(sys.argv[1], run_name="__main__")
    arrays = {k: a for k, v in names.items() if (a := _array(v)) is not None}
    Path("arrays.pickle").write_bytes(pickle.dumps(arrays))
