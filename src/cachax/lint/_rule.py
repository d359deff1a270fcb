"""The rules: one for each file of a folder, with its page and its check."""

import functools
import importlib
import pkgutil
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ._code import Code, Found
from ._finding import Severity

SECTIONS = (
    "What it does",
    "Why is this bad?",
    "Example",
    "Use instead",
    "When it is fine",
)


@dataclass(frozen=True)
class Rule:
    """A rule, from the file that bears its name."""

    code: str
    name: str
    severity: Severity
    fixable: bool
    page: str  # Markdown: the first line says it in a sentence, then the sections
    mentions: re.Pattern[str]  # a text without this needs no check
    check: Callable[[Code], Iterator[Found]]

    @property
    def summary(self) -> str:
        return self.page.partition("\n")[0]

    def section(self, title: str) -> str:
        """The text of a section of its page."""
        _, _, rest = self.page.partition(f"## {title}\n")
        return rest.partition("\n## ")[0].strip()

    def applies_to(self, text: str) -> bool:
        return self.mentions.search(text) is not None


@functools.cache
def known_rules() -> dict[str, Rule]:
    """All rules by code, in order."""
    from . import rules

    found = [
        _load(f"{rules.__name__}.{info.name}", info.name)
        for info in pkgutil.iter_modules(rules.__path__)
    ]
    return {rule.code: rule for rule in sorted(found, key=lambda rule: rule.code)}


def _load(module: str, name: str) -> Rule:
    file = importlib.import_module(module)
    sections = re.findall(r"^## (.*)$", file.__doc__ or "", flags=re.MULTILINE)
    assert tuple(sections) == SECTIONS, f"the page of {module} is not whole: {sections}"
    return Rule(
        code=file.CODE,
        name=name.replace("_", "-"),
        severity=file.SEVERITY,
        fixable=getattr(file, "FIXABLE", False),
        page=(file.__doc__ or "").strip() + "\n",
        mentions=re.compile(file.MENTIONS),
        check=file.check,
    )
