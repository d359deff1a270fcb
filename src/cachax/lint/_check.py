"""One file checked: parsed, checked by every rule, the silenced findings left out."""

import re
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

from ._code import Code, Found
from ._finding import Finding, Place, Severity
from ._module import PARSE_ERRORS, parse
from ._noqa import silenced
from ._project import Project
from ._rule import Rule, known_rules
from ._source import Source, TooBigError, UnreadableError
from ._to_cachax import to_cachax

NOT_CHECKED = "CX001"

# A text that has none of these words has nothing to do with JAX.
_ABOUT_JAX = re.compile(
    r"[Jj]ax|jnp|flax|nnx|equinox|eqx|chex|pytree|Array|numpyro|netket|penzai|zodiax|zdx|tfp"
    r"|distrax|cachax|\.at\s*\["
)


def check(
    source: Source,
    codes: Collection[str],
    project: Project | None = None,
    path: Path | None = None,
) -> list[Finding]:
    """What the rules with these codes find in a text.

    >>> text = "import jax.numpy as jnp\\nx = jnp.ones(3)\\nx.at[0].set(1)\\n"
    >>> [finding.where for finding in check(Source("a.py", text), {"CX401"})]
    ['a.py:3:1']
    """
    broken: list[Finding] = []
    if source.cells:
        source, broken = _without_broken_cells(source)
    rules = [r for c, r in known_rules().items() if c in codes]
    rules = [rule for rule in rules if rule.applies_to(source.text)]
    about_jax = rules and _ABOUT_JAX.search(source.text)
    if not about_jax and NOT_CHECKED not in codes:
        return []
    try:
        tree = parse(source.text)
    except PARSE_ERRORS as error:
        return _chosen([_unparsed(source, error)], codes)
    if not about_jax:
        return broken
    project = Project() if project is None else project
    code = Code(source, project.module(tree, path), project)
    return sorted(
        [*_chosen(broken, codes), *_findings(code, rules)],
        key=lambda finding: (finding.cell or 0, finding.start, finding.code),
    )


def not_checked(filename: str, error: Exception) -> Finding:
    """The finding for a file that could not even be read."""
    rule = known_rules()[NOT_CHECKED]
    severity = Severity.INFORMATION if isinstance(error, TooBigError) else rule.severity
    place = Place(1, 1)
    return Finding(filename, place, place, rule.code, rule.name, severity, str(error))


def _findings(code: Code, rules: list[Rule]) -> list[Finding]:
    silence = silenced(code.source.text)
    found = {}
    for rule in rules:
        for one in rule.check(code):
            finding = _finding(rule, one, code.source)
            if not silence.covers(finding):
                found[finding] = one
    fix, safe = to_cachax(code, [one.replaceable for one in found.values()])
    fixed = [
        replace(finding, fix=fix) if one.replaceable in safe else finding
        for finding, one in found.items()
    ]
    return [_in_cell(finding, code.source) for finding in fixed]


def _finding(rule: Rule, found: Found, source: Source) -> Finding:
    node = found.node
    return Finding(
        filename=source.filename,
        start=source.place(node.lineno, node.col_offset),
        end=source.place(node.end_lineno or node.lineno, node.end_col_offset or 0),
        code=rule.code,
        name=rule.name,
        severity=found.severity or rule.severity,
        message=found.message,
    )


def _unparsed(source: Source, error: BaseException) -> Finding:
    line = getattr(error, "lineno", None) or 1
    column = getattr(error, "offset", None) or 1
    what = getattr(error, "msg", None) or str(error) or type(error).__name__
    finding = not_checked(source.filename, UnreadableError(f"cannot be parsed: {what}"))
    place = Place(max(line, 1), max(column, 1))
    return _in_cell(replace(finding, start=place, end=place), source)


def _in_cell(finding: Finding, source: Source) -> Finding:
    """With the lines of its notebook cell, and no fix: the file is not Python text."""
    cell = source.cell_of(finding.start.line)
    if cell is None:
        return finding
    before = cell.first_line - 1
    return replace(
        finding,
        start=Place(finding.start.line - before, finding.start.column),
        end=Place(finding.end.line - before, finding.end.column),
        cell=cell.number,
        fix=None,
    )


def _without_broken_cells(source: Source) -> tuple[Source, list[Finding]]:
    """Cells that do not parse made empty, and a finding for each of them."""
    lines = list(source.lines)
    broken: list[Finding] = []
    for start, end in _spans(source):
        try:
            parse("".join(lines[start:end]))
        except PARSE_ERRORS as error:
            finding = _unparsed(replace(source, cells=()), error)
            moved = replace(
                finding,
                start=Place(finding.start.line + start, finding.start.column),
                end=Place(finding.end.line + start, finding.end.column),
            )
            broken.append(_in_cell(moved, source))
            lines[start:end] = ["\n"] * (end - start)
    return replace(source, text="".join(lines)), broken


def _spans(source: Source) -> Iterator[tuple[int, int]]:
    firsts = [cell.first_line - 1 for cell in source.cells]
    yield from zip(firsts, [*firsts[1:], len(source.lines)], strict=True)


def _chosen(findings: list[Finding], codes: Collection[str]) -> list[Finding]:
    return [finding for finding in findings if finding.code in codes]
