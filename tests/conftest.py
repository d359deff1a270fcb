"""Several devices on one machine; cold and warm; no tracer may leak."""

import gc
import os
import shutil
import tempfile

from xla_flags import COMPILE_QUICKLY

# Most programs that the tests compile are compiled in several of them.
# pytest-xdist's workers share the folder of the process that starts them.
os.environ["JAX_COMPILATION_CACHE_DIR"] = (
    os.environ["JAX_COMPILATION_CACHE_DIR"]
    if "PYTEST_XDIST_WORKER" in os.environ
    else tempfile.mkdtemp(prefix="cachax-tests-")
)
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
os.environ["XLA_FLAGS"] = " ".join(
    [
        os.environ.get("XLA_FLAGS", ""),
        # Most users have one device, where arrays can't be in different places.
        "--xla_force_host_platform_device_count="
        + os.environ.get("CACHAX_TEST_DEVICES", "4"),
        *COMPILE_QUICKLY,
    ]
)

from collections.abc import Iterator
from pathlib import Path

import jax
import pytest

from cachax._errors import warning_again

from leaks import checking_leaks

# What `--quick` runs: the first case of each test in these.
QUICK = [
    "laws",
    "lint",
    "test_cached.py",
    "test_compat.py",
    "test_edges.py",
    "test_errors.py",
    "test_function.py",
    "test_jit.py",
    "test_layout.py",
    "test_levels.py",
    "test_lift.py",
    "test_method.py",
    "test_packaging.py",
    "test_public_api.py",
    "test_verbs.py",
]
# And what it leaves out of them: tests that search at random, or run whole programs.
NOT_QUICK = ["lint/test_claims.py", "lint/test_fuzz.py"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--quick",
        action="store_true",
        help="run the first case of each test of a choice of files",
    )


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    if not config.getoption("--quick"):
        return
    quick, not_quick = (
        [Path(__file__).parent / name for name in names] for names in (QUICK, NOT_QUICK)
    )
    if missing := [path.name for path in quick + not_quick if not path.exists()]:
        raise pytest.UsageError(f"tests/conftest.py names for --quick: {missing}")
    first: dict[str, pytest.Item] = {}
    for item in items:
        chosen = {item.path, *item.path.parents}.intersection(quick)
        if chosen and item.path not in not_quick:
            first.setdefault(item.nodeid.partition("[")[0], item)
    config.hook.pytest_deselected(items=[i for i in items if i not in first.values()])
    items[:] = first.values()


def pytest_unconfigure() -> None:
    if "PYTEST_XDIST_WORKER" not in os.environ:
        shutil.rmtree(os.environ["JAX_COMPILATION_CACHE_DIR"], ignore_errors=True)


@pytest.fixture(scope="module", autouse=True)
def _what_is_there_is_spared_by_the_collector() -> None:
    """The collector takes the longer, the more objects there are: what is imported, and
    what JAX keeps of earlier tests. JAX runs it whenever it suspects a leaked tracer,
    and so do some tests (8 s for twenty times, late in a run)."""
    gc.collect()
    gc.freeze()


@pytest.fixture(params=["cold", "warm"])
def warm(request: pytest.FixtureRequest) -> bool:
    return request.param == "warm"


@pytest.fixture
def no_leaks() -> Iterator[None]:
    with checking_leaks():
        yield


@pytest.fixture(autouse=True)
def _warnings_are_given_again() -> Iterator[None]:
    """A warning is given once in a program, and here once in a test."""
    with warning_again():
        yield


@pytest.fixture(autouse=True)
def _settings_are_left_alone() -> Iterator[None]:
    """A test must leave the settings of JAX as they are: later tests use them."""
    before = dict(jax.config.values)
    yield
    assert jax.config.values == before
