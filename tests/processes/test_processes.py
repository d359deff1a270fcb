"""Law 10 with real processes: the same program makes the same decisions in all."""

from typing import Any

import numpy as np
import pytest

from .run import Ended, all_well, run
from .scenarios import SCENARIOS


@pytest.fixture(scope="module")
def two() -> list[Ended]:
    return run("processes.programs:compared", 2)


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_is_correct_on_two_processes(two: list[Ended], name: str) -> None:
    all_well(two)
    check([each.results[name] for each in two])


def check(results: list[dict[str, Any]]) -> None:
    for each in results:
        for kind in ("bare", "noted"):
            assert len(each[kind]) == len(each["plain"]) > 0
            for ours, theirs in zip(each[kind], each["plain"], strict=True):
                np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=1e-5)
    assert len(results[0]["lines"]) > 0
    for each in results[1:]:
        assert each["lines"] == results[0]["lines"]


def test_three_of_them_are_correct_on_four_processes() -> None:
    four = run("processes.programs:three", 4)
    all_well(four)
    for name in four[0].results:
        check([each.results[name] for each in four])
    assert len(four[0].results) == 3
