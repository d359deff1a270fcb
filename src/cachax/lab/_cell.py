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
    """The result of one probe on one strategy."""

    verdict: Verdict
    what_happened: str
    work: int | None = None
    """How many computations (compilations, bytes) there were, if the probe counts."""
    published: int | None = None
    """How many there were in the published experiment."""
    warned: tuple[str, ...] = ()
    details: str = ""
    """The whole message of an error."""

    @property
    def disagrees(self) -> bool:
        """With the published experiment."""
        is_known = self.published is not None and self.verdict is not Verdict.ABSENT
        return is_known and self.published != self.work


def measure(strategy: Entry, probe: Entry) -> Cell:
    """Run it; an error is a result too."""
    published = published_count(strategy, probe)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            found: Measured = probe.load().measure(strategy.load().way)
            verdict, what, work = found.verdict, found.what_happened, found.work
            details = ""
        except Exception as error:
            verdict = Verdict.ABSENT if _is_missing(error) else Verdict.ERROR
            what = first_line(error)
            if verdict is Verdict.ERROR:
                what = f"{type(error).__name__}: {what}"
            work, details = None, _without_places(error)
    return Cell(verdict, what, work, published, tuple(_words(warned)), details)


def _is_missing(error: Exception) -> bool:
    """Whether a library is missing, or something in it; not a mistake in how the lab
    itself is used."""
    is_ours = (getattr(error, "name", None) or "").startswith("cachax")
    return isinstance(error, ImportError) and not is_ours


def published_count(strategy: Entry, probe: Entry) -> int | None:
    counts: dict[str, int] = probe.constant("PUBLISHED", {})
    return counts.get(strategy.name)


def first_line(error: object) -> str:
    return _without_places(error).partition("\n")[0] or "(no message)"


def _without_places(error: object) -> str:
    """The message, less what differs from run to run and machine to machine."""
    text = str(error).strip().replace(f"{Path(__file__).parent}/", "")
    return re.sub(r" at 0x[0-9a-f]+", "", text)


def _words(warned: Iterable[warnings.WarningMessage]) -> Iterator[str]:
    yield from dict.fromkeys(first_line(each.message) for each in warned)
