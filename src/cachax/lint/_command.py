"""cachax lint: the options, what is printed, and the exit code."""

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path

from ._edit import diff
from ._files import files
from ._finding import Finding, in_order
from ._page import page
from ._progress import Progress
from ._rule import known_rules
from ._run import Checked, check_source, run
from ._settings import Settings, SettingsError, check_codes, find_settings
from ._source import UnreadableError, from_bytes
from ._statistics import statistics
from .formats import FORMATS

PASSED, FOUND, MISUSED = 0, 1, 2
STDIN = "-"


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Finds cached values that JAX drops, leaks or leaves stale. JAX is not needed."
    )
    parser.epilog = (
        "Exit code: 0 without errors and warnings, 1 with some, 2 for invalid usage."
    )
    add = parser.add_argument
    add("paths", nargs="*", metavar="PATH", help="files and folders; - for stdin")
    for option, what in [
        ("--select", "only rules with these prefixes, comma-separated: CX1,CX401"),
        ("--ignore", "no rules with these prefixes"),
        ("--exclude", "also leave out these files and folders (globs)"),
    ]:
        add(option, action="append", type=_parts, default=[], metavar="LIST", help=what)
    add("--force-exclude", action="store_true", help="also leave out files named here")
    add("--config", type=Path, metavar="FILE", help="the pyproject.toml to read")
    add("--output-format", choices=list(FORMATS), default="text")
    add("--statistics", action="store_true", help="print a count for each rule")
    add("--fix", action="store_true", help="make the fixes that are safe")
    add("--diff", action="store_true", help="only print the fixes that are safe")
    add("--explain", metavar="CODE", help="print the page of a rule")
    add("--stdin-filename", metavar="PATH", help="the path to report for stdin")
    parser.set_defaults(parser=parser, run=main)


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def main(options: argparse.Namespace) -> int:
    parser: argparse.ArgumentParser = options.parser
    if options.explain is not None:
        return _explain(options.explain, parser)
    if not options.paths:
        parser.error("no path given; use . for the current folder")
    _replace_what_cannot_be_shown()
    try:
        settings = _settings(options)
        return _report(_checked(options, settings), options)
    except BrokenPipeError:  # `| head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FOUND
    except (SettingsError, OSError) as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130


def _replace_what_cannot_be_shown() -> None:
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _explain(code: str, parser: argparse.ArgumentParser) -> int:
    rule = known_rules().get(code.upper())
    if rule is None:
        parser.error(f"no rule is called {code!r}. Known: {', '.join(known_rules())}")
    sys.stdout.write(page(rule))
    return PASSED


def _settings(options: argparse.Namespace) -> Settings:
    named = [path for path in options.paths if path != STDIN]
    named += [options.stdin_filename] if options.stdin_filename else []
    settings = find_settings([Path(path) for path in named], options.config)
    select = tuple(code for codes in options.select for code in codes)
    ignore = tuple(code for codes in options.ignore for code in codes)
    check_codes(select, "--select")
    check_codes(ignore, "--ignore")
    exclude = tuple(pattern for patterns in options.exclude for pattern in patterns)
    return replace(
        settings,
        select=select or settings.select,
        ignore=(*settings.ignore, *ignore),
        exclude=(*settings.exclude, *exclude),
    )


def _checked(options: argparse.Namespace, settings: Settings) -> list[Checked]:
    fix = options.fix or options.diff
    if STDIN in options.paths:
        return [_check_stdin(options, settings, fix)]
    for path in options.paths:
        Path(path).stat()  # a name that leads nowhere is a mistake of the user
    paths = files([*map(Path, options.paths)], settings, options.force_exclude)
    with Progress(len(paths)) as progress:
        return run(paths, settings, fix, progress.advance)


def _check_stdin(options: argparse.Namespace, settings: Settings, fix: bool) -> Checked:
    name = options.stdin_filename or STDIN
    path = Path(options.stdin_filename).absolute() if options.stdin_filename else None
    try:
        source = from_bytes(name, sys.stdin.buffer.read())
    except UnreadableError as error:
        raise SettingsError(f"{name}: {error}") from None
    checked = check_source(source, settings, path, fix)
    if options.fix and not options.diff:
        sys.stdout.write(source.text if checked.fixed is None else checked.fixed)
    return checked


def _report(checked: list[Checked], options: argparse.Namespace) -> int:
    crashed = [one for one in checked if one.crash is not None]
    for one in crashed:
        print(
            f"{one.filename}: cachax lint itself failed:\n{one.crash}", file=sys.stderr
        )
    findings = sorted((f for one in checked for f in one.findings), key=in_order)
    fixed = [one for one in checked if one.fixed is not None]
    if options.diff:
        _show_diff(fixed)
    else:
        unwritten = _write(fixed) if options.fix else 0
        _show(findings, options)
        if unwritten:
            return MISUSED
    if crashed:
        return MISUSED
    failed = any(finding.severity.fails for finding in findings)
    return FOUND if failed or (options.diff and fixed) else PASSED


def _show_diff(fixed: list[Checked]) -> None:
    for one in fixed:
        assert one.source is not None
        assert one.fixed is not None
        sys.stdout.write(diff(one.source, one.fixed))
    print(f"Would fix {_count(fixed)}.", file=sys.stderr)


def _write(fixed: list[Checked]) -> int:
    """How many files could not be written; the others are."""
    written = []
    for one in fixed:
        assert one.source is not None
        assert one.fixed is not None
        try:
            if one.filename != STDIN:
                content = one.fixed.encode(one.source.encoding)
                Path(one.filename).write_bytes(content)
        except OSError as error:
            print(f"{one.filename}: not fixed: {error}", file=sys.stderr)
        else:
            written.append(one)
    if written:
        print(f"Fixed {_count(written)}.", file=sys.stderr)
    return len(fixed) - len(written)


def _count(fixed: list[Checked]) -> str:
    fixes = sum(one.fixes for one in fixed)
    return f"{fixes} in {len(fixed)} file{'s' * (len(fixed) != 1)}"


def _show(findings: list[Finding], options: argparse.Namespace) -> None:
    # The fixed text of stdin is on stdout already.
    stream = sys.stderr if options.fix and STDIN in options.paths else sys.stdout
    if options.statistics:
        stream.write(statistics(findings, options.output_format == "json"))
    else:
        stream.write(FORMATS[options.output_format](findings))
