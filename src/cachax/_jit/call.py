"""The path of a call.

The arguments of a call have a structure, and an `Entry` for each structure has learned
which values the function uses, and where the arrays are that they came from
(`entry.py`). The contents of these arrays find the values, and the compiled program
takes them with the arguments (`program.py`). That is all a warm call does (`jit.py`);
keywords, many objects, deep models, donation and loops whose state is new in every step
take the same path.

If the values are not known, they are computed on the caller's objects and the function
is traced until it has what it uses (`demand.py`). What the trace learns about results
that are arguments passed through, and about values of returned objects, comes out with
the result (`results.py`).
"""

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import jax
from jax.tree_util import tree_flatten

from .._compat import (
    Tracer,
    forget_failed_traces,
    is_placed_as,
    jit_is_disabled,
    places_of,
    settings,
)
from .._core.body import NewSubject
from .._core.computed import tables
from .._core.memo import note_entries
from .._core.parts import PYTHON_NUMBERS, bits_of
from .._core.recent import Recent
from .._core.spread import are_global
from .._errors import CachaxError
from . import program as programs
from .demand import (
    Answers,
    Ask,
    Demand,
    Retrace,
    Value,
    asks_of,
    call_of,
)
from .entry import Entry, NoLongerNew
from .inside import UNKNOWN, new_in_call
from .notes import note_argument
from .options import Options
from .plan import Call, signature_of
from .program import Program, Unprepared, tracing

_TRIES = 8
"""Traces that bring nothing new, until a function that never uses the same values twice
has to compute inside what it was not given."""

_COURSES = 100
"""How many sequences of values that a function used are kept, for the same shapes."""

_MANY_NEW = 8
"""Calls for which values had to be computed, until the function is compiled once more
to compute them inside. The same for each further choice of what is new in a call."""


