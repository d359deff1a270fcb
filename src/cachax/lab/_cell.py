"""One cell: one probe on one strategy, in fresh state."""

import re
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ._entry import Entry
from ._verdict import Measured, Verdict


@dataclass(frozen=True)
class Cell:
    """What one probe found out about one strategy."""

    verdict: Verdict
    what_happened: str
    work: int | None = None
    """How many computations (compilations, bytes) there were, if the probe counts."""
    published: int | None = None
    """How many there were in the published experiment."""
    warned: tuple[str, ...] = ()

    @property
    def disagrees(self) -> bool:
        """With the published experiment."""
        return self.published is not None and self.published != self.work


def measure(strategy: Entry, probe: Entry) -> Cell:
    """Whatever goes wrong in there is what is found."""
    published = published_count(strategy, probe)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            way, ask = strategy.load().way, probe.load().measure
        except ImportError as error:
            return Cell(Verdict.ABSENT, first_line(error), None, published)
        except Exception as error:
            return Cell(Verdict.ERROR, _named(error), None, published)
        try:
            found: Measured = ask(way)
            verdict, what, work = found.verdict, found.what_happened, found.work
        except Exception as error:
            verdict, what, work = Verdict.ERROR, _named(error), None
    return Cell(verdict, what, work, published, tuple(_words(warned)))


def published_count(strategy: Entry, probe: Entry) -> int | None:
    counts: dict[str, int] = probe.constant("PUBLISHED", {})
    return counts.get(strategy.name)


def first_line(error: object) -> str:
    """Of its message, without what differs from run to run and machine to machine."""
    text = str(error).strip().partition("\n")[0] or "(no message)"
    text = text.replace(f"{Path(__file__).parent}/", "")
    return re.sub(r" at 0x[0-9a-f]+", "", text)


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {first_line(error)}"


def _words(warned: Iterable[warnings.WarningMessage]) -> Iterator[str]:
    yield from dict.fromkeys(first_line(each.message) for each in warned)
