"""For code scanning: the Static Analysis Results Interchange Format, 2.1.0."""

import json
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from ... import __version__
from .._finding import Finding, Place, Severity
from .._rule import Rule, known_rules

_LEVELS = {
    Severity.ERROR: "error",
    Severity.WARNING: "warning",
    Severity.INFORMATION: "note",
}


def render(findings: Sequence[Finding]) -> str:
    driver = {
        "name": "cachax lint",
        "version": __version__,
        "rules": [_rule(rule) for rule in known_rules().values()],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding) for finding in findings],
    }
    log = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [run],
    }
    return json.dumps(log, indent=2) + "\n"


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": rule.summary},
        "help": {"text": rule.page, "markdown": rule.page},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
    }


def _result(finding: Finding) -> dict[str, Any]:
    file = {"uri": PurePath(finding.filename).as_posix()}
    place = {
        "artifactLocation": file,
        "region": _region(finding.start, finding.end),
    }
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "level": _LEVELS[finding.severity],
        "message": {"text": finding.message},
        "locations": [{"physicalLocation": place}],
    }
    if finding.fix:
        replacements = [
            {
                "deletedRegion": _region(edit.start, edit.end),
                "insertedContent": {"text": edit.text},
            }
            for edit in finding.fix.edits
        ]
        change = {"artifactLocation": file, "replacements": replacements}
        message = {"text": finding.fix.message}
        result["fixes"] = [{"description": message, "artifactChanges": [change]}]
    return result


def _region(start: Place, end: Place) -> dict[str, int]:
    return {
        "startLine": start.line,
        "startColumn": start.column,
        "endLine": end.line,
        "endColumn": end.column,
    }