class Function:
    """What is behind a function that `cachax.jit` returns: what it has learned."""

    call_watchers: ClassVar[list[Any]] = []
    """What wraps `call` while a report is made (`_watch.py`)."""

    def __init__(
        self,
        fun: Callable[..., Any],
        options: dict[str, Any],
        transform: Callable[..., Any],
    ) -> None:
        try:
            self.fun: Callable[[], Any] = weakref.ref(fun)  # see `_function_for`
        except TypeError:
            self.fun = lambda: None  # JAX says best why not
        self.name = name_of(fun).rpartition(".")[2]
        self.qualname = name_of(fun)
        self.options = Options(fun, options)
        self.transform = transform
        self.brings = _is_transparent(transform)
        """Whether values come out with the result."""
        self._keeps_programs = transform is jax.jit or hasattr(
            transform(lambda: None), "lower"
        )
        self._entries: dict[Any, Entry] = Recent()
        self._without_objects: dict[Any, Entry] = {}
        """For calls without objects, whatever their structure, by the number of
        arguments."""
        self.expected: Entry | None = None
        """The entry of the last call, if the next one is likely to have the same."""
        self._found: Entry | None = None
        """That of the last call that was unlike the one before."""
        self._is_mixed = False
        """Whether arguments of different structures have the same arrays."""
        self._likely: dict[Any, Entry | None] = Recent()
        """For calls unlike the last one, by the types of the arguments and the static
        ones. None where these don't say which."""
        note_entries(self)

    @property
    def was_called(self) -> bool:
        return bool(self._entries)

    def forget(self) -> None:
        """Start again, as if it had not been called."""
        self._entries.clear()
        self._without_objects.clear()
        self._likely.clear()
        self.expected = self._found = None

    def find(self, args: Any, kwargs: Any) -> tuple[Entry | None, Any]:
        """What a call takes that is unlike the last one, with its entry; None if its
        values are not known."""
        try:
            entry = self._likely[self._look(args, kwargs)]
            if entry is None:
                entry = self._entries[self._key(args, kwargs)[0]]
        except Exception:  # there was none like it, or JAX says best what is wrong
            return None, None
        if entry is not self.expected:  # which was tried already
            is_again = entry is self._found and not self._is_mixed
            self.expected, self._found = entry if is_again else None, entry
            try:
                return entry, entry.find(args, kwargs)
            except Exception:  # it can't be read as the last one was
                pass
        if entry.mistaken:
            return None, None
        return entry, entry.look_up(args, kwargs)

    def _key(self, args: Any, kwargs: Any) -> tuple[Any, Call]:
        """What the entry of a call is found by, and the call."""
        tree, statics = self.options.static.take_out(args, kwargs)
        leaves, structure = tree_flatten(tree)
        if self.transform is not jax.jit:  # it may take numbers for static
            numbers = (x for x in leaves if type(x) in PYTHON_NUMBERS)
            statics += (*map(bits_of, numbers),)
        call = Call(tree, leaves, args, kwargs)
        return (structure, statics, are_global(leaves)), call

    def _look(self, args: Any, kwargs: Any) -> Any:
        look = (*map(type, args),)
        static = self.options.static
        if static.numbers:
            count = len(args)
            look += (*[args[i] for i in static.numbers if -count <= i < count],)
        if kwargs:
            named = map(kwargs.get, static.names)
            look += (*kwargs, *map(type, kwargs.values()), *named)
        return look

    def call(self, plain: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """A call that was not prepared by one like it."""
        is_supported = self.options.is_supported and self.fun() is not None
        if jit_is_disabled() or not is_supported:
            return plain(*args, **kwargs)
        try:
            key, call = self._key(args, kwargs)
            entry = self._entry(key, call.tree, self._look(args, kwargs))
        except Exception:  # can't be flattened, compared, or hashed: JAX says best why
            return plain(*args, **kwargs)
        is_incomplete = False
        try:
            return self._call_entry(entry, call)
        except NewSubject:
            if tables.running:  # further out they must be found first
                raise
            is_incomplete = True
        except Exception as error:
            if not names_arguments(error):
                self.note(error, args, kwargs)
                raise
        if is_incomplete:  # not in there, or errors would seem to come of it
            return self.call(plain, args, kwargs)
        # JAX's message is about the values too: have it be about the arguments. If it
        # works (a donated buffer was also part of a value), all the better.
        try:
            return plain(*args, **kwargs)
        except Exception as error:
            self.note(error, args, kwargs)
            raise

    def note(self, error: Exception, args: Any, kwargs: Any) -> None:
        """Add to an error of a call what to do, if an argument is the reason."""
        note_argument(error, self.fun(), args, kwargs, self.options.static)

    def _entry(self, key: Any, tree: Any, look: Any) -> Entry:
        entry = self._entries.get(key)
        if entry is None:
            entry = Entry(self.options, tree)
            if entry.layout is None:  # JAX tells structures apart as fast
                kind = (len(tree[0]), entry.is_global)
                entry = self._without_objects.setdefault(kind, entry)
            self._entries[key] = entry
        likely = self._likely.get(look, entry)
        others = {self.expected, likely} - {None, entry}
        wrong = {x for x in others if x is not None and x.mistaken}
        for each in wrong:
            each.mistaken = False
        self._likely[look] = entry if likely is entry else None
        self._is_mixed |= bool(wrong)
        self.expected = None if self._is_mixed else entry
        return entry

    def _call_entry(self, entry: Entry, call: Call) -> Any:
        """With values that are known for these arguments, or that are computed."""
        _, _, args, kwargs = call
        # (Without a report, this is a call that `find` found nothing for.)
        is_tried = entry.mistaken or not self.call_watchers
        ready = None if is_tried else entry.look_up(args, kwargs, may_compute=False)
        if ready is None:
            out = self._call_computing_inside(entry, call)
            if out is not UNKNOWN:
                return out
            return self._call_learning(entry, call)
        try:
            out = entry.launch(ready.program, ready.values, args, kwargs)
        except Unprepared:
            forget_failed_traces(ready.program.call)
            entry.mistaken = True
            return self._call_learning(entry, call)
        self.took(entry, call.tree, ready.program.asks)
        return out

    def _call_learning(self, entry: Entry, call: Call) -> Any:
        """With values that are to be computed, or a function to be traced."""
        _, leaves, args, kwargs = call
        kind = (signature_of(leaves), self._misplaced(entry, call))
        courses = entry.courses.setdefault(kind, Recent(_COURSES))
        asks: Any = None
        known: set[Ask] = set()
        unstable: set[Any] = set()
        tries_left = _TRIES
        computed = traced = False
        while True:
            demand = self._demand(entry, call)
            learned = asks_of([*courses][::-1], demand.answers)
            demand.gather(learned if asks is None else iter(asks))
            demand.gather(demand.supplied(entry.inside_asks))
            demand.is_last = tries_left == 0
            demand.unstable = unstable
            answers, program, values = self._program(entry, demand, args)
            try:
                with tracing(program, demand):
                    out = entry.launch(program, values, args, kwargs)
                break
            except Retrace as retrace:
                if retrace.demand is not demand:  # the end of a trace further out
                    raise
                forget_failed_traces(program.call)
                entry.static_numpy |= demand.static_numpy
                unstable |= _replaced(answers, retrace.asks) | demand.raised
                asks = [ask for ask in retrace.asks if call_of(ask) not in unstable]
            finally:
                computed |= demand.computed
                traced |= demand.was_traced
                entry.inside_asks |= demand.computed_inside
                demand.settle()
            tries_left -= known.issuperset(asks)
            known.update(asks)
        if traced:
            asked = demand.asked if demand.was_traced else answers
            course = tuple((ask, answers[ask].packed.form) for ask in asked)
            courses.pop(course, None)
            courses[course] = None  # the last one
        entry.new_calls += computed
        is_planned = program is entry.plan.program and entry.plan.is_for(answers)
        is_planned = is_planned and not (traced or entry.mistaken)
        is_planned = is_planned and entry.plan.look_up(args, kwargs) is not None
        if not is_planned and all(_is_concrete(x, leaves) for x in answers.values()):
            reliable = program if self._keeps_programs else None
            plan = entry.note(answers, reliable, traced, call)
            plan.keep(args, kwargs, values)
        self.took(entry, call.tree, program.asks)
        return out

    def took(self, entry: Entry, tree: Any, asks: Any, is_inside: bool = False) -> None:
        """Which values a call took, and whether it computed the others inside. Does
        nothing; reports wrap it."""

    def _demand(self, entry: Entry, call: Call) -> Demand:
        objects = entry.objects(call.tree)
        demand = Demand(objects, entry.maps, call.leaves, entry.static_numpy)
        demand.call = (call.args, call.kwargs)
        demand.misplaced = self._misplaced(entry, call)
        return demand

    def _misplaced(self, entry: Entry, call: Call) -> frozenset[int]:
        """Objects with arrays that are elsewhere than `in_shardings` says."""
        shardings = self.options.in_shardings(call.tree)
        pairs = enumerate(zip(call.leaves, shardings, strict=False))
        wrong = {i for i, (x, sharding) in pairs if not is_placed_as(x, sharding)}
        spans = enumerate(entry.spans)
        return frozenset(slot for slot, span in spans if not wrong.isdisjoint(span))

    def _program(
        self, entry: Entry, demand: Demand, args: Any, inside: Any = None
    ) -> tuple[Answers, Program, list[Any]]:
        """What was gathered, the program that takes it, and the arrays in it. With
        `inside`, it computes values itself: for leaves of which types, and which."""
        answers = demand.in_order()
        looks = [(ask, x.packed.form, x.looks) for ask, x in answers.items()]
        supplied = demand.all_supplied()
        key = (settings(), inside, demand.misplaced, supplied, *looks)
        program: Program | None = entry.programs.get(key)
        if program is None:
            program = Program(self, entry, answers, args, inside is not None)
            entry.programs[key] = program
        values = [x for answer in answers.values() for x in answer.packed.arrays]
        if self.options.donates:
            values = _apart_from(demand.leaves, values)
        return answers, program, values

    def _call_computing_inside(self, entry: Entry, call: Call) -> Any:
        """For arrays that are new at every call: to compute their values beforehand
        would launch a program for each. UNKNOWN if it is not such a call."""
        if entry.new_calls < _MANY_NEW or not entry.may_compute_inside:
            return UNKNOWN
        new = new_in_call(entry, call)
        if new is None:
            return UNKNOWN
        types = tuple(new.types.items())
        what_is_new = (*new.leaves, *new.unknown, *new.known, *types)
        if not entry.is_frequent(what_is_new, _MANY_NEW):
            return UNKNOWN
        demand = self._demand(entry, call)
        demand.gather(iter(new.known))
        demand.is_last, demand.may_compute = True, new.computed
        inside = (types, frozenset(new.computed), *new.unknown.items())
        answers, program, values = self._program(entry, demand, call.args, inside)
        if any(answer.by_object for answer in answers.values()):
            return UNKNOWN
        plan = entry.plan_inside(answers, program, new, call)
        launch, _ = plan.launcher(values)
        try:
            with tracing(program, demand):
                out = launch(*call.args, **call.kwargs)
        except NoLongerNew:
            return UNKNOWN
        except Retrace as retrace:  # it uses more than calls did until now
            if retrace.demand is not demand:
                raise
            forget_failed_traces(program.call)
            return UNKNOWN
        except Exception as error:
            if demand.failed_with != id(error):  # while it ran
                raise
            entry.compute_outside()  # it needs concrete values
            return UNKNOWN
        finally:
            demand.settle()
        if entry.may_compute_inside:
            entry.note_inside(plan, values, call)
        self.took(entry, call.tree, program.asks, True)
        return out


def _replaced(answers: Answers, asks: Sequence[Ask]) -> set[Any]:
    """Calls that a trace repeats with different arguments. It would never end: each
    trace makes its own argument, which is equal to no other."""
    old = {call_of(ask) for ask in answers.keys() - {*asks}}
    new = {call_of(ask) for ask in asks if ask not in answers}
    return (old & new) - {None}


def _apart_from(leaves: Sequence[Any], values: list[Any]) -> list[Any]:
    """Values without the arrays of the arguments, and not in their memory: that is
    going to be donated."""
    own = {place for leaf in leaves for place in places_of(leaf)}
    return [x if own.isdisjoint(places_of(x)) else x.copy() for x in values]


def _is_concrete(value: Value, leaves: list[Any]) -> bool:
    """Whether a value is found by concrete arrays: in a call with tracers too."""
    places = (*value.positions, *value.holders, *value.numbers)
    used = leaves if value.by_object else [leaves[i] for i in places]
    return not any(isinstance(x, Tracer) for x in used)


_WORDS_OF_JAX = (
    "_cached_values",
    "donate",
    "GSPMDSharding",  # of a value: JAX doesn't take the result of a callback
    "in_shardings",
    "out_shardings",
    "pjit outputs",
    "valid JAX type",
    programs.__file__,
)
"""In messages about the arguments of a program, its results, and where it is."""


def names_arguments(error: Exception) -> bool:
    """Whether a message of JAX names the arguments of a program, or its results."""
    if isinstance(error, FloatingPointError | CachaxError):
        return False
    return any(words in str(error) for words in _WORDS_OF_JAX)


def name_of(fun: Any) -> str:
    """As reports call it, and its programs by the end of it."""
    while isinstance(fun, functools.partial):
        fun = fun.func
    names = (getattr(fun, name, None) for name in ("__qualname__", "__name__"))
    return next(filter(None, names), type(fun).__qualname__)


def _is_transparent(transform: Any) -> bool:
    """Whether a transform returns what the function returns. A decorator of the user's
    may do something with it."""
    module = getattr(transform, "__module__", "") or ""
    return module.split(".")[0] in ("jax", "equinox")
