"""What the README shows is so."""

import re
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from measure import computations, computing

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def test_the_code_does_what_its_comments_say(monkeypatch: pytest.MonkeyPatch) -> None:
    cholesky = jnp.linalg.cholesky

    def counted(x: jax.Array) -> jax.Array:
        computing("factorised")
        return cholesky(x)

    monkeypatch.setattr(jnp.linalg, "cholesky", counted)
    blocks = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    problem, solution, rebuilt = blocks
    assert "factorised three times" in problem
    assert "factorised once" in solution
    assert "the same one" in rebuilt
    namespace: dict[str, Any] = {"__name__": "readme"}
    for block, times in ((problem, 3), (solution, 1), (rebuilt, 1)):
        with computations() as counts:
            exec(block, namespace)
        assert counts == {"factorised": times}


def test_no_name_is_missing() -> None:
    import cachax

    public = [n for n in dir(cachax) if not n.startswith("_") and n.islower()]
    functions = [n for n in public if callable(getattr(cachax, n))]
    assert {"cached_property", "jit", "preset"} <= set(functions)
    for name in functions:
        assert f"`{name}" in README


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
