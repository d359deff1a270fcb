"""Text that people read is plain English, without the words of a short list."""

import ast
import html
import io
import json
import re
import tokenize
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
    r"(derivative|gradient|value|result|answer)s? right": "correct",
    r"(carried in(to)?|brought out)": "passed in, returned",
}
"""What not to write, as a regular expression, and what to write instead."""

WORDS_IN_NAMES = WORDS | {
    r"another": "a different, a second",
    r"ways?": "approach, version, path",
    r"told": "reported, distinguished",
}
"""The same for the names of tests."""

FILES = sorted(
    {
        *ROOT.glob("*.md"),
        ROOT / "Makefile",
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "docs" / "examples").glob("*.ipynb"),
        *(ROOT / "examples").glob("*.py"),
        *SOURCE.rglob("*.py"),
        *SOURCE.rglob("*.html"),
    }
)


def text_of(path: Path) -> str:
    """What a person reads in a file: prose, docstrings and messages, without code."""
    content = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return markdown(content)
    if path.suffix == ".ipynb":
        cells = json.loads(content)["cells"]
        prose = ["".join(c["source"]) for c in cells if c["cell_type"] == "markdown"]
        outputs = [out for cell in cells for out in cell.get("outputs", ())]
        printed = ["".join(out.get("text", ())) for out in outputs]
        return "\n\n".join([markdown("\n\n".join(prose)), *printed])
    if path.name == "Makefile":
        return content
    if path.suffix == ".html":
        shown = re.sub(r"<(style|script).*?</\1>", "", content, flags=re.DOTALL)
        return html.unescape(re.sub(r"<[^>]*>", " ", shown))
    parts = [*strings(content), *comments(content), *prose_of_script(content)]
    return "\n\n".join(parts)


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


def docstrings(content: str) -> Iterator[str]:
    """Docstrings, without the code in them."""
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef
    for node in ast.walk(ast.parse(content)):
        if isinstance(node, kinds) and (text := ast.get_docstring(node)):
            yield re.sub(r"`[^`\n]*`", "", text)


def comments(content: str) -> Iterator[str]:
    """Comments, without the code in them."""
    lines = io.StringIO(content).readline
    for token in tokenize.generate_tokens(lines):
        if token.type == tokenize.COMMENT:
            yield re.sub(r"`[^`\n]*`", "", token.string.lstrip("# "))


def prose_of_script(content: str) -> Iterator[str]:
    """The Markdown cells of a script that becomes a notebook."""
    for cell in re.findall(r"^# %% \[markdown\]\n((?:#.*\n)+)", content, flags=re.M):
        yield markdown(re.sub(r"^# ?", "", cell, flags=re.MULTILINE))


def found_in(text: str, words: dict[str, str] = WORDS) -> list[str]:
    """A line for each word of the list."""
    plain = re.sub(r"\s+", " ", text)
    return [
        f"“{plain[max(0, m.start() - 30) : m.end() + 30]}”: write {instead}"
        for word, instead in words.items()
        for m in re.finditer(rf"\b{word}\b", plain, re.I)
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_words_are_plain(path: Path) -> None:
    assert found_in(text_of(path)) == []


TESTS = sorted((ROOT / "tests").rglob("test_*.py"))


@pytest.mark.parametrize("path", TESTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_names_of_tests_are_plain(path: Path) -> None:
    names = re.findall(r"^ *def (test_\w+)", path.read_text(), flags=re.MULTILINE)
    text = "\n".join(name.replace("_", " ") for name in names)
    assert found_in(text, WORDS_IN_NAMES) == []


DEVELOPERS_READ = sorted(
    path
    for pattern in ("tests/**/*.py", "benchmarks/*.py", "docs/*.py", ".ci/*.py")
    for path in ROOT.glob(pattern)
    if path != Path(__file__)
)


@pytest.mark.parametrize(
    "path", DEVELOPERS_READ, ids=lambda path: str(path.relative_to(ROOT))
)
def test_docstrings_and_comments_are_plain(path: Path) -> None:
    content = path.read_text(encoding="utf-8")
    assert found_in("\n\n".join([*docstrings(content), *comments(content)])) == []


@pytest.mark.parametrize("word", ["anew", "is no leaf", "Somebody", "the right value"])
def test_a_word_of_the_list_is_found(word: str) -> None:
    assert len(found_in(f"It {word} here.")) == 1


@pytest.mark.parametrize("words", ["there is no leaf", "is no longer", "right angles"])
def test_other_words_are_not_found(words: str) -> None:
    assert found_in(f"It {words} here.") == []


def test_code_is_not_prose() -> None:
    page = "Fine `anew`.\n\n```python\nanew = 1\n```\n[x](anew.md)\n<!-- anew -->\n"
    assert found_in(markdown(page)) == []
    assert found_in("\n".join(strings("def anew(): 'made anew'"))) != []
    assert found_in("\n".join(comments("anew = 1  # made anew"))) != []
    assert found_in("\n".join(comments("anew = 1  # `anew`"))) == []


def test_the_files_are_found() -> None:
    names = {path.name for path in FILES}
    assert {"README.md", "laws.md", "page.html", "field.py", "_command.py"} <= names
    assert {"CONTRIBUTING.md", "_errors.py", "call.py", "CX204.md"} <= names
