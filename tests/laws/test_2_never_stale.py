"""Law 2. What is read is what the body would return now, on the present fields."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
import pytest

import cachax

from cases import (
    MUTABLE,
    MUTABLE_PYTREES,
    PYTREES,
    A,
    arrays_of,
    close,
    fresh,
    over_chains,
    over_keys,
    read,
    reader,
    truth,
)
from families import FAMILIES, Family, array

pytestmark = pytest.mark.usefixtures("no_leaks")

Rebuild = Callable[[Family, Any], tuple[Any, Any]]
"""Another object made of the given one, and its array `a`."""

REBUILD: dict[str, Rebuild] = {
    "replace": lambda f, o: (f.replace(o, a=jnp.asarray(A + 1)), A + 1),
    "copy": lambda f, o: (copy.copy(o), A),
    "deepcopy": lambda f, o: (copy.deepcopy(o), A),
    "pickle": lambda f, o: (pickle.loads(pickle.dumps(o)), A),
}


@over_chains(FAMILIES)
@over_keys(REBUILD)
def test_a_rebuilt_object_has_its_own_values(
    family: Family, name: str, warm: bool, case: str
) -> None:
    obj = fresh(family, warm=warm)
    new, a = REBUILD[case](family, obj)
    close(arrays_of(new)[0], a)
    close(read(name, new), truth(name, *arrays_of(new)))
    close(read(name, obj), truth(name))


def optimizer_step(obj: Any) -> Any:
    optimizer = optax.sgd(0.5)
    gradient = jax.tree.map(jnp.ones_like, obj)
    updates, _ = optimizer.update(gradient, optimizer.init(obj), obj)
    return optax.apply_updates(obj, updates)


def taken_apart(obj: Any) -> Any:
    leaves, structure = jax.tree.flatten(obj)
    return structure.unflatten(leaves)


REBUILD_TREE: dict[str, Rebuild] = {
    "tree_map": lambda f, o: (jax.tree.map(lambda x: 2 * x, o), 2 * A),
    "flatten": lambda f, o: (taken_apart(o), A),
    "optimizer": lambda f, o: (optimizer_step(o), A - 0.5),
    "jit": lambda f, o: (cachax.jit(lambda p: jax.tree.map(jnp.exp, p))(o), jnp.exp(A)),
}


@over_chains(PYTREES)
@over_keys(REBUILD_TREE)
def test_an_object_rebuilt_by_jax_has_its_own_values(
    family: Family, name: str, warm: bool, case: str
) -> None:
    obj = fresh(family, warm=warm)
    new, a = REBUILD_TREE[case](family, obj)
    close(arrays_of(new)[0], a)
    fun = cachax.jit(reader(name))
    for o in (new, obj):
        close(fun(o), truth(name, *arrays_of(o)))
        close(read(name, o), truth(name, *arrays_of(o)))


@over_chains(MUTABLE)
def test_assignment_is_detected(family: Family, name: str, warm: bool) -> None:
    obj = fresh(family, warm=warm)
    for k in (1, 2, 3):
        family.assign(obj, jnp.asarray(A + k))
        close(read(name, obj), truth(name, A + k))


@over_chains(MUTABLE_PYTREES)
def test_assignment_is_detected_by_jit(family: Family, name: str, warm: bool) -> None:
    obj = fresh(family, warm=warm)
    fun = cachax.jit(reader(name))
    for k in (1, 2, 3):
        family.assign(obj, jnp.asarray(A + k))
        close(fun(obj), truth(name, A + k))


@over_chains(MUTABLE_PYTREES)
def test_assignment_inside_jit_is_detected(
    family: Family, name: str, warm: bool
) -> None:
    @cachax.jit
    def fun(o: Any) -> Any:
        before = read(name, o)
        family.assign(o, array(o.a) + 1)
        return before, read(name, o)

    obj = fresh(family, warm=warm)
    for _ in range(2):
        close(fun(obj), (truth(name), truth(name, A + 1)))
    close(read(name, obj), truth(name))
