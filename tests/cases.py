"""Over which classes, properties and states a law is tried, and the correct values."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cachax

from families import CHAINS, FAMILIES, TRUTH, Family, array

A = np.array([1.0, 2.0, 3.0], dtype=np.float32)
B = np.array([0.5, -1.0, 2.0], dtype=np.float32)

PYTREES = [family for family in FAMILIES if family.pytree]
MUTABLE = [family for family in FAMILIES if family.mutable]
MUTABLE_PYTREES = [family for family in PYTREES if family.mutable]


def over(families: list[Family]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("family", families, ids=lambda f: f.name)


def over_chains(families: list[Family]) -> pytest.MarkDecorator:
    """Over the classes, and for each over the properties at the end of a chain."""
    cases = [(family, name) for family in families for name in family.chains]
    ids = [f"{family.name}.{name}" for family, name in cases]
    return pytest.mark.parametrize(("family", "name"), cases, ids=ids)


def over_keys(cases: dict[str, Any]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", cases)


def fresh(family: Family, *, warm: bool = False) -> Any:
    obj = family.make(jnp.asarray(A), jnp.asarray(B))
    return cachax.warm(obj, *family.warmable) if warm else obj


def reader(name: str) -> Any:
    return functools.partial(read, name)


def read(name: str, obj: Any) -> Any:
    return getattr(obj, name)


def truth(name: str, a: Any = A, b: Any = B) -> Any:
    return TRUTH[name](a, b)


def once(name: str) -> dict[str, int]:
    """The count of computations when every link of the chain is computed once."""
    return dict.fromkeys(CHAINS[name], 1)


def arrays_of(obj: Any) -> tuple[Any, Any]:
    return np.asarray(array(obj.a)), np.asarray(array(obj.b))


def close(got: Any, expected: Any) -> None:
    """Equal leaf by leaf, up to rounding; objects count as their arrays."""
    got, expected = jax.tree.leaves(got), jax.tree.leaves(expected)
    assert len(got) == len(expected)
    for x, y in zip(got, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=2e-6)
