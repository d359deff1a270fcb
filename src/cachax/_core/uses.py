"""Which inputs of an object a body uses, learned from the first computation.

The first time a property is computed for given static parts, shapes and dtypes, its
body runs on a copy of the object whose arrays note what is computed from them
(`dependence.py`). Later objects of this kind run the body as it is.

What a body uses can also be learned from an abstract trace, which computes nothing.
"""

import functools
import operator
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import compress
from typing import Any, NamedTuple

import jax
import numpy as np

from .._compat import (
    CONCRETE,
    Tracer,
    at_trace,
    base_of,
    current_trace,
    eval_jaxpr,
    hidden_in,
    operations_in,
    settings,
    tracing_is_forbidden,
    without_unused,
)
from .dependence import Dependence
from .fields import ARRAYS, attributes, walk, walk_fields
from .inputs import (
    ARRAY,
    NUMBERS,
    CannotRebuildError,
    Copy,
    Given,
    Inputs,
    Same,
    identity_of,
    in_order,
    is_rebuilt,
    look_of,
)
from .levels import traces_in
from .memo import (
    can_have_values,
    has_supplied,
    inputs_of,
    keys_of,
    may_have_values,
    memo_of,
)
from .recent import Recent
from .sources import names_of
from .spread import are_spread, is_global
from .structure import flatten, survives
from .values import has_hidden_arrays

_ADDRESS = re.compile(" at 0x[0-9a-fX]+")
_COMPILED = (jax.stages.Compiled, jax.stages.Lowered)
_DEEPEST = 10
"""Bodies that run inside each other and are looked at. Each takes some 15 Python
frames, of which there are 1,000."""

Body = Callable[[Any], Any]


class Uses(NamedTuple):
    """What of the inputs of an object counts for a value."""

    positions: tuple[int, ...]
    """The arrays it used. Of the others only the shape, dtype and weak type count, if
    the body read the field that they are in. (Numbers in `Inputs.arrays`.)"""
    is_ordered: bool
    """Whether the order of dictionaries may matter."""
    unread: tuple[int, ...] = ()
    """The parts that make no difference, arrays or not."""
    is_host: bool = False
    """Whether the body looks at contents of arrays, or can't be traced."""
    reads: tuple[Any, ...] = ()
    """The cached values that the body reads, and those that these read, and whether
    they are of this object."""
    is_varying: bool = False
    """Whether what it uses may depend on the contents of arrays: each run of the body
    is followed, and these are the uses of one run. (Of all runs, if learned.)"""

    def is_shareable(self, inputs: Inputs) -> bool:
        """Whether the identities of the arrays describe the value. Those of numpy
        arrays, which can be written to, don't."""
        return inputs.writable.isdisjoint(self.positions)

    def arrays(self, inputs: Inputs) -> list[Any]:
        """Those that it used."""
        return [inputs.arrays[i] for i in self.positions]

    @property
    def kind(self) -> "Kind":
        """Which parts count."""
        return self.positions, self.is_ordered, self.unread, self.reads

    def statics(self, inputs: Inputs) -> Given:
        """The rest: what distinguishes values that came from the same arrays."""
        given = inputs.given(*self.kind)
        return given._replace(settings=settings(), uses=self)


Kind = tuple[tuple[int, ...], bool, tuple[int, ...], tuple[Any, ...]]
_is_ordered = operator.itemgetter(1)


def _uses(
    inputs: Inputs,
    used: Iterable[int],
    read: Iterable[int],
    is_ordered: bool,
    is_host: bool = False,
    reads: Iterable[Any] = (),
) -> Uses:
    used = {*used}
    read = {*read, *(inputs.parts[i] for i in used)}
    unread = tuple([i for i in range(len(inputs.statics)) if i not in read])
    positions = tuple(sorted(used - inputs.numbers))
    is_ordered = is_ordered and bool(inputs.orders)
    return Uses(positions, is_ordered, unread, is_host, tuple(reads))


def no_array(inputs: Inputs) -> Uses:
    """For a value that the user supplied."""
    return _uses(inputs, (), (), False)


def everything(inputs: Inputs, is_host: bool = True, reads: Any = ()) -> Uses:
    """For a body that may use anything."""
    every = range(len(inputs.arrays))
    parts = range(len(inputs.statics))
    return _uses(inputs, every, parts, True, is_host, reads)


class Learned:
    """The uses of one property, by what the body could see when they were learned."""

    def __init__(self) -> None:
        self._uses: dict[Any, Uses] = Recent()
        self._kinds: dict[Any, dict[Kind, None]] = Recent()
        """What was used and read, by the shape of the object."""
        self._varying: dict[Any, bool] = Recent()
        """Where it depends on the contents of arrays, likewise; and whether a run of
        the body can be followed."""
        self.keys_read: dict[Any, None] = {}
        """All that the body has read, of whatever object."""

    def get(self, inputs: Inputs) -> Uses | None:
        now = settings()
        is_varying = self._varying.get((inputs.shape, inputs.writable, now))
        if is_varying is not None:
            reads = [(key, False) for key in self.keys_read]  # now it may be any
            return everything(inputs, reads=reads)._replace(is_varying=is_varying)
        for kind in self.kinds(inputs):
            uses = self._uses.get((kind, inputs.given(*kind), now))
            if uses is not None and NUMBERS.isdisjoint(map(type, uses.arrays(inputs))):
                return uses
        return None

    def kinds(self, inputs: Inputs) -> list[Kind]:
        """What the body has used and read of objects of this shape. First those to
        which the order of dictionaries doesn't matter."""
        return sorted([*self._kinds.get(inputs.shape, ())], key=_is_ordered)

    def put_kind(self, shape: Any, uses: Uses) -> None:
        self.keys_read |= {key: None for key, _ in uses.reads}
        self._kinds.setdefault(shape, Recent())[uses.kind] = None

    def put(self, inputs: Inputs, uses: Uses) -> None:
        self.put_kind(inputs.shape, uses)
        kind = uses.kind
        place = (inputs.shape, inputs.writable, settings())
        if uses.is_varying:
            self._varying.setdefault(place, True)
            return
        if place in self._varying and uses.is_host:  # it could not be followed
            self._varying[place] = False
            return
        self._uses[kind, inputs.given(*kind), settings()] = uses


def compute(
    body: Body, obj: Any, inputs: Inputs | None, learned: Learned
) -> tuple[Any, Uses | None]:
    """The value of `body(obj)`, and what it used; None if identity can't say."""
    if inputs is None:
        return body(obj), None
    uses = learned.get(inputs)
    if uses is None or uses.is_varying:
        if tracing_is_forbidden():
            return body(obj), everything(inputs, reads=all_reads(obj))
        if len(inputs.numbers) == len(inputs.arrays):
            learned.put(inputs, everything(inputs, False, all_reads(obj)))
            return body(obj), learned.get(inputs)
        if current_trace() is not CONCRETE or are_spread(inputs.arrays):
            uses = learn(body, obj, inputs, learned)
        else:
            return _compute_followed(body, obj, inputs, learned)
    if not uses.is_shareable(inputs):
        return body(obj), None
    if not uses.is_host and are_spread(inputs.arrays):
        # Always like this, and not only the first time. JAX runs some operations as
        # different programs when no trace is active (`x[::2]`, an inlined jit): the
        # value would have a different sharding than inside `jit`, and a process that
        # has learned what the body uses from a local object would launch other
        # programs than the rest.
        traced = _trace(body, obj, inputs)
        if traced is not None:
            return traced.run(inputs.arrays), uses
    return body(obj), uses


def _compute_followed(
    body: Body, obj: Any, inputs: Inputs, learned: Learned
) -> tuple[Any, Uses | None]:
    """Run a body on a copy of its object, and see what it uses."""
    trace = Dependence()
    run = failure = None
    value: Any
    uses: Uses | None
    try:
        run = _follow(trace, body, obj, inputs, inputs.arrays)
    except Exception as error:  # whatever it is: the body is run again, and shows it
        failure = type(error)
    finally:
        trace.end()
    if failure is RecursionError:
        with _reading.paused():  # or every level inside would be tried twice
            return body(obj), everything(inputs, reads=all_reads(obj))
    if run is None:
        trace.release(obj)
        value, uses = body(obj), everything(inputs, reads=all_reads(obj))
    else:
        value, uses = run.structure.unflatten(run.leaves), run.uses
        if _may_hide(value) and trace.has_survivors():
            value, uses = body(obj), everything(inputs, reads=all_reads(obj))
    if uses is None:
        return value, None
    learned.put(inputs, uses)
    return value, uses if uses.is_shareable(inputs) else None


class _Run(NamedTuple):
    """A run of a body that was followed."""

    leaves: list[Any]
    """Those of its value."""
    are_results: list[bool]
    """Which of them depend on an input."""
    structure: Any
    uses: Uses | None
    """None if identity can't say."""
    values: list[Any]
    """What tells the cached values that it read from others."""


def _follow(
    trace: Dependence,
    body: Body,
    obj: Any,
    inputs: Inputs,
    given: Sequence[Any],
    traced_numbers: Iterable[int] = (),
    only_known: bool = False,
) -> _Run:
    """Run a body with these arrays in its object."""
    numbers = inputs.numbers.difference(traced_numbers)
    concrete = numbers | inputs.writable | inputs.in_keys  # numpy computes differently
    arrays = [
        inputs.arrays[i] if i in concrete else trace.tracer(x, (i,))
        for i, x in enumerate(given)
    ]
    copy = _copy(obj, arrays)
    with at_trace(trace):
        reading = Reading(trace, obj, copy, arrays, inputs, only_known)
        value = _run(body, reading, copy)
    leaves, structure = flatten(value, copy.is_copy)
    rebuilt = structure.unflatten([*map(copy.original, leaves)])
    _check_value(rebuilt, leaves, copy)
    if trace.was_refused or not survives(value, structure, leaves):
        raise _NotAFunctionError
    parts = [x for x in leaves if copy.is_copy(x)]  # of the object, in the value
    reads = reading.reads | all_reads(obj if inputs.in_keys else parts)
    uses: Uses | None = everything(inputs, reads=reads)
    if not reading.is_shareable:
        uses = None
    read = copy.read.parts
    if trace.has_closures:
        read = {*range(len(inputs.statics))}
    for its in filter(None, map(inputs_of, parts)):
        places = _places(arrays, its, range(len(its.arrays)))
        read |= _parts_with(places, inputs.parts, inputs.shape)
    # What of numpy's arrays is used is not known, nor what depends on it.
    is_known = inputs.positions(read).isdisjoint(inputs.writable | inputs.in_keys)
    if uses is not None and is_known and all(map(is_rebuilt, parts)):
        is_ordered = copy.read.has_dictionary or trace.has_closures or bool(parts)
        used = trace.inputs_of([*leaves, *walk_fields(parts)])
        used |= trace.seen | reading.not_followed
        is_host = trace.looked_at or bool(reading.not_followed)
        uses = _uses(inputs, used, read, is_ordered, is_host, reads)
        uses = uses._replace(is_varying=is_host)
    found = [trace.value(copy.original(x)) for x in leaves]
    are_results = [*map(trace.own, leaves)]
    return _Run(found, are_results, structure, uses, reading.values)


def _copy(obj: Any, arrays: list[Any]) -> Copy:
    """A copy without values that the user supplied: a body reads those of the
    original."""
    copy = Copy(obj, arrays, notes_reads=True)
    for new, _ in copy.originals.values():
        for name in names_of(type(new)):
            attributes(new).pop(name, None)
    return copy


def all_reads(obj: Any) -> dict[Any, None]:
    """What a body may read that could not be followed."""
    parts = {type(x): x for x in walk_fields(obj) if may_have_values(type(x))}
    return {(key, False): None for cls in parts for key in keys_of(cls).values()}


def run_body(body: Body, obj: Any) -> Any:
    return body(obj)  # (what is read in here counts: `reads.py`)


def _run(body: Body, reading: "Reading", copy: Copy) -> Any:
    """The value of a body for a copy of an object."""
    before = inputs_of(copy.obj)
    _reading.stack.append(reading)
    try:
        value = run_body(body, copy.obj)
    finally:
        _reading.stack.pop()
        reading.close()
    check_unchanged(copy.obj, before)
    if any(has_supplied(copy.original(x)) for x in walk(value)):
        raise _NotAFunctionError  # when the value is rebuilt, that is lost
    return value


def learn(body: Body, obj: Any, inputs: Inputs, learned: Learned) -> Uses:
    """What the body uses, without computing anything."""
    uses = learned.get(inputs)
    if uses is not None:
        return uses
    traced = None
    if not tracing_is_forbidden() and len(inputs.numbers) < len(inputs.arrays):
        traced = _trace(body, obj, inputs)
    if traced is None or traced.uses is None:
        return everything(inputs, reads=all_reads(obj))
    learned.put(inputs, traced.uses)
    return learned.get(inputs) or traced.uses


def is_order_seen(body: Body, obj: Any, inputs: Inputs) -> bool:
    """Whether the body does something else if the keys of dictionaries are sorted, or
    may do so."""
    try:
        other = Copy(obj, inputs.arrays, in_order).obj
    except Exception:  # it can't be copied
        return True
    its = inputs_of(other)
    traces = [
        None if x is None else _trace(body, each, x, only_known=True)
        for each, x in ((obj, inputs), (other, its))
    ]
    here, there = traces
    return here is None or there is None or not here.is_same(there)


def compute_part(body: Body, obj: Any, inputs: Inputs, uses: Uses) -> Any:
    """The value from the arrays that the body uses: others may be of a trace that it
    must not depend on, so it gets zeros for them."""
    used = {*uses.positions}
    arrays = [
        jax.lax.full_like(x, 0) if isinstance(x, Tracer) and i not in used else x
        for i, x in enumerate(inputs.arrays)
    ]
    return body(Copy(obj, arrays).obj)


def leaves_traced(body: Body, obj: Any, inputs: Inputs) -> tuple[bool, ...]:
    """Which leaves of the value depend on Python numbers that `jit` would trace."""
    traced = _trace(body, obj, inputs, traced_numbers=inputs.numbers)
    return () if traced is None else tuple(x is None for x in traced.statics)


def computes_alike(body: Body, obj: Any, inputs: Inputs) -> bool:
    """Whether a body does the same if the Python numbers and numpy arrays of `obj` are
    traced: it returns none of them, and computes nothing from them alone. (Python and
    numpy have other rules than JAX: `2**40`, the sum of many small integers.)"""
    others = inputs.numbers | inputs.writable
    outside = _inlined(body, obj, inputs, others)
    inside = _inlined(body, obj, inputs, frozenset())
    return outside is not None and outside == inside


def _inlined(body: Body, obj: Any, inputs: Inputs, concrete: Iterable[int]) -> Any:
    """The operations of a body, those of other bodies included, the types of its
    results, and the static parts of the values that it reads. None if it can't be
    traced, or if a result is not an array of JAX."""
    structure: Any = None
    statics: list[Any] = []

    def run_body(obj: Any, key: Any) -> Any:
        value = key.body(obj)
        leaves, structure = flatten(value)
        kinds = [None if isinstance(x, jax.Array) else identity_of(x) for x in leaves]
        statics.append((str(structure), kinds))
        return value

    def of_arrays(given: list[Any]) -> list[Any]:
        nonlocal structure
        arrays = [inputs.arrays[i] if i in concrete else x for i, x in enumerate(given)]
        copy = _copy(obj, arrays)
        for new, _ in copy.originals.values():
            if can_have_values(new):
                memo_of(new).provider = functools.partial(run_body, new)
        leaves, structure = flatten(body(copy.obj))
        if not all(isinstance(x, jax.Array) for x in leaves):
            raise _NotAFunctionError
        return leaves

    try:
        jaxpr = jax.make_jaxpr(of_arrays)(inputs.arrays)
    except Exception:  # whatever a body raises
        return None
    types = [str(x) for x in jaxpr.out_avals]
    return operations_in(jaxpr.jaxpr), structure, types, statics


@dataclass(frozen=True, eq=False)
class Traced:
    """A body as operations on the arrays of an object."""

    jaxpr: Any
    structure: Any
    statics: list[Any]
    """The leaves of the value that are not results of the operations, else None."""
    uses: Uses | None
    values: list[Any]
    """What tells the cached values that it read from others."""

    def run(self, arrays: Sequence[Any]) -> Any:
        """On these arrays. Those that it doesn't use may be anything."""
        jaxpr, is_used = without_unused(self.jaxpr)
        used = [x for x, is_used in zip(arrays, is_used, strict=True) if is_used]
        results = iter(eval_jaxpr(jaxpr, self.jaxpr.consts, *used))
        leaves = [next(results) if x is None else x[0] for x in self.statics]
        return self.structure.unflatten(leaves)

    def is_same(self, other: "Traced") -> bool:
        """Whether both are the same function of the arrays."""
        return bool(
            self.uses == other.uses
            and self.values == other.values
            and self.structure == other.structure
            and str(self.structure) == str(other.structure)
            and self._text() == other._text()
            and self._hidden() == other._hidden()
        )

    def _text(self) -> str:
        return _ADDRESS.sub("", str(self.jaxpr.jaxpr))

    def _hidden(self) -> list[Any]:
        hidden = map(_contents_of, [*self.jaxpr.consts, *hidden_in(self.jaxpr.jaxpr)])
        statics = (None if x is None else identity_of(x[0]) for x in self.statics)
        return [*hidden, *statics]


