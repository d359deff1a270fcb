"""Objects that are new at every call.

To compute their values beforehand means to launch a program for each, only to launch
another with them. When a function has met enough new objects, it is compiled once more:
to compute the values inside, and bring them out with its result.
"""

import functools
import operator
import threading
import weakref
from collections.abc import Callable
from typing import Any

import jax

from ._carry import NewSubject
from ._compat import CONCRETE, forget_failed_traces, trace_context
from ._computed import Computed
from ._find import FIRST, layout_of
from ._kin import Records
from ._memo import Key, Memo, making, memo_of, memos
from ._options import Arguments
from ._pack import is_number, pack
from ._parts import instance_dict, is_simple, reading_dicts_of
from ._ready import Declined, Moulds, one_or_all

ENOUGH = 8
"""New objects, before it is worth compiling."""

_table: dict[int, Any] = memos
"""The same one. What is pending is there in place of a memo."""


class Inside:
    """What a program computes inside for an object that is new to it.

    Without the program: what is pending holds this, and a program may close over the
    object, which would then never be let go.
    """

    def __init__(self, moulds: Moulds) -> None:
        self.moulds = moulds
        self.lock = threading.RLock()
        """Held while a call is under way, in which nothing is traced: whoever waits for
        it waits for JAX alone."""

    def values(self, arrays: Any) -> dict[Key, Any]:
        remaining = iter(jax.tree.leaves(arrays))
        return {
            key: mould.fill([next(remaining) for _ in range(mould.holes)])
            for (_, key), mould in self.moulds
        }


class Pending(weakref.ref[Any]):
    """What came out of a call for an object that was new to it: kept as it is until
    somebody asks. Most such objects are gone by then.

    Only for an object that is frozen and has nothing but arrays and the like in it:
    it is all right to hold them, as the object does.
    """

    __slots__ = ("arrays", "fields", "inside", "key")

    on_trust = False
    from_kin = False
    key: int
    fields: list[Any]
    inside: Inside
    arrays: Any
    """Not there while the call is under way."""

    def holds(self, obj: Any) -> bool:
        """Never. But if the object is as it was, it has a memo now."""
        with self.inside.lock:
            fields = instance_dict(obj, "__dict__").values()
            is_same = len(fields) == len(self.fields)
            is_same = is_same and all(map(operator.is_, fields, self.fields))
            if is_same and hasattr(self, "arrays"):
                memo = Memo(obj)
                for key, value in self.inside.values(self.arrays).items():
                    memo.keep(key, value)
                with making:
                    if _table.get(self.key) is self:
                        _table[self.key] = memo
        return False


def _remove(pending: Pending, table: dict[int, Any] = _table) -> None:
    if table.get(pending.key) is pending:
        del table[pending.key]


class _Untraced(BaseException):
    """Ends a trace that was not asked for."""


class _NotAsExpectedError(Exception):
    """Another trace, other values: they would be computed and not brought out."""


