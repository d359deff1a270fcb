"""Write the table of scenarios on several processes into docs/processes.md.

`python docs/scenarios.py`; what it runs is in tests/processes.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from processes.run import Ended, run  # noqa: E402 (it is beside the tests)
from processes.test_processes import is_as_plain  # noqa: E402 (the same)

PAGE = ROOT / "docs" / "processes.md"
_HEAD = """\
| in one process, or in all | plain property, `jax.jit` | cachax | computed |
|---|---|---|---:|
"""


def main() -> None:
    two = run("processes.programs:compared", 2)
    four = run("processes.programs:three", 4)
    hanging = run("processes.programs:plain_reading", 2, timeout=30)
    is_hanging = any(each.code is None for each in hanging)
    rows = []
    for name in two[0].results:
        plain = "correct"
        if name == hanging_name() and is_hanging:
            plain = "hangs"
        also = ", also on 4 processes" if name in four[0].results else ""
        good = is_correct(two, name) and (not also or is_correct(four, name))
        lines = two[0].results[name]["lines"]
        count = sum(line.startswith("compute") for line in lines)
        said = f"correct{also}" if good else "wrong"
        rows.append(f"| {name} | {plain} | {said} | {count} |")
    fill(_HEAD + "\n".join(rows))


def hanging_name() -> str:
    from processes.scenarios import SCENARIOS, reading

    return next(name for name, each in SCENARIOS.items() if each is reading)


def is_correct(ended: list[Ended], name: str) -> bool:
    results = [each.results[name] for each in ended]
    same = all(each["lines"] == results[0]["lines"] for each in results)
    return same and all(map(is_as_plain, results))


def fill(table: str) -> None:
    between = re.compile(r"(<!-- scenarios -->\n).*?(<!-- end -->)", re.DOTALL)
    page = PAGE.read_text()
    PAGE.write_text(
        between.sub(lambda found: f"{found[1]}{table}\n{found[2]}", page, 1)
    )


if __name__ == "__main__":
    main()
