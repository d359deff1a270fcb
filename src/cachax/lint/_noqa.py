"""Comments that silence a finding: `# noqa`, `# noqa: CX101`, `# cachax: noqa`."""

import contextlib
import io
import re
import tokenize
from dataclasses import dataclass, field

from ._finding import Finding

_COMMENT = re.compile(
    r"#\s*(?P<file>cachax:\s*)?noqa"
    r"(?P<codes>\s*:\s*[A-Z]+[0-9]*(?:[\s,]+[A-Z]+[0-9]+)*)?(?=$|[^\w:])",
    re.IGNORECASE,
)
_CODE = re.compile(r"[A-Z]+[0-9]*", re.IGNORECASE)


@dataclass
class Silenced:
    """Which codes are silenced where. The code "" stands for all of them."""

    in_file: set[str] = field(default_factory=set)
    in_line: dict[int, set[str]] = field(default_factory=dict)

    def covers(self, finding: Finding) -> bool:
        lines = (finding.start.line, finding.end.line)
        codes = self.in_file.union(*(self.in_line.get(line, ()) for line in lines))
        return any(finding.code.startswith(code) for code in codes)


def silenced(text: str) -> Silenced:
    """Read from the comments of a text; a string that looks like one is none.

    >>> silenced("x = 1  # noqa: CX101\\ny = '# noqa'").in_line
    {1: {'CX101'}}
    """
    found = Silenced()
    if "noqa" not in text.lower():
        return found
    # A text that parses may still be none to `tokenize`: what came before is kept.
    with contextlib.suppress(tokenize.TokenError, SyntaxError):
        for token in tokenize.generate_tokens(io.StringIO(text, newline="").readline):
            if token.type == tokenize.COMMENT:
                _add(token, found)
    return found


def _add(token: tokenize.TokenInfo, found: Silenced) -> None:
    for comment in _COMMENT.finditer(token.string):
        listed = _CODE.findall(comment["codes"] or "")
        codes = {code.upper() for code in listed} or {""}
        if comment["file"]:
            found.in_file |= codes
        else:
            found.in_line.setdefault(token.start[0], set()).update(codes)
