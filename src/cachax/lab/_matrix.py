"""Strategies by probes."""

import importlib.metadata
import os
import platform
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any

import jax

import cachax

from . import probes, strategies
from ._apart import measure_apart
from ._cell import Cell
from ._entry import Entry, chosen, entries
from ._groups import groups
from ._verdict import Verdict

PEERS = ["flax", "equinox", "chex", "optax", "netket", "numpyro", "distrax", "lineax"]


def known_strategies() -> dict[str, Entry]:
    return entries(strategies)


def known_probes() -> dict[str, Entry]:
    return entries(probes)


@dataclass
class Matrix:
    """The strategies and probes of a run, and the result of each pair."""

    strategies: list[Entry]
    probes: list[Entry]
    cells: dict[tuple[str, str], Cell] = field(default_factory=dict)

    def row(self, strategy: Entry) -> list[Cell]:
        return self.row_of(strategy.name)

    def row_of(self, strategy: str) -> list[Cell]:
        return [self.cells[strategy, probe.name] for probe in self.probes]

    def count(self, strategy: Entry) -> Counter[Verdict]:
        return Counter(cell.verdict for cell in self.row(strategy))

    @property
    def ranked(self) -> list[Entry]:
        """The strategies, those with most correct cells first; the absent ones last."""

        def rank(strategy: Entry) -> tuple[int, int, str]:
            count = self.count(strategy)
            return count[Verdict.ABSENT], -count[Verdict.RIGHT], strategy.name

        return sorted(self.strategies, key=rank)

    @property
    def published(self) -> Iterator[tuple[str, str, Cell]]:
        """The cells that the published experiment has a count for."""
        for (strategy, probe), cell in self.cells.items():
            if cell.published is not None and cell.verdict is not Verdict.ABSENT:
                yield strategy, probe, cell

    @property
    def versions(self) -> dict[str, str]:
        """Of Python, JAX and the libraries that the strategies come from."""
        found = {
            "python": platform.python_version(),
            "jax": jax.__version__,
            "cachax": cachax.__version__,
        }
        for name in PEERS:
            try:
                found[name] = importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                continue
        return found

    def to_dict(self) -> dict[str, Any]:
        """Everything, as JSON takes it."""
        return {
            "versions": self.versions,
            "strategies": [_described(entry) for entry in self.ranked],
            "groups": [asdict(group) for group in groups(self.probes)],
            "probes": [_described(entry) for entry in self.probes],
            "cells": [
                {
                    "strategy": strategy,
                    "probe": probe,
                    "verdict": cell.verdict.value,
                    "what_happened": cell.what_happened,
                    "work": cell.work,
                    "published": cell.published,
                    "disagrees": cell.disagrees,
                    "warned": list(cell.warned),
                    "details": cell.details,
                }
                for (strategy, probe), cell in sorted(self.cells.items())
            ],
        }


def _described(entry: Entry) -> dict[str, str]:
    return {
        "name": entry.name,
        "title": entry.title,
        "explanation": entry.explanation,
        "code": entry.code,
    }


def run(
    strategies: Iterable[str] | None = None,
    probes: Iterable[str] | None = None,
    progress: Callable[[str, str], None] = lambda strategy, probe: None,
) -> Matrix:
    """Measure these strategies with these probes (all, where none is named).

    Each strategy runs in its own process. `progress` is called for every cell that is
    finished, one at a time.

    >>> matrix = run(["functools_dataclass"], ["order_use_use"])
    >>> matrix.cells["functools_dataclass", "order_use_use"].what_happened
    '2 computations; 1 is enough'
    """
    matrix = Matrix(
        chosen(known_strategies(), strategies), chosen(known_probes(), probes)
    )
    one_at_a_time = threading.Lock()
    stopped = threading.Event()

    def measure_row(strategy: Entry) -> None:
        for probe, cell in measure_apart(strategy, matrix.probes):
            if stopped.is_set():
                return
            with one_at_a_time:
                matrix.cells[strategy.name, probe.name] = cell
                progress(strategy.name, probe.name)

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        try:
            for _ in pool.map(measure_row, matrix.strategies):
                pass
        except BaseException:
            stopped.set()
            raise
    return matrix
