"""Several devices. The tests make four on a CPU; a machine may have one GPU."""

import jax
import pytest


def first_devices(count: int) -> list[jax.Device]:
    """The first of them, for a test that needs that many."""
    found = jax.devices()
    if len(found) < count:
        pytest.skip(f"needs {count} devices", allow_module_level=True)
    return found[:count]
