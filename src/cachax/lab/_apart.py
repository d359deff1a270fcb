"""A process of its own for each strategy: what one library sets (netket switches to
64-bit numbers) or breaks is not found by the next."""

import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator

from ._cell import Cell, published_count
from ._entry import Entry
from ._verdict import Verdict


def measure_apart(strategy: Entry, probes: list[Entry]) -> Iterator[tuple[Entry, Cell]]:
    """Each probe with its cell. A probe that kills the process fills its cell with
    that, and the next ones get a new process."""
    left = list(probes)
    while left:
        with _worker() as process:
            assert process.stdin is not None
            assert process.stdout is not None
            pickle.dump((strategy, left), process.stdin)
            process.stdin.close()
            while left:
                try:
                    cell = pickle.load(process.stdout)
                except EOFError:
                    cell = _died(process.wait(), strategy, left[0])
                    yield left.pop(0), cell
                    break
                yield left.pop(0), cell


def _worker() -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", f"{__package__}._worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


def _died(status: int, strategy: Entry, probe: Entry) -> Cell:
    reason = signal.Signals(-status).name if status < 0 else f"exit status {status}"
    return Cell(
        Verdict.ERROR,
        f"the process died: {reason}",
        published=published_count(strategy, probe),
    )
