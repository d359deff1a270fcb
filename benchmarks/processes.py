"""A thousand steps of a data-parallel training loop on several processes of one
machine, with a factor over the global data.

    python benchmarks/processes.py [--write]

`--write` puts the table into docs/processes.md.
"""

import argparse
import dataclasses
import json
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import cachax

PAGE = Path(__file__).parent.parent / "docs" / "processes.md"
ROUNDS, STEPS = 100, 10
ROWS, COLUMNS = 4096, 64
_HEAD = """\
| processes | steps | factor computed | by hand | cachax | ratio | middle half |
|---:|---:|---:|---:|---:|---:|---:|"""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
    x: jax.Array
    y: jax.Array
    weights: jax.Array

    @cachax.cached_property
    def factor(self) -> Any:
        jax.debug.callback(lambda: computed.append(1))
        return factor_of(self.x)


computed: list[int] = []
"""One for each time that the factor was computed, in this process."""


def factor_of(x: Any) -> Any:
    return jnp.linalg.cholesky(x.T @ x + jnp.eye(x.shape[1]))


def updated(x: Any, y: Any, weights: Any, factor: Any) -> Any:
    """A step of gradient descent with a preconditioner."""
    gradient = x.T @ (x @ weights - y)
    return weights - 0.1 * jax.scipy.linalg.cho_solve((factor, True), gradient)


@cachax.jit
def step(s: State) -> State:
    return dataclasses.replace(s, weights=updated(s.x, s.y, s.weights, s.factor))


@jax.jit
def step_by_hand(arrays: Any, factor: Any) -> Any:
    x, y, weights = arrays
    return x, y, updated(x, y, weights, factor)


def work(rank: int, count: int, port: int) -> None:
    """In one of the processes."""
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{port}", count, rank)
    mesh = Mesh(np.array(jax.devices()), ("d",))
    rng = np.random.default_rng(0)
    x = shared(rng.normal(size=(ROWS, COLUMNS)), NamedSharding(mesh, P("d")))
    y = shared(rng.normal(size=ROWS), NamedSharding(mesh, P("d")))
    weights = shared(np.zeros(COLUMNS), NamedSharding(mesh, P()))

    state = State(x, y, weights)
    for _ in range(3):
        state = step(state)
    arrays, factor = (x, y, weights), jax.jit(factor_of)(x)
    for _ in range(3):
        arrays = step_by_hand(arrays, factor)

    def ours() -> None:
        nonlocal state
        state = step(state)
        jax.block_until_ready(state.weights)

    def theirs() -> None:
        nonlocal arrays
        arrays = step_by_hand(arrays, factor)
        jax.block_until_ready(arrays)

    times: dict[Callable[[], None], list[float]] = {ours: [], theirs: []}
    for number in range(ROUNDS):
        for function in (ours, theirs) if number % 2 else (theirs, ours):
            start = time.perf_counter()
            for _ in range(STEPS):
                function()
            times[function].append((time.perf_counter() - start) / STEPS)
    np.testing.assert_allclose(state.weights, arrays[2], rtol=1e-3, atol=1e-5)
    jax.effects_barrier()
    if rank == 0:
        print(json.dumps([len(computed), times[theirs], times[ours]]))


def shared(numbers: Any, sharding: Any) -> jax.Array:
    numbers = numbers.astype(np.float32)
    return jax.make_array_from_callback(numbers.shape, sharding, numbers.__getitem__)


def measure(count: int) -> str:
    """A row of the table."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes = [
        subprocess.Popen(
            [sys.executable, __file__, "--work", *map(str, (rank, count, port))],
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(count)
    ]
    printed = [process.communicate()[0] for process in processes]
    count_computed, theirs, ours = json.loads(printed[0].splitlines()[-1])
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    low, ratio, high = statistics.quantiles(ratios, n=4)
    by_hand, cached = (f"{statistics.median(t) * 1e6:,.0f} µs" for t in (theirs, ours))
    times = "once" if count_computed == 1 else f"{count_computed} times"
    steps = f"{ROUNDS * STEPS:,}"
    spread = f"{low:.2f} to {high:.2f}"
    cells = (count, steps, times, by_hand, cached, f"{ratio:.2f}", spread)
    return f"| {' | '.join(map(str, cells))} |"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", nargs=3, type=int, help=argparse.SUPPRESS)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if options.work:
        work(*options.work)
        return
    about = f"On a CPU, JAX {jax.__version__}, cachax {cachax.__version__}."
    table = "\n".join([_HEAD, measure(2), measure(4), "", about])
    print(table)
    if options.write:
        page = PAGE.read_text()
        start, end = "<!-- processes -->\n", "<!-- end -->"
        before, _, rest = page.partition(start)
        PAGE.write_text(before + start + table + "\n" + end + rest.partition(end)[2])


if __name__ == "__main__":
    main()
