"""The dispatch cases and a large Gaussian process, on whatever device JAX has.

Needs JAX, flax, equinox, chex, optax and the source tree:

    PYTHONPATH=src python benchmarks/gpu.py [--json FILE]
"""

import argparse
from pathlib import Path

import beside_many_arrays
import call_shapes
import first_call
import gaussian_process
import many_objects
import many_properties
import nested
import new_objects
import no_object
import small_object
from _bench import Report, lines, measure, others

DISPATCH = [
    small_object,
    beside_many_arrays,
    many_objects,
    many_properties,
    nested,
    no_object,
    first_call,
    new_objects,
    call_shapes,
]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    report = Report()
    for module in DISPATCH:
        for case in module.cases(quick=False):
            report.results.append(measure(case))
    for n in (1024, 8192):
        for case in gaussian_process.cases(quick=False, n=n):
            report.results.append(measure(case))
    print("\n".join([*lines(report.results), "", *others(report.results)]))
    print(report.machine)
    if options.json:
        options.json.write_text(report.to_json())


if __name__ == "__main__":
    main()
