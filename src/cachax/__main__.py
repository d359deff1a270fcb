"""The command line: `cachax` or `python -m cachax`."""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

COMMANDS = {
    "explain": ("._run", "run a script, and tell what became of its cached values"),
    "lab": (".lab._command", "measure every known way of caching on the installed JAX"),
    "lint": (".lint._command", "find the traps in existing code; needs no JAX"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser("cachax", description="Cached properties for JAX.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, (module, help) in COMMANDS.items():
        command = commands.add_parser(name, help=help)
        if name in arguments[:1]:  # what another needs may not be installed
            import_module(module, __package__).add_to(command)
    options = parser.parse_args(arguments)
    return options.run(options)  # type: ignore[no-any-return]


if __name__ == "__main__":
    raise SystemExit(main())
