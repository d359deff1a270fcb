"""For programs: a list of objects."""

import json
from collections.abc import Sequence
from typing import Any

from .._finding import Edit, Finding, Place


def render(findings: Sequence[Finding]) -> str:
    return json.dumps([_object(finding) for finding in findings], indent=2) + "\n"


def _object(finding: Finding) -> dict[str, Any]:
    fix = finding.fix
    return {
        "filename": finding.filename,
        "cell": finding.cell,
        "line": finding.start.line,
        "column": finding.start.column,
        "end_line": finding.end.line,
        "end_column": finding.end.column,
        "code": finding.code,
        "name": finding.name,
        "severity": finding.severity.value,
        "message": finding.message,
        "fix": fix and {"message": fix.message, "edits": [*map(_edit, fix.edits)]},
    }


def _edit(edit: Edit) -> dict[str, Any]:
    return {"start": _place(edit.start), "end": _place(edit.end), "text": edit.text}


def _place(place: Place) -> dict[str, int]:
    return {"line": place.line, "column": place.column}
