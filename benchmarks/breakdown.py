"""Where the time of a warm call goes: its parts, each by itself. And what a call with a
new object needs at the least, step by step."""

import itertools
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
from _bench import CACHAX, Case, Result, measure
from _objects import ONES, Bare, Cached, warm
from new_objects import Inline

import cachax
from cachax._compat import CONCRETE, trace_context


def nothing(first=None, second=None, /, *rest, **kwargs):
    return first


def cases() -> Iterator[Case]:
    cached, bare, total = warm(Cached), Bare(ONES, ONES), jnp.sum(ONES)
    ours = cachax.jit(lambda o: o.y * o.total)
    for _ in range(3):
        ours(cached)
    entry = ours.clear_cache.__self__.function.expected
    ready = entry.find((cached,), {})
    by_hand = jax.jit(lambda o, total: o.y * total)
    parts = {
        "for comparison: the call by hand": lambda: by_hand(bare, total),
        "the call of a Python function": lambda: nothing(cached),
        "finding the values by their arrays": lambda: entry.find((cached,), {}),
        "JAX, with the values as an additional argument": lambda: ready.call(cached),
    }
    for name, part in parts.items():
        yield Case(name, name, {CACHAX: lambda: ours(cached), name: part}, rounds=50)


class Note(weakref.ref[Any]):
    """Of an object: what came out for it, until it goes."""

    __slots__ = ("arrays", "fields", "key")

    key: int
    fields: list[Any]
    arrays: Any


_notes: dict[int, Note] = {}


def _forget(note: Note) -> None:
    del _notes[note.key]


def steps() -> dict[str, Callable[[], Any]]:
    """From inline to what cachax does for a new object, each with one thing more."""
    arrays = itertools.cycle([ONES + i for i in range(5_000)])
    inline = jax.jit(lambda o: o.y * o.total)
    both = jax.jit(lambda o: (o.y * o.total, o.total))
    ours = cachax.jit(lambda o: o.y * o.total)

    def noted() -> Any:
        obj = Inline(next(arrays), ONES)
        note = Note(obj, _forget)
        key = note.key = id(obj)
        _notes[key] = note
        out, note.arrays = both(obj)
        return out

    types = [type(ONES)] * 2

    def looked_at() -> Any:
        obj = Inline(next(arrays), ONES)
        fields = [*vars(obj).values()]
        is_fit = trace_context.trace is CONCRETE and [*map(type, fields)] == types
        if not is_fit or id(obj) in _notes:
            raise ValueError
        note = Note(obj, _forget)
        key = note.key = id(obj)
        note.fields = fields
        _notes[key] = note
        out, note.arrays = both(obj)
        return out

    return {
        "inline: a new object, and the call": lambda: inline(
            Inline(next(arrays), ONES)
        ),
        "the value as an additional result": lambda: both(Inline(next(arrays), ONES)),
        "the value is stored until the object is freed": noted,
        "a check that the object is new and fits the program": looked_at,
        CACHAX: lambda: ours(Cached(next(arrays), ONES)),
    }


def new_object() -> Iterator[str]:
    yield "| step | time | relative to inline |"
    yield "| --- | ---: | ---: |"
    inline, *more = contenders = steps()
    for name in more:
        pair = {inline: contenders[inline], CACHAX: contenders[name]}
        result = measure(Case(name, inline, pair, rounds=50))
        if name == more[0]:
            yield f"| {inline} | {result.microseconds[inline]:.1f} µs | 1.00 |"
        yield f"| {name} | {result.microseconds[CACHAX]:.1f} µs | {result.ratio:.2f} |"


def lines(results: list[Result]) -> Iterator[str]:
    yield "| part | time | of a warm call |"
    yield "| --- | ---: | ---: |"
    for r in results:
        part = r.microseconds[r.over]
        yield f"| {r.title} | {part:.2f} µs | {100 / r.ratio:.0f}% |"


def table() -> list[str]:
    return list(lines([measure(case) for case in cases()]))


if __name__ == "__main__":
    print("\n".join([*table(), "", *new_object()]))
