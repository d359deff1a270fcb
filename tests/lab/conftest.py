"""A small matrix, measured once."""

import pytest

from cachax.lab import Matrix, known_probes, known_strategies, measure


@pytest.fixture(scope="session")
def matrix() -> Matrix:
    strategies = ["field", "functools_flax", "cachax_flax"]
    probes = ["order_use_use", "grad_warm", "closure", "pickle_size"]
    small = Matrix(
        [known_strategies()[name] for name in strategies],
        [known_probes()[name] for name in probes],
    )
    for strategy in small.strategies:
        for probe in small.probes:
            cell = measure(strategy, probe)
            small.cells[strategy.name, probe.name] = cell
    return small