def _contents_of(const: Any) -> Any:
    """What distinguishes an array that a body makes: each run makes its own."""
    is_array = isinstance(const, jax.Array | np.ndarray)
    if not is_array or isinstance(const, Tracer) or is_global(const):
        return Same(const)
    return look_of(const), np.asarray(base_of(const)).tobytes()


def _trace(
    body: Body,
    obj: Any,
    inputs: Inputs,
    traced_numbers: Iterable[int] = (),
    only_known: bool = False,
) -> Traced | None:
    """None if the body can't be traced, or does more than return a value."""
    found: Any = None

    def of_arrays(given: list[Any]) -> list[Any]:
        nonlocal found
        trace = Dependence()
        try:
            run = _follow(trace, body, obj, inputs, given, traced_numbers, only_known)
        finally:
            trace.end()
        if trace.looked_at or trace.has_closures:  # of a callback, maybe
            raise _NotAFunctionError
        leaves = zip(run.leaves, run.are_results, strict=True)
        statics = [None if is_result else (x,) for x, is_result in leaves]
        found = (run.structure, statics, run.uses, run.values)  # without tracers
        return [*compress(run.leaves, run.are_results)]

    try:
        jaxpr = jax.make_jaxpr(of_arrays)(inputs.arrays)
    except Exception:  # whatever a body raises: it is run again as it is, and shows it
        return None
    return Traced(jaxpr, *found)


class NotKnownError(Exception):
    """A body reads a value that would have to be computed."""


class _NotAFunctionError(Exception):
    """A body whose trace doesn't stand for it."""


def _may_hide(value: Any) -> bool:
    """Whether code in a value may close over an array."""
    return any(
        callable(part)
        or "<locals>" in type(part).__qualname__
        or isinstance(part, jax.tree_util.PyTreeDef)
        for part in walk(value)
        if not isinstance(part, ARRAYS)
    )


def _check_value(value: Any, leaves: list[Any], copy: Copy) -> None:
    """A tracer, or a copy, may be where JAX doesn't see it, or in compiled code."""
    visible = {*map(id, leaves)}
    for part in walk(value):
        is_hidden = isinstance(part, Tracer) or copy.is_copy(part)
        if (is_hidden and id(part) not in visible) or isinstance(part, _COMPILED):
            raise _NotAFunctionError


def is_unchanged(obj: Any, before: Inputs | None) -> bool:
    """Whether a body has set no field."""
    after = inputs_of(obj)
    if before is None or after is None or before.exactly != after.exactly:
        return False
    return all(map(operator.is_, before.arrays, after.arrays))


def check_unchanged(obj: Any, before: Inputs | None) -> None:
    """Of the copy that it got, or of an original."""
    if not is_unchanged(obj, before):
        raise _NotAFunctionError


