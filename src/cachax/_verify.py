"""Compute everything again that is found in the cache, and compare."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import jax

from ._cached import cached_property
from ._carry import Carried, Loan, numbers_that_travel
from ._compare import Tolerance, difference
from ._compat import is_ref
from ._computed import MISSING, Computed
from ._errors import (
    NOT_A_FUNCTION,
    OUTSIDE,
    StaleValueError,
    maybe_written_to,
    written_to,
)
from ._find import Slot, layout_of
from ._kin import NOT_KEPT, Kin
from ._levels import traces_in
from ._memo import Key, Memo, memo_of, memos
from ._pack import pack
from ._parts import instance_dict, walk
from ._programs import Programs
from ._ready import Moulds, Plan, by_root
from ._core.watch import watching
from ._written import Seen, Then, contents

Method = Callable[..., Any]


@contextmanager
def verify(*, rtol: float = 0.0, atol: float = 0.0) -> Iterator[None]:
    """Inside this context every value that is found is computed again and compared.

    A difference raises `StaleValueError`. It finds what nothing else can see: a numpy
    array that was written to in place, a body that uses something else than the fields
    of its object. In all threads; for tests, since everything is computed as often as
    it is asked for.

    Two numbers may be `atol + rtol * abs(number)` apart. By default a value that was
    computed inside this context, on real arrays, must be the same to the last bit: the
    same program has computed it. One that is older or came out of a jitted function may
    have been rounded in another way: there half of the digits must be the same, unless
    more is allowed.

    Left alone are the values of traced objects (what they were lent was looked at on
    the caller's object), of objects with `preset` values, and of those whose arrays
    were donated.

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
    cachax._errors.StaleValueError: Line.mean: the value that was kept is not what its \
body returns now. The largest difference is 4. The numpy array in the field 'x' was \
written to in place after the value was computed, which nobody can see. Assign a new \
array instead, or call `cachax.clear` on the object after writing.
    """
    hits = _Hits(Tolerance(rtol, atol))
    with watching(
        {
            (cached_property, "__get__"): hits.on_get,
            (Computed, "read"): hits.on_read,
            (Computed, "evaluate"): hits.on_evaluate,
            (Kin, "find"): hits.on_kin,
            (Loan, "gather_kept"): hits.on_gathering,
            (Plan, "values"): hits.on_plan,
            (Programs, "call"): hits.on_call,
        }
    ):
        yield


class _UnderWay(threading.local):
    """The values that are being compared, and those that were on the way to it."""

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
        def evaluating(key: Any, obj: Any) -> Any:
            before = contents(obj)
            value = evaluate(key, obj)
            self._seen.note(key, obj, value, before)
            return value

        return evaluating

    def on_kin(self, find: Method) -> Method:
        def finding(kin: Kin, key: Any, obj: Any, makeup: Any) -> Any:
            value = find(kin, key, obj, makeup)
            if value is not NOT_KEPT:
                self.check(key, obj, value)
            return value

        return finding

    def on_gathering(self, gather: Method) -> Method:
        def gathering(loan: Any, usual: Any) -> Any:
            carried = gather(loan, usual)
            if carried is not None:
                self._check_carried(carried, loan._owners)
            return carried

        return gathering

    def on_plan(self, values: Method) -> Method:
        def planned(plan: Any, args: Any, kwargs: Any) -> Any:
            found = values(plan, args, kwargs)
            if found is not None and plan.layout is not None:
                tree, _ = plan._static.take_out(args, kwargs)
                self._check_at_hand(plan.moulds, found, plan.layout.by_slot(tree))
            return found

        return planned

    def on_call(self, call: Method) -> Method:
        def calling(programs: Any, /, *args: Any, **kwargs: Any) -> Any:
            if args:
                found = _on_shelf(programs, args[0]) or _of_rebuilt(programs, args[0])
                if found is not None:
                    values, program = found
                    tree = ((args[0],),)
                    layout = layout_of(tree)
                    owners = {} if layout is None else layout.by_slot(tree)
                    self._check_at_hand(programs.moulds_of(program), values, owners)
            return call(programs, *args, **kwargs)

        return calling

    def _check_at_hand(
        self, moulds: Moulds, values: Any, owners: dict[Slot, Any]
    ) -> None:
        """Values as a program takes them."""
        in_order = tuple(pair for group in by_root(moulds).values() for pair in group)
        self._check_carried(Carried(jax.tree.leaves(values), in_order), owners)

    def _check_carried(self, carried: Carried, owners: dict[Slot, Any]) -> None:
        for (slot, key), _, value in carried.values():
            if isinstance(key, Computed):
                self.check(key, owners[slot], value, is_carried=True)

    def check(
        self, key: Computed, obj: Any, value: Any, *, is_carried: bool = False
    ) -> None:
        """Compute `value` anew, from the fields that `obj` has now, and compare.

        What the body reads on the way is found too, and is checked in its turn; but
        once only, or it would be twice as often with each link of a chain.
        """
        looked_at = self._under_way.looked_at
        if (looked_at or {}).get((id(obj), key), MISSING) is obj or not _can_be_checked(
            key, obj, value
        ):
            return
        if looked_at is None:
            self._under_way.looked_at = {(id(obj), key): obj}
            try:
                self._compare(key, obj, value, is_carried)
            finally:
                self._under_way.looked_at = None
        else:
            looked_at[id(obj), key] = obj
            self._compare(key, obj, value, is_carried)

    def _compare(self, key: Computed, obj: Any, value: Any, is_carried: bool) -> None:
        then = self._seen.about(key, obj, value)
        memo = memos.get(id(obj))
        try:
            now = _again(key, obj, is_carried)
        except StaleValueError:
            raise
        except Exception as error:
            what = f"It raises {type(error).__name__}."
            raise self._stale(key, obj, value, what, None, then) from error
        tolerance = replace(self._tolerance, rounding=then is None)
        found = difference(value, now, tolerance)
        if found is None or _was_changed(obj, memo):
            return
        anew = difference(now, _again(key, obj, is_carried), tolerance)
        if anew is not None:
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
"""As it is: whoever counts computations does not count those made to compare."""


def _again(key: Computed, obj: Any, is_carried: bool) -> Any:
    """What the body computes now, in the form the kept value has."""
    before = memos.get(id(obj))
    now = _evaluate(key, obj)
    if isinstance(before, Memo):
        after = before.after_a_body(obj)
        if after is not before:  # the body has set a field, as it did the first time
            after.values |= before.values
            after.folded |= before.folded
    if not is_carried:
        return now
    packed = pack(now, key.of(obj), numbers_that_travel(key, obj, now))
    return now if packed is None else packed[1].fill(packed[0])


def _was_changed(obj: Any, memo: Any) -> bool:
    """Whether another thread, or the body, has just replaced an array of the object:
    then the value that was found is not the one that is found next."""
    if not isinstance(memo, Memo) or memo_of(obj) is memo:
        return False
    return memo.after_a_body(obj) is memo


def _can_be_checked(key: Computed, obj: Any, value: Any) -> bool:
    memo = memos.get(id(obj))
    if memo is not None and memo() is obj and memo.on_trust:
        return False
    if traces_in(obj, value, key.body):
        return False
    arrays = (x for x in walk((obj, value)) if isinstance(x, jax.Array))
    return not any(not is_ref(x) and x.is_deleted() for x in arrays)


def _on_shelf(programs: Any, first: Any) -> tuple[Any, Any] | None:
    """The values that a call with this object has at hand, and their program."""
    ready = programs.shelf.get(id(first))
    is_ready = ready is not None and ready.holds(first)
    return (ready.values, ready.about) if is_ready else None


def _of_rebuilt(programs: Any, first: Any) -> tuple[Any, Any] | None:
    """The same, by the arrays that the object is made of."""
    rebuilt = programs.rebuilt.get(type(first))
    if rebuilt is None or id(first) in memos:
        return None
    fields = instance_dict(first, "__dict__")
    if (*fields,) != rebuilt.names:
        return None
    ready = rebuilt._shelf.get((*map(id, rebuilt._pick([*fields.values()])),))
    return None if ready is None else (ready[0], ready[1])
