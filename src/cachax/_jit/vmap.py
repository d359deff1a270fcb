"""A drop-in for `jax.vmap`: a value is computed once for a whole batch of objects.

A property of one example is not a part of the property of the batch. What is kept on
the batch is the property of every example, stacked: the body under `jax.vmap`.
"""

import functools
import operator
from collections.abc import Callable
from dataclasses import dataclass
from itertools import compress
from typing import Any, ParamSpec, TypeVar, overload

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap

from .._compat import Tracer, at_trace, current_trace, trace_of
from .._core.computed import Argument, Computed, running_table, table_of
from .._core.memo import NOT_PROVIDED, Provider, inputs_of, memo_of
from .._core.slots import Layout, layout_of
from .._core.structure import Structure, flatten
from .._core.values import pack
from .._errors import UnhashableValueError

P = ParamSpec("P")
R = TypeVar("R")

Axes = tuple[int | None, ...]
"""For each leaf of a tree, which of its axes is mapped."""


@overload
def vmap(
    fun: Callable[P, R], in_axes: Any = 0, out_axes: Any = 0, **options: Any
) -> Callable[P, R]: ...
@overload
def vmap(
    *, in_axes: Any = 0, out_axes: Any = 0, **options: Any
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
def vmap(fun: Any = None, in_axes: Any = 0, out_axes: Any = 0, **options: Any) -> Any:
    """Like `jax.vmap`, but cached properties of the examples of a batch are computed
    once.

    A batch is an object with stacked leaves. A property that the function reads of one
    example is computed for all examples at once, and cached for the arrays of the
    batch.

    Args:
        fun: The function. Without it, `vmap` returns a decorator.
        in_axes: The axis to map over, for each argument, as in `jax.vmap`.
        out_axes: The axis of the examples in the results, as in `jax.vmap`.
        **options: Other options of `jax.vmap`: `axis_name`, `axis_size`,
            `spmd_axis_name`.

    Returns:
        The mapped function.

    Raises:
        ValueError: In a call: what `jax.vmap` raises, for instance if the sizes of the
            mapped axes differ.

    Example:
        >>> import dataclasses, jax, jax.numpy as jnp, cachax
        >>> @jax.tree_util.register_dataclass
        ... @dataclasses.dataclass(frozen=True)
        ... class Line:
        ...     x: jax.Array
        ...
        ...     @cachax.cached_property
        ...     def mean(self):
        ...         jax.debug.print("computing")
        ...         return jnp.mean(self.x)
        >>> lines = Line(jnp.array([[1.0, 3.0], [5.0, 9.0]]))
        >>> cachax.vmap(lambda line: line.x - line.mean)(lines)
        computing
        Array([[-1.,  1.],
               [-2.,  2.]], dtype=float32)
        >>> cachax.vmap(lambda line: 2 * line.mean)(lines)
        Array([ 4., 14.], dtype=float32)
    """
    if fun is None:
        return functools.partial(vmap, in_axes=in_axes, out_axes=out_axes, **options)
    plain = jax.vmap(fun, in_axes, out_axes, **options)
    options.pop("axis_size", None)

    @functools.wraps(fun)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        tree = (args, kwargs)
        layout = layout_of(tree)
        batch = None if layout is None else _batch(tree, in_axes, layout)
        if batch is None:  # nothing to be kept; what is wrong, JAX says best
            return plain(*args, **kwargs)
        return batch.map(lambda x: fun(*x[0], **x[1]), out_axes, options)

    return mapped


class _Batch:
    """A tree with mapped axes, and objects in it."""

    def __init__(self, tree: Any, axes: Axes, layout: Layout) -> None:
        leaves, structure = jax.tree.flatten(tree)
        self.leaves: list[Any] = leaves
        self.structure: Any = structure
        self.axes = axes
        self.layout = layout
        self.owners = layout.objects(tree)
        self.spans = layout.spans(tree)
        pairs = zip(self.leaves, axes, strict=True)
        (self.size,) = {leaf.shape[axis] for leaf, axis in pairs if axis is not None}

    def provide(self, one: Any, number: Any, options: dict[str, Any]) -> None:
        """Values for the objects in one example: `number` is which, and traced as it
        is."""
        table = table_of({trace_of(number)})
        copies = self.layout.objects(one)
        for owner, span, copy in zip(self.owners, self.spans, copies, strict=True):
            if copy is owner:
                continue
            provide = _provider(owner, self.axes[span], number, options)
            memo_of(copy).provider = provide
            if table is not None:
                argument = Argument(copy, inputs_of(copy), provide, lambda key: True)
                table.arguments.append(argument)

    def map(
        self, fun: Callable[[Any], Any], out_axes: Any, options: dict[str, Any]
    ) -> Any:
        """`fun` of every example, with values provided for the objects in it."""

        def of_one(number: Any, leaves: list[Any]) -> Any:
            one = self.structure.unflatten(leaves)
            with running_table():
                self.provide(one, number, options)
                return fun(one)

        mapped = jax.vmap(of_one, (0, [*self.axes]), out_axes, **options)
        return mapped(jnp.arange(self.size), self.leaves)


def _batch(tree: Any, in_axes: Any, layout: Layout) -> _Batch | None:
    """The arguments of a call, if they are as `jax.vmap` wants them."""
    args, kwargs = tree
    given = in_axes if isinstance(in_axes, tuple | list) else (in_axes,) * len(args)
    try:
        axes = _for_each_leaf((tuple(given), dict.fromkeys(kwargs, 0)), tree)
        return _Batch(tree, axes, layout)
    except (AttributeError, IndexError, TypeError, ValueError):
        return None


def _for_each_leaf(axes: Any, tree: Any) -> Axes:
    """A prefix of a tree, for all that comes after it."""
    found: list[int | None] = []

    def spread(axis: int | None, part: Any) -> None:
        found.extend([axis] * len(jax.tree.leaves(part)))

    jax.tree.map(spread, axes, tree, is_leaf=lambda x: x is None)
    return tuple(found)


def _provider(owner: Any, axes: Axes, number: Any, options: dict[str, Any]) -> Provider:
    def provide(key: Any) -> Any:
        if all(axis is None for axis in axes):
            return key.read(owner)
        stacked = _batch_key(key, axes, options).read(owner)
        if stacked is None:
            return NOT_PROVIDED
        one = stacked.of_one(number)
        layout = layout_of((one,))
        if layout is not None and any(axis is not None for axis in stacked.axes):
            batch = _Batch((stacked.value,), stacked.axes, layout)
            batch.provide((one,), number, options)
        return one

    return Provider(provide)


class BatchKey(Computed):
    """A value of every example in a batch of objects."""

    def __init__(self, key: Computed, axes: Axes, options: dict[str, Any]) -> None:
        super().__init__(f"{key.attrname} of each", self._of_each)
        self.source = key
        self.attrname = self._name
        self._axes = axes
        self._options = options

    def _of_each(self, batch: Any) -> "_Stacked | None":
        found: tuple[list[Any], Axes, Structure] | None = None

        def of_one(tree: Any) -> list[Any]:
            nonlocal found
            (one,) = tree
            value, _ = self.source.evaluate(one, None)
            if not _can_be_stacked(value):
                return []
            leaves, structure = flatten(value)
            here = current_trace()
            is_here = [isinstance(x, Tracer) and trace_of(x) is here for x in leaves]
            # No tracer stays behind.
            others = [
                None if x else leaf for leaf, x in zip(leaves, is_here, strict=True)
            ]
            found = others, tuple(0 if x else None for x in is_here), structure
            return [*compress(leaves, is_here)]

        tree = (batch,)
        layout = layout_of(tree)
        assert layout is not None
        stacked = _Batch(tree, self._axes, layout).map(of_one, 0, self._options)
        if found is None:
            return None
        others, axes, structure = found
        remaining = iter(stacked)
        pairs = zip(others, axes, strict=True)
        leaves = [x if axis is None else next(remaining) for x, axis in pairs]
        value = structure.unflatten(leaves)
        again, _ = flatten(value)
        is_same = len(again) == len(leaves) and all(map(operator.is_, again, leaves))
        return _Stacked(value, axes) if is_same else None


def _can_be_stacked(value: Any) -> bool:
    """Whether JAX sees all arrays in a value, and it can be an input of a program."""
    try:
        return pack(value, "") is not None
    except UnhashableValueError:
        return False


def _batch_key(key: Computed, axes: Axes, options: dict[str, Any]) -> BatchKey:
    """One for all batches that are mapped alike."""
    identity = (axes, *sorted(options.items()))
    found = key.batched.get(identity)
    if found is None:
        found = key.batched.setdefault(identity, BatchKey(key, axes, options))
    return found  # type: ignore[no-any-return]


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["value"], meta_fields=["axes"]
)
@dataclass(frozen=True, eq=False)
class _Stacked:
    """The values of all examples."""

    value: Any
    """That of one, where arrays have one more axis in front."""
    axes: Axes
    """None for leaves that are the same for all examples."""

    def of_one(self, number: Any) -> Any:
        """The value of the example with this number, which is mapped."""
        leaves, structure = flatten(self.value)
        pairs = zip(leaves, self.axes, strict=True)
        with at_trace(trace_of(number)):
            return structure.unflatten(
                [x if axis is None else _unstacked(x, number) for x, axis in pairs]
            )


def _unstacked(stacked: Any, number: Any) -> Any:
    """`stacked[number]`, without an operation: under `jax.vmap`, it is `stacked`."""

    @custom_vmap
    def of_one(_: Any) -> Any:
        return jnp.zeros(stacked.shape[1:], stacked.dtype)

    @of_one.def_vmap
    def of_all(*_: Any) -> tuple[Any, bool]:
        return stacked, True

    return of_one(number)
