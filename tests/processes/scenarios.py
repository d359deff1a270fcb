"""Scenarios: what one process does differently, without an influence on the others.

Each yields arrays. They must be the same with plain properties under `jax.jit`, and
cachax must make the same decisions in all processes.
"""

import copy
import dataclasses
import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp

import cachax

from .world import World, no_collector

Scenario = Callable[[World], Iterator[Any]]
SCENARIOS: dict[str, Scenario] = {}
"""By a name for the table in the docs."""


def scenario(name: str) -> Callable[[Scenario], Scenario]:
    def note(function: Scenario) -> Scenario:
        SCENARIOS[name] = function
        return function

    return note


def read(s: Any, *names: str) -> None:
    for name in names:
        jax.block_until_ready(getattr(s, name))


@scenario("fresh, rebuilt and returned objects")
def same_sequence(world: World) -> Iterator[Any]:
    step, use = world.step(), world.use()
    for _ in range(2):
        s = world.state()
        yield use(s)
        yield use(dataclasses.replace(s, w=world.vector()))
        for _ in range(3):
            s = step(s, 0.1)
            yield s.w
        yield world.every_second(s)
        yield use(jax.tree.map(lambda x: x, s))


@scenario("the garbage collector runs in one process only")
def collector(world: World) -> Iterator[Any]:
    step, use = world.step(), world.use()
    gc.collect()
    with no_collector(world.rank != 0):
        for number in range(3):
            s = world.state()
            cycle: list[Any] = [s]
            cycle.append(cycle)
            yield use(s)
            s = step(s, 0.1)
            del cycle
            if world.rank == 0:
                gc.collect()
            yield s.total
            yield world.State(s.x, s.w, number).mean


@scenario("one process allocates more")
def allocating(world: World) -> Iterator[Any]:
    use = world.use()
    kept = []
    for number in range(3):
        if world.rank == 0:
            kept += [[object() for _ in range(20_000)], jnp.ones(1000 + number)]
        s = world.state()
        yield use(s)
        yield s.spread
        if world.rank == 0:
            kept.clear()


@scenario("one process keeps old objects alive")
def keeping(world: World) -> Iterator[Any]:
    step, use = world.step(), world.use()
    kept = []
    for number in range(4):
        s = world.state(scale=1 + number % 2)
        yield use(s)
        yield s.grid
        for _ in range(2):
            s = step(s, 0.1)
            if world.rank == 0:
                kept.append(s)
        yield s.mean


@scenario("objects in reference cycles")
def cycles(world: World) -> Iterator[Any]:
    use = world.use()

    class Node:
        pass

    with no_collector(world.rank == 1):
        for _ in range(4):
            node: Any = Node()
            node.me, node.state = node, world.state()
            yield use(node.state)
            yield use(dataclasses.replace(node.state, w=world.vector()))


@scenario("local objects of the same class and shapes in one process")
def local_objects(world: World) -> Iterator[Any]:
    step, use = world.step(), world.use()

    def work(seed: int) -> None:
        mine = world.local(seed)
        for function in (use, use, lambda s: step(s, 0.1)):
            function(mine)
        read(mine, "spread", "every_second", "grid")

    if world.rank == 0:
        work(0)
    for number in range(3):
        s = world.state()
        yield s.spread
        yield world.every_second(s)
        yield use(s)
        if world.rank == 0:
            work(number)
        yield step(s, 0.1).w
        yield s.grid


@scenario("new local objects in one process, new global objects in all")
def new_objects(world: World) -> Iterator[Any]:
    use = world.use()
    for number in range(14):
        if world.rank == 0:
            use(world.local(number))
        if world.rank == 1 and number % 3 == 0:
            use(world.local(0))
        yield use(world.state())


@scenario("a thread in one process works on local objects")
def thread(world: World) -> Iterator[Any]:
    step, use = world.step(), world.use()
    over = threading.Event()

    def work() -> None:
        number = 0
        while not over.is_set():
            mine = world.local(number % 7)
            use(mine)
            read(mine, "mean")
            read(step(mine, 0.1), "total")
            number += 1

    worker = threading.Thread(target=work)
    if world.rank == 0:
        worker.start()
    try:
        for _ in range(3):
            s = world.state()
            yield use(s)
            for _ in range(4):
                s = step(s, 0.1)
            yield s.total
    finally:
        over.set()
        if world.rank == 0:
            worker.join()


@scenario("one process makes copies")
def copies(world: World) -> Iterator[Any]:
    step, use = world.step(), world.use()
    for _ in range(2):
        s = world.state()
        if world.rank == 0:
            kept = [copy.copy(s), jax.tree.map(lambda x: x, s), world.State(s.x, s.w)]
        yield use(s)
        if world.rank == 0:
            kept += [dataclasses.replace(s), copy.copy(s)]
        s = step(s, 0.1)
        yield s.mean
        yield s.spread


@scenario("one process records")
def recording(world: World) -> Iterator[Any]:
    step, use = world.step(), world.use()
    warm = world.state()
    with world.recording(world.rank == 0):
        for _ in range(3):
            yield use(warm)
    for number in range(12):
        yield use(world.state())  # a new one for each call
        if number % 4 == 3:
            with world.recording(world.rank == 0):
                yield use(warm)
    s = world.state()
    with world.recording(world.rank == 1):
        for _ in range(3):
            s = step(s, 0.1)
        yield world.every_second(s)


@scenario("reading a cached value in one process (logging)")
def reading(world: World) -> Iterator[Any]:
    step, use = world.step(), world.use()
    s = world.state()
    yield s.grid
    for _ in range(4):
        yield use(s)
        s = step(s, 0.1)
        if world.rank == 0 and world.is_cached:  # a plain property would hang
            read(s, "mean", "factor", "grid")
            assert cachax.is_cached(s, "mean")
            assert "mean" in cachax.cached(s)
    yield world.State(world.array(), s.w).grid
    yield s.total


@scenario("values whose messages have the same size")
def equal_sizes(world: World) -> Iterator[Any]:
    use = world.use()
    for number in range(3):
        s, t = world.state(), world.state()
        if world.rank == number % 2:
            gc.collect()
            mine = world.local()
            use(mine)
            read(mine, "mean", "total")
        yield s.mean
        yield t.total
        yield s.total
        yield t.mean
        del s, t


@scenario("one process clears a local object")
def clearing_local(world: World) -> Iterator[Any]:
    x, w = world.array(), world.vector()
    states = [world.State(x, w, scale) for scale in range(1, 5)]
    for s in states:
        yield s.mean
    if world.rank == 0 and world.is_cached:
        mine = world.local()
        read(mine, "mean")
        cachax.clear(mine)
    for s in states:
        yield s.mean


@scenario("clearing a global object in all processes")
def clearing(world: World) -> Iterator[Any]:
    use = world.use()
    s = world.state()
    yield use(s)
    if world.is_cached:
        cachax.clear(s)
    yield use(s)
    yield s.factor


@scenario("a loop with donated arguments")
def donated(world: World) -> Iterator[Any]:
    step = world.step(donate_argnums=0)
    s = world.state()
    for _ in range(5):
        s = step(s, 0.1)
        if world.rank == 0:
            gc.collect()
    yield s.w
    yield s.factor
