"""lineax: init, then state=

By hand, with correct derivatives: lineax differentiates the solution, not the state.
lineax does not check that the state belongs to the operator.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import lineax as lx

from cachax.lab import Way, counted

SOLVER = lx.Cholesky()


class Foo(NamedTuple):
    operator: lx.MatrixLinearOperator
    state: Any
    c: jax.Array | None = None

    @property
    def b(self) -> jax.Array:
        return self.power(1)

    def power(self, n: int) -> jax.Array:
        x = jnp.ones(self.operator.matrix.shape[-1])
        for _ in range(n):
            x = lx.linear_solve(self.operator, x, SOLVER, state=self.state).value
        return x.sum()


def matrix(a: jax.Array) -> lx.MatrixLinearOperator:
    return lx.MatrixLinearOperator(jnp.diag(a), lx.positive_semidefinite_tag)


def new(a: jax.Array, c: jax.Array | None = None) -> Foo:
    operator = matrix(counted(a))
    return Foo(operator, SOLVER.init(operator, options={}), c)


way = Way(
    new,
    new_batch=jax.vmap(new),
    power=Foo.power,
    a=lambda foo: jnp.diagonal(foo.operator.matrix),
    replace=lambda foo, a: foo._replace(operator=matrix(a)),
    replace_c=lambda foo, c: foo._replace(c=c),
    assign=lambda foo, a: setattr(foo, "operator", matrix(a)),
    exact=lambda a: jnp.sum(1 / a),
    exact_power=lambda a, n: jnp.sum(1 / a**n),
)
