"""The pages of the rules, for `--explain` and for the docs."""

import re
from pathlib import Path

from ._rule import Rule, known_rules

_START, _END = "<!-- rules -->\n", "<!-- end -->\n"


def page(rule: Rule) -> str:
    """One rule, in Markdown."""
    fixable = " `--fix` fixes it where that is safe." if rule.fixable else ""
    summary, _, rest = rule.page.partition("\n")
    return (
        f"# {rule.code}: {rule.name}\n\n{summary}\n\n"
        f"*Severity: {rule.severity.value}.*{fixable}\n{rest}"
    )


def table() -> str:
    """All rules in a table, with links to their pages."""
    rows = [
        f"| [{rule.code}](rules/{rule.code}.md) | {rule.name} "
        f"| {rule.severity.value} | {'yes' if rule.fixable else ''} |"
        for rule in known_rules().values()
    ]
    head = ["| code | name | severity | `--fix` |", "| --- | --- | --- | --- |"]
    return "\n".join([*head, *rows]) + "\n"


def with_rules(document: str) -> str:
    """docs/lint.md with the current table between its two marks."""
    between = re.compile(f"(?<={re.escape(_START)}).*?(?={re.escape(_END)})", re.DOTALL)
    return between.sub(lambda _: f"\n{table()}\n", document, count=1)


def write(document: Path) -> None:
    """Update the table in `document`, and write a page for each rule beside it."""
    text = document.read_text(encoding="utf-8")
    document.write_text(with_rules(text), encoding="utf-8")
    folder = document.parent / "rules"
    folder.mkdir(exist_ok=True)
    for old in folder.glob("CX*.md"):
        old.unlink()
    for rule in known_rules().values():
        (folder / f"{rule.code}.md").write_text(page(rule), encoding="utf-8")


if __name__ == "__main__":
    import sys

    write(Path(sys.argv[1]))
