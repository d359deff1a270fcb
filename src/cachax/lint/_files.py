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
    unless forced also where it is excluded. A folder that cannot be entered is among
    them: to read it says why."""
    found: dict[object, Path] = {}
    for path in paths:
        if os.path.isdir(path):
            below = _below(path, settings, set())
        elif force_exclude and _is_excluded(path, settings):
            continue
        else:
            below = iter([path])
        for file in below:
            found.setdefault(file if _is_shut(file) else _identity(file), file)
    return list(found.values())


def _below(
    folder: Path, settings: Settings, entered: set[tuple[int, int]]
) -> Iterator[Path]:
    """The files of a folder. Links are followed, but no folder is entered twice."""
    try:
        identity = _identity(folder)
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        yield folder
        return
    if identity in entered:
        return
    entered.add(identity)
    for entry in entries:
        path = folder / entry.name
        if settings.excludes(path):
            continue
        # `Path.is_dir` raises where it may not look; a dangling link is not a file.
        if os.path.isdir(path):
            yield from _below(path, settings, entered)
        elif path.suffix in SUFFIXES and (os.path.isfile(path) or _is_shut(path)):
            yield path


def _is_excluded(path: Path, settings: Settings) -> bool:
    return any(settings.excludes(outer) for outer in [path, *path.parents])


def _is_shut(path: Path) -> bool:
    """What it is may not be asked: its folder is not to be entered."""
    try:
        path.stat()
    except PermissionError:
        return True
    except OSError:
        return False
    return False


def _identity(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino
