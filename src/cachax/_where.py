"""The line of the user's program that is running."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax


@dataclass(frozen=True)
class Where:
    """A line of your code."""

    file: str
    """Its file."""
    line: int
    """Its number."""
    function: str
    """The function it is in."""

    def __str__(self) -> str:
        return f"{_cell(self.file) or Path(self.file).name}:{self.line}"


def _cell(file: str) -> str | None:
    """`In[3]`, for a cell of a notebook, whose file has a number for a name."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    known = shell.compile.format_code_name(file) if shell else None
    return known[1] if known else None


_NOT_THE_USERS = (str(Path(__file__).parent), str(Path(jax.__file__).parent))
_NOR_THESE = ("functools.py", "contextlib.py", "threading.py", "<frozen importlib")


_NOR_MODULES = ("equinox._module", "equinox._jit", "flax.core", "flax.linen.module")
"""Code of other libraries that a read of an attribute passes through."""


def is_of_the_user(frame: Any) -> bool:
    """Whether a frame belongs to neither JAX nor cachax."""
    file = frame.f_code.co_filename
    module = frame.f_globals.get("__name__", "")
    return not (
        file.startswith(_NOT_THE_USERS)
        or file.endswith(_NOR_THESE)
        or module.startswith(_NOR_MODULES)
    )


def where_now() -> Where | None:
    """The innermost line that belongs to neither JAX nor cachax."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        if is_of_the_user(frame):
            return Where(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
        frame = frame.f_back
    return None
