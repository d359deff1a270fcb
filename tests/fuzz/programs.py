"""Generate programs from a seed, run them in two worlds, compare, and shrink."""

import functools
import gc
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

import jax
import numpy as np

from .machine import OPS, Machine, Op, Profile
from .worlds import NEEDS_CONCRETE, PROPS, World, get, numbers

COUNTED = 5
"""One profile in so many counts how often bodies run: callbacks are slow."""


ALIKE = 50
"""Programs in a row with one profile."""


@dataclass(frozen=True)
class Program:
    seed: int
    profile: Profile
    ops: tuple[Op, ...]

    @classmethod
    def draw(cls, seed: int) -> "Program":
        r = Random(seed)
        names = r.choices(list(OPS), list(OPS.values()), k=r.randrange(5, 16))
        ops = [Op(name, r.randrange(2**32)) for name in ["create", "create", *names]]
        return cls(seed, Profile.draw(Random(seed // ALIKE)), tuple(ops))

    def without(self, i: int) -> "Program":
        return Program(self.seed, self.profile, self.ops[:i] + self.ops[i + 1 :])


class DifferenceError(AssertionError):
    """cachax did what plain properties do not."""


@dataclass
class Worlds:
    """Both sides. Their jitted functions are shared by the programs run in them."""

    cached: World = field(default_factory=lambda: World("cached", cached=True))
    plain: World = field(default_factory=lambda: World("plain", cached=False))
    counted: World = field(
        default_factory=lambda: World("counted", cached=True, counted=True)
    )


@dataclass
class Outcome:
    """What an operation returned, or raised."""

    value: Any = None
    error: BaseException | None = None


def attempt(machine: Machine, op: Op) -> Outcome:
    machine.world.fell_back = False
    try:
        return Outcome(jax.block_until_ready(machine.run(op)))
    except Exception as error:
        return Outcome(error=error)


def check(program: Program, worlds: Worlds) -> None:
    """Raise a `DifferenceError` where cachax and plain properties disagree."""
    counted = program.seed // ALIKE % COUNTED == 0
    ours = Machine(
        worlds.counted if counted else worlds.cached, program.profile, program.seed
    )
    theirs = Machine(worlds.plain, program.profile, program.seed)
    for op in program.ops:
        with ours.world.counting() as counts:
            mine = attempt(ours, op)
        other = attempt(theirs, op)
        if mine.error is not None:  # what it would have computed is not known
            ours.once.forget()
        allowed = NEEDS_CONCRETE if theirs.may_need_concrete else ()
        if theirs.world.fell_back and isinstance(mine.error, allowed):
            continue
        compare(mine, other, theirs.world.fell_back)
        if counted and ours.allowed is not None:
            _compare_counts(counts, ours.allowed, mine.error)
    for name, obj in ours.objects.items():
        ours.lines.append(f"at the end, {name}")
        _compare_objects(obj, theirs.objects[name])
        for prop in program.profile.props:
            ours.lines[-1] = f"at the end, {name}.{prop}"
            compare(
                _read(obj, prop), _read(theirs.objects[name], prop), fell_back=False
            )


def _read(obj: Any, prop: str) -> Outcome:
    if PROPS[prop].is_jitted and type(obj).__name__ == "Plain":
        prop = "one"
    try:
        return Outcome(get(obj, prop))
    except Exception as error:
        return Outcome(error=error)


def compare(mine: Outcome, other: Outcome, fell_back: bool) -> None:
    if mine.error is not None or other.error is not None:
        if type(mine.error) is type(other.error):
            return
        if isinstance(other.error, NEEDS_CONCRETE) and mine.error is None:
            return  # cachax can do more here: the end of the program compares values
        raise DifferenceError(f"{mine.error!r} is not {other.error!r}") from mine.error
    _compare_trees(mine.value, other.value, loose=fell_back)


def _compare_objects(mine: Any, other: Any) -> None:
    """A cached value is neither in the tree nor among the attributes."""
    _compare_trees(mine, other, loose=False)
    names, others = sorted(vars(mine)), sorted(vars(other))
    if names != others:
        raise DifferenceError(f"attributes {names} are not {others}")


def _compare_trees(mine: Any, other: Any, *, loose: bool) -> None:
    if loose:
        mine, other = numbers(mine), numbers(other)
    mine, other = (jax.tree_util.tree_flatten_with_path(x)[0] for x in (mine, other))
    paths, others = ([jax.tree_util.keystr(p) for p, _ in x] for x in (mine, other))
    if paths != others:
        raise DifferenceError(f"a tree of {paths} is not one of {others}")
    for path, (_, x), (_, y) in zip(paths, mine, other, strict=True):
        _compare_leaves(path, x, y, loose=loose)


def _compare_leaves(path: str, x: Any, y: Any, *, loose: bool) -> None:
    if not _is_numeric(x) or not _is_numeric(y):
        same = x == y if isinstance(x, str) else type(x).__name__ == type(y).__name__
    else:
        kinds = [(np.shape(v), None if loose else _kind(v)) for v in (x, y)]
        same = kinds[0] == kinds[1] and np.allclose(
            x, y, rtol=1e-4, atol=1e-4, equal_nan=True
        )
    if not same:
        raise DifferenceError(f"{path} {x!r} ({_kind(x)}) is not {y!r} ({_kind(y)})")


def _is_numeric(x: Any) -> bool:
    return isinstance(x, jax.Array | np.ndarray | np.generic | int | float)


def _kind(x: Any) -> str:
    if isinstance(x, jax.Array):
        return f"{x.dtype}{' weak' * x.weak_type}"
    if hasattr(x, "aval"):  # a constant that JAX returns as it is
        return str(x.dtype)
    return f"{type(x).__name__} {getattr(x, 'dtype', '')}"


def _compare_counts(
    counts: Counter[str], allowed: Counter[str], error: BaseException | None
) -> None:
    too_many = counts - allowed
    if too_many and error is None:
        raise DifferenceError(
            f"computed {dict(counts)}, where {dict(allowed)} is allowed"
        )


# Failures


@dataclass(frozen=True)
class Failure:
    program: Program
    message: str
    text: str
    """The program, as far as it got."""

    def __str__(self) -> str:
        head = f"seed {self.program.seed}, {len(self.program.ops)} operations"
        return f"{head}\n{self.text}\n  -> {self.message}"

    @property
    def kind(self) -> str:
        """What failures of the same cause have in common, as far as it shows."""
        return re.sub(r"[\d.'{}\[\]]+", "", self.message)[:60]


def failure_of(program: Program, worlds: Worlds) -> Failure | None:
    try:
        check(program, worlds)
    except DifferenceError as difference:
        return Failure(program, str(difference), _text(difference))
    return None


def _text(difference: BaseException) -> str:
    """The lines of the machine that the check had got to."""
    trace: Any = difference.__traceback__
    while trace is not None:
        machine = trace.tb_frame.f_locals.get("ours")
        if isinstance(machine, Machine):
            return "\n".join(f"    {line}" for line in machine.lines)
        trace = trace.tb_next
    return ""


def shrunk(failure: Failure, worlds: Worlds | None = None) -> Failure:
    """With as few operations as still fail. With fresh worlds, if it fails there too:
    then it needs no other program before it."""
    again = failure_of(failure.program, fresh := Worlds())
    worlds = fresh if again else worlds or Worlds()
    failure = again or failure
    i = len(failure.program.ops) - 1
    while i >= 0:
        smaller = failure_of(failure.program.without(i), Worlds() if again else worlds)
        failure, i = smaller or failure, i - 1
    return failure


# The same decisions, whatever else happens


class Disturbance:
    """Garbage collection at random points, references that are kept, and a thread that
    works on separate objects."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._kept: list[Any] = []
        self._others = World("others", cached=True)

    def disturb(self, machine: Machine, result: Any) -> threading.Thread | None:
        """Between two operations; returns a thread that runs beside the next one."""
        chance = self._random.random
        if chance() < 0.3:
            self._kept += [result, *machine.objects.values()]
            self._kept += jax.tree.leaves(list(machine.objects.values()))
        if chance() < 0.2:
            self._kept.clear()
        if chance() < 0.4:
            gc.collect()
        if chance() < 0.8:
            return None
        seed = self._random.randrange(2**20)
        thread = threading.Thread(target=self._elsewhere, args=[machine.profile, seed])
        thread.start()
        return thread

    def _elsewhere(self, profile: Profile, seed: int) -> None:
        machine = Machine(self._others, profile, seed)
        for name in ("create", "read", "jit", "come_back", "read"):
            attempt(machine, Op(name, seed))


def decisions(program: Program, disturbance: Disturbance | None) -> list[Any]:
    """For each operation, the bodies that Python started, in their order, and how often
    each was computed; then the same for reading every value. Classes and functions are
    new, so that nothing is known of them."""
    world = World("observed", cached=True, counted=True)
    machine = Machine(world, program.profile, program.seed)
    made: list[Any] = []
    thread: threading.Thread | None = None
    for do in _steps(program, machine):
        before = len(world.log.started)
        with world.counting() as counts:
            outcome = do()
        started, counted = world.log.started[before:], dict(sorted(counts.items()))
        made.append((machine.lines[-1], started, counted))
        if thread is not None:
            thread.join()
        if disturbance is not None:
            thread = disturbance.disturb(machine, outcome.value)
    if thread is not None:
        thread.join()
    return made


def _steps(program: Program, machine: Machine) -> Iterator[Callable[[], Outcome]]:
    for op in program.ops:
        yield functools.partial(attempt, machine, op)
    for name in list(machine.objects):
        for prop in program.profile.props:
            machine.lines.append(f"at the end, {name}.{prop}")
            yield functools.partial(_read, machine.objects[name], prop)


def disagreement(program: Program) -> str | None:
    """What a disturbed run does differently from an undisturbed one."""
    gc.disable()
    try:
        calm = decisions(program, None)
    finally:
        gc.enable()
    disturbed = decisions(program, Disturbance(program.seed))
    for i, (one, other) in enumerate(zip(calm, disturbed, strict=True)):
        if one != other:
            lines = "\n".join(f"    {line}" for line, *_ in calm[: i + 1])
            return f"seed {program.seed}\n{lines}\n  -> {one}\n  disturbed: {other}"
    return None
