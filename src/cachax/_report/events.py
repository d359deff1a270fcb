"""What happened: to which value, when, for how long, and at which line."""

import enum
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax


class What(enum.Enum):
    """What can happen to a value, and to a function."""

    COMPUTED = "computed"
    HIT = "hit"
    KNOWN = "known"
    """From another object, made of the same arrays."""
    CARRIED = "carried in"
    BROUGHT = "brought out"
    INLINE = "inline"
    """Computed inside a trace, by the program that is traced, at each of its runs."""
    DROPPED = "dropped"
    CALLED = "called"
    TRACED = "traced"
    COMPILED = "compiled"


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


@dataclass(frozen=True)
class Event:
    what: What
    name: str
    """`Class.property`, or the name of a function."""
    where: Where | None
    start: float
    """Seconds since the recording began."""
    seconds: float = 0.0
    """Without compiling, but for what was compiled."""
    own_seconds: float = 0.0
    """Without what was computed meanwhile for other values."""
    wall_seconds: float = 0.0
    """With compiling and all."""
    bytes: int = 0
    why: str = ""
    thread: str = field(default_factory=lambda: threading.current_thread().name)
    object: int = 0
    """Which one of its class: 1, 2, 3, ... in the order they were met; 0 for none."""
    via: Where | None = None
    """The call of a `cachax.jit` function that it happened in, if it did."""
    digest: str = ""
    """Of the numbers in the value."""
    depth: int = 0
    """How many other events it happened within."""
    is_first_use: bool = False
    """Whether the value was got for this very call, and carried into it: no reuse."""


_NOT_THE_USERS = (str(Path(__file__).parent.parent), str(Path(jax.__file__).parent))
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


def bytes_of(value: Any) -> int:
    """Of the arrays in a value."""
    return sum(map(_bytes, jax.tree.leaves(value)))


def _bytes(leaf: Any) -> int:
    try:
        return int(getattr(leaf, "nbytes", 0))
    except NotImplementedError:  # an array of random keys, before JAX 0.5
        return 0


class Clock(threading.local):
    """How long what a thread does takes: without compiling, and without its parts."""

    def __init__(self) -> None:
        self._parts: list[float] = []
        self._compiling: list[float] = []

    def enter(self) -> float:
        self._parts.append(0.0)
        self._compiling.append(0.0)
        return time.perf_counter()

    def compiled(self, seconds: float) -> None:
        if self._parts:
            self._parts[-1] += seconds
            self._compiling[-1] += seconds

    @property
    def depth(self) -> int:
        return len(self._parts)

    def leave(self, start: float) -> dict[str, Any]:
        """What an event is told about its time."""
        seconds = time.perf_counter() - start
        parts, compiling = self._parts.pop(), self._compiling.pop()
        if self._parts:
            self._parts[-1] += seconds
            self._compiling[-1] += compiling
        return {
            "seconds": max(seconds - compiling, 0.0),
            "own_seconds": max(seconds - parts, 0.0),
            "wall_seconds": seconds,
            "depth": self.depth,
        }
