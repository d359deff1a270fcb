"""What a body takes for intermediate results, and when `explain` says so."""

from typing import Any

import flax.struct
import jax
import jax.numpy as jnp

import cachax
from cachax._report.intermediates import intermediate_bytes


def bytes_of(body: Any) -> int:
    return intermediate_bytes(jax.make_jaxpr(body)(jnp.ones(1000)).jaxpr)


def test_what_is_not_used_any_more_does_not_count() -> None:
    assert bytes_of(lambda x: x) == 0
    assert bytes_of(lambda x: x + 1) == 0
    assert bytes_of(lambda x: jnp.sum(jnp.sin(x))) == 4000
    assert bytes_of(lambda x: jnp.sum(jnp.sin(jnp.cos(jnp.tan(x))))) == 8000
    assert bytes_of(lambda x: jnp.sum(jnp.sin(x) + jnp.cos(x) + jnp.tan(x))) == 12000
    assert bytes_of(jax.jit(lambda x: jnp.sum(jnp.sin(x) + jnp.cos(x)))) == 0


class Large(flax.struct.PyTreeNode):
    x: jax.Array

    @cachax.cached_property
    def eager(self) -> Any:
        return jnp.sum(jnp.sin(self.x) * jnp.cos(self.x))

    @cachax.cached_property
    @jax.jit
    def jitted(self) -> Any:
        return jnp.sum(jnp.sin(self.x) * jnp.cos(self.x))


def test_explain_suggests_jit_where_it_pays() -> None:
    use = cachax.jit(lambda o: o.eager + o.jitted)
    for length, expected in [(2**21, {"Large.eager"}), (8, set())]:
        told = cachax.explain(use, Large(jnp.ones(length)))
        suggested = {p.name for p in told.properties if "`@jax.jit` under" in p.why}
        assert suggested == expected
