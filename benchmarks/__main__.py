"""All benchmarks: `python benchmarks [NAME ...] [--quick] [--json FILE] [--write]`.

With names, only those files: `python benchmarks call_shapes --quick`.
`--write` puts the tables into the README and the docs, and the plot beside them.
"""

import argparse
import importlib
import re
from pathlib import Path

import breakdown
import growth
from _bench import Report, lines, measure, others

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
FILES = [
    "small_object",
    "beside_many_arrays",
    "many_objects",
    "many_properties",
    "nested",
    "no_object",
    "read",
    "first_call",
    "new_objects",
    "rebuilt",
    "gaussian_process",
    "call_shapes",
]
IN_README = [
    "one small object, one cached scalar",
    "reading a cached property",
    "no cached object: two arrays",
    "the first call, trace and compile included",
    "a new object of new arrays on every call, a cheap property",
    "GP regression, n = 1,024: predict after the first call",
]


def fill(path: Path, mark: str, text: str) -> None:
    """Put `text` between the marks of this name in a Markdown file."""
    between = re.compile(rf"(<!-- {mark} -->\n).*?(<!-- end -->)", re.DOTALL)
    before = path.read_text()
    assert len(between.findall(before)) == 1, (path, mark)
    path.write_text(between.sub(lambda m: f"{m[1]}{text}\n{m[2]}", before))


def _table(report: Report) -> str:
    return "\n".join(lines(report.results))


def where(report: Report) -> str:
    m = report.machine
    return f"{m['device']}, JAX {m['jax']}, Python {m['python']}, {m['date']}"


def write(
    report: Report, growth: list[str], parts: list[str], steps: list[str]
) -> None:
    table = _table(report)
    beside = "\n".join(others(report.results))
    text = f"{table}\n\n({where(report)}.) The other contenders:\n\n{beside}"
    fill(DOCS / "costs.md", "costs", text)
    fill(DOCS / "costs.md", "growth", "\n".join(growth))
    fill(DOCS / "costs.md", "parts", "\n".join(parts))
    fill(DOCS / "costs.md", "steps", "\n".join(steps))
    gpu = Report.from_json((HERE / "gpu.json").read_text())
    fill(DOCS / "costs.md", "gpu", f"{_table(gpu)}\n\n({where(gpu)}.)")
    chosen = [r for r in report.results if r.title in IN_README]
    table = "\n".join(lines(chosen, targets=False))
    fill(HERE.parent / "README.md", "costs", f"{table}\n\n({where(report)}.)")


def main() -> None:
    parser = argparse.ArgumentParser("benchmarks", description=__doc__)
    # The empty list is what argparse checks when no name is given.
    parser.add_argument("names", nargs="*", choices=[[], *FILES], metavar="NAME")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, no growth")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--write", action="store_true", help="into README and docs")
    options = parser.parse_args()
    if options.names and options.write:
        parser.error("--write needs all benchmarks")
    report = Report()
    for line in lines([]):
        print(line)
    for name in options.names or FILES:
        for case in importlib.import_module(name).cases(options.quick):
            report.results.append(measure(case, options.quick))
            *_, row = lines(report.results[-1:])
            print(row, flush=True)
    print("\n" + "\n".join(others(report.results)))
    short = [f"- {r.title}: {r.ratio:.2f}" for r in report.results if r.is_short]
    print("\n".join(["\nshort of their target:", *(short or ["none"])]))
    print(where(report))
    if options.json:
        options.json.write_text(report.to_json())
    if options.quick or options.names:
        return
    found = list(growth.grow(quick=False))
    growing = list(growth.table(found))
    parts, steps = breakdown.table(), list(breakdown.new_object())
    print("\n" + "\n".join([*growing, "", *parts, "", *steps]))
    if options.write:
        growth.plot(found, DOCS / "growth.svg")
        write(report, growing, parts, steps)


if __name__ == "__main__":
    main()
