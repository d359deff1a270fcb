"""The strategies and probes: one for each file of a folder."""

import ast
import contextlib
import difflib
import functools
import importlib.util
import pkgutil
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any


@dataclass(frozen=True)
class Entry:
    """A file: its docstring's first line is the title, the rest explains.

    What is needed to speak of it is read from the text, so that a file can be listed
    whose imports are not installed.
    """

    module: str
    path: Path

    @property
    def name(self) -> str:
        return self.path.stem

    @functools.cached_property
    def _tree(self) -> ast.Module:
        try:
            return ast.parse(self.path.read_text())
        except SyntaxError:  # said when it is loaded
            return ast.Module([], [])

    @property
    def title(self) -> str:
        return self._docstring[0] or self.name

    @property
    def explanation(self) -> str:
        return self._docstring[2]

    @property
    def _docstring(self) -> tuple[str, str, str]:
        first, blank, rest = (ast.get_docstring(self._tree) or "").partition("\n\n")
        return first, blank, rest

    @property
    def code(self) -> str:
        """The file without its docstring, and what it uses of the files beside it."""
        lines = self.path.read_text().splitlines(keepends=True)
        if self._docstring[0]:
            lines = lines[self._tree.body[0].end_lineno :]
        code = "".join(lines).strip() + "\n"
        for line in self._tree.body:
            if isinstance(line, ast.ImportFrom) and line.level == 1:
                beside = Entry("", self.path.with_name(f"{line.module}.py"))
                code += f"\n\n# {line.module}.py\n\n{beside.code}"
        return code

    def constant(self, name: str, default: Any) -> Any:
        """What the file assigns to this name, if that is a literal."""
        for line in self._tree.body:
            if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == name:
                with contextlib.suppress(ValueError):  # no literal
                    return ast.literal_eval(line.value)
        return default

    def load(self) -> Any:
        """The module, run anew: its classes and functions have no past."""
        spec = importlib.util.spec_from_file_location(self.module, self.path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[self.module] = module  # where pickle looks for its classes
        spec.loader.exec_module(module)
        return module


def entries(package: ModuleType) -> dict[str, Entry]:
    """The files of a package by name, those that begin with `_` left out.

    In the order of their `RANK`, then of their names.
    """
    found = [
        Entry(f"{package.__name__}.{info.name}", Path(folder) / f"{info.name}.py")
        for folder in package.__path__
        for info in pkgutil.iter_modules([folder])
        if not info.name.startswith("_") and not info.ispkg
    ]
    found.sort(key=lambda entry: (entry.constant("RANK", 1000), entry.name))
    return {entry.name: entry for entry in found}


def chosen(known: dict[str, Entry], names: Iterable[str] | None) -> list[Entry]:
    """The entries of these names, in the order of `known`; all, if none is named."""
    names = set(known if names is None else names)
    for name in names - set(known):
        raise ValueError(unknown(name, known))
    return [entry for name, entry in known.items() if name in names]


def unknown(name: str, known: Iterable[str]) -> str:
    """The words for a name that is none of those."""
    close = difflib.get_close_matches(name, known, n=1)
    guess = f" Did you mean {close[0]}?" if close else ""
    return f"nothing is named {name!r}.{guess} Known: {', '.join(known)}"
