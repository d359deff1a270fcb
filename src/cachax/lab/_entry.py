"""The strategies and probes: one for each file of a folder."""

import ast
import contextlib
import difflib
import functools
import importlib.util
import pkgutil
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any


@dataclass(frozen=True)
class Entry:
    """A file: its docstring's first line is the title, the rest explains.

    All of this is read from the text, so that a file can be listed whose imports are
    not installed.
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
        except SyntaxError:  # reported when it is loaded
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
        """The file without its docstring, with what it uses of the files beside it."""
        return f"{joined(self.imports)}\n\n\n{self.body}"

    @functools.cached_property
    def imports(self) -> list[tuple[str, str]]:
        """What the code imports: pairs of a module and a name, which is empty for
        `import module`."""
        found = [pair for entry in self._beside for pair in entry.imports]
        for line in self._tree.body:
            if isinstance(line, ast.Import):
                found += [(ast.unparse(alias), "") for alias in line.names]
            elif isinstance(line, ast.ImportFrom) and line.level == 0:
                found += [(line.module or "", ast.unparse(name)) for name in line.names]
        return sorted(set(found))

    @functools.cached_property
    def body(self) -> str:
        """The code without its imports and the lab's constants."""
        parts = [entry.body for entry in self._beside]
        lines = self.path.read_text().splitlines(keepends=True)
        start = 0
        for line in self._tree.body:
            assert line.end_lineno is not None
            if not self._is_left_out(line):
                parts.append("".join(lines[start : line.end_lineno]))
            start = line.end_lineno
        code = "\n\n\n".join(part.strip() for part in parts)
        return re.sub(r"  # (type: ignore|noqa).*", "", code) + "\n"

    @property
    def _beside(self) -> list["Entry"]:
        """The files of the same folder that it imports from."""
        return [
            Entry("", self.path.with_name(f"{line.module}.py"))
            for line in self._tree.body
            if isinstance(line, ast.ImportFrom) and line.level == 1
        ]

    def _is_left_out(self, line: ast.stmt) -> bool:
        is_constant = isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) in (
            "RANK",
            "PUBLISHED",
        )
        is_docstring = line is self._tree.body[0] and bool(self._docstring[0])
        is_import = isinstance(line, ast.Import | ast.ImportFrom)
        return is_constant or is_docstring or is_import

    def constant(self, name: str, default: Any) -> Any:
        """What the file assigns to this name, if that is a literal."""
        for line in self._tree.body:
            if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == name:
                with contextlib.suppress(ValueError):  # not a literal
                    return ast.literal_eval(line.value)
        return default

    def load(self) -> Any:
        """The module, loaded again: its classes and functions are new."""
        spec = importlib.util.spec_from_file_location(self.module, self.path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[self.module] = module  # where pickle looks for its classes
        spec.loader.exec_module(module)
        return module


def joined(imports: Iterable[tuple[str, str]]) -> str:
    """Import statements, one for each module.

    >>> print(joined([("jax", ""), ("cachax.lab", "Way"), ("cachax.lab", "derive")]))
    import jax
    from cachax.lab import Way, derive
    """
    names: dict[str, list[str]] = {}
    for module, name in sorted(set(imports)):
        names.setdefault(module, []).append(name)
    plain = [f"import {module}" for module, of in names.items() if "" in of]
    some = [(module, [*filter(None, of)]) for module, of in names.items()]
    return "\n".join(
        plain + [f"from {module} import {', '.join(of)}" for module, of in some if of]
    )


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
    """The message for a name that does not exist."""
    close = difflib.get_close_matches(name, known, n=1)
    guess = f" Did you mean {close[0]}?" if close else ""
    return f"nothing is named {name!r}.{guess} Known: {', '.join(known)}"
