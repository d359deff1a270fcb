"""Text that people read is plain English, without the words of a short list."""

import ast
import html
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "cachax"

WORDS = {
    r"anew": "again, or re-",
    r"(nobody|somebody|someone)": "you, cachax, or the passive",
    r"but for (?!example)": "except",
    r"for ever": "forever, or a finite statement",
    r"mend(s|ed|ing)?": "fix",
    r"real numbers?": "concrete values",
    r"of (its|their) own": "its own, or separate",
    r"can(not)? be told": "unknown, or cachax can't tell",
    r"(became|becomes?) of": "happened to",
    r"ask(s|ed|ing)? (for|of)": "read, or used",
    r"(?<!there )(is|are|was|were) no (?!longer|more\b|t\b)": "is not a",
    r"(shelf|shelves|kin|mould|lent|loan|makeup|at hand)": "a word that JAX users know",
    r"ways? of caching": "approach",
    r"right (derivative|gradient|value|result|answer|batch)\w*": "correct",
    r"(is|are|be|was|stay|stays|still) right": "correct",
    r"(the|a) way out": "what to do instead",
    r"(is|are|was|were) (not )?(seen|noticed)": "detected",
    r"(?<!can't )(tells?|told) (what|which|how|whether|why|that)": "reports, or says",
    r"believed": "not verified",
    r"in hand": "a plain description",
    r"gradient by": "gradient with respect to",
}
"""What not to write, as a regular expression, and what to write instead."""

PACKAGES = ("_core", "_jit", "_report", "_check")

NOT_YET = [
    *SOURCE.glob("_*.py"),
    SOURCE / "testing.py",
    SOURCE / "pytest_plugin.py",
    *(x for p in PACKAGES for x in (SOURCE / p).rglob("*.*")),
    *(SOURCE / "lint").rglob("*.py"),
    *(ROOT / "docs" / "rules").glob("*.md"),
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
]
"""Files that are being rewritten. Take them off this list when they are done."""

DONE = [
    SOURCE / "__main__.py",
    SOURCE / "_run.py",
    SOURCE / "_terminal.py",
    SOURCE / "lint" / "_command.py",
    SOURCE / "lint" / "_page.py",
    *(SOURCE / "lint" / "formats").glob("*.py"),
]
"""Files of those that are checked nevertheless."""

FILES = sorted(
    {
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "docs" / "examples").glob("*.ipynb"),
        *(ROOT / "examples").glob("*.py"),
        *SOURCE.rglob("*.py"),
        *SOURCE.rglob("*.html"),
    }
    - ({*NOT_YET} - {*DONE})
)


def text_of(path: Path) -> str:
    """What a person reads in a file: prose, docstrings and messages, without code."""
    content = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return markdown(content)
    if path.suffix == ".ipynb":
        cells = json.loads(content)["cells"]
        prose = ["".join(c["source"]) for c in cells if c["cell_type"] == "markdown"]
        return markdown("\n\n".join(prose))
    if path.suffix == ".html":
        shown = re.sub(r"<(style|script).*?</\1>", "", content, flags=re.DOTALL)
        return html.unescape(re.sub(r"<[^>]*>", " ", shown))
    return "\n\n".join([*strings(content), *prose_of_script(content)])


def markdown(content: str) -> str:
    """Without blocks of code, code in a line, comments and the targets of links."""
    blocks = r"^```.*?^```|<!--.*?-->"
    prose = re.sub(blocks, "", content, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`]*`|\]\([^)]*\)|^\(.*\)=$", "", prose, flags=re.MULTILINE)


def strings(content: str) -> Iterator[str]:
    """Every string: docstrings, messages and help."""
    for node in ast.walk(ast.parse(content)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield re.sub(r"`[^`\n]*`", "", node.value)


def prose_of_script(content: str) -> Iterator[str]:
    """The Markdown cells of a script that becomes a notebook."""
    for cell in re.findall(r"^# %% \[markdown\]\n((?:#.*\n)+)", content, flags=re.M):
        yield markdown(re.sub(r"^# ?", "", cell, flags=re.MULTILINE))


def found_in(text: str) -> list[str]:
    """A line for each word of the list."""
    plain = re.sub(r"\s+", " ", text)
    return [
        f"“{plain[max(0, m.start() - 30) : m.end() + 30]}”: write {instead}"
        for word, instead in WORDS.items()
        for m in re.finditer(rf"\b{word}\b", plain, re.I)
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_words_are_plain(path: Path) -> None:
    assert found_in(text_of(path)) == []


@pytest.mark.parametrize("word", ["anew", "is no leaf", "Somebody", "the right value"])
def test_a_word_of_the_list_is_found(word: str) -> None:
    assert len(found_in(f"It {word} here.")) == 1


@pytest.mark.parametrize("words", ["there is no leaf", "is no longer", "right angles"])
def test_other_words_are_not(words: str) -> None:
    assert found_in(f"It {words} here.") == []


def test_code_is_not_prose() -> None:
    page = "Fine `anew`.\n\n```python\nanew = 1\n```\n[x](anew.md)\n<!-- anew -->\n"
    assert found_in(markdown(page)) == []
    assert found_in("\n".join(strings("def anew(): 'made anew'"))) != []


def test_the_files_are_found() -> None:
    names = {path.name for path in FILES}
    assert {"README.md", "laws.md", "page.html", "field.py", "_command.py"} <= names
