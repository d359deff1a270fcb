"""`cachax explain script.py`: run a program and report on its cached values."""

import argparse
import importlib.util
import json
import runpy
import select
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from ._terminal import (
    CLOSED_PIPE,
    INTERRUPTED,
    check_writable,
    discard_output,
    wants_colour,
)


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.usage = "cachax explain [OPTIONS] (SCRIPT | -m MODULE) ..."
    parser.description = (
        "Runs a script as `python SCRIPT` would, then reports on its cached values: "
        "how often each was computed and reused, and what can be improved. The report "
        "goes to standard error. The exit code is the script's, except with "
        "--fail-on-recompute."
    )
    add = parser.add_argument
    add("--html", type=Path, metavar="FILE", help="also write the report as a web page")
    add(
        "--json",
        type=Path,
        metavar="FILE",
        help="also write it as JSON, with all events",
    )
    add(
        "--compare",
        type=Path,
        metavar="FILE",
        help="compare with an earlier report, written by --json",
    )
    add(
        "--fail-on-recompute",
        action="store_true",
        help="exit with 1 if a value was computed again without need",
    )
    add(
        "-m", dest="module", action="store_true", help="run a module, as python -m does"
    )
    for action in [
        add("program", metavar="SCRIPT", help="the script, or the name of the module"),
        add("arguments", nargs=argparse.REMAINDER, metavar="...", help="its arguments"),
    ]:
        action.required = False  # argparse would report it instead of a wrong flag
    parser.set_defaults(parser=parser, run=run)


def run(options: Any) -> int:
    """Run the program, print the report, and return the program's exit code."""
    problem = _problem(options)
    if problem:
        options.parser.error(problem)
    from ._report.record import record
    from ._report.text import as_text

    before = _read_report(options)
    with record(title=Path(options.program).name) as report:
        code = _run(options)
    print(as_text(report, wants_colour(sys.stderr)), file=sys.stderr)
    print(f"\n{report.memory}", file=sys.stderr)
    if before is not None:
        print(f"\n{report.compare(before)}", file=sys.stderr)
    if options.html:
        report.save(options.html)
    if options.json:
        options.json.write_text(json.dumps(report.to_dict(), indent=1) + "\n")
    again = [fix.what for fix in report.fixes if fix.kind != "recompiled"]
    if options.fail_on_recompute and again and code == 0:
        said = "cachax explain: failed, because of --fail-on-recompute: "
        print(said + "; ".join(again), file=sys.stderr)
        return RECOMPUTED
    return code


RECOMPUTED = 1
"""The exit code of `--fail-on-recompute`, as that of a linter with findings."""


def _read_report(options: Any) -> Any:
    """The earlier report to compare with, or None."""
    if options.compare is None:
        return None
    try:
        found = json.loads(options.compare.read_text())
        if "values" in found:
            return found
    except OSError as error:
        options.parser.error(f"{options.compare}: {error.strerror}")
    except ValueError as error:
        options.parser.error(f"{options.compare}: not JSON: {error}")
    return options.parser.error(f"{options.compare}: not a report of --json")


def _problem(options: Any) -> str:
    """Why the program cannot be run or its report not be written, before it runs."""
    if options.program is None:
        return "give it a script to run, or a module with -m"
    try:
        for path in filter(None, [options.html, options.json]):
            check_writable(path)
        if not options.module:
            Path(options.program).stat()
    except OSError as error:
        return f"{error.filename}: {error.strerror}"
    if options.module:
        with _as_in_python(options):
            return _missing(options.program)
    return ""


def _missing(module: str) -> str:
    try:
        spec = importlib.util.find_spec(module)
        if spec and spec.submodule_search_locations is not None:
            module = f"{module}.__main__"
            spec = importlib.util.find_spec(module)
    except (ImportError, ValueError) as error:
        return f"{module}: {error}"
    return "" if spec else f"no module named {module!r}"


def _run(options: Any) -> int:
    """Run the program as Python would, to its end or to an error."""
    try:
        with _as_in_python(options):
            if options.module:
                runpy.run_module(options.program, run_name="__main__", alter_sys=True)
            else:
                runpy.run_path(options.program, run_name="__main__")
        sys.stdout.flush()
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
            return 1
        return end.code or 0
    except BaseException as error:
        if isinstance(error, BrokenPipeError) and _is_output_closed():
            discard_output()
            return CLOSED_PIPE
        traceback.print_exception(error.with_traceback(_of_program(error)))
        return INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1
    return 0


@contextmanager
def _as_in_python(options: Any) -> Iterator[None]:
    before = sys.argv, sys.path
    folder = "" if options.module else str(Path(options.program).resolve().parent)
    sys.argv, sys.path = [options.program, *options.arguments], [folder, *sys.path]
    try:
        yield
    finally:
        sys.argv, sys.path = before


def _is_output_closed() -> bool:
    """Whether the reader of standard output is gone; else the script broke a pipe."""
    if not hasattr(select, "poll"):  # Windows
        return True
    poll = select.poll()
    poll.register(sys.stdout.fileno(), select.POLLOUT)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def _of_program(error: BaseException) -> TracebackType | None:
    """The traceback without the frames that run the program."""
    ours = {__file__, runpy.__file__, "<frozen runpy>"}
    frames = error.__traceback__
    while frames and frames.tb_frame.f_code.co_filename in ours:
        frames = frames.tb_next
    return frames
