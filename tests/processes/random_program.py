"""A random program, the same in all processes, each of which is disturbed at random."""

import copy
import dataclasses
import gc
import random
import threading
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp

import cachax

from .scenarios import read, scenario
from .world import World

OPERATIONS = 200
KINDS = [
    "make",
    "rebuild",
    "scale",
    "step",
    "step",
    "use",
    "read",
    "read",
    "clear",
    "drop",
    "power",
    "copy",
    "loop",
    "new",
    "warm",
]
NAMES = ["factor", "mean", "total", "spread", "solution", "grid"]


@scenario(f"a random program of {OPERATIONS} operations, disturbed at random")
def random_program(world: World) -> Iterator[Any]:
    chosen = random.Random(0)
    step, use, new = world.step(), world.use(), world.use()
    states = [world.state()]
    with Disturbance(world, use) as disturbance:
        for _ in range(OPERATIONS):
            disturbance.act(states)
            place = chosen.randrange(len(states))
            s = states[place]
            what = chosen.choice(KINDS)
            if what == "make":
                states.append(world.state(chosen.randint(1, 3)))
            elif what == "rebuild":
                states[place] = dataclasses.replace(s, w=world.vector())
            elif what == "scale":
                states.append(dataclasses.replace(s, scale=chosen.randint(1, 4)))
            elif what == "step":
                states[place] = step(s, 0.1)
                yield states[place].w
            elif what == "use":
                with world.recording(disturbance.happens(0.2)):
                    yield use(s)
            elif what == "read":
                yield getattr(s, chosen.choice(NAMES))
            elif what == "clear":
                names = chosen.choice([[], ["mean"], ["factor"]])
                if world.is_cached:
                    cachax.clear(s, *names)
            elif what == "drop" and len(states) > 1:
                del states[place]
            elif what == "power":
                yield s.power(chosen.randint(2, 4))
            elif what == "copy":
                states.append(chosen.choice([copy.copy, dataclasses.replace])(s))
            elif what == "loop":
                for _ in range(3):
                    s = states[place] = step(s, 0.01)
            elif what == "new":
                for _ in range(chosen.randint(1, 6)):
                    yield new(world.state())
            elif what == "warm" and world.is_cached:
                cachax.warm(s, "total", "mean")
            states = states[-6:]


class Disturbance:
    """What must make no difference, different in each process."""

    def __init__(self, world: World, use: Any) -> None:
        self._world = world
        self._use = use
        self._random = random.Random(1 + world.rank)
        self._kept: list[Any] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work_in_a_thread)

    def __enter__(self) -> "Disturbance":
        if self._world.rank % 2:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._world.rank % 2:
            self._thread.join()

    def happens(self, probability: float) -> bool:
        return self._random.random() < probability

    def act(self, states: list[Any]) -> None:
        world, s = self._world, self._random.choice(states)
        if self.happens(0.2):
            gc.collect()
        if self.happens(0.3):
            self._kept += [s, copy.copy(s), jax.tree.map(lambda x: x, s)]
        if self.happens(0.1):
            self._kept.clear()
        if self.happens(0.3):
            cycle: list[Any] = [s, jnp.ones(3)]
            cycle.append(cycle)
        if self.happens(0.3):
            self._work(self._random.randrange(20))
        if world.rank == 0 and world.is_cached:  # as for a log
            read(s, *(name for name in NAMES if cachax.is_cached(s, name)))

    def _work(self, seed: int) -> None:
        mine = self._world.local(seed, 1 + seed % 3)
        self._use(mine)
        read(mine, self._random.choice(NAMES))
        if self._world.is_cached and seed % 2:
            cachax.clear(mine)

    def _work_in_a_thread(self) -> None:
        seed = 100
        while not self._over.wait(0.05):
            seed += 1
            mine = self._world.local(seed)
            self._use(mine)
            read(mine, "mean")
