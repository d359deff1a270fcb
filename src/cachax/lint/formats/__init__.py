"""The output formats: a function for each, in a file of its kind."""

from collections.abc import Callable, Sequence

from .._finding import Finding
from . import github, json, sarif, text

FORMATS: dict[str, Callable[[Sequence[Finding]], str]] = {
    "text": text.render,
    "concise": text.concise,
    "json": json.render,
    "github": github.render,
    "sarif": sarif.render,
}
