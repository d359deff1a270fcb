"""Law 10. The same program makes the same decisions, whatever else happens.

A program is a sequence of operations on a pool of objects, drawn from a seed. It is run
undisturbed, and again while something happens that must not matter: the garbage
collector runs, references are kept, other threads work on other objects. What is
compared are the decisions: which bodies were executed, for which arrays, in which
operation; and how often each jitted function was traced.

Each run has its own classes and functions, so that none finds what another one left.
"""

import contextlib
import copy
import gc
import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cachax

OPERATIONS = 70
OTHER = 100_000.0
"""Arrays of other threads have larger sums than this."""

Decision = tuple[str, float]


class Log:
    """What was executed and traced, in order."""

    def __init__(self) -> None:
        self.executed: list[list[Decision]] = []
        self.traced: list[str] = []
        self._now: list[Decision] = []

    def executing(self, name: str, x: Any) -> None:
        """In a body: when it is executed, with what."""
        jax.debug.callback(lambda total: self.note(name, total), jnp.sum(x))

    def note(self, name: str, total: Any) -> None:
        if abs(float(total)) < OTHER:
            self._now.append((name, round(float(total), 3)))

    def end_of_operation(self) -> None:
        """JAX may reorder callbacks within an operation, never beyond this."""
        jax.effects_barrier()
        self.executed.append(sorted(self._now))
        self._now = []


class World:
    """The classes and functions of one run, and its objects."""

    def __init__(self, disturb: Callable[[], None]) -> None:
        self.log = log = Log()
        self.disturb = disturb

        @jax.tree_util.register_dataclass
        @dataclass(frozen=True)
        class Model:
            x: Any
            y: Any
            scale: float = field(default=1.0, metadata={"static": True})

            @cachax.cached_property
            def a(self) -> Any:
                disturb()
                log.executing("a", self.x)
                return self.scale * jnp.cumsum(self.x)

            @cachax.cached_property
            def b(self) -> Any:
                log.executing("b", self.y)
                disturb()
                return jnp.sum(self.y) + 1

            @cachax.cached_property
            def c(self) -> Any:
                log.executing("c", self.x)
                return self.a * self.b

            @cachax.cached_property
            def host(self) -> Any:
                x = np.asarray(self.x)
                log.note("host", x.sum())
                disturb()
                return float(np.sort(x)[0])

            @cachax.cached_method
            def power(self, n: int) -> Any:
                log.executing(f"power {n}", self.x)
                return self.x**n

        self.model = Model

        def traced(name: str, fun: Any, **options: Any) -> Any:
            def wrapper(model: Any) -> Any:
                log.traced.append(name)
                disturb()
                return fun(model)

            return cachax.jit(wrapper, **options)

        def step(m: Any) -> Any:
            return replace(m, y=m.y + 1e-3 * jnp.sum(m.a))

        self.functions = {
            "use a": traced("use a", lambda m: jnp.sum(m.a)),
            "use c": traced("use c", lambda m: jnp.sum(m.c) + m.b),
            "use host": traced("use host", lambda m: m.host + m.x),
            "use power": traced("use power", lambda m: m.power(2) + m.power(3)),
        }
        self.step = traced("step", step)
        self.donating = traced("donating", step, donate_argnums=0)
        self.both = traced("both", lambda m: (replace(m, y=2 * m.y), m.c))
        self.pool: list[Any] = []

    def new(self, rng: random.Random, offset: float = 0.0) -> Any:
        x = offset + rng.randrange(1, 100) + jnp.arange(rng.choice([2, 3]) * 1.0)
        return self.model(x, offset + jnp.ones(2) * rng.randrange(1, 100))


