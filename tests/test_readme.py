"""What the README shows is so."""

import importlib.util
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def load(path: str) -> Any:
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_code_runs() -> None:
    blocks = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert len(blocks) == 2
    namespace: dict[str, Any] = {"__name__": "readme"}
    for block in blocks:
        exec(block, namespace)
    assert namespace["cachax"].is_cached(namespace["p"], "factor")


def test_the_table_is_what_the_demo_prints() -> None:
    assert load("examples/four_orders.py").table() in README


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
