"""Run many programs: `python -m fuzz [-n PROGRAMS] [--seed SEED] [--bodies]`.

Prints each failure with its seed and its program, shrunk; of failures that look alike,
the first three.
"""

import argparse
import gc
import os
import shutil
import sys
import tempfile
import time

# Programs compile much and run little, and what they compile is often the same.
os.environ["JAX_COMPILATION_CACHE_DIR"] = tempfile.mkdtemp(prefix="cachax-fuzz-")
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
os.environ["XLA_FLAGS"] = "--xla_backend_optimization_level=0"

from collections import Counter

import jax

from . import bodies
from .programs import Program, Worlds, disagreement, failure_of, shrunk

TOGETHER = 500
"""Programs that share classes and jitted functions. Then new ones are made: what was
compiled for them would be kept until the end."""
ALIKE = 3


def main() -> int:
    parser = argparse.ArgumentParser("fuzz", description=__doc__)
    parser.add_argument("-n", "--programs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0, help="of the first program")
    parser.add_argument("--disturbed", action="store_true", help="compare decisions")
    parser.add_argument("--bodies", action="store_true", help="with random bodies")
    parser.add_argument("--no-shrink", action="store_true")
    options = parser.parse_args()
    gc.freeze()  # else a collection takes longer than a program
    start, worlds, found = time.perf_counter(), Worlds(), Counter[str]()
    for done in range(1, options.programs + 1):
        if done % TOGETHER == 0:
            jax.clear_caches()
            worlds = Worlds()
        seed = options.seed + done - 1
        program = Program.draw(seed)
        if options.bodies:
            text = bodies.failure_of(seed)
            if text is not None:
                found["bodies"] += 1
                print(text, end="\n\n", flush=True)
        elif options.disturbed:
            text = disagreement(program)
            if text is not None:
                found["disturbed"] += 1
                print(text, end="\n\n", flush=True)
        elif (failure := failure_of(program, worlds)) is not None:
            found[failure.kind] += 1
            if found[failure.kind] <= ALIKE:
                small = failure if options.no_shrink else shrunk(failure, worlds)
                print(small, end="\n\n", flush=True)
    rate = options.programs / (time.perf_counter() - start)
    for kind, count in found.most_common():
        print(f"{count:5} {kind}")
    print(f"{options.programs} programs, {found.total()} failures, {rate:.1f} a second")
    return min(found.total(), 1)


if __name__ == "__main__":
    try:
        code = main()
    finally:
        shutil.rmtree(os.environ["JAX_COMPILATION_CACHE_DIR"], ignore_errors=True)
    sys.exit(code)
