"""A value that a body computes: once, at the level of its object, by one thread."""

from collections.abc import Callable
from typing import Any

import jax

from ._errors import NowhereToStoreError, host_only_note
from ._levels import at_level_of
from ._memo import NOT_LENT, Key, Memo, memo_of

MISSING: Any = object()
_NEEDS_NUMBERS = (
    jax.errors.ConcretizationTypeError,  # TracerBoolConversionError among them
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)


class Computed(Key):
    """A key with a body."""

    _body: Callable[[Any], Any]
    _name: str
    """Of what was written: also where the class has not told its name."""

    def read(self, obj: Any) -> Any:
        try:
            memo = memo_of(obj)
        except TypeError:
            if type(obj).__weakrefoffset__ != 0:
                raise
            raise NowhereToStoreError(type(obj), self._name) from None
        value = memo.values.get(self, MISSING)
        return self._compute(obj, memo) if value is MISSING else value

    def peek(self, obj: Any, default: Any) -> Any:
        return memo_of(obj).get(self, default)

    def _compute(self, obj: Any, memo: Memo) -> Any:
        with memo.one_thread(self):
            memo = memo_of(obj)  # another thread's body may have led to a new one
            value = memo.get(self, MISSING)
            if value is not MISSING:
                return value
            if memo.lender is not None:
                value = memo.lender(self)
                if value is not NOT_LENT:
                    memo.values[self] = value
                    return value
            value = self._evaluate(obj)
            memo.after_a_body(obj).keep(self, value)
            return value

    def _evaluate(self, obj: Any) -> Any:
        try:
            return at_level_of(obj, self._body)
        except _NEEDS_NUMBERS as error:
            if not getattr(error, "__notes__", ()):  # not said yet, further inside
                error.add_note(host_only_note(self.of(obj)))
            raise
