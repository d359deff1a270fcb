"""cachax lint: the options, what is printed, and the exit code."""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from .._terminal import wants_colour
from ._edit import diff
from ._files import files
from ._finding import Finding, in_order
from ._page import page
from ._progress import Progress
from ._rule import known_rules
from ._run import Checked, check_source, run
from ._settings import Settings, SettingsError, check_codes, find_settings
from ._source import Source, UnreadableError, from_bytes
from ._statistics import statistics
from .formats import FORMATS, text

PASSED, FOUND, MISUSED = 0, 1, 2
STDIN = "-"


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.usage = "cachax lint [OPTIONS] [PATH ...]"
    parser.description = (
        "Finds cached values that JAX drops, leaks or leaves stale. JAX is not needed."
    )
    parser.epilog = (
        "exit code: 0 without findings, or with information only; 1 with errors or "
        "warnings; 2 if the command is wrong or failed"
    )
    add = parser.add_argument
    add(
        "paths",
        nargs="*",
        default=["."],
        metavar="PATH",
        help="files and folders (default: the current folder); - is standard input",
    )
    for option, what in [
        ("--select", "only rules whose codes begin with these: CX1,CX401"),
        ("--ignore", "leave out rules whose codes begin with these"),
        ("--exclude", "also leave out these files and folders (glob patterns)"),
    ]:
        add(option, action="append", type=_parts, default=[], metavar="LIST", help=what)
    add(
        "--force-exclude",
        action="store_true",
        help="leave excluded files out even if they are given as PATH",
    )
    add("--config", type=Path, metavar="FILE", help="the pyproject.toml to use")
    add("--fix", action="store_true", help="apply the safe fixes")
    add("--diff", action="store_true", help="show the safe fixes, change nothing")
    add(
        "--output-format",
        choices=list(FORMATS),
        default="text",
        help="how to print findings (default: text, with a frame of code)",
    )
    add("--statistics", action="store_true", help="show how often each rule applies")
    add("-q", "--quiet", action="store_true", help="print findings and nothing else")
    add("--exit-zero", action="store_true", help="exit with 0 whatever it finds")
    add("--explain", metavar="CODE", help="show the documentation of a rule")
    add("--stdin-filename", metavar="PATH", help="the name of standard input")
    parser.set_defaults(parser=parser, run=main)


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def main(options: argparse.Namespace) -> int:
    parser: argparse.ArgumentParser = options.parser
    if options.explain is not None:
        return _explain(options.explain, parser)
    _replace_what_cannot_be_shown()
    try:
        settings = _settings(options)
        code = _report(_checked(options, settings), options)
    except BrokenPipeError:  # of the output; `cachax` handles it
        raise
    except (SettingsError, OSError) as error:
        parser.error(_said(error))
    return PASSED if code == FOUND and options.exit_zero else code


def _said(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _replace_what_cannot_be_shown() -> None:
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _explain(code: str, parser: argparse.ArgumentParser) -> int:
    rule = known_rules().get(code.upper())
    if rule is None:
        parser.error(f"there is no rule {code!r}. Known: {', '.join(known_rules())}")
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
        Path(path).stat()  # raises for a path that does not exist
    paths = files([*map(Path, options.paths)], settings, options.force_exclude)
    with Progress(0 if options.quiet else len(paths)) as progress:
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
    return replace(checked, source=source)


def _report(checked: list[Checked], options: argparse.Namespace) -> int:
    crashed = [one for one in checked if one.crash is not None]
    for one in crashed:
        print(
            f"{one.filename}: cachax lint itself failed:\n{one.crash}", file=sys.stderr
        )
    findings = sorted((f for one in checked for f in one.findings), key=in_order)
    fixed = [one for one in checked if one.fixed is not None]
    if options.diff:
        _show_diff(fixed, options.quiet)
    else:
        unwritten = _write(fixed, options.quiet) if options.fix else 0
        _show(findings, checked, options)
        if unwritten:
            return MISUSED
    if crashed:
        return MISUSED
    failed = any(finding.severity.fails for finding in findings)
    return FOUND if failed or (options.diff and fixed) else PASSED


def _show_diff(fixed: list[Checked], quiet: bool) -> None:
    for one in fixed:
        assert one.source is not None
        assert one.fixed is not None
        sys.stdout.write(diff(one.source, one.fixed))
    if not quiet:
        print(f"Would fix {_count(fixed)}.", file=sys.stderr)


def _write(fixed: list[Checked], quiet: bool) -> int:
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
    if written and not quiet:
        print(f"Fixed {_count(written)}.", file=sys.stderr)
    return len(fixed) - len(written)


def _count(fixed: list[Checked]) -> str:
    fixes = sum(one.fixes for one in fixed)
    return f"{fixes} in {len(fixed)} file{'s' * (len(fixed) != 1)}"


def _show(
    findings: list[Finding], checked: list[Checked], options: argparse.Namespace
) -> None:
    # With --fix, the fixed text of standard input is already on standard output.
    stream = sys.stderr if options.fix and STDIN in options.paths else sys.stdout
    stream.write(_shown(findings, checked, options, wants_colour(stream)))


def _shown(
    findings: list[Finding],
    checked: list[Checked],
    options: argparse.Namespace,
    colour: bool,
) -> str:
    if options.statistics:
        return statistics(findings, options.output_format == "json")
    if options.output_format == "text":
        stdin = _fixed(checked[0]) if STDIN in options.paths else None
        return text.render(findings, colour, options.quiet, stdin)
    if options.output_format == "concise":
        return text.concise(findings, colour, options.quiet)
    return FORMATS[options.output_format](findings)


def _fixed(checked: Checked) -> Source | None:
    """The source that the findings are about."""
    if checked.source is None or checked.fixed is None:
        return checked.source
    return replace(checked.source, text=checked.fixed)
