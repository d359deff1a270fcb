"""Law 6. A warm object is the same as a cold one to everybody else."""

import pickle
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cachax

from cases import PYTREES, A, B, close, fresh, over
from families import FAMILIES, Family

pytestmark = pytest.mark.usefixtures("no_leaks")


def looks(family: Family, obj: Any) -> dict[str, Any]:
    seen = {
        "fields": list(getattr(obj, "__dict__", {})),
        "repr": repr(obj),
        "pickle": pickle.dumps(obj),
        "dir": dir(obj),
    }
    if family.pytree:
        seen["structure"] = jax.tree.structure(obj)
        seen["ids"] = [id(x) for x in jax.tree.leaves(obj)]
        seen["paths"] = str(jax.tree_util.tree_leaves_with_path(obj))
    return seen


@over(FAMILIES)
def test_a_warm_object_looks_like_a_cold_one(family: Family) -> None:
    obj = fresh(family)
    before = looks(family, obj)
    cachax.warm(obj, "distinct", *family.warmable)
    if family.pytree:
        cachax.jit(lambda o: o.scaled)(obj)
    assert looks(family, obj) == before


@over(FAMILIES)
def test_equality_and_hash_stay(family: Family) -> None:
    cold, hot = (family.make(np.float32(1.5), np.float32(2.5)) for _ in range(2))

    def compared() -> tuple[Any, ...]:
        hashable = type(hot).__hash__ is not None
        return cold == hot, hot == hot, hashable and hash(hot)

    before = compared()
    cachax.warm(hot, "scaled")
    assert compared() == before


@over(PYTREES)
def test_warm_and_cold_go_through_tree_map_together(family: Family) -> None:
    both = jax.tree.map(jnp.add, fresh(family), fresh(family, warm=True))
    close(both, (2 * A, 2 * B))
