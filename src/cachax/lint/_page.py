"""The pages of the rules, for `--explain` and for docs/lint.md."""

import re
from pathlib import Path

from ._rule import Rule, known_rules

_START, _END = "<!-- rules -->\n", "<!-- end -->\n"


def page(rule: Rule) -> str:
    """One rule, in Markdown."""
    title = f"{rule.code}: {rule.name}"
    fixable = " `--fix` fixes it where that is safe." if rule.fixable else ""
    summary, _, rest = rule.page.partition("\n")
    return (
        f"## {title}\n\n{summary}\n\n*Severity: {rule.severity.value}.*{fixable}\n"
        + rest.replace("\n## ", "\n### ")
    )


def table() -> str:
    """All rules in a table."""
    rows = [
        f"| [{rule.code}](#{rule.code.lower()}-{rule.name}) | {rule.name} "
        f"| {rule.severity.value} | {'yes' if rule.fixable else ''} |"
        for rule in known_rules().values()
    ]
    head = ["| code | name | severity | `--fix` |", "| --- | --- | --- | --- |"]
    return "\n".join([*head, *rows]) + "\n"


def with_rules(document: str) -> str:
    """docs/lint.md with the part between its two marks rewritten."""
    pages = "\n".join([table(), *map(page, known_rules().values())])
    between = re.compile(f"(?<={re.escape(_START)}).*?(?={re.escape(_END)})", re.DOTALL)
    return between.sub(lambda _: f"\n{pages}\n", document, count=1)


if __name__ == "__main__":
    import sys

    file = Path(sys.argv[1])
    file.write_text(with_rules(file.read_text(encoding="utf-8")), encoding="utf-8")
