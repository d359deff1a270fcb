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
    problem, solution = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert "factorised three times" in problem
    assert "factorised once" in solution
    namespace: dict[str, Any] = {"__name__": "readme"}
    for block, times in ((problem, 3), (solution, 1)):
        with computations() as counts:
            exec(block, namespace)
        assert counts == {"factorised": times}


def test_no_name_is_missing() -> None:
    import cachax

    public = [n for n in vars(cachax) if not n.startswith("_") and n.islower()]
    functions = [n for n in public if callable(getattr(cachax, n))]
    assert {"cached_property", "jit", "preset"} <= set(functions)
    for name in functions:
        assert f"`{name}" in README


def test_the_cost_table_has_the_rows_of_the_benchmark() -> None:
    """Its numbers depend on the machine, its cases do not."""
    source = (ROOT / "benchmarks/cost.py").read_text()
    cases = re.findall(r'row\(\s*"([^"]+)"', source)
    assert len(cases) == 4
    for case in cases:
        assert f"| {case} |" in README
