"""Publish recent decisions now and then, and compare them in a thread.

A process that waits for another inside a program can't raise anything. Its thread can
still say why.
"""

import json
import sys
import threading
import time
from collections import deque
from typing import Any, Self

from .._errors import DisagreementError
from .board import Board
from .decisions import Decision
from .differing import differing, stalled

_RECENT = 256
"""Decisions that are published: one process may be that many ahead of another."""


class Watcher:
    """The recent decisions of this process, and a thread that compares them with those
    of the others. The first process compares; all of them write what it finds."""

    def __init__(self, board: Board, every: float, timeout: float) -> None:
        self._board = board
        self._every = every
        self._timeout = timeout
        self._count = 0
        self._recent: deque[Any] = deque(maxlen=_RECENT)
        self._failed: str | None = None
        self._said = ""
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._seen: tuple[dict[int, int], float] = ({}, time.monotonic())
        self._thread = threading.Thread(
            target=self._watch, name="cachax.agree", daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(self._every + 1)
        self._look()

    def note(self, decision: Decision) -> None:
        if self._failed is not None:
            raise DisagreementError(self._failed)
        with self._lock:
            about = (decision.line, decision.digest, decision.where)
            self._recent.append((self._count, *about))
            self._count += 1

    def _watch(self) -> None:
        while not self._over.wait(self._every):
            self._look()

    def _look(self) -> None:
        if self._failed is not None:
            return
        with self._lock:
            recent = [*self._recent]
        try:
            self._board.write(f"recent/{self._board.rank}", json.dumps(recent))
            if self._board.rank == 0:
                self._compare(self._board.read_all("recent"))
            found = self._board.read_all("found")
        except RuntimeError:  # the service is gone: the program is about to end
            self._over.set()
            return
        for name, message in found.items():
            if name == "difference":
                self._failed = message
            if message != self._said:
                self._said = message
                print(f"cachax.agree: {message}", file=sys.stderr, flush=True)

    def _compare(self, published: dict[str, str]) -> None:
        """Tell all processes what is different."""
        tails = {int(rank): json.loads(text) for rank, text in published.items()}
        if len(tails) < self._board.count:
            return
        by_number = [{n: about for n, *about in tail} for tail in tails.values()]
        common = sorted(set.intersection(*map(set, by_number)))
        last = ""
        for number in common:
            found = {r: Decision(*each[number]) for r, each in enumerate(by_number)}
            if len({(x.line, x.digest) for x in found.values()}) > 1:
                message = differing(number, found, len(found), last, self._timeout)
                self._board.write("found/difference", message)
                return
            last = str(found[0])
        self._note_progress(tails)

    def _note_progress(self, tails: dict[int, Any]) -> None:
        counts = {rank: tail[-1][0] + 1 if tail else 0 for rank, tail in tails.items()}
        before, since = self._seen
        if counts != before:
            self._seen = (counts, time.monotonic())
            self._board.delete("found")
        elif len({*counts.values()}) > 1 and time.monotonic() - since > self._timeout:
            self._seen = (counts, float("inf"))  # said once
            last = {
                rank: (counts[rank], str(Decision(*tail[-1][1:])) if tail else "-")
                for rank, tail in tails.items()
            }
            self._board.write("found/stall", stalled(last, self._timeout))
