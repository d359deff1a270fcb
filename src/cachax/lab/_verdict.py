"""What a probe measured, and the verdict on it."""

import enum
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np


class Verdict(enum.Enum):
    """In the order of how much a user should worry."""

    RIGHT = "correct"
    RECOMPUTED = "recomputed"
    ERROR = "error"
    WRONG = "silently wrong"
    ABSENT = "not installed"


@dataclass(frozen=True)
class Measured:
    """The values a probe got, the true values, and how much work it took.

    >>> Measured(got=5.0, truth=5.0, work=2).verdict
    <Verdict.RECOMPUTED: 'recomputed'>
    """

    got: Any = ()
    truth: Any = ()
    work: int | None = None
    least: int = 1
    of: str = "computation"
    note: str = ""

    @property
    def verdict(self) -> Verdict:
        got, truth = _real(self.got), _real(self.truth)
        if got.shape != truth.shape or not np.allclose(got, truth, rtol=1e-5):
            return Verdict.WRONG
        if self.work is not None and self.work < self.least:
            raise ValueError(
                f"{self.work} {self.of}s: fewer than {self.least} is impossible"
            )
        if self.work is not None and self.work > self.least:
            return Verdict.RECOMPUTED
        return Verdict.RIGHT

    @property
    def what_happened(self) -> str:
        """The result in words."""
        if self.verdict is Verdict.WRONG:
            return f"{_words(self.got)} instead of {_words(self.truth)}"
        if self.note:
            return self.note
        if self.work is None:
            return "the same as without a cache"
        plural = "" if self.work == 1 else "s"
        enough = f"; {self.least} is enough" if self.work > self.least else ""
        return f"{self.work} {self.of}{plural}{enough}"


def _real(value: Any) -> np.ndarray:
    """The value in NumPy; a leaked tracer raises JAX's own error."""
    return np.asarray(jnp.asarray(value) + 0)


def _words(value: Any) -> str:
    return np.array2string(_real(value), precision=4, separator=", ")
