"""Many files checked, in several processes if they are many, and fixed on request."""

import gc
import multiprocessing
import os
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from ._check import check, not_checked
from ._edit import edited
from ._finding import Finding
from ._module import parse
from ._project import Project
from ._settings import Settings
from ._source import MOST_BYTES, Source, TooBigError, UnreadableError, from_bytes

_FEW = 100  # files that one process has checked before a second one has started
_MOST_ROUNDS = 10  # of fixes; each leaves fewer to be made


@dataclass(frozen=True)
class Checked:
    """What came of one file."""

    filename: str
    findings: tuple[Finding, ...] = ()
    source: Source | None = None  # as it was, if it was fixed
    fixed: str | None = None
    fixes: int = 0
    crash: str | None = None  # a mistake of ours: the traceback


def run(
    paths: list[Path],
    settings: Settings,
    fix: bool = False,
    advance: Callable[[], None] = lambda: None,
) -> list[Checked]:
    """All files, in their order. Nothing is written."""
    results = []
    for checked in _each(paths, partial(check_file, settings=settings, fix=fix)):
        results.append(checked)
        advance()
    return results


def _each(paths: list[Path], work: Callable[[Path], Checked]) -> Iterator[Checked]:
    processes = min(os.cpu_count() or 1, len(paths) // _FEW + 1)
    if processes == 1:
        before = gc.get_threshold()
        _collect_seldom()
        try:
            yield from map(work, paths)
        finally:
            gc.set_threshold(*before)
        return
    # Not by fork: it is not safe in a program with threads, and JAX starts some.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, context, _collect_seldom) as pool:
        yield from pool.map(work, paths, chunksize=8)


def _collect_seldom() -> None:
    """A syntax tree is many small objects, all of them in use: with Python's own
    thresholds a third of the time goes into looking for rubbish among them."""
    gc.set_threshold(50_000, 20, 50)


_project = Project()  # of this process: what it has parsed of the files beside


def check_file(path: Path, settings: Settings, fix: bool = False) -> Checked:
    """One file, whatever happens."""
    codes = settings.codes(path)
    filename = str(path)
    try:
        if path.stat().st_size > MOST_BYTES:
            raise TooBigError(f"too big to be read: {path.stat().st_size:,} bytes")
        if path.is_dir():
            os.scandir(path).close()  # it could not be entered, and this says why
        source = from_bytes(filename, path.read_bytes())
        return check_source(source, settings, path.absolute(), fix)
    except (OSError, UnreadableError) as error:
        finding = not_checked(filename, error)
        return Checked(filename, (finding,) if finding.code in codes else ())


def check_source(
    source: Source, settings: Settings, path: Path | None, fix: bool = False
) -> Checked:
    """A text that has been read; with `fix`, what is left after the fixes."""
    codes = settings.codes(path or Path(source.filename))
    try:
        found = check(source, codes, _project, path)
        if not fix:
            return Checked(source.filename, tuple(found))
        return _fixed(source, found, lambda new: check(new, codes, _project, path))
    except RecursionError:
        error = UnreadableError("nested too deeply to be checked")
        return Checked(source.filename, (not_checked(source.filename, error),))
    except Exception:  # a mistake in a rule must not keep the others from the user
        return Checked(source.filename, crash=traceback.format_exc())


def _fixed(
    source: Source, found: list[Finding], check: Callable[[Source], list[Finding]]
) -> Checked:
    fixed, fixes = source, 0
    for _ in range(_MOST_ROUNDS):
        fixable = [finding.fix for finding in found if finding.fix]
        text = edited(fixed, [edit for one in fixable for edit in one.edits])
        if text == fixed.text:
            break
        parse(text)  # a fix that breaks the file is a mistake of ours, and is not made
        fixed, fixes = replace(fixed, text=text), fixes + len(fixable)
        found = check(fixed)
    if fixed is source:
        return Checked(source.filename, tuple(found))
    return Checked(source.filename, tuple(found), source, fixed.text, fixes)
