"""The files to check: those named, and the Python files and notebooks of folders."""

import os
from collections.abc import Iterator
from pathlib import Path

from ._settings import Settings

SUFFIXES = (".py", ".ipynb")


def files(
    paths: list[Path], settings: Settings, force_exclude: bool = False
) -> list[Path]:
    """In order, each once. A file that is named is taken whatever its suffix, and
    unless forced also where it is excluded."""
    found: dict[tuple[int, int], Path] = {}
    for path in paths:
        if path.is_dir():
            below = _below(path, settings, set())
        elif force_exclude and _is_excluded(path, settings):
            continue
        else:
            below = iter([path])
        for file in below:
            found.setdefault(_identity(file), file)
    return list(found.values())


def _below(
    folder: Path, settings: Settings, entered: set[tuple[int, int]]
) -> Iterator[Path]:
    """The files of a folder. Links are followed, but no folder is entered twice."""
    try:
        identity = _identity(folder)
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    if identity in entered:
        return
    entered.add(identity)
    for entry in entries:
        path = folder / entry.name
        if settings.excludes(path):
            continue
        if path.is_dir():
            yield from _below(path, settings, entered)
        elif path.suffix in SUFFIXES and path.is_file():
            yield path


def _is_excluded(path: Path, settings: Settings) -> bool:
    return any(settings.excludes(outer) for outer in [path, *path.parents])


def _identity(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino
