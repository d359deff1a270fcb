"""What a rule has found, where, and the edit that fixes it."""

import enum
from dataclasses import dataclass


class Severity(enum.Enum):
    """How bad it is: the first two make `cachax lint` fail."""

    ERROR = "error"
    WARNING = "warning"
    INFORMATION = "information"

    @property
    def fails(self) -> bool:
        return self is not Severity.INFORMATION


@dataclass(frozen=True, order=True)
class Place:
    """A line and a column of a file, both from 1; columns count characters."""

    line: int
    column: int


@dataclass(frozen=True)
class Edit:
    """The text from `start` up to `end` becomes `text`."""

    start: Place
    end: Place
    text: str


@dataclass(frozen=True)
class Fix:
    """Edits that belong together, and what they do in words."""

    message: str
    edits: tuple[Edit, ...]


@dataclass(frozen=True)
class Finding:
    """One place where a rule applies."""

    filename: str
    start: Place
    end: Place
    code: str
    name: str
    severity: Severity
    message: str
    fix: Fix | None = None
    cell: int | None = None

    @property
    def where(self) -> str:
        cell = "" if self.cell is None else f":cell {self.cell}"
        return f"{self.filename}{cell}:{self.start.line}:{self.start.column}"


def in_order(finding: Finding) -> tuple[str, int, Place, str]:
    """The key by which findings are listed."""
    return finding.filename, finding.cell or 0, finding.start, finding.code
