"""Law 10 with real processes: the same program makes the same decisions in all."""

from typing import Any

import numpy as np

from . import random_program as random_program  # it is one of the scenarios
from .run import Ended, all_well, run
from .scenarios import SCENARIOS


def check(ended: list[Ended]) -> list[str]:
    """What is wrong: numbers that plain properties don't give, or decisions that are
    not the same."""
    all_well(ended)
    wrong = []
    for name in ended[0].results:
        results = [each.results[name] for each in ended]
        if not all(map(is_as_plain, results)):
            wrong.append(f"{name}: different numbers")
        first, *others = (each["lines"] for each in results)
        for rank, lines in enumerate(others, 1):
            if lines != first:
                wrong.append(f"{name}: process {rank}: {difference(first, lines)}")
    return wrong


def is_as_plain(result: dict[str, Any]) -> bool:
    assert result["plain"]
    assert result["lines"]
    return all(
        len(result[kind]) == len(result["plain"])
        and all(map(is_close, result[kind], result["plain"]))
        for kind in ("bare", "noted")
    )


def is_close(ours: Any, theirs: Any) -> bool:
    same_shards = np.shape(ours) == np.shape(theirs)
    return same_shards and np.allclose(ours, theirs, rtol=1e-3, atol=1e-4)


def difference(ours: list[str], theirs: list[str]) -> str:
    for number, (one, other) in enumerate(zip(ours, theirs, strict=False)):
        if one != other:
            return f"decision {number}: {one} | {other}"
    return f"{len(ours)} decisions | {len(theirs)}"


def test_scenarios_are_correct_on_two_processes() -> None:
    ended = run("processes.programs:compared", 2)
    assert check(ended) == []
    assert ended[0].results.keys() == SCENARIOS.keys()


def test_three_of_them_are_correct_on_four_processes() -> None:
    ended = run("processes.programs:three", 4)
    assert check(ended) == []
    assert len(ended[0].results) == 3
