"""The programs of the README do what it says."""

import difflib
import re
import subprocess
import sys

import pytest

from pages import ROOT, blocks, environment

README = (ROOT / "README.md").read_text()


PROBLEM, SOLUTION, LOOP = [
    block["text"] for block in blocks(README) if block["language"] == "python"
][:3]


def printed(code: str, capfd: pytest.CaptureFixture[str]) -> str:
    """What a program prints when it is copied and run by itself."""
    subprocess.run([sys.executable, "-c", code], check=True, env=environment())
    return capfd.readouterr().out


def test_the_first_program_runs_by_itself(capfd: pytest.CaptureFixture[str]) -> None:
    assert printed(PROBLEM, capfd) == "factorising\n" * 3
    assert printed(SOLUTION, capfd) == "factorising\n"


def test_two_lines_and_an_import_change() -> None:
    lines = difflib.ndiff(PROBLEM.splitlines(), SOLUTION.splitlines())
    changed = [line for line in lines if line[0] in "+-"]
    assert [line.split("#")[0].strip() for line in changed] == [
        "- import functools, flax.struct, jax, jax.numpy as jnp",
        "+ import cachax, flax.struct, jax, jax.numpy as jnp",
        "-     @functools.cached_property",
        "+     @cachax.cached_property",
        "- @jax.jit",
        "+ @cachax.jit",
    ]


def test_the_loop_does_not_factorise_again(capfd: pytest.CaptureFixture[str]) -> None:
    assert printed(SOLUTION + LOOP, capfd) == "factorising\n"


@pytest.mark.parametrize("page", ["tour", "api"])
def test_no_name_is_missing(page: str) -> None:
    import cachax

    text = (ROOT / "docs" / f"{page}.md").read_text()
    public = [n for n in dir(cachax) if not n.startswith("_") and n.islower()]
    functions = [n for n in public if callable(getattr(cachax, n))]
    assert {"cached_property", "jit", "preset"} <= set(functions)
    for name in functions:
        assert re.search(rf"\b{name}\b", text), name


def test_the_costs_come_from_the_benchmarks() -> None:
    """Their numbers depend on the machine, their cases do not."""
    files = (ROOT / "benchmarks").glob("*.py")
    source = "".join(path.read_text() for path in files)
    for page in (README, (ROOT / "docs/costs.md").read_text()):
        table = re.search(r"<!-- costs -->\n(.*?)<!-- end -->", page, flags=re.DOTALL)
        assert table is not None
        cases = re.findall(r"^\| ([^|]+) \| [^|]*(?:µs|ns|ms)", table[1], flags=re.M)
        assert len(cases) >= 6
        for case in cases:
            words = re.split(r"[\d,]{2,}", case)  # numbers are put in
            assert all(word in source for word in words), case
