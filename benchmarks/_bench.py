"""Contenders take turns, and their ratios are what counts.

In each round every contender is timed once, one right after the other, so that what
slows the machine down slows all of them; every other round goes in the reverse order.
The ratio of a round is that of the times in it. The report has the median over the
rounds, and where the middle half of them lies.
"""

import argparse
import gc
import json
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import jax

import cachax

CACHAX = "cachax"


@dataclass(frozen=True)
class Case:
    """One claim: how long cachax takes over what it is compared with."""

    title: str
    over: str
    """The contender that cachax is measured against."""
    contenders: dict[str, Callable[[], Any]]
    target: float | None = None
    calls: int = 50
    """In a row, for one time."""
    rounds: int = 100
    wait: bool = False
    """Whether a call lasts until its result is there, not until it is on its way."""


@dataclass(frozen=True)
class Result:
    title: str
    over: str
    target: float | None
    microseconds: dict[str, float]
    """The median of each contender."""
    ratios: dict[str, float]
    """Over the one it is compared with, the median of the rounds."""
    spread: tuple[float, float]
    """Of the ratio of cachax: where the middle half of the rounds lies."""

    @property
    def ratio(self) -> float:
        return self.ratios[CACHAX]

    @property
    def is_short(self) -> bool:
        """Of its target."""
        return self.target is not None and round(self.ratio, 2) > self.target


@dataclass
class Report:
    results: list[Result] = field(default_factory=list)
    machine: dict[str, str] = field(default_factory=lambda: machine())

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "Report":
        read = json.loads(text)
        results = [Result(**each) for each in read["results"]]
        return cls(results, read["machine"])


def machine() -> dict[str, str]:
    device = jax.devices()[0]
    return {
        "device": device.device_kind if device.platform != "cpu" else "CPU",
        "jax": jax.__version__,
        "python": platform.python_version(),
        "cachax": cachax.__version__,
        "date": date.today().isoformat(),
    }


def measure(case: Case, quick: bool = False) -> Result:
    rounds = max(case.rounds // (4 if quick else 1), 5)
    for contender in case.contenders.values():
        for _ in range(max(case.calls // 2, 4)):
            jax.block_until_ready(contender())
    times: dict[str, list[float]] = {name: [] for name in case.contenders}
    gc.collect()
    gc.disable()
    try:
        for turn in range(rounds):
            in_turn = list(case.contenders)[:: -1 if turn % 2 else 1]
            for name in in_turn:
                times[name].append(_time(case.contenders[name], case))
    finally:
        gc.enable()
    base = times[case.over]
    ratios = {
        name: [a / b for a, b in zip(mine, base, strict=True)]
        for name, mine in times.items()
    }
    low, _, high = statistics.quantiles(ratios[CACHAX], n=4)
    return Result(
        case.title,
        case.over,
        case.target,
        {name: 1e6 * statistics.median(mine) for name, mine in times.items()},
        {name: statistics.median(mine) for name, mine in ratios.items()},
        (low, high),
    )


def _time(contender: Callable[[], Any], case: Case) -> float:
    start = time.perf_counter()
    for _ in range(case.calls):
        out = contender()
        if case.wait:
            jax.block_until_ready(out)
    elapsed = (time.perf_counter() - start) / case.calls
    jax.block_until_ready(out)
    return elapsed


def lines(results: Iterable[Result], targets: bool = True) -> Iterator[str]:
    """As a Markdown table."""
    yield (
        "| case | cachax | compared with | ratio | middle half |"
        + " target |" * targets
    )
    yield "| --- | ---: | ---: | ---: | ---: |" + " ---: |" * targets
    for r in results:
        mine, base = r.microseconds[CACHAX], r.microseconds[r.over]
        low, high = r.spread
        target = "" if r.target is None else f"{r.target:.2f}"
        target += " **short**" if r.is_short else ""
        yield (
            f"| {r.title} | {_time_of(mine)} | {_time_of(base)} ({r.over}) "
            f"| {r.ratio:.2f} | {low:.2f} to {high:.2f} |"
        ) + f" {target} |" * targets


def others(results: Iterable[Result]) -> Iterator[str]:
    """The contenders beside, where there are some."""
    for r in results:
        names = [n for n in r.microseconds if n not in (CACHAX, r.over)]
        if names:
            beside = ", ".join(f"{n} {_time_of(r.microseconds[n])}" for n in names)
            yield f"- {r.title}: {beside}"


def _time_of(microseconds: float) -> str:
    if microseconds < 1:
        return f"{1000 * microseconds:.0f} ns"
    if microseconds < 1000:
        return f"{microseconds:.1f} µs"
    return f"{microseconds / 1000:.1f} ms"


def main(cases: Callable[[bool], Iterable[Case]]) -> None:
    """For one file: measure what it claims, and print it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    report = Report([measure(case, options.quick) for case in cases(options.quick)])
    print("\n".join([*lines(report.results), "", *others(report.results)]))
    if options.json:
        options.json.write_text(report.to_json())
