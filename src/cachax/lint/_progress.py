"""A line on the terminal that says how far it has come."""

import sys
import time
from types import TracebackType
from typing import Self, TextIO

_WIDTH = 30
_SECONDS_BETWEEN = 0.1


class Progress:
    """Draws on a terminal, and does nothing on anything else."""

    def __init__(self, total: int, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._total = total
        self._done = 0
        self._drawn = 0.0
        self._shown = self._stream.isatty() and total > 1

    def __enter__(self) -> Self:
        return self

    def advance(self) -> None:
        self._done += 1
        now = time.monotonic()
        if self._shown and now - self._drawn > _SECONDS_BETWEEN:
            self._drawn = now
            filled = _WIDTH * self._done // self._total
            bar = "#" * filled + "." * (_WIDTH - filled)
            self._stream.write(f"\r[{bar}] {self._done}/{self._total} files")
            self._stream.flush()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
