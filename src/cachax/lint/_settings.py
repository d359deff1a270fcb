"""Which rules and which files are selected, by pyproject.toml or by options."""

import fnmatch
import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ._rule import known_rules

DEFAULT_EXCLUDE = (
    *(".bzr", ".direnv", ".eggs", ".git", ".hg", ".ipynb_checkpoints", ".mypy_cache"),
    *(".nox", ".pants.d", ".pytest_cache", ".ruff_cache", ".svn", ".tox", ".venv*"),
    *(
        "__pycache__",
        "__pypackages__",
        "_build",
        "build",
        "dist",
        "node_modules",
        "venv",
    ),
)
_LISTS = ("select", "ignore", "exclude", "extend-exclude")
_TABLE = "per-file-ignores"
_NONE = -1  # no prefix fits: less than the shortest


class SettingsError(Exception):
    """Invalid settings; the message says where and why."""


@dataclass(frozen=True)
class Settings:
    """Codes are prefixes: CX1 stands for all that begin so. Paths are globs."""

    root: Path = Path()
    select: tuple[str, ...] = ("CX",)
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = DEFAULT_EXCLUDE
    per_file_ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def codes(self, path: Path) -> frozenset[str]:
        """The rules that apply to a file: the longer prefix wins, then `ignore`.

        >>> settings = Settings(select=("CX4", "CX101"), ignore=("CX1",))
        >>> sorted(settings.codes(Path("a.py")))
        ['CX101', 'CX401']
        """
        ignored_here = [
            code
            for pattern, codes in self.per_file_ignores.items()
            if _fits(path, pattern, self.root)
            for code in codes
        ]
        return frozenset(
            code
            for code in known_rules()
            if _longest(code, self.select) > _longest(code, self.ignore)
            and _longest(code, ignored_here) == _NONE
        )

    def excludes(self, path: Path) -> bool:
        return any(_fits(path, pattern, self.root) for pattern in self.exclude)


def _longest(code: str, prefixes: Iterable[str]) -> int:
    """The length of the longest prefix that fits; "ALL" fits everything."""
    real = ["" if prefix == "ALL" else prefix for prefix in prefixes]
    return max((len(p) for p in real if code.startswith(p)), default=_NONE)


def _fits(path: Path, pattern: str, root: Path) -> bool:
    """By the name of the file or folder, or by its path from the root."""
    try:
        inside = path.absolute().relative_to(root.absolute()).as_posix()
    except ValueError:
        inside = path.absolute().as_posix()
    pattern = pattern.rstrip("/")
    return any(
        fnmatch.fnmatch(name, pattern) or fnmatch.fnmatch(name, f"{pattern}/*")
        for name in (path.name, inside)
    )


def find_settings(paths: list[Path], config: Path | None = None) -> Settings:
    """From the nearest pyproject.toml above the first path that has our section."""
    if config is not None:
        return _read(config)
    start = (paths[0] if paths else Path()).absolute()
    for folder in [start, *start.parents]:
        file = folder / "pyproject.toml"
        if os.path.isfile(file) and _section(file) is not None:
            return _read(file)
    return Settings(Path.cwd())


def _section(file: Path) -> Any:
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"{file}: {error}") from None
    tool = content.get("tool", {}).get("cachax", {})
    return tool.get("lint") if isinstance(tool, dict) else None


def _read(file: Path) -> Settings:
    section = _section(file) or {}
    if not isinstance(section, dict):
        raise SettingsError(f"{file}: [tool.cachax.lint] is not a table")
    for key, value in section.items():
        _check(file, key, value)
    exclude = section.get("exclude", DEFAULT_EXCLUDE)
    ignores = section.get(_TABLE, {})
    settings = Settings(
        root=file.parent,
        select=tuple(section.get("select", ("CX",))),
        ignore=tuple(section.get("ignore", ())),
        exclude=(*exclude, *section.get("extend-exclude", ())),
        per_file_ignores={glob: tuple(codes) for glob, codes in ignores.items()},
    )
    for codes in [
        settings.select,
        settings.ignore,
        *settings.per_file_ignores.values(),
    ]:
        check_codes(codes, str(file))
    return settings


def _check(file: Path, key: str, value: Any) -> None:
    if key in _LISTS:
        right = _is_list_of_strings(value)
    elif key == _TABLE:
        right = isinstance(value, dict) and all(
            map(_is_list_of_strings, value.values())
        )
    else:
        known = ", ".join([*_LISTS, _TABLE])
        raise SettingsError(f"{file}: [tool.cachax.lint] has no {key!r}, only: {known}")
    if not right:
        kind = "a table of lists of strings" if key == _TABLE else "a list of strings"
        raise SettingsError(f"{file}: [tool.cachax.lint] {key!r} must be {kind}")


def _is_list_of_strings(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def check_codes(codes: Iterable[str], where: str) -> None:
    """Refuses a code that is the beginning of none."""
    for code in codes:
        if code != "ALL" and not any(known.startswith(code) for known in known_rules()):
            known = ", ".join(known_rules())
            raise SettingsError(
                f"{where}: no rule begins with {code!r}. Known: {known}"
            )
