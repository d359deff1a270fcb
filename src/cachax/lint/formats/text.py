"""For people: a line for each finding, then how many there are."""

from collections import Counter
from collections.abc import Sequence

from .._finding import Finding, Severity


def render(findings: Sequence[Finding]) -> str:
    lines = [_line(finding) for finding in findings]
    return "".join(f"{line}\n" for line in [*lines, *_summary(findings)])


def _line(finding: Finding) -> str:
    fixable = "[*] " if finding.fix else ""
    is_less = finding.severity is Severity.INFORMATION
    note = " (information)" if is_less else ""
    return f"{finding.where}: {finding.code} {fixable}{finding.message}{note}"


def _summary(findings: Sequence[Finding]) -> list[str]:
    if not findings:
        return ["All checks passed!"]
    counted = Counter(finding.severity for finding in findings)
    numbers = [
        (counted[Severity.ERROR], "error"),
        (counted[Severity.WARNING], "warning"),
        (counted[Severity.INFORMATION], "note"),
    ]
    parts = [f"{n} {word}{'s' * (n != 1)}" for n, word in numbers if n]
    lines = [f"Found {', '.join(parts)}."]
    fixable = sum(finding.fix is not None for finding in findings)
    if fixable:
        lines.append(f"[*] {fixable} fixable with `--fix`.")
    return lines
