"""The page of every rule: whole, true, and the same in the docs."""

import re
from pathlib import Path
from typing import Any

import pytest

from cachax.lint import Rule, known_rules
from cachax.lint._page import page, table, with_rules, write
from cachax.lint._rule import SECTIONS

from linted import code_in, linted

ROOT = Path(__file__).parent.parent.parent
RULES = list(known_rules().values())
BY_CODE = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)


def test_codes_and_names_are_unlike() -> None:
    assert len({rule.code for rule in RULES}) == len({rule.name for rule in RULES})
    assert [rule.code for rule in RULES] == sorted(rule.code for rule in RULES)
    assert all(re.fullmatch(r"CX\d\d\d", rule.code) for rule in RULES)


@BY_CODE
def test_a_page_has_all_sections_and_no_other(rule: Rule) -> None:
    assert tuple(re.findall(r"^## (.*)$", rule.page, flags=re.M)) == SECTIONS
    assert all(rule.section(title) for title in SECTIONS)
    assert rule.summary.endswith(".")


@BY_CODE
def test_the_example_is_found_by_its_rule(rule: Rule) -> None:
    found = linted(code_in(rule, "Example"))
    assert rule.code in {f.code for f in found if f.severity.fails}


@BY_CODE
def test_what_to_use_instead_is_fine_and_runs(rule: Rule) -> None:
    code = code_in(rule, "Use instead")
    assert linted(code) == []
    if not code.startswith("def f(x)"):
        for library in re.findall(r"^(?:import|from) (\w+)", code, flags=re.M):
            pytest.importorskip(library)
    namespace: dict[str, Any] = {"__name__": "instead"}
    exec(code, namespace)
    assert len(namespace) > 2


@BY_CODE
def test_a_rule_is_fixable_if_its_example_is(rule: Rule) -> None:
    found = [f for f in linted(code_in(rule, "Example")) if f.code == rule.code]
    assert any(f.fix for f in found) is rule.fixable


def test_the_docs_have_a_page_for_each_rule() -> None:
    """`make pages` writes them."""
    docs = ROOT / "docs"
    document = (docs / "lint.md").read_text(encoding="utf-8")
    assert with_rules(document) == document
    assert table() in document
    pages = {path.stem: path for path in (docs / "rules").glob("*.md")}
    assert pages.keys() == known_rules().keys()
    for code, rule in known_rules().items():
        assert pages[code].read_text(encoding="utf-8") == page(rule)


def test_writing_the_pages_removes_old_ones(tmp_path: Path) -> None:
    document = tmp_path / "lint.md"
    document.write_text("<!-- rules -->\n<!-- end -->\n")
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "CX999.md").write_text("old")
    write(document)
    pages = {path.stem for path in (tmp_path / "rules").iterdir()}
    assert pages == known_rules().keys()
    assert "[CX101](rules/CX101.md)" in document.read_text()
