"""A small run of the fuzzer; `make fuzz` runs 10,000 programs."""

import gc
from collections.abc import Iterator
from random import Random
from typing import Any

import jax.numpy as jnp
import pytest

import cachax

from fuzz import bodies
from fuzz.machine import OPS, Machine, Profile
from fuzz.programs import (
    ALIKE,
    COUNTED,
    Program,
    Worlds,
    disagreement,
    failure_of,
    shrunk,
)

SOME = [*range(20), *range(ALIKE, ALIKE + 20), *range(2 * ALIKE, 2 * ALIKE + 20)]
"""Of three profiles; the bodies of the first count their computations."""


@pytest.fixture(scope="module")
def worlds() -> Worlds:
    return Worlds()


@pytest.mark.parametrize("seed", SOME)
def test_cachax_agrees_with_plain_properties(seed: int, worlds: Worlds) -> None:
    failure = failure_of(Program.draw(seed), worlds)
    assert failure is None, str(shrunk(failure, worlds))


@pytest.mark.parametrize("seed", range(8))
def test_cachax_agrees_with_plain_properties_of_random_bodies(seed: int) -> None:
    failure = bodies.failure_of(seed)
    assert failure is None, failure


@pytest.mark.parametrize("seed", range(100_000, 100_003))
def test_a_disturbed_program_makes_the_same_decisions(seed: int) -> None:
    assert disagreement(Program.draw(seed)) is None


def test_a_program_depends_on_its_seed_alone() -> None:
    assert Program.draw(7) == Program.draw(7)
    assert Program.draw(7) != Program.draw(8)


def test_every_operation_is_drawn() -> None:
    drawn = {op.name for seed in range(200) for op in Program.draw(seed).ops}
    assert drawn == set(OPS)
    assert all(callable(getattr(Machine, name)) for name in OPS)


# It finds what is wrong


def messages(seeds: range) -> Iterator[str]:
    worlds = Worlds()
    for seed in seeds:
        failure = failure_of(Program.draw(seed), worlds)
        if failure is not None:
            yield failure.message


def test_it_finds_a_stale_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each class has a cache that never forgets."""

    def stale(body: Any) -> Any:
        values: dict[type, Any] = {}

        @property
        def read(self: Any) -> Any:
            if type(self) not in values:
                values[type(self)] = jnp.float32(len(values))
            return values[type(self)]

        return read

    monkeypatch.setattr(cachax, "cached_property", stale)
    assert any("is not" in message for message in messages(range(ALIKE, 2 * ALIKE)))


def test_it_finds_what_a_body_has_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A value is kept for the first field alone."""

    def of_one_field(body: Any) -> Any:
        values: dict[int, Any] = {}
        kept: list[Any] = []

        @property
        def read(self: Any) -> Any:
            if id(self.x) not in values:
                kept.append(self.x)  # and its id
                values[id(self.x)] = body(self)
            return values[id(self.x)]

        return read

    monkeypatch.setattr(cachax, "cached_property", of_one_field)
    programs = (bodies.Writer(seed).program() for seed in range(10))
    assert any(map(bodies.difference, programs))


def test_it_finds_values_that_are_computed_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing is cached: the values are correct, the counts are not."""
    monkeypatch.setattr(cachax, "cached_property", property)
    counted = range(COUNTED * ALIKE, COUNTED * ALIKE + ALIKE)
    assert any("is allowed" in message for message in messages(counted))


def test_it_finds_decisions_of_the_garbage_collector(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A cache that is empty after every full collection."""

    def until_collected(body: Any) -> Any:
        values: dict[Any, Any] = {}

        @property
        def read(self: Any) -> Any:
            key = id(self), gc.get_stats()[2]["collections"]
            if key not in values:
                values[key] = self, body(self)  # the object is kept: so is its id
            return values[key][1]

        return read

    monkeypatch.setattr(cachax, "cached_property", until_collected)
    assert any(disagreement(Program.draw(seed)) for seed in range(20))


def test_a_failure_shrinks_to_a_small_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Machine, "collect", lambda self, r: self.world.name)
    seeds = [
        s for s in range(100) if "collect" in {o.name for o in Program.draw(s).ops}
    ]
    failure = failure_of(Program.draw(seeds[0]), Worlds())
    assert failure is not None
    assert [op.name for op in shrunk(failure).program.ops] == ["collect"]


def test_a_profile_is_drawn_from_all_families() -> None:
    profiles = [Profile.draw(Random(seed)) for seed in range(100)]
    assert len({family for p in profiles for family in p.families}) >= 8
