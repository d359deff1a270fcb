"""A value that a body computes: once, at the level of its object, by one thread."""

from collections.abc import Callable
from typing import Any

import jax

from ._body import carrying_body
from ._compat import CONCRETE, current_trace, is_jitted
from ._errors import NowhereToStoreError, host_only_note
from ._kin import NOT_KEPT, Kin
from ._levels import at_level_of, traces_in
from ._makeup import Makeup, makeup_of
from ._memo import NOT_LENT, Key, Memo, memo_of
from ._recent import Recent

MISSING: Any = object()
_NEEDS_NUMBERS = (
    jax.errors.ConcretizationTypeError,  # TracerBoolConversionError among them
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)


class Inside:
    """Tells whether a value was computed for a traced object since it was made."""

    _count = 0

    def __init__(self) -> None:
        self._then = Inside._count

    def __bool__(self) -> bool:
        return Inside._count != self._then

    @classmethod
    def note(cls, obj: Any) -> None:
        if current_trace() is not CONCRETE and traces_in(obj):
            cls._count += 1


class Computed(Key):
    """A key with a body."""

    def __init__(self, name: str, body: Callable[[Any], Any]) -> None:
        self.attrname = None
        self.moulds = Recent()
        self.traced_leaves = Recent()
        self.kin = Kin(body)
        self.batched: dict[Any, Any] = Recent()
        """The same of each example of a batch, by the way the batch is mapped."""
        self.body = body
        self._name = name  # what was written: the class may not have told its name

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
            makeup = makeup_of(obj)
            if makeup is not None:
                value = self.kin.find(self, obj, makeup)
                if value is not NOT_KEPT:
                    memo.from_kin = True
                    memo.keep(self, value)
                    return value
            Inside.note(obj)
            value = self.evaluate(obj)
            keeping = memo.after_a_body(obj)
            keeping.keep(self, value)
            if keeping is memo and memo.values.get(self, MISSING) is value:
                self.note_kin(obj, makeup, value)
            return value

    def note_kin(self, obj: Any, makeup: Makeup | None, value: Any) -> None:
        """Let objects that are made of the same have this value too."""
        if makeup is not None:
            self.kin.note(obj, makeup, value)

    def forget(self, obj: Any) -> None:
        """The value for `obj`, and for all that are made of the same."""
        memo_of(obj).forget(self)
        makeup = makeup_of(obj)
        if makeup is not None:
            self.kin.forget(makeup)

    def evaluate(self, obj: Any) -> Any:
        """What the body computes for `obj`, whatever is kept."""
        try:
            with jax.profiler.TraceAnnotation(self.of(obj)):
                return at_level_of(obj, self.body)
        except _NEEDS_NUMBERS as error:
            if not getattr(error, "__notes__", ()):  # not said yet, further inside
                error.add_note(host_only_note(self.of(obj)))
            raise


class CallKey(Computed):
    """A cached method or function, and the other arguments it is called with."""

    def __init__(
        self,
        source: Any,
        identity: Any,
        attrname: str,
        body: Callable[[Any], Any],
    ) -> None:
        is_body_jitted = is_jitted(source.__wrapped__)
        super().__init__(attrname, carrying_body(body) if is_body_jitted else body)
        self.source = source
        self.attrname = attrname
        self.moulds = source.moulds
        self.kin = Kin(body, source.records)
        self._identity = identity
        self._hash = hash((id(source), identity))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, CallKey)
            and self.source is other.source
            and self._identity == other._identity
        )

    def __hash__(self) -> int:
        return self._hash
