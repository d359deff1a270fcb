"""What cachax is about to launch for global objects: one line for each decision.

A decision is to compute a value, or to run a function with values that are passed into
it. Objects whose arrays are all in this process are left out: the others don't depend
on them.
"""

import hashlib
import re
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jax

from .._compat import CONCRETE, current_trace, has_processes, is_jitted
from .._core.computed import Computed
from .._core.fields import walk
from .._core.inputs import ARRAY, Inputs
from .._core.levels import traces_in
from .._core.memo import inputs_of
from .._core.parts import NUMBERS
from .._core.spread import are_global, is_global
from .._jit.call import Function, name_of
from .._jit.entry import Entry
from .._jit.program import Program
from .._watch import watching
from .._where import where_now

Method = Callable[..., Any]
_ADDRESS = re.compile(" at 0x[0-9a-fA-F]+")
_SHOWN = 4
"""Arrays and static parts that a line names; the others are in its digest."""


@dataclass(frozen=True)
class Decision:
    """What is about to be launched."""

    line: str
    """What, and with which arrays. The same in all processes that agree."""
    digest: str = ""
    """Of what the line leaves out: further arrays, static parts, the tree structure."""
    where: str = ""
    """The line of the user's program. It may be a different one in each process."""

    def __str__(self) -> str:
        return f"{self.line}, at {self.where}" if self.where else self.line


@contextmanager
def deciding(listener: Callable[[Decision], None]) -> Iterator[None]:
    """Inside this context, in all threads, `listener` is called with each decision
    before the launch. If it raises, nothing is launched."""
    hooks = _Hooks(listener)
    with watching(
        {
            (Computed, "evaluate"): hooks.on_evaluate,
            (Entry, "launch"): hooks.on_launch,
            (Function, "call"): hooks.on_call,
        }
    ):
        yield


class _Hooks:
    """Where decisions are made."""

    def __init__(self, listener: Callable[[Decision], None]) -> None:
        self._listener = listener
        self._arrays = Numbers()

    def on_evaluate(self, evaluate: Method) -> Method:
        def evaluating(key: Computed, obj: Any, inputs: Inputs | None) -> Any:
            if not traces_in(obj) and are_global(walk(obj)):
                self._decide(f"compute {key.of(obj)}", *_parts_of(obj))
            return evaluate(key, obj, inputs)

        return evaluating

    def on_launch(self, launch: Method) -> Method:
        def launching(
            entry: Entry, program: Program, values: Any, args: Any, kwargs: Any
        ) -> Any:
            if current_trace() is CONCRETE and has_processes():
                tree, statics = entry.options.static.take_out(args, kwargs)
                leaves, structure = jax.tree.flatten(tree)
                if _is_global(entry, values, leaves):
                    if is_jitted(program.call):
                        # It may find that it is not the program for this call. Nothing
                        # is launched, and JAX keeps the trace for the call.
                        given = (values, *args) if program.takes_values else args
                        program.call.trace(*given, **kwargs)
                    what = f"run {name_of(program.fun())}"
                    self._decide(what, leaves, (structure, statics), _carried(program))
            return launch(entry, program, values, args, kwargs)

        return launching

    def on_call(self, call: Method) -> Method:
        """While this is wrapped, a warm call takes the way through `Entry.launch`."""

        def calling(function: Function, plain: Any, args: Any, kwargs: Any) -> Any:
            return call(function, plain, args, kwargs)

        return calling

    def _decide(self, what: str, parts: list[Any], more: Any, with_: str = "") -> None:
        said = [*map(self._said, parts)]
        shown = ", ".join(said[:_SHOWN])
        if len(said) > _SHOWN:
            shown += f", and {len(said) - _SHOWN} more"
        line = f"{what}({shown}){with_}"
        text = _ADDRESS.sub("", repr((said, more)))
        digest = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
        self._listener(Decision(line, digest, str(where_now() or "")))

    def _said(self, x: Any) -> str:
        if type(x) is str:
            return x
        if not hasattr(x, "shape") or not hasattr(x, "dtype"):
            return type(x).__name__
        looks = f"{x.dtype}[{','.join(map(str, x.shape))}]"
        return f"{looks} #{self._arrays.of(x)}" if is_global(x) else looks


def _parts_of(obj: Any) -> tuple[list[Any], Any]:
    """The arrays of an object, and what else counts for its values."""
    inputs = inputs_of(obj)
    if inputs is None:
        return [x for x in walk(obj) if isinstance(x, jax.Array)], None
    arrays = [repr(x) if type(x) in NUMBERS else x for x in inputs.arrays]
    strings = [repr(x) for x in inputs.statics if type(x) is str]
    pairs = zip(inputs.statics, inputs.shape, strict=True)
    return [*arrays, *strings], tuple(x for x, kind in pairs if kind is not ARRAY)


def _carried(program: Program) -> str:
    if program.computes_inside:
        return ", which computes its values inside"
    names = [str(key.attrname) for _, key in program.asks]
    return f" with {', '.join(names)}" if names else ""


def _is_global(entry: Entry, values: Any, leaves: list[Any]) -> bool:
    return are_global(leaves) or are_global(values) or _has_global_shardings(entry)


def _has_global_shardings(entry: Entry) -> bool:
    """A program without global arguments may be one of all processes by its options."""
    given = [entry.options.given.get(f"{end}_shardings") for end in ("in", "out")]
    return any(
        isinstance(x, jax.sharding.Sharding) and not x.is_fully_addressable
        for x in jax.tree.leaves(given)
    )


class Numbers:
    """Global arrays by the order in which they were met. Their ids, and their contents,
    are different in every process."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Any], int]] = {}
        self._count = 0
        self._lock = threading.Lock()

    def of(self, array: Any) -> int:
        with self._lock:
            known = self._known.get(id(array))
            if known is None or known[0]() is not array:
                self._count += 1
                known = self._known[id(array)] = (weakref.ref(array), self._count)
            return known[1]