class Reading:
    """Cached values that a traced body reads: inputs of its trace, with their uses."""

    def __init__(
        self,
        trace: Dependence,
        obj: Any,
        copy: Copy,
        arrays: Sequence[Any],
        inputs: Inputs,
        only_known: bool,
    ) -> None:
        self.copy: Any = copy
        self.read = copy.read
        """What is read, by the bodies of these values too."""
        self._arrays = arrays
        self._parts, self._shape = inputs.parts, inputs.shape
        self.only_known = only_known
        """Whether nothing may be computed."""
        self._obj = obj
        self._trace: Any = trace
        self.reads: dict[Any, None] = {}
        self.values: list[Any] = []
        self.not_followed: set[int] = set()
        """Those that count as used, because a value of the host, or one with hidden
        arrays, depends on them."""
        self.is_shareable = True

    def close(self) -> None:
        """Let go of all tracers: the trace is over."""
        self.copy = self._trace = None
        self._arrays = ()

    def original(self, obj: Any) -> Any:
        """What `obj` is a copy of, or None."""
        if self.copy.is_copy(obj):
            return self.copy.original(obj)
        is_made = traces_in(obj) == {self._trace}
        return self._made_of_values(obj) if is_made else None

    def _made_of_values(self, obj: Any) -> Any:
        """An object that the body made, with the arrays behind the tracers."""
        inputs = inputs_of(obj)
        originals = map(self.copy.original, walk_fields(obj))
        if inputs is None or any(map(has_supplied, originals)):
            return None
        try:
            values = map(self._trace.value, inputs.arrays)
            return Copy(obj, values, keep_keys=False).obj
        except CannotRebuildError:
            return None

    def value(
        self, key: Any, obj: Any, value: Any, original: Any, uses: Uses | None
    ) -> Any:
        """What a body sees of a value that was computed for the original object."""
        is_same = original is self._obj
        self.reads[key, is_same] = None
        self.values += (key, *map(identity_of, flatten(value)[0]))
        inputs = inputs_of(obj)
        if uses is None or inputs is None:
            self.is_shareable = False
            return self._as_inputs(value, ())
        self.reads |= {(key, is_same and x): None for key, x in uses.reads}
        parts = {*range(len(inputs.statics))}.difference(uses.unread)
        places = _places(self._arrays, inputs, inputs.positions(parts))
        if not is_same:
            parts = _parts_with(places, self._parts, self._shape)
        self.read.parts |= parts
        self.read.has_dictionary |= uses.is_ordered
        if uses.is_host or not _is_visible(value):
            self.not_followed |= places
        return self._as_inputs(value, self._trace.inputs_of(uses.arrays(inputs)))

    def note_failure(self) -> None:
        """A body that it reads a value of has raised, and it may catch that: it depends
        on whatever that body has read."""
        every = range(len(self._arrays))
        self.not_followed.update(every)
        self.note_all()
        self.reads |= all_reads(self._obj)

    def note_all(self) -> None:
        """All of the object may have been read."""
        self.read.parts.update(range(len(self._shape)))
        self.read.has_dictionary = True

    def _as_inputs(self, value: Any, used: Iterable[int]) -> Any:
        if not _is_visible(value):
            return value
        leaves, structure = flatten(value)
        trace = self._trace
        return structure.unflatten(
            [trace.tracer(x, used) if isinstance(x, jax.Array) else x for x in leaves]
        )


def _places(mine: Sequence[Any], inputs: Inputs, read: Iterable[int]) -> set[int]:
    """Which of the arrays of an object are these of an object inside, or of the same:
    they follow each other. All, if that can't be told."""
    its = inputs.arrays
    starts = [
        start
        for start in range(len(mine) - len(its) + 1)
        if all(map(operator.is_, mine[start : start + len(its)], its))
    ]
    return {x + i for x in starts for i in read} if starts else {*range(len(mine))}


def _parts_with(places: set[int], parts: Sequence[int], shape: Any) -> set[int]:
    """These arrays of an object and all that is static, as parts."""
    statics = (i for i, kind in enumerate(shape) if kind is not ARRAY)
    return {*statics, *(parts[i] for i in places)}


def _is_visible(value: Any) -> bool:
    """Whether JAX sees all arrays in a value, and can rebuild it."""
    if has_hidden_arrays(value) or any(map(has_supplied, walk(value))):
        return False
    leaves, structure = flatten(value)
    return survives(value, structure, leaves)


class _Stack(threading.local):
    def __init__(self) -> None:
        self.stack: list[Reading] = []
        self.is_paused = False

    @contextmanager
    def paused(self) -> Iterator[None]:
        before, self.is_paused = self.is_paused, True
        try:
            yield
        finally:
            self.is_paused = before


_reading = _Stack()


def reading_of(obj: Any) -> tuple[Reading, Any] | None:
    """The trace of a body that `obj` is a copy for, and what it is a copy of."""
    for reading in reversed(_reading.stack):
        original = reading.original(obj)
        if original is not None:
            return reading, original
    return None


def note_parts(obj: Any) -> None:
    """A body reads a value of an object that it has made around parts of its object:
    what of these is read is not known."""
    for reading in _reading.stack:
        if any(map(reading.copy.is_copy, walk_fields(obj))):
            reading.note_all()


def is_deep() -> bool:
    """Whether so many bodies are running inside each other that one more is run as it
    is."""
    return _reading.is_paused or len(_reading.stack) >= _DEEPEST


def is_tracing_a_body() -> bool:
    return bool(_reading.stack)
