"""A separate process for each strategy: what a library sets (netket switches to
64-bit numbers) or breaks does not affect the next."""

import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from typing import IO

from ._cell import Cell, published_count
from ._entry import Entry
from ._verdict import Verdict

TOO_LONG = 120
"""Seconds for one cell."""


def measure_apart(strategy: Entry, probes: list[Entry]) -> Iterator[tuple[Entry, Cell]]:
    """Each probe with its cell. If a probe kills the process, or never ends, its cell
    reports that, and the next probes get a new process."""
    left = list(probes)
    while left:
        with tempfile.TemporaryFile() as errors, _worker(errors) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            pickle.dump((strategy, left), process.stdin)
            process.stdin.close()
            while left:
                clock = threading.Timer(TOO_LONG, process.kill)
                clock.start()
                try:
                    cell = pickle.load(process.stdout)
                except EOFError:
                    errors.seek(0)
                    said = errors.read().decode(errors="replace")[-2000:]
                    cell = _died(process.wait(), said, strategy, left[0])
                    yield left.pop(0), cell
                    break
                finally:
                    clock.cancel()
                yield left.pop(0), cell


def _worker(errors: IO[bytes]) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", f"{__package__}._worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        env=os.environ
        | {
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "XLA_PYTHON_CLIENT_PREALLOCATE": "false",  # there is more than one process
        },
    )


def _died(status: int, said: str, strategy: Entry, probe: Entry) -> Cell:
    reason = signal.Signals(-status).name if status < 0 else f"exit status {status}"
    if status == -signal.SIGKILL:
        reason += f" (perhaps after {TOO_LONG} seconds)"
    return Cell(
        Verdict.ERROR,
        f"the process died: {reason}",
        published=published_count(strategy, probe),
        details=said,
    )
