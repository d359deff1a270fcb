"""Objects rebuilt for every call find their values by the arrays."""

import gc
import weakref
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import cachax

from cases import close
from measure import computations
from models import Mesh


def of_mesh() -> Any:
    """A separate function for each test, without what others have learned."""
    return cachax.jit(lambda m, by=1.0: by * jnp.sum(m.stiffness) + jnp.sum(m.density))


def mesh() -> Mesh:
    return Mesh(jnp.arange(3.0), jnp.ones(3))


def test_a_different_array_that_it_depends_on_is_detected() -> None:
    use, one = of_mesh(), mesh()
    for i in range(4):
        close(use(replace(one, density=one.density + i)), 12 + 3 * i)
    close(use(replace(one, points=jnp.ones(3))), 12.0)
    close(use(replace(one, points=2 * one.points)), 39.0)
    close(use(replace(one, density=one.density)), 12.0)


def test_an_array_in_two_fields_is_used_if_one_of_them_is() -> None:
    one = Mesh(jnp.ones(3), jnp.ones(3))
    for i in range(3):  # finds out that the density is of no use
        of_mesh()(replace(one, density=one.density + i))
    use, twice = of_mesh(), replace(one, density=one.points)
    for _ in range(4):
        close(use(replace(twice)), 12.0)
    close(use(replace(twice, points=2 * one.points)), 39.0)


def test_a_static_field_is_detected() -> None:
    use, one = of_mesh(), mesh()
    for order in (1, 1, 1, 2, 2, 2, 1, 3):
        close(use(replace(one, order=order)), 9.0 * order + 3)


def test_the_shape_of_an_unused_array_is_detected() -> None:
    use, one = cachax.jit(lambda m: m.size + jnp.sum(m.density)), mesh()
    for shape in (3, 3, 3, 2, 2, 2, 3, 2):
        density = jnp.ones(shape)
        close(use(replace(one, density=density)), 3.0 * shape + shape)


def test_a_preset_value_and_one_laid_in_win() -> None:
    use, one = of_mesh(), mesh()
    for _ in range(4):
        use(replace(one, density=one.density))
    close(use(cachax.preset(one, stiffness=jnp.zeros((3, 3)))), 3.0)
    laid = replace(one)
    laid.__dict__["stiffness"] = jnp.ones((3, 3))
    close(use(laid), 12.0)


def test_what_is_cleared_is_computed_again() -> None:
    use, one = of_mesh(), mesh()
    for _ in range(4):
        use(replace(one, density=one.density))
    cachax.clear(one)
    with computations() as counts:
        use(replace(one, density=one.density))
    assert counts == {"stiffness": 1}


def test_nothing_is_kept_of_arrays_that_are_gone() -> None:
    use, one = of_mesh(), mesh()
    for _ in range(4):
        use(replace(one, density=one.density))
    watched = [weakref.ref(one.stiffness), weakref.ref(one.points)]
    del one
    gc.collect()
    assert [ref() for ref in watched] == [None, None]
    for i in range(50):  # their ids may be used again
        other = Mesh(jnp.full(3, float(i)), jnp.ones(3))
        close(use(replace(other)), 9.0 * i * i + 3)


def test_many_arrangements_of_the_same_arrays() -> None:
    """More than are kept for one array."""
    use, one = of_mesh(), mesh()
    for _ in range(3):
        for order in (1, 2, 3, 4):
            for _ in range(2):
                close(use(replace(one, order=order)), 9.0 * order + 3)
    watched = weakref.ref(one.points)
    del one
    gc.collect()
    assert watched() is None
    other = mesh()
    close(use(replace(other, points=jnp.ones(3))), 12.0)


def test_under_transformations() -> None:
    use, one = of_mesh(), mesh()
    for _ in range(4):
        use(replace(one, density=one.density))

    def loss(density: Any) -> Any:
        return use(replace(one, density=density))

    close(jax.grad(loss)(one.density), np.ones(3))
    close(jax.vmap(loss)(jnp.ones((2, 3))), np.array([12.0, 12.0]))
    close(jax.jit(loss)(one.density), 12.0)
    slopes = jax.grad(lambda p: use(replace(one, points=p)))(one.points)
    close(slopes, np.full(3, 6.0))
