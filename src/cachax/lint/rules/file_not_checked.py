"""A file that cannot be read or parsed is not checked.

## What it does

Reports files, folders and notebook cells that were left out, and why: they can't be
read or decoded, are not valid Python for the version that runs `cachax lint`, or are
too big to be parsed (two million characters; that one is information).

## Why is this bad?

The linter knows nothing about such a file. The other files are still checked.

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
