"""The process that measures a strategy: reads it and its probes from stdin, pickled,
and writes a pickled cell for each probe to stdout."""

import os
import pickle
import sys

from ._cell import measure


def main() -> None:
    # The output of a library must not mix with the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    strategy, probes = pickle.load(sys.stdin.buffer)
    for probe in probes:
        pickle.dump(measure(strategy, probe), answers)
        answers.flush()


if __name__ == "__main__":
    main()
