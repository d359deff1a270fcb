"""The command line: `cachax` or `python -m cachax`."""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

COMMANDS = {
    "lab": "measure every known way of caching on the installed JAX",
    "lint": "find the traps in code that already exists; needs no JAX",
}


def main(arguments: Sequence[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser("cachax", description="Cached properties for JAX.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, help in COMMANDS.items():
        command = commands.add_parser(name, help=help)
        if name in arguments[:1]:  # what another needs may not be installed
            import_module(f".{name}._command", __package__).add_to(command)
    options = parser.parse_args(arguments)
    return options.run(options)  # type: ignore[no-any-return]


if __name__ == "__main__":
    raise SystemExit(main())
