"""Several devices on one machine; cold and warm; no tracer may leak."""

import os
import shutil
import tempfile

# Under checking_leaks JAX compiles every operation anew: from here, it need not.
os.environ["JAX_COMPILATION_CACHE_DIR"] = tempfile.mkdtemp(prefix="cachax-tests-")
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
os.environ["XLA_FLAGS"] = " ".join(
    [
        os.environ.get("XLA_FLAGS", ""),
        "--xla_force_host_platform_device_count=4",
        "--xla_backend_optimization_level=0",  # tests compile much and run little
    ]
)

from collections.abc import Iterator

import jax
import pytest


def pytest_unconfigure() -> None:
    shutil.rmtree(os.environ["JAX_COMPILATION_CACHE_DIR"], ignore_errors=True)


@pytest.fixture(params=["cold", "warm"])
def warm(request: pytest.FixtureRequest) -> bool:
    return request.param == "warm"


@pytest.fixture
def no_leaks() -> Iterator[None]:
    with jax.checking_leaks():
        yield
