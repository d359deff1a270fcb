"""How the cost of a warm call grows: a straight line, no steeper than by hand."""

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import many_objects
import many_properties
from _bench import CACHAX, Case, Result, measure
from _objects import ONES, Bare, Cached, warm

import cachax


def leaves(quick: bool, count: int) -> Iterator[Case]:
    total, bare, cached = jnp.sum(ONES), Bare(ONES, ONES), warm(Cached)
    arrays = [jnp.float32(i) for i in range(count)]
    by_hand = jax.jit(lambda o, arrays, total: o.y * total + arrays[0])
    ours = cachax.jit(lambda o, arrays: o.y * o.total + arrays[0])
    yield Case(
        f"{count} leaves beside it",
        "by hand",
        {
            "by hand": lambda: by_hand(bare, arrays, total),
            CACHAX: lambda: ours(cached, arrays),
        },
        calls=5,
    )


AXES: dict[str, tuple[Callable[[bool, int], Iterator[Case]], list[int]]] = {
    "leaves": (leaves, [10, 100, 1000, 10_000]),
    "objects": (many_objects.cases, [1, 10, 100, 1000]),
    "properties": (many_properties.cases, [1, 3, 10, 30, 100]),
}


def grow(quick: bool) -> Iterator[tuple[str, int, Result]]:
    for axis, (cases, counts) in AXES.items():
        for count in counts[:-1] if quick else counts:
            for case in cases(quick, count):
                yield axis, count, measure(case, quick=True)


def plot(found: list[tuple[str, int, Result]], path: Path) -> None:
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    mpl.rcParams["svg.hashsalt"] = "cachax"
    figure, axes = plt.subplots(1, len(AXES), figsize=(11, 3.6), sharey=True)
    for axis, panel in zip(AXES, axes, strict=True):
        for name, style in (("by hand", "o--"), (CACHAX, "s-")):
            points = [(n, r.microseconds[name]) for a, n, r in found if a == axis]
            panel.plot(*zip(*points, strict=True), style, label=name)
        panel.set(xscale="log", yscale="log", xlabel=f"number of {axis}")
        panel.grid(alpha=0.3)
        panel.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("µs for a warm call")
    axes[0].legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def table(found: list[tuple[str, int, Result]]) -> Iterator[str]:
    yield "| growing | count | by hand | cachax | ratio |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for axis, count, result in found:
        mine, base = result.microseconds[CACHAX], result.microseconds["by hand"]
        row = f"| {axis} | {count:,} | {base:.1f} µs | {mine:.1f} µs "
        yield row + f"| {result.ratio:.2f} |"


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--plot", type=Path, metavar="FILE")
    options = parser.parse_args()
    found = list(grow(options.quick))
    print("\n".join(table(found)))
    if options.plot:
        plot(found, options.plot)
