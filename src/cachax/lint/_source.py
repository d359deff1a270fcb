"""A file as text: its bytes decoded, its lines counted as Python counts them."""

import functools
import io
import json
import re
import tokenize
from dataclasses import dataclass

from ._finding import Place
from ._notebook import Cell, code_cells

# A tree of syntax takes about a hundred times the memory of its text.
MOST_CHARACTERS = 2_000_000
MOST_BYTES = 64_000_000  # a notebook is mostly pictures

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


class UnreadableError(Exception):
    """A file that cannot be read as Python, and why."""


class TooBigError(UnreadableError):
    """A file that is not even tried."""


@dataclass(frozen=True)
class Source:
    """The code of a file; of a notebook, its code cells one after the other."""

    filename: str
    text: str
    encoding: str = "utf-8"
    cells: tuple[Cell, ...] = ()

    @functools.cached_property
    def lines(self) -> list[str]:
        """With their ends. `str.splitlines` splits at form feeds too, Python does not.

        >>> Source("a.py", "a\\r\\nb\\x0cc").lines
        ['a\\r\\n', 'b\\x0cc']
        """
        return _LINE.findall(self.text)

    @property
    def is_notebook(self) -> bool:
        return self.filename.endswith(".ipynb")

    def place(self, line: int, utf8_offset: int) -> Place:
        """The place that a syntax tree speaks of, where columns are bytes."""
        if line > len(self.lines):
            return Place(line, 1)
        before = self.lines[line - 1].encode("utf-8", "replace")[:utf8_offset]
        return Place(line, len(before.decode("utf-8", "replace")) + 1)

    def cell_of(self, line: int) -> Cell | None:
        for cell in reversed(self.cells):
            if cell.first_line <= line:
                return cell
        return None


def from_bytes(filename: str, content: bytes) -> Source:
    """Decoded as Python does it: by the byte-order mark, the cookie, or as UTF-8.

    >>> from_bytes("a.py", "# coding: latin-1\\nx = 'ä'".encode("latin-1")).text[-2:]
    "ä'"
    """
    if len(content) > MOST_BYTES:
        raise TooBigError(f"too big to be read: {len(content):,} bytes")
    cells: tuple[Cell, ...] = ()
    try:
        if filename.endswith(".ipynb"):
            text, encoding = content.decode("utf-8-sig"), "utf-8"
            text, cells = code_cells(text)
        else:
            encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
            text = content.decode(encoding)
    except json.JSONDecodeError as error:
        raise UnreadableError(f"not a notebook: {error}") from None
    except RecursionError:
        raise UnreadableError("not a notebook: nested too deeply") from None
    except (SyntaxError, UnicodeError, LookupError) as error:
        raise UnreadableError(f"cannot be decoded: {error}") from None
    if len(text) > MOST_CHARACTERS:
        raise TooBigError(f"too big to be parsed: {len(text):,} characters")
    return Source(filename, text, encoding, cells)
