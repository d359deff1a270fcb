"""The command line: `cachax` or `python -m cachax`."""

import argparse
from collections.abc import Sequence

from . import _run
from .lab import _command as lab


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("cachax", description="Cached properties for JAX.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    lab.add_to(commands)
    _run.add_to(commands)
    options = parser.parse_args(arguments)
    return options.run(options)  # type: ignore[no-any-return]


if __name__ == "__main__":
    raise SystemExit(main())