def operate(world: World, rng: random.Random) -> Any:
    """One operation; returns its result."""
    pool = world.pool
    if len(pool) < 3:
        pool.append(world.new(rng))
        return None
    i = rng.randrange(len(pool))
    model = pool[i]
    kind = rng.choice(KINDS)
    if kind == "new":
        pool.append(world.new(rng))
    elif kind == "drop":
        del pool[i]
    elif kind == "replace x":
        pool[i] = replace(model, x=model.x + 1)
    elif kind == "replace y":
        pool[i] = replace(model, y=model.y + 1)
    elif kind == "beside":
        pool.append(replace(model, y=model.y * 2))
    elif kind == "scale":
        pool[i] = replace(model, scale=float(rng.choice([1, 2, 3])))
    elif kind == "rebuild":
        pool[i] = jax.tree.map(lambda leaf: leaf, model)
    elif kind == "read":
        name = rng.choice(["a", "b", "c", "host"])
        return getattr(model, name)
    elif kind == "call":
        return world.functions[rng.choice(sorted(world.functions))](model)
    elif kind == "call on new":
        use = world.functions[rng.choice(["use a", "use c"])]
        return [use(world.new(rng)) for _ in range(3)]
    elif kind == "step":
        pool[i] = world.step(model)
    elif kind == "donate":
        own = jax.tree.map(jnp.copy, model)
        pool[i] = world.donating(world.donating(own))
    elif kind == "both":
        pool[i], value = world.both(model)
        return value
    elif kind == "clear":
        cachax.clear(model, *rng.choice([(), ("a",), ("c",)]))
    elif kind == "warm":
        cachax.warm(model, "c")
    elif kind == "preset":
        pool[i] = cachax.preset(model, b=jnp.asarray(5.0))
    return None


KINDS = [
    *["call"] * 4,
    *["read"] * 3,
    *["step"] * 3,
    *["replace y", "beside", "rebuild", "scale", "call on new"] * 2,
    *["new", "drop", "replace x", "donate", "both", "clear", "warm", "preset"],
]


@dataclass
class Outcome:
    executed: list[list[Decision]]
    traced: list[str]
    results: list[Any]


def quiet() -> None:
    """No disturbance."""


def run(
    seed: int,
    disturb: Callable[[], None] = quiet,
    between: Callable[[World], None] = lambda world: None,
) -> Outcome:
    rng = random.Random(seed)
    world = World(disturb)
    results = []
    for _ in range(OPERATIONS):
        result = operate(world, rng)
        world.log.end_of_operation()
        results.append(jax.tree.map(np.asarray, result))
        del result
        between(world)
        assert not world.log._now  # a disturbance decides nothing
    return Outcome(world.log.executed, world.log.traced, results)


def agree(one: Outcome, other: Outcome) -> None:
    for i, (a, b) in enumerate(zip(one.executed, other.executed, strict=True)):
        assert a == b, f"operation {i}"
    assert one.traced == other.traced
    for a, b in zip(one.results, other.results, strict=True):
        jax.tree.map(np.testing.assert_array_equal, a, b)


SEEDS = [0, 1, 2]
seeds = pytest.mark.parametrize("seed", SEEDS)


@pytest.fixture(scope="module")
def undisturbed() -> dict[int, Outcome]:
    return {seed: run(seed) for seed in SEEDS}


def test_the_programs_compute_and_find_values(undisturbed: Any) -> None:
    """So that the comparisons below compare something."""
    for outcome in undisturbed.values():
        counts = [len(decisions) for decisions in outcome.executed]
        assert sum(counts) > 10
        assert counts.count(0) > OPERATIONS // 3
    names = {
        name
        for outcome in undisturbed.values()
        for decisions in outcome.executed
        for name, _ in decisions
    }
    assert names == {"a", "b", "c", "host", "power 2", "power 3"}


@seeds
def test_a_second_run_agrees(seed: int, undisturbed: Any) -> None:
    agree(run(seed), undisturbed[seed])


@seeds
def test_the_collector_at_random_points_changes_nothing(
    seed: int, undisturbed: Any
) -> None:
    """Between the operations, inside bodies and while functions are traced."""
    dice = random.Random(seed + 1000)

    def collect() -> None:
        if dice.random() < 0.4:
            gc.collect(dice.randrange(3))

    agree(run(seed, collect, lambda world: collect()), undisturbed[seed])


@contextlib.contextmanager
def collector(threshold: int) -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(threshold)
    if not threshold:
        gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.set_threshold(*before)


