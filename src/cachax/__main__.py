"""The command line: `cachax` or `python -m cachax`."""

import argparse
import difflib
import sys
from collections.abc import Sequence
from importlib import import_module

from . import __version__
from ._terminal import without_traceback

COMMANDS = {
    "lint": (".lint._command", "find caching mistakes in your code (needs no JAX)"),
    "explain": ("._run", "run a script and report on its cached values"),
    "lab": (".lab._command", "compare the approaches to caching on your JAX"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    return without_traceback(lambda: _main(arguments))


def _main(arguments: Sequence[str]) -> int:
    parser = _parser()
    if not arguments:
        parser.print_help()
        return 0
    if arguments[0] not in COMMANDS:
        parser.error(_unknown(parser.parse_args(arguments).command))
    return _run(arguments[0], arguments[1:])


def _run(name: str, arguments: Sequence[str]) -> int:
    # A parser for each command, not argparse's subparsers: those report a wrong flag
    # with the usage of `cachax` instead of that of the command.
    module, _ = COMMANDS[name]
    parser = argparse.ArgumentParser(f"cachax {name}")
    import_module(module, __package__).add_to(parser)
    options = parser.parse_args(arguments)
    return options.run(options)  # type: ignore[no-any-return]


def _parser() -> argparse.ArgumentParser:
    width = max(map(len, COMMANDS))
    commands = [f"  {name:{width}}  {help}" for name, (_, help) in COMMANDS.items()]
    parser = argparse.ArgumentParser(
        "cachax",
        usage="cachax [--help] [--version] COMMAND ...",
        description="Cached properties for JAX objects.\n\ncommands:\n"
        + "\n".join(commands),
        epilog="`cachax COMMAND --help` describes a command.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"cachax {__version__}")
    parser.add_argument("command", metavar="COMMAND", help=argparse.SUPPRESS)
    parser.add_argument("rest", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def _unknown(name: str) -> str:
    close = difflib.get_close_matches(name, COMMANDS, n=1)
    hint = f"Did you mean {close[0]}?" if close else f"Known: {', '.join(COMMANDS)}."
    return f"there is no command {name!r}. {hint}"


if __name__ == "__main__":
    raise SystemExit(main())
