"""lineax: init, then state=

By hand, with the right derivatives: lineax differentiates the solution, not the state.
Whether the state belongs to the operator is not checked.
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

    @property
    def b(self) -> jax.Array:
        ones = jnp.ones(self.operator.matrix.shape[-1])
        solution = lx.linear_solve(self.operator, ones, SOLVER, state=self.state)
        return solution.value.sum()


def matrix(a: jax.Array) -> lx.MatrixLinearOperator:
    return lx.MatrixLinearOperator(jnp.diag(a), lx.positive_semidefinite_tag)


def new(a: jax.Array) -> Foo:
    operator = matrix(counted(a))
    return Foo(operator, SOLVER.init(operator, options={}))


way = Way(
    new,
    new_batch=jax.vmap(new),
    a=lambda foo: jnp.diagonal(foo.operator.matrix),
    replace=lambda foo, a: foo._replace(operator=matrix(a)),
    assign=lambda foo, a: setattr(foo, "operator", matrix(a)),
    exact=lambda a: jnp.sum(1 / a),
)
