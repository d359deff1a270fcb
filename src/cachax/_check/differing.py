"""How a difference between processes is said."""

from collections.abc import Mapping, Sequence

from .decisions import Decision

_NAMED = 8
"""Processes that a line names; the others are counted."""
_WAY_OUT = (
    "Every process has to make, read, clear, rebuild and pass global objects in the "
    "same order. Look for an `if jax.process_index() == 0` around the first read of a "
    "cached property (call `cachax.warm(obj)` in all processes before it), for a loop "
    "over a set, and for a condition that depends on local data."
)


def differing(
    number: int, found: Mapping[int, Decision], count: int, last: str, timeout: float
) -> str:
    """`found` are the decisions of the processes that have come to one."""
    lines = [f"The processes are about to do different things (decision {number}):"]
    groups: dict[tuple[str, str, str], list[int]] = {}
    for rank, decision in sorted(found.items()):
        about = (decision.line, decision.digest, decision.where)
        groups.setdefault(about, []).append(rank)
    for about, ranks in groups.items():
        lines.append(f"  {_processes(ranks)}: {Decision(*about)}")
    missing = [rank for rank in range(count) if rank not in found]
    if missing:
        lines.append(f"  {_processes(missing)}: nothing within {timeout:g} s")
    if len({line for line, _, _ in groups}) == 1 < len({d for _, d, _ in groups}):
        lines.append("  (their static parts, or further arrays, are different)")
    lines.append(f"Before, all of them did: {last}." if last else "It is the first.")
    return "\n".join([*lines, _WAY_OUT])


def stalled(last: Mapping[int, tuple[int, str]], seconds: float) -> str:
    """`last` has the number of each process's last decision, and what it was."""
    lines = [f"Nothing has happened for {seconds:g} s, and the processes have come to"]
    lines[0] += " different points:"
    for rank, (number, said) in sorted(last.items()):
        lines.append(f"  process {rank}: {number} decisions, the last was to {said}")
    return "\n".join([*lines, _WAY_OUT])


def _processes(ranks: Sequence[int]) -> str:
    if len(ranks) == 1:
        return f"process {ranks[0]}"
    named = ", ".join(map(str, ranks[:_NAMED]))
    more = len(ranks) - _NAMED
    return f"processes {named}" + (f" and {more} more" if more > 0 else "")
