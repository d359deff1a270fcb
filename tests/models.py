"""Classes that several tests are about."""

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import cachax

from measure import computing


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Mesh:
    points: Any
    density: Any
    order: int = field(default=1, metadata={"static": True})

    @cachax.cached_property
    def stiffness(self) -> Any:
        computing("stiffness")
        return self.order * jnp.outer(self.points, self.points)

    @cachax.cached_property
    def factor(self) -> Any:
        """Reads a different property."""
        computing("factor")
        return jnp.linalg.cholesky(self.stiffness + 9 * jnp.eye(len(self.points)))

    @cachax.cached_property
    def mass(self) -> Any:
        computing("mass")
        return jnp.sum(self.points * self.density)

    @cachax.cached_property
    def size(self) -> Any:
        """Of its shape alone."""
        computing("size")
        return self.density.shape[0] * jnp.sum(self.points)

    @cachax.cached_property
    def count(self) -> int:
        """Only on the host: what it looks at counts."""
        computing("count")
        return len(np.unique(np.asarray(self.points)))

    @cachax.cached_method
    def power(self, n: int) -> Any:
        computing("power")
        return self.points**n


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Process:
    x: Any
    y: Any

    @cachax.cached_property
    def factor(self) -> Any:
        return jnp.linalg.cholesky(jnp.outer(self.x, self.x) + jnp.eye(len(self.x)))

    @cachax.cached_property
    def weights(self) -> Any:
        return jax.scipy.linalg.cho_solve((self.factor, True), self.y)

    @cachax.cached_method
    def power(self, n: int) -> Any:
        return self.x**n