@seeds
@pytest.mark.parametrize("threshold", [0, 50], ids=["never", "all the time"])
def test_how_often_the_collector_runs_changes_nothing(
    seed: int, threshold: int, undisturbed: Any
) -> None:
    with collector(threshold):
        outcome = run(seed)
    agree(outcome, undisturbed[seed])


@seeds
def test_references_that_are_kept_change_nothing(seed: int, undisturbed: Any) -> None:
    kept: list[Any] = []

    def keep(world: World) -> None:
        kept.append([*world.pool])
        kept.extend(jax.tree.leaves(world.pool))
        kept.extend(cachax.cached(model) for model in world.pool)

    agree(run(seed, between=keep), undisturbed[seed])


@seeds
def test_references_in_cycles_change_nothing(seed: int, undisturbed: Any) -> None:
    """What a program drops goes when the collector comes, and not at once."""

    def tie(world: World) -> None:
        for model in world.pool:
            cycle: list[Any] = [model, *jax.tree.leaves(model)]
            cycle.append(cycle)

    with collector(0):
        outcome = run(seed, between=tie)
    agree(outcome, undisturbed[seed])


@seeds
def test_copies_change_nothing(seed: int, undisturbed: Any) -> None:
    copies: list[Any] = []

    def make(world: World) -> None:
        if len(copies) > 20:
            copies.clear()
        for model in world.pool:
            copies.append(copy.copy(model))
            copies.append(jax.tree.map(lambda leaf: leaf, model))
            copies.append(jax.tree.map(jnp.copy, model))

    agree(run(seed, between=make), undisturbed[seed])


@seeds
def test_reading_a_cached_value_changes_nothing(seed: int, undisturbed: Any) -> None:
    def look(world: World) -> None:
        for model in world.pool:
            cachax.cached(model)
            for name in ["a", "b", "c", "host"]:
                if cachax.is_cached(model, name):
                    getattr(model, name)

    agree(run(seed, between=look), undisturbed[seed])


@seeds
def test_recording_changes_nothing(seed: int, undisturbed: Any) -> None:
    with cachax.record():
        outcome = run(seed)
    agree(outcome, undisturbed[seed])


@seeds
def test_recording_now_and_then_changes_nothing(seed: int, undisturbed: Any) -> None:
    with contextlib.ExitStack() as stack:
        open_now: list[Any] = []

        def toggle(world: World) -> None:
            if open_now:
                open_now.pop().close()
            elif len(world.pool) % 2:
                open_now.append(stack.enter_context(contextlib.ExitStack()))
                open_now[-1].enter_context(cachax.record())

        outcome = run(seed, between=toggle)
    agree(outcome, undisturbed[seed])


@seeds
def test_threads_on_other_objects_change_nothing(seed: int, undisturbed: Any) -> None:
    """Of the same classes, in separate functions."""
    stop = threading.Event()
    threads: list[threading.Thread] = []
    failures: list[BaseException] = []

    def work(world: World, number: int) -> None:
        rng = random.Random(number)
        use = cachax.jit(lambda m: jnp.sum(m.c) + m.b)
        try:
            while not stop.is_set():
                model = world.new(rng, offset=10 * OTHER)
                use(model)
                use(replace(model, y=model.y + 1))
                _ = model.host, model.power(2)
                cachax.clear(model)
        except BaseException as error:
            failures.append(error)

    def start(world: World) -> None:
        if not threads:
            for number in range(2):
                threads.append(threading.Thread(target=work, args=(world, number)))
                threads[-1].start()

    try:
        outcome = run(seed, between=start)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not failures
    agree(outcome, undisturbed[seed])


# One decision at a time.


def executed(log: Log) -> list[Decision]:
    log.end_of_operation()
    return log.executed[-1]


@pytest.mark.parametrize("collect", [False, True])
@pytest.mark.parametrize("keep", [False, True])
def test_a_rebuilt_object_is_known_although_the_first_is_gone(
    collect: bool, keep: bool
) -> None:
    world = World(quiet)
    x, y = jnp.arange(3.0), jnp.ones(2)
    first = world.model(x, y)
    same_arrays = [first] if keep else []
    world.functions["use c"](first)
    assert executed(world.log) == [("a", 3.0), ("b", 2.0), ("c", 3.0)]
    del first
    if collect:
        gc.collect()
    world.functions["use c"](world.model(x, y))
    assert executed(world.log) == []
    _ = world.model(x, y + 1).c
    assert executed(world.log) == [("b", 4.0), ("c", 3.0)]
    same_arrays.clear()


