"""Everything public, one line each: what `docs/stability.md` promises to keep.

`python tests/public_api.py --write` (`make api`) writes it to `public_api.txt`, and
`test_public_api.py` compares the two. Annotations are left out: Python versions print
them differently, and `tests/typing` checks the types.
"""

import argparse
import ast
import inspect
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

WITH_MEMBERS = {"Explanation", "Finding", "NotTried", "Report"}
"""Of other classes only the names are public: their methods are called by Python."""
FILE = Path(__file__).with_suffix(".txt")


def lines() -> list[str]:
    import cachax.testing

    return [
        "# Names, their parameters and members",
        *of_module(cachax, cachax.__all__),  # type: ignore[attr-defined]
        *of_jitted(cachax.jit(lambda x: x)),
        *of_module(cachax.testing, exported(cachax.testing)),
        "",
        "# Commands",
        *of_commands(),
        "",
        "# Options of pytest",
        *of_pytest(),
        "",
        "# Lint: settings in pyproject.toml, rules",
        *of_lint(),
    ]


def exported(module: ModuleType) -> list[str]:
    """The names a module defines, and those it imports as themselves."""
    names = getattr(module, "__all__", None)
    if names is not None:
        return list(names)
    found = []
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found += [node.name]
        if isinstance(node, ast.ImportFrom):
            found += [alias.name for alias in node.names if alias.asname == alias.name]
    return [name for name in found if not name.startswith("_")]


def of_module(module: ModuleType, names: list[str]) -> Iterator[str]:
    for name in sorted(names):
        value = getattr(module, name)
        full = f"{module.__name__}.{name}"
        if not isinstance(value, type):
            yield f"{full}{signature(value)}"
        elif issubclass(value, Exception):
            bases = ", ".join(base.__name__ for base in value.__bases__)
            yield f"{full}: {bases}"
        else:
            yield f"{full}{signature(value)}"
            if name in WITH_MEMBERS:
                yield from of_members(full, value)


def of_members(full: str, value: type) -> Iterator[str]:
    for name in sorted(dir(value)):
        if not name.startswith("_"):
            member = inspect.getattr_static(value, name)
            shown = signature(member) if inspect.isfunction(member) else ""
            yield f"{full}.{name}{shown}"


def of_jitted(fun: Any) -> Iterator[str]:
    """What a function has that `jit` returns, of what JAX's has."""
    for name in ("__wrapped__", "clear_cache", "eval_shape", "lower", "trace"):
        if hasattr(fun, name):
            yield f"cachax.jit(fun).{name}"


def signature(value: Any) -> str:
    """Without annotations.

    >>> def power(base: float, /, exponent: int = 2) -> float: ...
    >>> signature(power)
    '(base, /, exponent=2)'
    """
    known = inspect.signature(value)
    bare = [p.replace(annotation=p.empty) for p in known.parameters.values()]
    return str(known.replace(parameters=bare, return_annotation=known.empty))


def of_commands() -> Iterator[str]:
    from cachax.__main__ import COMMANDS

    for command, (module, _) in sorted(COMMANDS.items()):
        parser = argparse.ArgumentParser()
        import_module(module, "cachax").add_to(parser)
        for action in parser._actions[1:]:  # the first is --help
            words = [f"cachax {command}", "/".join(action.option_strings)]
            if action.choices:
                words += ["{" + ",".join(map(str, action.choices)) + "}"]
            elif action.nargs != 0:
                words += [str(action.metavar or action.dest)]
            if action.nargs:
                words += [f"({action.nargs})"]
            yield " ".join(filter(None, words))


class PytestOptions:
    """Takes the place of pytest's parser, and remembers."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def getgroup(self, name: str) -> "PytestOptions":
        return self

    def addoption(self, *names: str, **how: Any) -> None:
        self.found += [f"pytest {'/'.join(names)} ({how.get('action', 'store')})"]

    def addini(self, name: str, help: str, type: str, default: Any) -> None:
        self.found += [f"pytest.ini {name}: {type} = {default}"]


def of_pytest() -> list[str]:
    from cachax import pytest_plugin

    options: Any = PytestOptions()
    pytest_plugin.pytest_addoption(options)
    return options.found  # type: ignore[no-any-return]


def of_lint() -> Iterator[str]:
    from cachax.lint._rule import known_rules
    from cachax.lint._settings import _LISTS, _TABLE

    for name in (*_LISTS, _TABLE):
        yield f"tool.cachax.lint {name}"
    for code, rule in sorted(known_rules().items()):
        yield f"{code} {rule.name} ({rule.severity.value})"


if __name__ == "__main__":
    text = "\n".join(lines()) + "\n"
    if sys.argv[1:] == ["--write"]:
        FILE.write_text(text)
    else:
        sys.stdout.write(text)
