"""The columns in groups: how often, correct, cost."""

from collections.abc import Iterable
from dataclasses import dataclass

from ._entry import Entry


@dataclass(frozen=True)
class Group:
    """Columns that stand together, by name."""

    title: str
    explanation: str
    probes: tuple[str, ...] = ()


_FROM_RANK = {
    0: Group(
        "How often is it computed?",
        "The number of computations. The best is 1. Computations are counted when they "
        "run, not when they are traced.",
    ),
    20: Group(
        "Is the value correct?",
        "The value, or its gradient, is compared with the same computation without a "
        "cache.",
    ),
    50: Group(
        "What does it cost?",
        "Compilations, bytes and memory. The best is 1 compilation, 0 bytes and 0 "
        "arrays.",
    ),
}


def groups(probes: Iterable[Entry]) -> list[Group]:
    """The groups of these probes, by the `RANK` of each."""
    members: dict[int, list[str]] = {start: [] for start in _FROM_RANK}
    for probe in probes:
        rank = probe.constant("RANK", 1000)
        members[max(start for start in _FROM_RANK if start <= rank)].append(probe.name)
    return [
        Group(group.title, group.explanation, tuple(members[start]))
        for start, group in _FROM_RANK.items()
        if members[start]
    ]