@pytest.mark.parametrize("keep", [False, True])
def test_a_static_variant_that_is_gone_is_decided_by_the_program_alone(
    keep: bool,
) -> None:
    """Which of many variants are kept does not depend on who holds their objects."""
    decisions = []
    for kept in (False, keep):
        world, held = World(quiet), []
        x, y = jnp.arange(3.0), jnp.ones(2)
        for scale in [1.0, 2.0, 3.0, 1.0, 3.0, 2.0, 1.0, 1.0]:
            model = world.model(x, y, scale)
            _ = model.a
            if kept:
                held.append(model)
            executed(world.log)
        decisions.append(world.log.executed)
    assert decisions[0] == decisions[1]


def test_what_a_new_object_finds_does_not_depend_on_ids() -> None:
    """Each one is at an address where another was before."""
    world = World(quiet)
    for n in range(50):
        model = world.model(jnp.full(2, float(n)), jnp.ones(2))
        np.testing.assert_array_equal(model.a, [n, 2 * n])
        assert executed(world.log) == [("a", 2.0 * n)]
        del model


def test_many_new_objects_are_decided_alike_whenever_they_die() -> None:
    """Calls on objects that are new every time, dropped at once or kept."""
    decisions = []
    for keep in (False, True):
        world, held = World(quiet), []
        for n in range(15):
            model = world.model(jnp.arange(3.0) + n, jnp.ones(2))
            world.functions["use c"](model)
            held.append(model)
            if not keep:
                held.clear()
                del model
                gc.collect()
            executed(world.log)
        decisions.append((world.log.executed, world.log.traced))
    assert decisions[0] == decisions[1]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Scaled:
    x: Any
    y: Any
    scale: int = field(default=1, metadata={"static": True})

    @cachax.cached_property
    def mean(self) -> Any:
        return self.scale * jnp.mean(self.x)

    @cachax.cached_property
    def grid(self) -> Any:
        return jnp.linspace(0.0, self.scale, 3)


def computed_for(obj: Any, name: str) -> bool:
    with cachax.record() as report:
        getattr(obj, name)
    return report.count("computed") > 0


@pytest.mark.parametrize("keeps", [False, True])
def test_whether_a_value_without_arrays_is_found_does_not_depend_on_other_objects(
    keeps: bool,
) -> None:
    first = Scaled(jnp.ones(3), jnp.ones(3))
    assert computed_for(first, "grid")
    assert not computed_for(replace(first, y=jnp.zeros(3)), "grid")
    if not keeps:
        del first
    assert computed_for(Scaled(jnp.ones(3), jnp.ones(3)), "grid")


@pytest.mark.parametrize("clears", [False, True])
def test_to_clear_one_object_makes_no_difference_to_others(clears: bool) -> None:
    """More static variants than the index keeps: their objects have them."""
    x, y = jnp.ones(4), jnp.ones(4)
    variants = [Scaled(x, y, scale) for scale in range(1, 6)]
    assert all(computed_for(each, "mean") for each in variants)
    other = cachax.warm(Scaled(jnp.ones(5), jnp.ones(5)))
    if clears:
        cachax.clear(other)
    assert not any(computed_for(each, "mean") for each in variants)


@pytest.mark.parametrize("is_recording", [False, True])
def test_recording_makes_no_difference_to_how_new_objects_are_counted(
    is_recording: bool,
) -> None:
    traces = []

    def use(s: Any) -> Any:
        traces.append(1)
        return s.mean + s.y

    use = cachax.jit(use)
    old = Scaled(jnp.ones(6), jnp.ones(6))
    for _ in range(4):
        use(old)
    for number in range(12):
        use(Scaled(jnp.ones(6) + number, jnp.ones(6)))
        if number % 4 == 3:
            recording = cachax.record() if is_recording else contextlib.nullcontext()
            with recording:
                use(old)
    assert len(traces) == 3  # the last to compute inside, after eight new ones
