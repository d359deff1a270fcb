"""lineax: init, then state=

By hand, with the right derivatives: lineax differentiates the solution, not the state.
Whether the state belongs to the operator is not checked.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import lineax as lx

from cachax.lab import Way, counted

SOLVER = lx.Diagonal()


class Foo(NamedTuple):
    operator: lx.DiagonalLinearOperator
    state: lx.Diagonal

    @property
    def b(self) -> jax.Array:
        ones = jnp.ones_like(self.operator.diagonal)
        return lx.linear_solve(
            self.operator, ones, SOLVER, state=self.state
        ).value.sum()


def new(a: jax.Array) -> Foo:
    operator = lx.DiagonalLinearOperator(counted(a))
    return Foo(operator, SOLVER.init(operator, options={}))


way = Way(
    new,
    a=lambda foo: foo.operator.diagonal,
    replace=lambda foo, a: foo._replace(operator=lx.DiagonalLinearOperator(a)),
    exact=lambda a: jnp.sum(1 / a),
)
