"""The pytest option `--cachax-verify`: run every test inside `cachax.verify`.

pytest loads its plugins in every project, and to load this one must not load JAX.
"""

from collections.abc import Generator
from contextlib import nullcontext
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("cachax")
    group.addoption(
        "--cachax-verify",
        action="store_true",
        default=False,
        help="compute every cached value again when it is found, and compare "
        "(cachax.verify); a difference fails the test",
    )
    parser.addini(
        "cachax_verify", "always do as --cachax-verify says", type="bool", default=False
    )


def pytest_report_header(config: pytest.Config) -> str | None:
    return "cachax: every hit is verified" if _is_on(config) else None


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, None]:
    """Around a test and its fixtures."""
    with _verifying(item.config):
        yield


def _verifying(config: pytest.Config) -> Any:
    if not _is_on(config):
        return nullcontext()
    from cachax import verify  # only now: it loads JAX

    return verify()


def _is_on(config: pytest.Config) -> bool:
    return bool(config.getoption("--cachax-verify") or config.getini("cachax_verify"))
