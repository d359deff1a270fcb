"""Law 7. As many compilations as `jax.jit` would need, cold or warm.

Not with `jax.checking_leaks`, which turns off the caches this is about.
"""

from typing import Any

import jax
import jax.numpy as jnp

import cachax

from cases import PYTREES, A, B, close, fresh, over, over_chains, read, truth
from families import FAMILIES, Family
from measure import compilations


@over_chains(PYTREES)
def test_cold_then_warm_then_a_different_object(family: Family, name: str) -> None:
    cachax.warm(fresh(family))  # the programs of the properties are compiled now
    fun = cachax.jit(lambda o: read(name, o) * 2)
    obj = fresh(family)
    others = [family.make(jnp.asarray(A + k), jnp.asarray(B)) for k in (1.0, 2.0)]
    cachax.warm(others[1])
    with compilations() as compiled:
        close(fun(obj), truth(name) * 2)
        fun(obj)
        fun(cachax.warm(obj))
        for k, other in enumerate(others):
            close(fun(other), truth(name, A + k + 1) * 2)
    assert len(compiled) == 1


@over_chains(PYTREES)
def test_a_property_used_by_five_functions(family: Family, name: str) -> None:
    """Its own programs are compiled on first use, and by no function again."""
    jax.clear_caches()
    arrays = jnp.asarray(A), jnp.asarray(B)

    def used_by(number: int) -> int:
        with compilations() as compiled:
            obj = family.make(*arrays)
            for k in range(number):
                cachax.jit(lambda o, k=k: read(name, o) * k)(obj)
        return len(compiled)

    with_one = used_by(1)
    assert with_one > 1  # the function, and something for the property
    assert used_by(5) == 5


@over(PYTREES)
def test_each_new_shape_compiles_once_as_in_jax(family: Family) -> None:
    objects = [family.make(jnp.ones(n), jnp.ones(n)) for n in (2, 3, 2, 3)]
    for obj in objects:
        cachax.warm(obj, "scaled")
    jitted = cachax.jit(lambda o: o.scaled * 2)
    with compilations() as compiled:
        for obj in objects:
            jitted(obj)
    assert len(compiled) == 2


@over(FAMILIES)
def test_the_first_touch_may_be_under_a_named_axis(family: Family) -> None:
    """The property's own programs are those of everywhere else."""
    cachax.warm(fresh(family), "scaled")
    obj = fresh(family)

    def fun(x: Any) -> Any:
        assert obj.scaled is not None
        return jax.lax.psum(x, "i")

    ones = jnp.ones(2)
    jax.vmap(lambda x: jax.lax.psum(x, "i"), axis_name="i")(ones)  # compiles its own
    with compilations() as compiled:
        jax.vmap(fun, axis_name="i")(ones)
    assert compiled == []
    assert cachax.is_cached(obj, "scaled")


def test_without_cached_objects_it_traces_as_often_as_jax() -> None:
    traces = {"jax": 0, "cachax": 0}

    def run(jit: Any, name: str) -> None:
        def fun(x: Any, y: Any = 1, *, z: Any = None) -> Any:
            traces[name] += 1
            return x + y

        jitted = jit(fun)
        for _ in range(2):
            jitted(1.0)
            jitted(jnp.ones(3))
            jitted(jnp.ones(3), y=2)
            jitted({"a": 1}["a"], 2, z=[1, (2, 3)])

    run(jax.jit, "jax")
    run(cachax.jit, "cachax")
    assert traces["cachax"] == traces["jax"] > 1
