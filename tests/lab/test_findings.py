"""What the lab finds: the published counts, the known mistakes, and cachax correct."""

import dataclasses
from typing import Any

import flax.nnx
import jax
import pytest

from cachax.lab import Cell, Verdict, known_probes, known_strategies, measure
from cachax.lab._apart import measure_apart

PUBLISHED = {
    ("functools_flax_jit", "order_read_read"): 1,
    ("functools_flax_jit", "order_read_use"): 2,
    ("functools_flax_jit", "order_use_use"): 2,
    ("functools_flax_jit", "order_use_read"): 2,
    ("field", "order_read_read"): 1,
    ("field", "order_read_use"): 1,
    ("field", "order_use_use"): 2,
    ("field", "order_use_read"): 2,
}
"""From the experiment that the lab grew out of."""

KNOWN_WRONG = {
    "by_hand": "replace",
    "field": "grad_warm",
    "field_returned": "tree_map",
    "functools_chex": "assign",
    "functools_dataclass": "assign",
    "functools_distrax": "grad_warm",
    "functools_nnx": "grad_warm",
    "init_equinox": "tree_map",
    "lineax_state": "replace",
    "linen_sow": "replace",
    "linen_variable": "scan_carry",
    "lru_cache": "assign",
    "netket_cached": "grad_warm",
    "new_ref": "assign",
    "nnx_cache": "optimizer",
    "numpyro_lazy": "assign",
    "numpyro_lazy_field": "optimizer",
    "static_self": "assign",
}
NO_WRONG_KNOWN = {"functools_equinox", "functools_flax", "functools_flax_jit"}
"""Frozen classes whose value is dropped at every boundary: slow, and never stale."""

OF_A_PEER = {"netket_ignored"}
"""As those, and to be measured in a separate process."""

APART = {"functools_distrax", "netket_cached", "netket_ignored"}
"""In a separate process: netket switches to 64-bit numbers for good, and distrax
imports much."""

KNOWN_COUNTS = {
    ("functools_flax", "method"): 3,
    ("field", "method"): 1,
    ("static_self", "method"): 1,
    ("lru_cache", "function"): 3,
    ("by_hand", "function"): 1,
    ("field", "checkpoint"): 3,
    ("field_returned", "checkpoint"): 1,
    ("nnx_cache", "checkpoint"): 1,
    ("functools_dataclass", "replace_other"): 3,
    ("init_equinox", "replace_other"): 1,
    ("functools_flax", "training_loop"): 10,
    ("functools_equinox", "training_loop"): 10,
    ("field", "training_loop"): 1,
    ("by_hand", "training_loop"): 1,
    ("linen_variable", "training_loop"): 1,
    ("functools_equinox", "vmap_twice"): 2,
    ("linen_variable", "vmap_twice"): 1,
}
"""Of computations, where one is enough: approaches that waste, and some that do not."""

CACHAX = [name for name in known_strategies() if name.startswith("cachax")]
OF_THIS_FOLDER = [*KNOWN_WRONG, *NO_WRONG_KNOWN, *OF_A_PEER, *CACHAX]


def cell(strategy: str, probe: str) -> Cell:
    [found] = cells(strategy, [probe])
    return found


def cells(strategy: str, names: list[str]) -> list[Cell]:
    entry, probes = known_strategies()[strategy], [known_probes()[n] for n in names]
    if strategy in APART:
        found = [cell for _, cell in measure_apart(entry, probes)]
    else:
        found = [measure(entry, probe) for probe in probes]
    for each in found:
        if each.verdict is Verdict.ABSENT:
            pytest.skip(each.what_happened)
    return found


@pytest.mark.parametrize(("strategy", "probe"), PUBLISHED)
def test_the_published_counts_hold(strategy: str, probe: str) -> None:
    found = cell(strategy, probe)
    assert found.work == found.published == PUBLISHED[strategy, probe]
    assert not found.disagrees
    assert found.verdict is (Verdict.RIGHT if found.work == 1 else Verdict.RECOMPUTED)


@pytest.mark.parametrize("probe", known_probes())
@pytest.mark.parametrize("strategy", CACHAX)
def test_cachax_is_correct_in_every_cell(strategy: str, probe: str) -> None:
    found = cell(strategy, probe)
    assert found.verdict is Verdict.RIGHT, found.what_happened
    assert not found.warned


@pytest.mark.parametrize(
    ("probe", "plain"),
    [
        ("order_use_use", {"jit": jax.jit}),
        ("method", {"power": None}),
        ("function", {"function": lambda fun: fun}),
        ("checkpoint", {"checkpoint": jax.checkpoint}),
        ("vmap_twice", {"vmap": jax.vmap}),
    ],
)
def test_it_is_correct_because_of_its_additions(
    probe: str, plain: dict[str, Any]
) -> None:
    way = known_strategies()["cachax_dataclass"].load().way
    found = known_probes()[probe].load().measure(dataclasses.replace(way, **plain))
    assert found.verdict is Verdict.RECOMPUTED


@pytest.mark.parametrize(("strategy", "probe"), KNOWN_COUNTS)
def test_the_known_counts_hold(strategy: str, probe: str) -> None:
    found = cell(strategy, probe)
    assert found.work == KNOWN_COUNTS[strategy, probe]
    assert found.verdict is (Verdict.RIGHT if found.work == 1 else Verdict.RECOMPUTED)


@pytest.mark.parametrize("strategy", ["by_hand", "field", "init_equinox"])
def test_what_keeps_everything_keeps_too_much(strategy: str) -> None:
    assert cell(strategy, "replace_other").verdict is Verdict.RIGHT
    assert cell(strategy, "replace").verdict is Verdict.WRONG


@pytest.mark.parametrize("strategy", KNOWN_WRONG)
def test_what_is_silently_wrong_is_found(strategy: str) -> None:
    if strategy == "functools_nnx" and not hasattr(flax.nnx, "Pytree"):
        pytest.skip("flax before 0.12 refuses an array that is in no Variable")
    found = cell(strategy, KNOWN_WRONG[strategy])
    assert found.verdict is Verdict.WRONG, found.what_happened
    assert " instead of " in found.what_happened


@pytest.mark.parametrize("probe", known_probes())
@pytest.mark.parametrize("strategy", sorted(NO_WRONG_KNOWN))
def test_known_good_cells_are_not_silently_wrong(strategy: str, probe: str) -> None:
    assert cell(strategy, probe).verdict is not Verdict.WRONG


@pytest.mark.parametrize("strategy", sorted(OF_A_PEER))
def test_careful_peers_are_not_silently_wrong(strategy: str) -> None:
    for found in cells(strategy, ["assign", "tree_map"]):
        assert found.verdict is not Verdict.WRONG


def test_every_strategy_that_comes_with_cachax_is_spoken_of_here() -> None:
    assert set(OF_THIS_FOLDER) == set(known_strategies())


def test_a_leaked_tracer_is_an_error() -> None:
    found = cell("functools_flax", "closure")
    assert found.verdict is Verdict.ERROR
    assert found.what_happened.startswith("UnexpectedTracerError: ")


def test_a_recomputation_is_not_a_wrong_value() -> None:
    found = cell("functools_flax", "loop")
    assert (found.verdict, found.work) == (Verdict.RECOMPUTED, 100)
    assert found.what_happened == "100 computations; 1 is enough"


def test_a_frozen_class_that_refuses_is_correct() -> None:
    found = cell("functools_flax", "assign")
    assert found.verdict is Verdict.RIGHT
    assert found.what_happened == "refused: the class is frozen"
