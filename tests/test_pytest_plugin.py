"""The pytest option `--cachax-verify`."""

import subprocess
import sys
from pathlib import Path

import pytest

import cachax
from cachax import pytest_plugin
from cachax._core.computed import Computed

pytest_plugins = ["pytester"]
cachax.cached_property, cachax.verify, cachax.warm  # noqa: B018
# Loaded here: what is first loaded in a run of pytester's is forgotten after it, and
# would be there twice.

READ = vars(Computed)["read"]

STALE = """
import cachax, numpy as np, pytest

class Line:
    def __init__(self):
        self.x = np.ones(2)

    @cachax.cached_property
    def mean(self):
        return self.x.mean()

@pytest.fixture
def line():
    return cachax.warm(Line())

def test_is_stale(line):
    line.x[0] = 5.0
    assert line.mean == 1.0

def test_is_correct(line):
    assert line.mean == 1.0
"""


@pytest.fixture
def project(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> pytest.Pytester:
    # Else the plugin is loaded twice where cachax is installed, and others come too.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(STALE)
    return pytester


def test_without_the_option_nothing_is_verified(project: pytest.Pytester) -> None:
    result = project.runpytest_inprocess("-p", "cachax.pytest_plugin")
    result.assert_outcomes(passed=2)
    result.stdout.no_fnmatch_line("*every hit is verified*")


def test_with_it_a_stale_value_fails_its_test(project: pytest.Pytester) -> None:
    result = project.runpytest_inprocess(
        "-p", "cachax.pytest_plugin", "--cachax-verify"
    )
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "cachax: every hit is verified",
            "*StaleValueError: Line.mean: *field 'x' was written to in place*",
            "FAILED *::test_is_stale*",
        ]
    )
    assert vars(Computed)["read"] is READ


def test_verify_can_be_turned_on_in_the_configuration(project: pytest.Pytester) -> None:
    project.makeini("[pytest]\ncachax_verify = true")
    result = project.runpytest_inprocess("-p", "cachax.pytest_plugin")
    result.assert_outcomes(passed=1, failed=1)


def test_the_option_is_explained(project: pytest.Pytester) -> None:
    result = project.runpytest_inprocess("-p", "cachax.pytest_plugin", "--help")
    result.stdout.fnmatch_lines(["*--cachax-verify*", "*cachax_verify (bool)*"])


def test_pytest_without_the_option_does_not_load_jax(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plugins are loaded in every project, also in those without JAX."""
    pytester.makepyfile(
        "import sys\ndef test_it():\n"
        "    assert 'cachax.pytest_plugin' in sys.modules\n"
        "    assert not {'jax', 'numpy'} & sys.modules.keys()"
    )
    monkeypatch.setenv("PYTHONPATH", str(Path(pytest_plugin.__file__).parent.parent))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # those of others
    result = pytester.runpytest_subprocess("-p", "cachax.pytest_plugin")
    result.assert_outcomes(passed=1)


def test_importing_the_plugin_does_not_import_jax() -> None:
    """And to use cachax does, which shows that the test can fail."""
    program = "import sys, {}; assert 'jax' not in sys.modules"
    for module, code in (("cachax.pytest_plugin", 0), ("cachax; cachax.jit", 1)):
        run = subprocess.run(
            [sys.executable, "-c", program.format(module)], capture_output=True
        )
        assert run.returncode == code, run.stderr
