"""`cachax explain script.py`: run a program, and report on its cached values."""

import argparse
import json
import runpy
import sys
import traceback
from pathlib import Path
from typing import Any


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.usage = "cachax explain [--html FILE] [--json FILE] (SCRIPT | -m MODULE) ..."
    parser.description = __doc__
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything")
    parser.add_argument("-m", dest="module", action="store_true", help="run a module")
    parser.add_argument("program", metavar="SCRIPT", help="or the name of a module")
    parser.add_argument(
        "arguments", nargs=argparse.REMAINDER, help="those of the script"
    )
    parser.set_defaults(run=run)


def run(options: Any) -> int:
    """Its output is the script's, and then the report, on standard error; its exit code
    is the script's."""
    from ._report.record import record

    with record() as report:
        code = _run(options)
    sys.stdout.flush()
    print(report, file=sys.stderr)
    if options.html:
        report.save(options.html)
    if options.json:
        options.json.write_text(json.dumps(report.to_dict(), indent=1) + "\n")
    return code


def _run(options: Any) -> int:
    """As Python would run it, to the end or to an error."""
    before = sys.argv, sys.path
    sys.argv = [options.program, *options.arguments]
    try:
        if options.module:
            sys.path = ["", *sys.path]
            runpy.run_module(options.program, run_name="__main__", alter_sys=True)
        else:
            sys.path = [str(Path(options.program).resolve().parent), *sys.path]
            runpy.run_path(options.program, run_name="__main__")
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
            return 1
        return end.code or 0
    except KeyboardInterrupt:
        traceback.print_exc()
        return 130
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.argv, sys.path = before
    return 0
