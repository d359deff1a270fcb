"""A file that cannot be read or parsed is not checked.

## What it does

Says which files, folders or cells of a notebook were left out, and why: they may not
be read, cannot be decoded, are no Python of the version that runs `cachax lint`, or
are too big to be parsed (two million characters; that one is information).

## Why is this bad?

Nothing is known of such a file. The others are checked all the same.

## Example

```python
def f(x)
    return x
```

## Use instead

```python
def f(x):
    return x
```

## When it is fine

For files that are not meant to be parsed, such as templates and tests of parsers:
exclude them in `pyproject.toml`.
"""

from collections.abc import Iterator

from .._code import Code, Found
from .._finding import Severity

CODE = "CX001"
SEVERITY = Severity.ERROR
MENTIONS = r"(?!)"  # reported when the file is read, before any rule is asked


def check(code: Code) -> Iterator[Found]:
    yield from ()
