"""Measure the memory that the cache holds now."""

import gc
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import jax

from .._core import index
from .._core.memo import inputs_of, memos
from .._errors import plain_name
from .memory import Held, Memory


def memory() -> Memory:
    """The memory that cached values take now, in the whole process.

    Values are freed with the arrays they were computed from. Arrays that belong to the
    objects themselves don't count, nor do programs that JAX has compiled.

    Returns:
        A `Memory`. `held` has an item for each property, and `bytes` is the total. Its
        text is a table.

    Example:
        >>> import equinox as eqx, jax, jax.numpy as jnp, cachax
        >>> class Line(eqx.Module):
        ...     x: jax.Array
        ...
        ...     @cachax.cached_property
        ...     def outer(self):
        ...         return jnp.outer(self.x, self.x)
        >>> line = Line(jnp.ones(1000))
        >>> _ = line.outer
        >>> [each.bytes for each in cachax.memory().held if each.name == "Line.outer"]
        [4000000]
    """
    counts: dict[str, int] = defaultdict(int)
    sizes: dict[str, int] = defaultdict(int)
    seen: set[int] = set()
    for name, leaves in _values():
        counts[name] += 1
        for leaf in leaves:
            if id(leaf) not in seen:
                seen.add(id(leaf))
                sizes[name] += _bytes(leaf)
    held = [Held(name, count, sizes[name]) for name, count in counts.items()]
    return Memory(tuple(sorted(held, key=lambda h: (-h.bytes, h.name))))


def _values() -> Iterator[tuple[str, list[Any]]]:
    """Each value once, with its leaves that are not arrays of its object."""
    templates: set[int] = set()
    for contents in [x for x in gc.get_objects() if type(x) is index.Contents]:
        for record in [x for each in contents.records.values() for x in each]:
            if id(record.template) not in templates:  # one for several arrays
                templates.add(id(record.template))
                yield name_of(record.key), [*record.template.leaves]
    for memo in [*memos.values()]:
        obj = memo()
        if obj is None:
            continue
        inputs = inputs_of(obj)
        own = set() if inputs is None else {*map(id, inputs.arrays)}
        for key, value in [*memo.values.items()]:
            known = memo.indexed.get(key)
            if known is None or id(known.template) not in templates:
                leaves = jax.tree.leaves(value)
                yield name_of(key), [x for x in leaves if id(x) not in own]
        for key, folded in [*memo.folded.items()]:
            yield name_of(key), [*folded._leaves]


def name_of(key: Any) -> str:
    """The name of a cached property, method or function, with its class."""
    while hasattr(key, "source"):
        key = key.source
    fun = getattr(key, "func", None) or getattr(key, "__wrapped__", None)
    return plain_name(getattr(fun, "__qualname__", None) or str(key))


def _bytes(leaf: Any) -> int:
    try:
        return int(getattr(leaf, "nbytes", 0))
    except NotImplementedError:  # an array of random keys, before JAX 0.5
        return 0
