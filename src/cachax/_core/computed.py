"""A value with a body: found, or computed once, at the level of its object."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import jax

from .._compat import Tracer, configured, current_trace, settings
from .._errors import NowhereToStoreError, host_only_note
from . import index
from .copies import CannotRebuildError, Copy
from .fields import is_open, walk
from .follow import check_unchanged, is_unchanged
from .inputs import Given, Inputs
from .levels import UsesAxisError, here, level_of, may_be_kept, traces_in
from .memo import (
    NOT_PROVIDED,
    Key,
    Memo,
    Provider,
    can_have_values,
    has_supplied,
    inputs_of,
    may_have_values,
    memo_of,
    supplied_for,
)
from .parts import NUMBERS
from .recent import Recent
from .run import compute
from .structure import flatten, survives
from .traced import computes_alike, is_order_seen, learn, leaves_traced
from .uses import Kind, Learned, Uses, uses_of
from .values import template_of
from .values_read import note_parts, reading_of

MISSING: Any = object()
T = TypeVar("T")
_NEEDS_CONCRETE_VALUES = (
    jax.errors.ConcretizationTypeError,  # TracerBoolConversionError among them
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)


class Computed(Key):
    """A key with a body."""

    def __init__(self, name: str, body: Callable[[Any], Any]) -> None:
        self.attrname = None
        self.learned = Learned()
        self.batched: dict[Any, Any] = Recent()
        """The same for each example of a batch, by how the batch is mapped."""
        self._found_out: dict[Any, Any] = Recent()
        self.body = body
        self._name = name  # as written: the class may not have set its name

    def read(self, obj: Any) -> Any:
        value = self.stored(obj)
        if value is MISSING:
            memo = self.memo_of(obj)
            value = memo.values.get(self, MISSING)
            if value is MISSING:
                return self._compute(obj, memo)
        return value

    def can_be_computed(self) -> bool:
        """Whether the body is still that of the value: its arguments may change."""
        return True

    def memo_of(self, obj: Any) -> Memo:
        try:
            memo = memo_of(obj)
        except TypeError:
            if type(obj).__weakrefoffset__ != 0:
                raise
            raise NowhereToStoreError(type(obj), self._name) from None
        if self.attrname is None:
            raise TypeError(
                f"Cannot use {type(self).__name__} instance without calling "
                "__set_name__ on it."
            )
        return memo

    def peek(self, obj: Any, default: Any) -> Any:
        value = memo_of(obj).get(self, MISSING)
        if value is not MISSING:
            return value
        if traces_in(obj) or (inputs := inputs_of(obj)) is None:
            return default
        record = self.record(inputs)
        if record is None:  # any more, maybe: then the object has it now
            return memo_of(obj).get(self, default)
        return record.template.fill(record.uses.arrays(inputs))

    def is_known(self, obj: Any) -> bool:
        """Whether it is there, or is found when it is read, or a different thread is
        computing it."""
        return self.peek(obj, MISSING) is not MISSING or memo_of(obj).is_busy(self)

    def stored(self, obj: Any) -> Any:
        """What the user stored on the object itself, or `MISSING`."""
        return MISSING

    def _compute(self, obj: Any, memo: Memo) -> Any:
        with memo.one_thread(self):
            memo = memo_of(obj)  # another thread's body may have led to a new one
            value = memo.get(self, MISSING)
            if value is not MISSING:
                return value
            try:
                found = self._find(obj, memo)
                value, uses = found.value, None
                if value is MISSING:
                    value, uses = self.evaluate(obj, found.inputs)
                    if not self.can_be_computed():  # any more: an argument changed
                        return value
            except UsesAxisError:
                if not here.is_allowed:
                    raise
                return self.body(obj)
            record = found.record
            if uses is not None:
                record = self._share(obj, found, uses, value)
            keeping = memo.after_a_body(obj)
            keeping.keep(self, value)
            if record is not None:
                keeping.indexed[self] = record
            return value

    # (Bodies read values of other objects, and these of further ones: as few functions
    # as possible are on the way from one body to the next.)

    def _find(self, obj: Any, memo: Memo) -> "_Found":
        """The value, if it is provided from outside a trace, or known."""
        if memo.provider is not None:
            value = memo.provider(self)
            if value is not NOT_PROVIDED:
                return _Found(for_another(value))
        reading = reading_of(obj)
        if reading is not None:
            context, original = reading
            takes_known = context.takes_known or self.is_supplied(original)
            is_asked = takes_known and not context.computes
            known = self.peek(original, MISSING) if is_asked else MISSING
            if not context.computes and known is MISSING:
                value = self.evaluate(obj, None)[0]
                context.note_inlined(value)
                return _Found(value)
            try:
                value = self._read_original(original, known)
            except Exception:
                context.note_failure()
                raise
            return _Found(context.value(self, obj, *value))
        note_parts(obj)
        inputs = inputs_of(obj)
        if inputs is None:
            return _Found(MISSING)
        traces = traces_in(obj)
        known = self.learned.get(inputs)
        used = self._traces_used(obj, inputs, traces)
        if not used:
            if known and not known.is_varying and known.is_shareable(inputs):
                index.claim(self, known.arrays(inputs))
            elif known is None:  # as for a new number
                index.wait_for_all(inputs.holders)
            record = self.record(inputs)
            if record is not None:
                value = self._found(obj, record, inputs)
                return _Found(value, None if traces else record)
        if traces and used < traces:
            part = self._part(obj, inputs, used)
            value = self.evaluate(obj, None)[0] if part is None else self.read(part)
            return _Found(value)
        if not traces:  # (another thread may have removed the record)
            return _Found(memo_of(obj).get(self, MISSING), inputs=inputs)
        table = table_of(traces)
        if table is None:
            return _Found(MISSING)
        value = table.find(self, obj, inputs)
        return _Found(MISSING if value is NOT_PROVIDED else value, None, inputs, table)

    def _share(
        self, obj: Any, found: "_Found", uses: Uses, value: Any
    ) -> index.Record | None:
        """Keep a value that was computed for other objects with the same arrays."""
        inputs: Any = found.inputs
        if not uses.is_shareable(inputs):
            return None
        if found.table is not None:
            found.table.note(self, inputs, uses.statics(inputs), value)
            return None
        if not is_unchanged(obj, inputs):
            return None  # others would lack what the body has set
        if not (inputs.is_sorted or self.is_order_seen(obj, inputs, uses)):
            inputs = self._in_order(inputs, uses.kind)
            self.learned.put(inputs, uses)
        return self.note(inputs, uses, value)

    def _traces_used(self, obj: Any, inputs: Inputs, traces: set[Any]) -> set[Any]:
        """The traces of the arrays that the body uses, out of those of all arrays."""
        if not traces:
            return traces
        arrays = [x for x in inputs.arrays if type(x) not in NUMBERS]
        is_mixed = len(traces) > 1 or not all(isinstance(x, Tracer) for x in arrays)
        if not is_mixed or traces != traces_in(arrays):
            return traces  # (some are where only the body finds them)
        uses = self.learn(obj, inputs)
        if uses.is_varying and self.record(inputs) is not None:
            return set()
        return traces_in(uses.arrays(inputs))

    def _part(self, obj: Any, inputs: Inputs, used: set[Any]) -> Any:
        """For an object with arrays of several levels, where those that the body uses
        are further out (`jax.grad(lambda y: replace(state, y=y).factor)`): a copy with
        zeros for the others. None if it would not do."""
        uses = self.learn(obj, inputs)
        if uses.statics(inputs).supplied or (used and table_of(used) is None):
            return None
        arrays = [*inputs.arrays]
        with level_of(uses.arrays(inputs), self.body):
            for i in {*range(len(arrays))}.difference(uses.positions):
                if isinstance(arrays[i], Tracer):
                    arrays[i] = jax.lax.full_like(arrays[i], 0)
        try:
            part = Copy(obj, arrays).obj
        except CannotRebuildError:
            return None
        return part if traces_in(part) == used else None

    def _read_original(self, original: Any, known: Any) -> tuple[Any, Any, Uses | None]:
        """For the copy of an object that a body is traced with."""
        inputs = inputs_of(original)
        value = self.read(original) if known is MISSING else known
        if inputs is None:
            return value, original, None
        if self.is_supplied(original):
            return value, original, uses_of(inputs, (), ())
        check_unchanged(original, inputs)
        uses = self.learned.get(inputs)
        if uses is None and traces_in(original):  # the value came from outside
            uses = self.learn(original, inputs)
        if uses is not None and uses.is_varying:
            record = self.record(inputs)
            uses = uses if record is None else record.uses
        return value, original, uses

    def learn(self, obj: Any, inputs: Inputs) -> Uses:
        """What the body uses, without computing anything."""
        with level_of(obj, self.body):
            return learn(self.body, obj, inputs, self.learned)

    def leaves_traced(
        self, obj: Any, inputs: Inputs, numbers: frozenset[int]
    ) -> tuple[bool, ...]:
        """Which leaves of the value depend on these Python numbers, which `jit`
        traces."""
        return self.once(leaves_traced, obj, inputs, inputs.without(numbers), numbers)

    def computes_alike(self, obj: Any, inputs: Inputs, numbers: frozenset[int]) -> bool:
        """Whether the body does the same for `obj` inside a program, where these
        numbers are traced."""
        return self.once(computes_alike, obj, inputs, inputs.without(numbers), numbers)

    def once(
        self, find: Callable[..., T], obj: Any, inputs: Inputs, kind: Given, *more: Any
    ) -> T:
        """What `find` says about the body, for all objects of one kind."""
        place = (find, kind, settings())
        found: T | None = self._found_out.get(place)
        if found is None:
            with level_of(obj, self.body):
                found = self._found_out[place] = find(self.body, obj, inputs, *more)
        return found

    def is_supplied(self, obj: Any) -> bool:
        """Whether the user put the value there; for a traced object, outside of its
        trace."""
        return self in supplied_for(obj)

    def all_read(self) -> set[Any]:
        """The keys of all values that its body has read, of whatever object, and those
        that these have read; and this one."""
        return {self, *self.learned.keys_read}

    def record(self, inputs: Inputs) -> index.Record | None:
        """The record for an object with these inputs. What the body has read is the
        same as for the object that it was computed for, so it would read the same
        again."""
        known = self.learned.get(inputs)
        if known is None or known.is_varying:  # unless it was computed in a program
            for array in inputs.arrays:  # those that were put off
                index.records_of(array)
        for kind in self.learned.kinds(inputs):
            positions, *_ = kind
            if not inputs.writable.isdisjoint(positions):
                continue
            arrays = [inputs.arrays[i] for i in positions]
            if arrays:
                records = index.candidates(self, index.known(arrays))
            else:
                records = index.held_by(inputs.arrays, self)
            for record in records:
                if record.uses.kind == kind and self._fits(record, inputs):
                    return record
        return None

    def _fits(self, record: index.Record, inputs: Inputs) -> bool:
        """Whether all that counts beside the contents of arrays is the same."""
        in_order = self._in_order(inputs, record.uses.kind)
        # (A record may be from before it was known that the order isn't seen.)
        views = [inputs] if in_order is inputs else [in_order, inputs]
        return record.statics in map(record.uses.statics, views)

    def keep_beside(self, record: index.Record, obj: Any) -> None:
        """Keep the value of a record with its object: newer ones of the same arrays
        have replaced it."""
        with configured(record.statics.settings):
            inputs = inputs_of(obj)
            if inputs is None or not self._fits(record, inputs):
                return
            arrays = record.uses.arrays(inputs)
            if index.serials_of(arrays) == record.serials:
                memo = memo_of(obj)
                memo.keep(self, record.template.fill(arrays))
                memo.indexed[self] = record

    def record_of(self, obj: Any, inputs: Inputs) -> index.Record | None:
        """The record for this object. If newer ones of the same arrays have replaced
        it, it is the newest again."""
        old = memo_of(obj).indexed.get(self)
        if old is not None and not old.is_cleared and self.record(inputs) is None:
            owners = [owner for ref in old.owners if (owner := ref()) is not None]
            index.add(old, owners)
        return self.record(inputs)

    def is_order_seen(self, obj: Any, inputs: Inputs, uses: Uses) -> bool:
        """Whether the value is a different one if the keys of dictionaries are sorted,
        as JAX sorts them for a function."""
        if not uses.is_ordered or inputs.is_sorted:
            return False
        given = inputs.given(*uses.kind)
        return uses.is_host or self.once(is_order_seen, obj, inputs, given)

    def _in_order(self, inputs: Inputs, kind: Kind) -> Inputs:
        """The same with sorted dictionaries, if that is known to make no difference to
        a body that uses and reads this."""
        if inputs.is_sorted:
            return inputs
        place = (is_order_seen, inputs.given(*kind), settings())
        is_seen = self._found_out.get(place, True)
        return (
            inputs if is_seen else replace(inputs, orders=(None,) * len(inputs.orders))
        )

    def _found(self, obj: Any, record: index.Record, inputs: Inputs) -> Any:
        """A value that is known for the arrays of `obj`."""
        return record.template.fill(record.uses.arrays(inputs))

    def note(self, inputs: Inputs, uses: Uses, value: Any) -> index.Record | None:
        """Keep a value for all objects with these inputs."""
        arrays = uses.arrays(inputs)
        if not inputs.holders or traces_in(value) or not uses.is_shareable(inputs):
            return None
        template = template_of(value, arrays)
        if template is None or any(map(has_supplied, walk(value))):
            return None
        self.learned.put_kind(inputs.shape, uses)
        return index.put(self, arrays, uses.statics(inputs), template, inputs.holders)

    def forget(self, obj: Any) -> None:
        """The value for `obj`, and for all objects with the same arrays."""
        memo_of(obj).forget(self)
        inputs = inputs_of(obj)
        while inputs is not None and (record := self.record(inputs)) is not None:
            index.forget(record)

    def evaluate(self, obj: Any, inputs: Inputs | None) -> tuple[Any, Uses | None]:
        """What the body computes for `obj`, whatever is kept, and what it used."""
        try:
            with jax.profiler.TraceAnnotation(self.of(obj)), level_of(obj, self.body):
                return compute(self.body, obj, inputs, self.learned)
        except _NEEDS_CONCRETE_VALUES as error:
            if not getattr(error, "__notes__", ()):  # not added yet, further inside
                error.add_note(host_only_note(self.of(obj)))
            raise


class _Found(NamedTuple):
    """What is known when a value is read."""

    value: Any
    """`MISSING` if it is to be computed."""
    record: index.Record | None = None
    """If it is in the index."""
    inputs: Inputs | None = None
    """Those that others may share it by; None if it belongs to its object."""
    table: "Table | None" = None
    """Where the others are, inside a trace."""


class Noted(NamedTuple):
    """A value that was computed in a trace."""

    key: Computed
    inputs: Inputs
    statics: Given
    value: Any


def for_another(value: Any) -> Any:
    """A value that the user gets, or a different object: what can be changed in it is
    its own."""
    if not any(map(is_open, walk(value))) or has_supplied(value):
        return value

    def is_object(x: Any) -> bool:
        return x is not value and may_have_values(type(x))

    leaves, structure = flatten(value, is_object)
    if not survives(value, structure, leaves):
        return value
    own = [for_another(x) if is_object(x) else x for x in leaves]
    new = structure.unflatten(own)
    if can_have_values(value):
        memo_of(new).provider = memo_of(value).provider
    return new


class Argument(NamedTuple):
    """A traced object that values are provided for."""

    obj: Any
    inputs: Inputs | None
    """Those that it came with: the function may assign to its fields."""
    provide: Provider
    is_shared: Callable[[Key], bool]
    """Which of its values hold for others with the same arrays."""

    @property
    def is_unchanged(self) -> bool:
        return memo_of(self.obj).provider is self.provide

    def read(self, key: Computed) -> Any:
        """The value for the inputs that it came with."""
        value = self.provide(key)
        is_inside = value is NOT_PROVIDED and self.is_unchanged
        return key.read(self.obj) if is_inside else value


class Table:
    """What is known inside a running trace of a `cachax.jit` function.

    Held by the call, and not by the arrays: a tracer is kept alive by whatever was
    computed from it.
    """

    def __init__(self, trace: Any) -> None:
        self.trace = trace
        self.noted: list[Noted] = []
        self.arguments: list[Argument] = []
        self.passed: dict[int, tuple[Any, Any]] = {}
        """Tracers that came out of a function unchanged, and what went in."""

    def note(self, key: Computed, inputs: Inputs, statics: Any, value: Any) -> None:
        """A value was computed."""
        self.noted.append(Noted(key, inputs, statics, for_another(value)))

    def find(self, key: Computed, obj: Any, inputs: Inputs) -> Any:
        """A value of a different object of this trace that holds for `obj` too."""
        for noted in self.noted:
            is_same = noted.key is key and self.holds(noted, inputs)
            if is_same and may_be_kept(noted.value, obj):
                return for_another(noted.value)
        learned: Uses | None = None
        for argument in self.arguments:
            its = argument.inputs
            if its is None or its.shape != inputs.shape:
                continue
            if argument.obj is obj and argument.is_unchanged:  # it was asked already
                continue
            learned = learned or key.learn(obj, inputs)
            noted = Noted(key, its, learned.statics(its), None)
            if self.holds(noted, inputs) and argument.is_shared(key):
                value = argument.read(key)
                if value is not NOT_PROVIDED:
                    return for_another(value)
        return NOT_PROVIDED

    def holds(self, noted: Noted, inputs: Inputs) -> bool:
        """Whether a value is that of an object with these inputs too, with the
        configuration as it is now."""
        uses, its = noted.statics.uses, noted.inputs.arrays
        return (
            inputs.shape == noted.inputs.shape
            and all(
                self.origin(inputs.arrays[i]) is self.origin(its[i])
                for i in uses.positions
            )
            and uses.statics(inputs) == noted.statics
        )

    def origin(self, array: Any) -> Any:
        while id(array) in self.passed:
            array = self.passed[id(array)][1]
        return array


class _Tables(threading.local):
    def __init__(self) -> None:
        self.running: list[Table] = []


tables = _Tables()


@contextmanager
def running_table() -> Iterator[Table]:
    """In this context, a trace has a table."""
    table = Table(current_trace())
    tables.running.append(table)
    try:
        yield table
    finally:
        tables.running.remove(table)


def table_of(traces: set[Any]) -> Table | None:
    """The table of the trace that an object belongs to."""
    for table in tables.running:
        if traces == {table.trace}:
            return table
    return None
