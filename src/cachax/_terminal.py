"""What the commands share: colours, checks of output files, closed pipes."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

CLOSED_PIPE = 1
"""The exit code when the reader of the output stopped early, as `head` does."""

INTERRUPTED = 130

_STYLES = {
    "bold": "1",
    "dim": "2",
    "red": "1;31",
    "yellow": "1;33",
    "blue": "1;34",
    "cyan": "36",
    "green": "32",
}


def wants_colour(stream: TextIO) -> bool:
    """Whether to colour what is written to `stream`: on a terminal, unless `NO_COLOR`
    is set; `FORCE_COLOR` turns it on everywhere. See https://no-color.org."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def paint(text: str, style: str, colour: bool = True) -> str:
    """`text` with the escape codes of a style, or unchanged.

    >>> paint("error", "red")
    '\\x1b[1;31merror\\x1b[0m'
    >>> paint("error", "red", colour=False)
    'error'
    """
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if colour and text else text


def check_writable(path: Path) -> None:
    """Raise `OSError` if `path` cannot be written; leave it as it is."""
    is_new = not path.exists()
    path.open("a").close()
    if is_new:
        path.unlink()


def without_traceback(command: Callable[[], int]) -> int:
    """Run a command; a closed pipe or Ctrl-C ends it with an exit code."""
    try:
        try:
            return command()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        discard_output()
        return CLOSED_PIPE
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED


def discard_output() -> None:
    """Send the rest of the output nowhere: Python would fail on it at its exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
