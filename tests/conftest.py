"""Several devices on one machine; cold and warm; no tracer may leak."""

import os

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


@pytest.fixture(params=["cold", "warm"])
def warm(request: pytest.FixtureRequest) -> bool:
    return request.param == "warm"


@pytest.fixture
def no_leaks() -> Iterator[None]:
    with jax.checking_leaks():
        yield
