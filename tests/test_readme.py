"""What the README shows is so."""

import re
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from measure import computations, computing
from pages import ROOT, blocks

README = (ROOT / "README.md").read_text()


def test_two_lines_change_and_it_is_factorised_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cholesky = jnp.linalg.cholesky

    def counted(x: jax.Array) -> jax.Array:
        computing("factorised")
        return cholesky(x)

    monkeypatch.setattr(jnp.linalg, "cholesky", counted)
    setup, problem, change = blocks(README)[:3]
    old = re.findall(r"^-(.*)", change["text"], flags=re.MULTILINE)
    new = re.findall(r"^\+(.*)", change["text"], flags=re.MULTILINE)
    assert len(old) == len(new) == 2
    solution = problem["text"]
    for before, after in zip(old, new, strict=True):
        assert before in solution
        solution = solution.replace(before, after)
    assert "factorised three times" in problem["text"]
    namespace: dict[str, Any] = {"__name__": "readme"}
    exec(setup["setup"], namespace)
    for code, times in ((problem["text"], 3), (solution, 1)):
        with computations() as counts:
            exec(code, namespace)
        assert counts == {"factorised": times}


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
