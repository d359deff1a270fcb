"""The program of a cell runs by itself and prints the result of the cell."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cachax.lab import known_probes, known_strategies
from cachax.lab._program import program

from families import NNX_IS_PYTREE

RESULTS = {
    ("field", "grad_warm"): "silently wrong: [0., 0., 0.] instead of [2., 4., 6.]",
    ("by_hand", "order_use_use"): "correct: 1 computation",
    ("cachax_nnx", "pickle_size"): "correct: +0 bytes",
    ("functools_flax", "training_loop"): "recomputed: 10 computations; 1 is enough",
    ("linen_variable", "method"): "correct: 1 computation",
    ("functools_flax", "closure"): "UnexpectedTracerError",
}

ONE_AFTER_THE_OTHER = """
import contextlib, io, json, runpy, sys, traceback
ended = []
for script in sys.argv[1:]:
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        try:
            runpy.run_path(script, run_name="__main__")
            error = ""
        except BaseException:
            error = traceback.format_exc()
    ended.append((printed.getvalue(), error))
print(json.dumps(ended))
"""


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str]]:
    """What each program prints and raises. They share a process, and no names: most of
    the time would be spent on starting one for each."""
    folder = tmp_path_factory.mktemp("programs")
    scripts = [folder / f"{strategy}_{probe}.py" for strategy, probe in RESULTS]
    for script, (strategy, probe) in zip(scripts, RESULTS, strict=True):
        script.write_text(program(known_strategies()[strategy], known_probes()[probe]))
    command = [sys.executable, "-c", ONE_AFTER_THE_OTHER, *map(str, scripts)]
    return json.loads(subprocess.check_output(command, text=True))


@pytest.mark.parametrize(("strategy", "probe"), RESULTS)
def test_a_program_prints_the_result(
    strategy: str, probe: str, ended: list[tuple[str, str]]
) -> None:
    printed, error = ended[list(RESULTS).index((strategy, probe))]
    result = RESULTS[strategy, probe]
    if strategy == "cachax_nnx" and not NNX_IS_PYTREE:
        assert "an nnx.Module is a pytree since flax 0.12" in error
    elif result.endswith("Error"):
        assert result in error
    else:
        assert printed == f"{result}\n", error


def test_a_program_can_be_run_as_a_script(tmp_path: Path) -> None:
    script = tmp_path / "cell.py"
    script.write_text(program(known_strategies()["field"], known_probes()["grad_warm"]))
    printed = subprocess.check_output([sys.executable, str(script)], text=True)
    assert printed == f"{RESULTS['field', 'grad_warm']}\n"


@pytest.mark.parametrize("strategy", known_strategies())
def test_every_program_is_valid_python(strategy: str) -> None:
    entry = known_strategies()[strategy]
    for probe in known_probes().values():
        text = program(entry, probe)
        compile(text, "cell.py", "exec")
        assert "from ._" not in text
        assert "RANK" not in text