class Fresh:
    """A function compiled to compute inside what it asks of its first argument."""

    def __init__(
        self,
        fun: Callable[..., Any],
        static: Arguments,
        options: dict[str, Any],
        first: Any,
        moulds: Moulds,
    ) -> None:
        self._inside = Inside(moulds)
        self.moulds = moulds
        self._may_trace = _MayTrace()
        traced = _bringing_out(fun, static, moulds, self._may_trace)
        self._program: Any = jax.jit(traced, **options)
        self._read = reading_dicts_of(type(first))
        self._types = [*map(type, instance_dict(first, "__dict__").values())]
        self._known: list[Records] = []
        for (_, key), _ in moulds:
            if isinstance(key, Computed):
                self._known.append(key.kin.records)
        self._failures = 0
        self._unfounded = 0
        self.wants_a_trace = False
        """Since a call could not be made without one."""

    @property
    def has_failed(self) -> bool:
        return self._failures > ENOUGH

    def call(self, first: Any, rest: tuple[Any, ...]) -> Any:
        """The result; `Declined` if the object is not new, or if the program would
        have to be traced first."""
        if trace_context.trace is not CONCRETE:  # what comes out may not live on
            return Declined
        fields = [*self._read(first).values()]
        if [*map(type, fields)] != self._types:  # laid in by hand; other numbers
            return Declined
        for known in self._known:
            if known and any(id(field) in known for field in fields):
                return Declined  # rebuilt from another, whose values may hold
        inside = self._inside
        if not inside.lock.acquire(False):  # by name it takes twice as long
            return Declined
        try:
            pending = Pending(first, _remove)
            key = pending.key = id(first)
            pending.fields = fields
            pending.inside = inside
            if _table.setdefault(key, pending) is not pending:
                return Declined
            program = self._program
            try:
                if rest:
                    out, pending.arrays = program(first, *rest)
                else:
                    out, pending.arrays = program(first)
            except BaseException as error:
                _remove(pending)
                if not isinstance(error, _Untraced):
                    raise
                forget_failed_traces(self._program)
                self._failures += 1
                self.wants_a_trace = True
                return Declined
            if self._failures:
                self._failures = 0
            return out
        finally:
            inside.lock.release()

    def found_no_kin(self) -> None:
        """It is no use to look for them, if there never are any."""
        self._unfounded += 1
        if self._unfounded > ENOUGH:
            self._known.clear()

    def trace(self, args: tuple[Any, ...]) -> None:
        """Have the program traced for arguments like these.

        Apart from any call: a trace runs the user's code, which may take long, want
        what other threads compute, and fail.
        """
        self._may_trace.now = True
        self.wants_a_trace = False
        try:
            self._program.trace(*args)
        except (Exception, NewSubject):  # it needs real numbers, or asks for others
            self._failures += 1 + ENOUGH
        finally:
            self._may_trace.now = False


class _MayTrace(threading.local):
    now = False


def what_comes_inside(first: Any, asked: Moulds) -> Moulds | None:
    """All that was computed for a new object, if it would have come out of a trace just
    the same: arrays of JAX, of an object that has nothing but arrays itself."""
    if not is_simple(first) or not _is_whole_inside(first):
        return None
    if not all(slot == FIRST for (slot, _), _ in asked):
        return None
    moulds: Moulds = ()
    memo = memo_of(first)
    for key, value in memo.values.items():
        packed = pack(value, key.of(first))
        leaves = jax.tree.leaves(value)
        if packed is None or not all(isinstance(x, jax.Array) for x in leaves):
            return None
        if packed[1].layout is not None:
            return None
        moulds += (((FIRST, key), packed[1]),)
    return moulds if memo.values and not memo.folded else None


def _is_whole_inside(obj: Any) -> bool:
    """Whether a traced copy has all the fields, and no number that would be traced."""
    leaves, structure = jax.tree.flatten(obj)
    copy = jax.tree.unflatten(structure, leaves)
    fields, others = (instance_dict(x, "__dict__") for x in (obj, copy))
    return (
        not any(map(is_number, leaves))
        and fields.keys() == others.keys()
        and all(others[name] is field for name, field in fields.items())
    )


def _bringing_out(
    fun: Callable[..., Any], static: Arguments, moulds: Moulds, may_trace: _MayTrace
) -> Callable[..., Any]:
    @functools.wraps(fun)
    def bringing_out(*args: Any, **kwargs: Any) -> Any:
        if not may_trace.now:
            raise _Untraced
        out = fun(*args, **kwargs)
        tree, _ = static.take_out(args, kwargs)
        layout = layout_of(tree)
        assert layout is not None
        computed = {
            (slot, key): (obj, value)
            for slot, obj in layout.by_slot(tree).items()
            for key, value in memo_of(obj).values.items()
        }
        is_flat = is_simple(layout.by_slot(tree)[FIRST])
        if computed.keys() != dict(moulds).keys() or not is_flat:
            raise _NotAsExpectedError
        arrays: list[Any] = []
        for (slot, key), mould in moulds:
            obj, value = computed[slot, key]
            packed = pack(value, key.of(obj))
            if packed is None or packed[1] != mould:
                raise _NotAsExpectedError
            arrays += packed[0]
        return out, one_or_all(arrays)

    return bringing_out
