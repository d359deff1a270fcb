"""For GitHub's workflows: commands that become annotations of a pull request."""

from collections.abc import Sequence

from .._finding import Finding, Severity

_COMMANDS = {
    Severity.ERROR: "error",
    Severity.WARNING: "warning",
    Severity.INFORMATION: "notice",
}


def render(findings: Sequence[Finding]) -> str:
    return "".join(f"{_command(finding)}\n" for finding in findings)


def _command(finding: Finding) -> str:
    # In a notebook, lines are those of a cell, which GitHub does not know.
    place = {
        "file": finding.filename,
        "line": finding.start.line if finding.cell is None else 1,
        "endLine": finding.end.line if finding.cell is None else 1,
        "col": finding.start.column,
        "title": f"{finding.code} {finding.name}",
    }
    properties = ",".join(f"{key}={_property(value)}" for key, value in place.items())
    message = _data(f"{finding.where}: {finding.code} {finding.message}")
    return f"::{_COMMANDS[finding.severity]} {properties}::{message}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(value: object) -> str:
    return _data(str(value)).replace(":", "%3A").replace(",", "%2C")
