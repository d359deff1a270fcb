"""How findings are written: a file for each format, with a function `render`."""

from collections.abc import Callable, Sequence

from .._finding import Finding
from . import github, json, sarif, text

FORMATS: dict[str, Callable[[Sequence[Finding]], str]] = {
    "text": text.render,
    "json": json.render,
    "github": github.render,
    "sarif": sarif.render,
}
