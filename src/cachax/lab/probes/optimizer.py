"""After an optimizer step

One step of gradient descent with optax on the parameters of a warm object.
"""

import jax
import optax

from cachax.lab import Measured, Way, numbers

RANK = 25


def measure(way: Way) -> Measured:
    foo = way.warm(numbers())
    descent = optax.sgd(0.1)
    parameters = way.parameters(foo)
    gradient = way.gradient(way.jitted_b, foo)
    updates, _ = descent.update(gradient, descent.init(parameters))
    foo = way.with_parameters(foo, optax.apply_updates(parameters, updates))
    used, foo = way.use(foo)
    read, foo = way.read(foo)
    a = numbers() - 0.1 * jax.grad(way.exact)(numbers())
    return Measured([used, read], [way.exact(a), way.exact(a)])
