"""Programs that can't work on several processes, each with one mistake."""

import dataclasses
import io
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr
from typing import Any, TextIO

import jax
import jax.numpy as jnp

import cachax
from cachax._compat import coordination_client

from .world import World

Mistake = Callable[[World], None]
MISTAKES: list[Mistake] = []
TIMEOUT = 30.0
SHORT = 3.0
"""For the one that runs into it."""


def mistake(function: Mistake) -> Mistake:
    MISTAKES.append(function)
    return function


def made(log: TextIO) -> Iterator[Any]:
    """What comes of each, with the check on: the error, and how long it took."""
    world = World(is_cached=True)
    for function in MISTAKES:
        coordination_client().wait_at_barrier(function.__name__, 60_000)
        start = time.monotonic()
        try:
            with cachax.agree(timeout=SHORT if function is too_late else TIMEOUT):
                function(world)
        except Exception as error:
            raised = (type(error).__name__, str(error))
        else:
            raised = ("nothing", "")
        yield function.__name__, (*raised, time.monotonic() - start)
    yield "left on the board", _many(world)


def watched(log: TextIO) -> Iterator[Any]:
    """The same with a thread that compares now and then."""
    world = World(is_cached=True)
    yield from recorded(world)
    s, t = world.state(), world.state()
    client, heard = coordination_client(), f"heard/{world.rank}"
    told = _Heard("Nothing has happened", lambda: client.key_value_set(heard, ""))
    with redirect_stderr(told), cachax.agree(every=0.1, timeout=1.0):
        if world.rank == 1:  # process 0 waits for it, inside a program
            for rank in range(2):
                client.blocking_key_value_get(f"heard/{rank}", 60_000)
        yield "stalled", float(s.mean)
    raised, found = "nothing", threading.Event()
    told = _Heard("process 0: compute", found.set)
    try:
        with redirect_stderr(told), cachax.agree(every=0.1):
            # Messages of the same size: these numbers are wrong, and nothing says so.
            yield "mixed up", float(t.mean if world.rank == 0 else t.total)
            found.wait(60)
            jax.block_until_ready(s.total)
    except cachax.DisagreementError as error:
        raised = str(error)
    yield "raised", raised


class _Heard(io.TextIOBase):
    """Writes to `stderr`, and calls a function when these words were written."""

    def __init__(self, words: str, tell: Callable[[], object]) -> None:
        self._words = words
        self._tell = tell
        self._stderr = sys.stderr

    def write(self, text: str) -> int:
        count = self._stderr.write(text)
        if self._words in text:
            self._tell()
        return count


def recorded(world: World) -> Iterator[Any]:
    """What a recording says of a mistake, before it has an effect. All processes make
    the same one, so that none waits."""
    use, s = world.use(), world.state()
    with cachax.record(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if jax.process_index() >= 0:
            jax.block_until_ready(s.mean)
            use(s)
            cachax.clear(s, "mean")
        jax.block_until_ready(s.total)
    yield "warned", [str(warning.message) for warning in caught]


def by_environment(log: TextIO) -> Iterator[Any]:
    raised = "nothing"
    try:
        first_read_in_one_process(World(is_cached=True))
    except cachax.DisagreementError as error:
        raised = str(error)
    yield "raised", raised


def until_the_end(log: TextIO) -> Iterator[Any]:
    """One process ends, and the other goes on."""
    world, raised = World(is_cached=True), "nothing"
    s = world.state()
    jax.block_until_ready(s.mean)
    try:
        if world.rank == 0:
            jax.block_until_ready(s.total)
    except cachax.DisagreementError as error:
        raised = str(error)
    yield "raised", raised


def _many(world: World) -> list[int]:
    """What is left by two contexts with more decisions than are kept at a time."""
    use, s = world.use(), world.state()
    for _ in range(2):
        with cachax.agree():
            for _ in range(70):
                use(s)
    client, last = coordination_client(), len(MISTAKES) + 2
    contexts = [f"cachax/{number}/" for number in (last - 1, last)]
    return [len(client.key_value_dir_get(each)) for each in contexts]


@mistake
def first_read_in_one_process(world: World) -> None:
    s = world.state()
    if world.rank == 0:
        print(s.mean)
    world.use()(s)


@mistake
def cleared_in_one_process(world: World) -> None:
    s = cachax.warm(world.state())
    if world.rank == 1:
        cachax.clear(s)
    world.use()(s)


@mistake
def rebuilt_in_one_process(world: World) -> None:
    s = cachax.warm(world.state())
    if world.rank == 1:
        s = dataclasses.replace(s, x=jnp.copy(s.x))
    world.use()(s)


@mistake
def called_in_one_process(world: World) -> None:
    s, use = cachax.warm(world.state()), world.use()
    if world.rank == 0:
        use(s)


@mistake
def called_in_another_order(world: World) -> None:
    s, functions = cachax.warm(world.state()), [world.use(), world.step()]
    for function in functions if world.rank == 0 else reversed(functions):
        function(*(s, 0.1)[: 1 if function is functions[0] else 2])


@mistake
def read_in_another_order(world: World) -> None:
    s, names = world.state(), ["mean", "total"]
    for name in names if world.rank == 0 else reversed(names):
        getattr(s, name)


@mistake
def made_with_other_static_fields(world: World) -> None:
    jax.block_until_ready(world.state(scale=1 + world.rank).mean)


@mistake
def one_more_step_in_one_process(world: World) -> None:
    s, step = world.state(), world.step()
    for _ in range(2 + world.rank):
        s = step(s, 0.1)


@mistake
def preset_in_one_process(world: World) -> None:
    s = world.state()
    if world.rank == 0:
        s = cachax.preset(s, mean=1.0)
    jax.block_until_ready(s.mean)


@mistake
def an_error_in_one_process(world: World) -> None:
    if world.rank == 1:
        raise ValueError("the local data are bad")
    jax.block_until_ready(world.state().mean)


@mistake
def another_argument_of_a_method(world: World) -> None:
    jax.block_until_ready(world.state().power(2 + world.rank))


@mistake
def another_object(world: World) -> None:
    pair, use = [cachax.warm(world.state()), cachax.warm(world.state())], world.use()
    use(pair[world.rank])


@mistake
def too_late(world: World) -> None:
    if world.rank == 1:
        time.sleep(SHORT + 1)
    jax.block_until_ready(world.state().mean)
