"""The program of a cell runs by itself and prints the result of the cell."""

import subprocess
import sys
from pathlib import Path

import pytest

from cachax.lab import known_probes, known_strategies
from cachax.lab._program import program

from families import NNX_IS_PYTREE


@pytest.mark.parametrize(
    ("strategy", "probe", "result"),
    [
        ("field", "grad_warm", "silently wrong: [0., 0., 0.] instead of [2., 4., 6.]"),
        ("by_hand", "order_use_use", "correct: 1 computation"),
        ("cachax_nnx", "pickle_size", "correct: +0 bytes"),
        ("functools_flax", "training_loop", "recomputed: 10 computations; 1 is enough"),
        ("linen_variable", "method", "correct: 1 computation"),
        ("functools_flax", "closure", "UnexpectedTracerError"),
    ],
)
def test_a_program_prints_the_result(
    strategy: str, probe: str, result: str, tmp_path: Path
) -> None:
    script = tmp_path / "cell.py"
    script.write_text(program(known_strategies()[strategy], known_probes()[probe]))
    ended = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False
    )
    if strategy == "cachax_nnx" and not NNX_IS_PYTREE:
        assert "an nnx.Module is a pytree since flax 0.12" in ended.stderr
    elif result.endswith("Error"):
        assert result in ended.stderr
    else:
        assert ended.stdout == f"{result}\n", ended.stderr


@pytest.mark.parametrize("strategy", known_strategies())
def test_every_program_is_valid_python(strategy: str) -> None:
    for probe in known_probes().values():
        text = program(known_strategies()[strategy], probe)
        compile(text, "cell.py", "exec")
        assert "from ._" not in text
        assert "RANK" not in text
