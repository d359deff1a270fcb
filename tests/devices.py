"""Several devices. The tests make four on a CPU; a machine may have one GPU."""

import jax
import pytest

try:
    from jax import shard_map as shard_map
except ImportError:  # before JAX 0.6
    from jax.experimental.shard_map import shard_map as shard_map


def first_devices(count: int) -> list[jax.Device]:
    """The first of them, for a test that needs that many."""
    found = jax.devices()
    if len(found) < count:
        pytest.skip(f"needs {count} devices", allow_module_level=True)
    return found[:count]
