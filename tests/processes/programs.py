"""What the tests run in several processes."""

import sys
from collections.abc import Iterator
from typing import Any, TextIO

from cachax._check.decisions import deciding

from . import random_program as _random_program
from . import scenarios as _scenarios
from .scenarios import SCENARIOS
from .world import World, local_part


def compared(log: TextIO, names: Any = None) -> Iterator[Any]:
    """Each scenario with plain properties, with cachax as it is, and with its decisions
    written down."""
    for name in names or SCENARIOS:
        print(name, file=sys.stderr, flush=True)
        plain = [*map(local_part, SCENARIOS[name](World(is_cached=False)))]
        bare = [*map(local_part, SCENARIOS[name](World(is_cached=True)))]
        decisions: list[str] = []

        def note(decision: Any, decisions: Any = decisions, name: str = name) -> None:
            decisions.append(f"{decision.line} {decision.digest}")
            log.write(f"{name}: {decision}\n")

        with deciding(note):
            noted = [*map(local_part, SCENARIOS[name](World(is_cached=True)))]
        yield name, {"plain": plain, "bare": bare, "noted": noted, "lines": decisions}


def three(log: TextIO) -> Iterator[Any]:
    functions = [_scenarios.same_sequence, _scenarios.keeping, _scenarios.collector]
    names = [name for name, each in SCENARIOS.items() if each in functions]
    yield from compared(log, names)


def at_random(log: TextIO) -> Iterator[Any]:
    functions = [_random_program.random_program]
    names = [name for name, each in SCENARIOS.items() if each in functions]
    yield from compared(log, names)
