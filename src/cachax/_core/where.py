"""The line of the user's program that is running."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax


@dataclass(frozen=True)
class Where:
    """A line of the user's code."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{_cell(self.file) or Path(self.file).name}:{self.line}"


def _cell(file: str) -> str | None:
    """`In[3]`, for a cell of a notebook, whose file has a number for a name."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    known = shell.compile.format_code_name(file) if shell else None
    return known[1] if known else None


_NOT_THE_USERS = (str(Path(__file__).parent.parent), str(Path(jax.__file__).parent))
_NOR_THESE = ("functools.py", "contextlib.py", "threading.py", "<frozen importlib")


def where_now() -> Where | None:
    """The innermost line that is neither JAX's nor ours."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(_NOT_THE_USERS) and not file.endswith(_NOR_THESE):
            return Where(file, frame.f_lineno, frame.f_code.co_name)
        frame = frame.f_back
    return None
