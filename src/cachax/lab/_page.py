"""The matrix as one page that needs nothing but itself."""

import html
import json
from importlib.resources import files
from typing import Any

from ._looks import LOOKS, sign
from ._matrix import Matrix
from ._program import RUN


def page(matrix: Matrix) -> str:
    """HTML with style, script and data inside; no request leaves it."""
    data = matrix.to_dict()
    entries = [*matrix.ranked, *matrix.probes]
    described = [*data["strategies"], *data["probes"]]
    for entry, description in zip(entries, described, strict=True):
        del description["code"]
        description["imports"] = entry.imports
        description["body"] = _coloured(entry.body)
    for cell in data["cells"]:
        cell["sign"] = sign(matrix.cells[cell["strategy"], cell["probe"]])
    data["looks"] = [
        {"verdict": verdict.value, "sign": look.sign, "meaning": look.meaning}
        for verdict, look in LOOKS.items()
    ]
    data["run"] = _coloured(RUN)
    template = files(__package__).joinpath("page.html").read_text("utf-8")
    before, after = template.split('"results"')  # there once, or this fails
    return before + _script(data) + after


def _script(data: Any) -> str:
    """JSON that cannot end the element it is in."""
    return json.dumps(data).replace("<", "\\u003c")


def _coloured(code: str) -> str:
    try:
        from pygments import highlight
        from pygments.formatters import HtmlFormatter
        from pygments.lexers import PythonLexer
    except ImportError:
        return html.escape(code)
    coloured: str = highlight(code, PythonLexer(), HtmlFormatter(nowrap=True))
    return coloured
