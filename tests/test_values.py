"""A value as arrays and the rest."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cachax
from cachax._core.slots import layout_of
from cachax._core.values import pack

from cases import close


def packed(value: Any) -> Any:
    parts = pack(value, "Owner.value")
    assert parts is not None
    return parts


@pytest.mark.parametrize(
    ("value", "arrays"),
    [
        (jnp.ones(2), 1),
        ({"a": np.ones(2, np.float32), "b": [jnp.ones(()), 3, "c", None]}, 2),
        ((1, 2.5, True, "a", np.int64(3), np.bool_(True)), 0),
        ((np.float32(1), np.complex64(1j)), 2),
        (None, 0),
        (jax.random.key(0), 1),
    ],
    ids=str,
)
def test_arrays_are_inputs_and_the_rest_is_static(value: Any, arrays: int) -> None:
    parts = packed(value)
    assert len(parts.arrays) == parts.form.holes == arrays
    assert all(isinstance(x, jax.Array) for x in parts.arrays)
    again = parts.fill(parts.arrays, ())
    assert jax.tree.structure(again) == jax.tree.structure(value)
    if not isinstance(value, jax.Array) or jnp.issubdtype(value.dtype, jnp.number):
        numbers = [x for x in jax.tree.leaves(value) if not isinstance(x, str)]
        close([x for x in jax.tree.leaves(again) if not isinstance(x, str)], numbers)


def test_forms_of_values_that_trace_alike_are_equal() -> None:
    one, two = packed((jnp.ones(2), 3, "a")).form, packed((jnp.zeros(5), 3, "a")).form
    assert one == two
    assert hash(one) == hash(two)
    assert one != packed((jnp.ones(2), 4, "a")).form
    assert one != packed([jnp.ones(2), 3, "a"]).form


@pytest.mark.parametrize(
    ("one", "two"), [(1, 1.0), (1, True), (0.0, -0.0), (-1, -2), (1.0, 1 + 0j)]
)
def test_statics_that_are_equal_and_not_the_same(one: Any, two: Any) -> None:
    assert packed(one).form != packed(two).form
    assert packed(one).form == packed(one).form


def test_not_a_number_is_itself() -> None:
    assert packed(float("nan")).form == packed(float("nan")).form


def test_arrays_out_of_sight_do_not_travel() -> None:
    x = jnp.ones(2)
    assert pack(lambda: x, "Owner.value") is None


def test_objects_in_a_tree_are_found_in_one_order() -> None:
    class Leafy:
        @cachax.cached_property
        def value(self) -> int:
            return 1

        def __init__(self, *children: Any) -> None:
            self.children = children

    jax.tree_util.register_pytree_node(
        Leafy, lambda o: (o.children, None), lambda _, children: Leafy(*children)
    )
    inner, other = Leafy(1.0), Leafy()
    outer = Leafy(2.0, {"a": inner})
    tree = ([outer, 3.0], {"b": other, "a": None})
    layout = layout_of(tree)
    assert layout is not None
    assert layout.objects(tree) == [outer, inner, other]
    rebuilt = jax.tree.map(lambda x: x, tree)
    assert [type(o) for o in layout.objects(rebuilt)] == [Leafy] * 3
    assert layout_of([1.0, {"a": jnp.ones(2)}]) is None
