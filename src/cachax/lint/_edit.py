"""Edits applied to a text, and what they change shown as a diff."""

import difflib
from collections.abc import Iterable

from ._finding import Edit, Place
from ._source import Source


def edited(source: Source, edits: Iterable[Edit]) -> str:
    """The text with the edits made. One that is there twice is made once.

    >>> edit = Edit(Place(1, 1), Place(1, 2), "b")
    >>> edited(Source("a.py", "a = 1\\n"), [edit, edit])
    'b = 1\\n'
    """
    text = source.text
    ordered = sorted(set(edits), key=lambda edit: (edit.start, edit.end), reverse=True)
    for edit in ordered:
        start, end = _offset(source, edit.start), _offset(source, edit.end)
        text = text[:start] + edit.text + text[end:]
    return text


def _offset(source: Source, place: Place) -> int:
    return sum(map(len, source.lines[: place.line - 1])) + place.column - 1


def diff(before: Source, after: str) -> str:
    """In the unified form, empty if nothing changes."""
    name = before.filename.replace("\\", "/")
    lines = difflib.unified_diff(
        before.lines, Source(name, after).lines, f"a/{name}", f"b/{name}"
    )
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
        for line in lines
    )
