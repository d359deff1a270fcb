"""Start the processes of a program, wait for them, and end those that hang."""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xla_flags import COMPILE_QUICKLY

TESTS = Path(__file__).parent.parent
DEVICES = 2
"""Of each process."""
_AFTER_A_FAILURE = 5.0
"""Seconds that the others have to end when one has failed."""


@dataclass
class Ended:
    """What one process has left behind."""

    code: int | None
    """None if it was ended because it hung."""
    results: dict[str, Any] = field(default_factory=dict)
    decisions: list[str] = field(default_factory=list)
    errors: str = ""

    def __str__(self) -> str:
        how = "hung, and was ended" if self.code is None else f"ended with {self.code}"
        last = [f"    {line}" for line in self.decisions[-5:]] or ["    none"]
        return "\n".join([how, "  its last decisions:", *last, self.errors[-2000:]])


def run(
    program: str, count: int, timeout: float = 180.0, environment: Any = None
) -> list[Ended]:
    """Run `module:function` in so many processes. What the function yields, pairs of a
    name and something that JSON can write, are its results."""
    with tempfile.TemporaryDirectory() as folder:
        port = _free_port()
        processes = [
            _start(program, rank, count, port, Path(folder), environment or {})
            for rank in range(count)
        ]
        until = time.monotonic() + timeout
        while time.monotonic() < until:
            codes = [process.poll() for process in processes]
            if None not in codes:
                break
            if any(codes):
                until = min(until, time.monotonic() + _AFTER_A_FAILURE)
            time.sleep(0.05)
        for process in processes:
            process.kill()
            process.wait()
        return [_read(Path(folder), rank, code) for rank, code in enumerate(codes)]


def all_well(ended: list[Ended]) -> None:
    """Fails if a process hung, or ended with an error."""
    said = [f"process {rank} {each}" for rank, each in enumerate(ended)]
    assert all(each.code == 0 for each in ended), "\n".join(said)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def _start(
    program: str, rank: int, count: int, port: int, folder: Path, environment: Any
) -> subprocess.Popen[bytes]:
    flags = " ".join(COMPILE_QUICKLY)
    devices = f"--xla_force_host_platform_device_count={DEVICES}"
    # JAX keeps compiled programs on disk, but not those of several processes.
    path = os.pathsep.join(dict.fromkeys([str(TESTS), *filter(None, sys.path)]))
    ours = {"PYTHONPATH": path, "XLA_FLAGS": f"{flags} {devices}"}
    with (folder / f"{rank}.errors").open("wb") as errors:
        return subprocess.Popen(
            [
                sys.executable,
                *("-m", "processes.worker", program),
                *map(str, (rank, count, port, folder / str(rank))),
            ],
            env=os.environ | ours | environment,
            stdout=errors,
            stderr=errors,
        )


def _read(folder: Path, rank: int, code: int | None) -> Ended:
    ended = Ended(code, errors=(folder / f"{rank}.errors").read_text(errors="replace"))
    for line in _lines(folder / f"{rank}.results"):
        name, result = json.loads(line)
        ended.results[name] = result
    ended.decisions = _lines(folder / f"{rank}.decisions")
    return ended


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []
