"""Compute values that are found in the cache again, and compare."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import jax

from .._compat import is_ref
from .._core.computed import MISSING, Computed
from .._core.fields import walk
from .._core.levels import traces_in
from .._core.memo import Key, Memo, memo_of, memos
from .._core.property import cached_property
from .._errors import (
    NOT_A_FUNCTION,
    OUTSIDE,
    StaleValueError,
    maybe_written_to,
    written_to,
)
from .._jit.call import Function
from .._watch import watching
from .compare import Tolerance, difference
from .written import Seen, Then, contents

Method = Callable[..., Any]


@contextmanager
def verify(*, rtol: float = 0.0, atol: float = 0.0) -> Iterator[None]:
    """Compute every cached value that is read inside this context again, and compare.

    It finds mistakes that cachax can't detect otherwise: a NumPy array that was written
    to in place, or a body that uses something outside its object. It works in all
    threads. Use it in tests: every read computes.

    By default a value that was computed inside this context must be equal to the last
    bit. One that is older, or came out of a jitted function, may have been rounded
    differently: half of its digits must be equal, unless the tolerances allow more.

    Not compared are the values of traced objects (those of the caller's object are),
    values given by `preset`, and values of objects whose arrays were donated.

    Args:
        rtol: The relative tolerance.
        atol: The absolute tolerance: two numbers may differ by
            `atol + rtol * abs(number)`.

    Returns:
        A context manager.

    Raises:
        StaleValueError: At a read inside the context: the cached value is not what the
            body returns now.

    Example:
        >>> import cachax, numpy as np
        >>> class Line:
        ...     def __init__(self, x):
        ...         self.x = x
        ...
        ...     @cachax.cached_property
        ...     def mean(self):
        ...         return self.x.mean()
        >>> line = Line(np.array([1.0, 3.0]))
        >>> with cachax.verify():
        ...     print(line.mean)
        ...     line.x[1] = 11.0
        ...     line.mean
        Traceback (most recent call last):
            ...
        cachax._errors.StaleValueError: Line.mean: the cached value is not what its \
body returns now. The largest difference is 4. The NumPy array in the field 'x' was \
written to in place after the value was computed, which cachax can't detect. Assign a \
new array instead, or call `cachax.clear` on the object after writing.
    """
    hits = _Hits(Tolerance(rtol, atol))
    with watching(
        {
            (cached_property, "__get__"): hits.on_get,
            (Computed, "read"): hits.on_read,
            (Computed, "evaluate"): hits.on_evaluate,
            (Computed, "_found"): hits.on_found,
            (Function, "took"): hits.on_took,
            (Function, "call"): hits.on_call,
        }
    ):
        yield


class _UnderWay(threading.local):
    """The values that are being compared, and those that their bodies read."""

    def __init__(self) -> None:
        self.looked_at: dict[tuple[int, Key], Any] | None = None


class _Hits:
    """Where values are found, and what is done about each."""

    def __init__(self, tolerance: Tolerance) -> None:
        self._tolerance = tolerance
        self._seen = Seen()
        self._under_way = _UnderWay()

    def on_get(self, get: Method) -> Method:
        def getting(key: Any, obj: Any, owner: Any = None) -> Any:
            memo = memos.get(id(obj))
            if obj is None or memo is None or memo() is not obj or not memo.holds(obj):
                return get(key, obj, owner)
            found = memo.values.get(key, MISSING)
            value = get(key, obj, owner)
            if value is found:
                self.check(key, obj, value)
            return value

        return getting

    def on_read(self, read: Method) -> Method:
        def reading(key: Any, obj: Any) -> Any:
            if type(obj).__weakrefoffset__ == 0:
                return read(key, obj)
            found = memo_of(obj).get(key, MISSING)
            value = read(key, obj)
            if value is found:
                self.check(key, obj, value)
            return value

        return reading

    def on_evaluate(self, evaluate: Method) -> Method:
        def evaluating(key: Any, obj: Any, inputs: Any) -> Any:
            before = contents(obj)
            value, uses = evaluate(key, obj, inputs)
            self._seen.note(key, obj, value, before)
            return value, uses

        return evaluating

    def on_found(self, find: Method) -> Method:
        def finding(key: Any, obj: Any, record: Any, inputs: Any) -> Any:
            value = find(key, obj, record, inputs)
            self.check(key, obj, value)
            return value

        return finding

    def on_took(self, took: Method) -> Method:
        def taking(
            function: Any, entry: Any, tree: Any, asks: Any, is_inside: bool = False
        ) -> None:
            took(function, entry, tree, asks, is_inside)
            objects = entry.objects(tree)
            for slot, key in asks:
                if isinstance(slot, int) and isinstance(key, Computed):
                    value = key.peek(objects[slot], MISSING)
                    if value is not MISSING:
                        self.check(key, objects[slot], value)

        return taking

    def on_call(self, call: Method) -> Method:
        """Does nothing: while it is wrapped, calls take the path through methods."""
        return call

    def check(self, key: Computed, obj: Any, value: Any) -> None:
        """Compute `value` again, from the fields that `obj` has now, and compare.

        Values that the body reads are checked as well, but only once: otherwise the
        number of checks would double with each link of a chain.
        """
        looked_at = self._under_way.looked_at
        if (looked_at or {}).get((id(obj), key), MISSING) is obj or not _can_be_checked(
            key, obj, value
        ):
            return
        if looked_at is None:
            self._under_way.looked_at = {(id(obj), key): obj}
            try:
                self._compare(key, obj, value)
            finally:
                self._under_way.looked_at = None
        else:
            looked_at[id(obj), key] = obj
            self._compare(key, obj, value)

    def _compare(self, key: Computed, obj: Any, value: Any) -> None:
        then = self._seen.about(key, obj, value)
        memo = memos.get(id(obj))
        try:
            now = _again(key, obj)
        except StaleValueError:
            raise
        except Exception as error:
            what = f"It raises {type(error).__name__}."
            raise self._stale(key, obj, value, what, None, then) from error
        tolerance = replace(self._tolerance, rounding=then is None)
        found = difference(value, now, tolerance)
        if found is None or _was_changed(obj, memo):
            return
        if difference(now, _again(key, obj), tolerance) is not None:
            why = NOT_A_FUNCTION
            raise StaleValueError(key.of(obj), str(found), why, None, found.size)
        raise self._stale(key, obj, value, str(found), found.size, then)

    def _stale(
        self,
        key: Computed,
        obj: Any,
        value: Any,
        what: str,
        largest: float | None,
        then: Then | None,
    ) -> StaleValueError:
        fields, changed, why = contents(obj), None, OUTSIDE
        if then is None:
            if fields:
                why = maybe_written_to(", ".join(fields))
        else:
            changed = next((n for n in fields if then.fields.get(n) != fields[n]), None)
            if changed is not None:
                why = written_to(f"the field {changed!r}")
            elif contents((value,)) != then.value:
                why = written_to("the value itself")
        return StaleValueError(key.of(obj), what, why, changed, largest)


_evaluate = Computed.evaluate
"""Not wrapped: computations made to compare are not counted."""


def _again(key: Computed, obj: Any) -> Any:
    """What the body computes now, in the form of the cached value."""
    before = memos.get(id(obj))
    now, _ = _evaluate(key, obj, None)
    if isinstance(before, Memo):
        after = before.after_a_body(obj)
        if after is not before:  # the body has set a field, as it did the first time
            after.values |= before.values
            after.folded |= before.folded
    return now


def _was_changed(obj: Any, memo: Any) -> bool:
    """Whether another thread, or the body, has just replaced an array of the object:
    then the value that was found is not the one that is found next."""
    if not isinstance(memo, Memo) or memo_of(obj) is memo:
        return False
    return memo.after_a_body(obj) is memo


def _can_be_checked(key: Computed, obj: Any, value: Any) -> bool:
    if type(obj).__weakrefoffset__ and key.is_supplied(obj):
        return False
    if traces_in(obj, value, key.body):
        return False
    arrays = (x for x in walk((obj, value)) if isinstance(x, jax.Array))
    return not any(not is_ref(x) and x.is_deleted() for x in arrays)
