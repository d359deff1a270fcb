"""Strings that all processes can read, by JAX's coordination service.

Not by a collective of the devices, which would wait for the other processes itself.
"""

from typing import Any

import jax

from .._compat import coordination_client


class Board:
    """What the processes tell each other, under keys that begin alike."""

    def __init__(self, prefix: str) -> None:
        self._client: Any = coordination_client()
        self._prefix = prefix
        self.rank = jax.process_index()
        self.count = jax.process_count()

    def write(self, key: str, text: str) -> None:
        """May be written again."""
        self._client.key_value_set(f"{self._prefix}/{key}", text, allow_overwrite=True)

    def read(self, key: str, timeout: float) -> str | None:
        """Waits until it is there; None if that takes too long."""
        milliseconds = max(int(timeout * 1000), 1)
        try:
            text: str = self._client.blocking_key_value_get(
                f"{self._prefix}/{key}", milliseconds
            )
        except RuntimeError as error:  # JAX's own class is a different one since 0.5
            if "DEADLINE_EXCEEDED" not in str(error):
                raise
            return None
        return text

    def read_all(self, key: str) -> dict[str, str]:
        """What is there now under keys that begin with this one and a slash."""
        start = f"{self._prefix}/{key}/"
        found = self._client.key_value_dir_get(start)
        return {name.removeprefix(start): text for name, text in found}

    def delete(self, key: str) -> None:
        """This key, and those that begin with it and a slash."""
        self._client.key_value_delete(f"{self._prefix}/{key}/")
