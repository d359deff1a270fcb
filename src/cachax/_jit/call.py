"""The path of a call.

A call flattens its arguments once. Their structure finds an `Entry`: which values the
function uses, and where the arrays they came from are among the leaves. The identities
of these arrays find the values, and the compiled program takes `(values, leaves)`. That
is all a warm call does; keywords, many objects, deep models, donation and loops whose
state is new in every step take the same path.

If the values are not known, they are computed on the caller's objects and the function
is traced until it has what it uses (`demand.py`). What the trace learns about results
that are arguments passed through, and about values of returned objects, comes out with
the result (`results.py`).
"""

import functools
import threading
import weakref
from collections.abc import Callable
from itertools import chain
from typing import Any

import jax
import numpy as np
from jax.tree_util import tree_flatten

from .._compat import (
    CONCRETE,
    UNSPECIFIED,
    Tracer,
    current_trace,
    forget_failed_traces,
    jit_is_disabled,
    settings,
    tracing_is_forbidden,
)
from .._core import index
from .._core.body import NewSubject
from .._core.computed import Table, tables
from .._core.fields import instance_dict
from .._core.inputs import NUMBERS, bits_of, look_of
from .._core.levels import traces_in
from .._core.memo import keys_of, memo_of, note_entries
from .._core.recent import Recent
from .._core.slots import layout_of
from .._core.values import is_hashable, static_identity
from .._errors import CachaxError, LiftError
from .demand import (
    Answers,
    Ask,
    Course,
    Demand,
    Map,
    NeedsConcreteNumpy,
    Retrace,
    map_of,
    may_get_fields,
    objects_in,
)
from .notes import note_argument
from .options import Options, picking
from .results import About, Result, bring_out

_TRIES = 8
"""Traces that bring nothing new, until a function that never uses the same values twice
has to compute inside what it was not given."""

_MANY_NEW = 8
"""Calls in a row for which values had to be computed, until the function is compiled
once more to compute them inside."""


class Unprepared(BaseException):
    """Ends a trace that should not happen: the program is not the one for this call."""


class Need:
    """A value that a program takes, and how to find it."""

    __slots__ = (
        "ask",
        "bits",
        "inner",
        "key",
        "numbers",
        "pick",
        "positions",
        "statics",
    )

    def __init__(self, ask: Ask, value: Any, leaves: list[Any]) -> None:
        self.ask = ask
        self.key = ask[1]
        self.positions = value.positions
        self.numbers = value.numbers
        self.statics = value.statics
        self.inner = value.inner
        self.bits = [_bits(leaves[i]) for i in value.numbers]
        self.pick = picking(value.positions)


class Ready:
    """A program, and the values it takes for certain arrays."""

    __slots__ = ("call", "held", "program", "values")

    def __init__(self, program: "Program", values: Any, held: Any) -> None:
        self.program = program
        self.held = held
        """Static parts whose ids it is found by."""
        self.call = program.call
        self.values = values


class Entry:
    """What a function has learned about arguments of one structure."""

    def __init__(self, function: "Function", tree: Any, structure: Any, statics: Any):
        self.function = weakref.ref(function)
        self.structure = structure
        self.statics = statics
        self.keeps_programs = function.keeps_programs
        self.layout = layout_of(tree)
        self.maps: list[Map | None] = []
        self.is_open: list[bool] = []
        """Which objects can get fields that are not in their tree structure."""
        if self.layout is not None:
            objects = self.layout.objects(tree)
            spans = self.layout.spans(tree)
            pairs = zip(objects, spans, strict=True)
            self.maps = [map_of(obj, span.start) for obj, span in pairs]
            self.is_open = [may_get_fields(obj) for obj in objects]
        args, kwargs = function.options.static.put_back(tree, statics or ())
        donated = function.options.donated_leaves(args, kwargs)
        self.pick_donated = picking(donated)
        kept = [i for i in range(structure.num_leaves) if i not in donated]
        self.pick_kept = picking(kept)
        self.donated = donated
        self.kept = kept
        self.shardings = function.options.leaf_shardings(tree)
        self.courses: dict[Any, Course] = Recent()
        self.programs: dict[Any, Any] = Recent(64)
        self.by_object = False
        """Whether a value belongs to an object, so that its arrays don't find it."""
        self.needs: tuple[Need, ...] = ()
        self.program: Any = None
        """The one that the last call took; None if it can't be relied on."""
        self.settings: Any = None
        """Of the last call that was looked at closely."""
        self.ready: dict[Any, Ready] = {}
        self.positions: tuple[int, ...] = ()
        self.numbers: tuple[int, ...] = ()
        self.key_of: Callable[[list[Any], Any], Any] = _no_key
        self.read_statics: Callable[[Any], list[Any]] | None = None
        """Reads the numbers that are static parts: for JAX, 2 and 2.0 are the same
        structure."""
        self.static_bits: Any = None
        self.by_signature = False
        """Whether calls with the same arrays take different programs."""
        self.mistaken = False
        """Whether the last call was first tried with a wrong program."""
        self.last: Any = None
        self.static_numpy = False
        self.inside_asks: set[Ask] = set()
        """What can't be an input, unless the user supplies a value that can."""
        self.new_in_a_row = 0
        self.inside: Any = None
        """A program that computes the values itself."""

    def expect(self, needs: tuple[Need, ...], program: Any) -> None:
        """Calls like this one use these values."""
        is_kept = self.keeps_programs
        self.program, self.settings = program if is_kept else None, settings()
        self.needs = needs
        positions = {*self.positions, *chain.from_iterable(n.positions for n in needs)}
        numbers = {*self.numbers, *chain.from_iterable(n.numbers for n in needs)}
        if positions != {*self.positions} or numbers != {*self.numbers}:
            self.positions, self.numbers = tuple(sorted(positions)), tuple(numbers)
            self.ready.clear()
        self.key_of = self._new_key()

    def note(
        self,
        answers: Answers,
        program: Any,
        traced: bool,
        leaves: list[Any],
        tree: Any,
    ) -> None:
        """What a call used, and which program it took."""
        by_object = any(answer.by_object for answer in answers.values())
        by_object |= any(key.was_supplied for _, key in self.inside_asks)
        if by_object != self.by_object:
            self.by_object = by_object
            self.needs = ()
        if self.mistaken and not traced:  # there was a program, and not that one
            self.by_signature = True
            self.ready.clear()
            self.needs = ()
        self.mistaken = False
        slots = {
            slot
            for (slot, _), x in answers.items()
            if isinstance(slot, int) and (x.has_static_numbers or self.is_open[slot])
        }
        self.read_statics = self._reading_statics(slots, tree)
        if self.read_statics is not None:
            self.static_bits = [*map(static_identity, self.read_statics(tree))]
        needs = tuple(Need(ask, x, leaves) for ask, x in answers.items())
        self.expect(needs, program)

    def _reading_statics(
        self, slots: set[Any], tree: Any
    ) -> Callable[[Any], list[Any]] | None:
        objects = [] if self.layout is None else self.layout.objects(tree)
        readers = [_fields_reader(objects[slot], tree, slot, self) for slot in slots]
        if not any(readers):
            return None
        return lambda tree: [x for read in readers if read for x in read(tree)]

    def _new_key(self) -> Callable[[list[Any], Any], Any]:
        """By the ids of the arrays; of other things only where they count."""
        pick, numbers = picking(self.positions), self.numbers

        def by_arrays(leaves: list[Any], tree: Any) -> Any:
            return (*map(id, pick(leaves)),)

        def by_more(leaves: list[Any], tree: Any) -> Any:
            read, is_detailed = self.read_statics, self.by_signature
            return (
                *map(id, pick(leaves)),
                *(_bits(leaves[i]) for i in numbers),
                *(map(id, read(tree)) if read else ()),
                *(signature_of(leaves) if is_detailed else ()),
            )

        if self.by_object:
            return _no_key
        if self.by_signature or numbers or self.read_statics:
            return by_more
        if len(self.positions) == 1:
            (place,) = self.positions
            return lambda leaves, tree: id(leaves[place])
        return by_arrays if self.positions else _one_key

    def look_up(self, leaves: list[Any], tree: Any) -> Any:
        """The values for these leaves; None if one of them is not known."""
        if self.program is None or self.by_object or self.settings != settings():
            return None
        read = self.read_statics
        if read and self.static_bits != [*map(static_identity, read(tree))]:
            return None
        values: list[Any] = []
        forms = self.program.forms
        for need, form in zip(self.needs, forms, strict=True):
            ids = (*map(id, need.pick(leaves)),)
            if need.numbers and need.bits != [_bits(leaves[i]) for i in need.numbers]:
                return None
            record = index.find(need.key, ids, need.statics)
            if record is None or record.packed is None:
                return None
            packed = record.packed.get(self.static_numpy)
            if packed is None or (packed.form is not form and packed.form != form):
                return None
            values += packed.arrays
        return values

    def keep(self, leaves: list[Any], tree: Any, key: Any, values: Any) -> None:
        """Have the values for these arrays ready, as long as the arrays are there. Only
        if they are used twice: in a loop they are new in every step."""
        ready, arrays = self.ready, picking(self.positions)(leaves)
        if not all(isinstance(x, jax.Array) for x in arrays):
            return
        held = self.read_statics(tree) if self.read_statics else ()
        ready[key] = Ready(self.program, values, held)
        for array in arrays:
            index.ref_of(array).calls.append(_removing(ready, key))


def _removing(ready: dict[Any, Any], key: Any) -> Callable[[], None]:
    return lambda: ready.pop(key, None)


def _no_key(leaves: list[Any], tree: Any) -> Any:
    return None


def _one_key(leaves: list[Any], tree: Any) -> Any:
    return ()


def _fields_reader(
    obj: Any, tree: Any, slot: int, entry: Entry
) -> Callable[[Any], list[Any]] | None:
    """Reads the fields of an argument that may hold static numbers."""
    if not type(obj).__dictoffset__:
        return None
    fields = instance_dict(obj, "__dict__")
    names = [n for n, x in fields.items() if type(x) in (*NUMBERS, tuple)]
    if not names and not may_get_fields(obj):
        return None
    args, kwargs = tree
    place: Any = next((i for i, x in enumerate(args) if x is obj), None)
    part = 0
    if place is None:
        part, place = 1, next((k for k, x in kwargs.items() if x is obj), None)
    if place is not None:  # an argument itself, as most are
        return lambda tree: _read(tree[part][place], names)
    layout: Any = entry.layout
    return lambda tree: _read(layout.objects(tree)[slot], names)


def _read(obj: Any, names: list[str]) -> list[Any]:
    fields = instance_dict(obj, "__dict__")
    return [*fields, *map(fields.get, names)]


def _bits(number: Any) -> Any:
    return bits_of(number) if type(number) in NUMBERS else None


def signature_of(leaves: list[Any]) -> Any:
    """What of the leaves a trace can see: shapes and dtypes."""
    return tuple(
        look_of(x) if hasattr(x, "shape") and hasattr(x, "dtype") else type(x)
        for x in leaves
    )


class Program:
    """A function compiled for certain values, and leaves of one structure."""

    def __init__(self, entry: Entry, answers: Answers, computes_inside: bool) -> None:
        self.asks = tuple(answers)
        self.forms = tuple(answer.packed.form for answer in answers.values())
        self.computes_inside = computes_inside
        self.returned: list[tuple[int, int]] = []
        """Which objects of the result are which of the arguments."""
        self.call = _compile(self, entry)


class _Running(threading.local):
    """The call that a program may be traced for in this thread."""

    program: Program | None = None
    demand: Demand | None = None


_running = _Running()


def _compile(program: Program, entry: Entry) -> Any:
    function: Function = entry.function()  # type: ignore[assignment]
    options = function.options
    transform = function.transform
    fun = function.fun  # a weak reference, for a function that is shared
    structure, statics, layout = entry.structure, entry.statics, entry.layout
    kept, donated = entry.kept, entry.donated
    keeps_tree = "out_shardings" in options.others
    brings = function.brings

    def run(_cached_values: Any, _leaves_: Any, _leaves_donated: Any = ()) -> Any:
        values, leaves, given = _cached_values, _leaves_, _leaves_donated
        demand: Any = _running.demand
        if donated:
            leaves = _in_order(kept, leaves, donated, given)
        is_mine = demand is not None and _running.program is program
        if current_trace() is (demand.outer if is_mine else CONCRETE):
            # No trace: `debug_nans` looks for an operation, or a lifted decorator.
            tree = demand.tree if is_mine else structure.unflatten(leaves)
            args, kwargs = options.static.put_back(tree, statics) if statics else tree
            return fun()(*args, **kwargs)
        if not is_mine or demand.was_traced:
            raise Unprepared
        _check_the_same(demand, leaves, values, transform)
        table = Table(current_trace())
        tree = structure.unflatten(leaves)
        try:
            copies = [] if layout is None else layout.objects(tree)
        except ValueError:  # a class that is rebuilt as a different one
            copies = []
        demand.start()
        if not program.computes_inside:
            demand.provide_for(copies, demand.fill(program.asks, values, leaves))
            table.arguments = [*zip(copies, demand.sharing(), strict=False)]
        args, kwargs = options.static.put_back(tree, statics) if statics else tree
        tables.running.append(table)
        try:
            out = fun()(*args, **kwargs)
            demand.check()
            if not brings:
                return out
            program.returned = [
                (place, slot)
                for place, x in enumerate(objects_in(out))
                for slot, copy in enumerate(copies)
                if x is copy
            ]
            arguments = copies if program.computes_inside else []
            return bring_out(out, leaves, table, arguments, keeps_tree)
        except Exception as error:
            demand.check_failed(error)
            raise
        finally:
            tables.running.remove(table)
            demand.end()

    run.__name__ = run.__qualname__ = function.name
    return transform(run, **_options(entry, function))


def _options(entry: Entry, function: "Function") -> dict[str, Any]:
    """Those of the function, for a program that takes lists of leaves."""
    options = dict(function.options.others)
    if "out_shardings" in options:
        nothing = About(None, (), ())
        options["out_shardings"] = Result(
            options["out_shardings"], UNSPECIFIED, nothing
        )
    if entry.donated:
        options["donate_argnums"] = (2,)
    if entry.shardings is not None:
        shardings = [entry.shardings[i] for i in entry.kept]
        given = [entry.shardings[i] for i in entry.donated]
        options["in_shardings"] = (UNSPECIFIED, shardings, *([given] if given else []))
    return options


def _in_order(kept: Any, leaves: Any, donated: Any, given: Any) -> list[Any]:
    both = dict(zip(kept, leaves, strict=True)) | dict(zip(donated, given, strict=True))
    return [both[i] for i in sorted(both)]


def _check_the_same(
    demand: Demand, leaves: Any, values: Any, transform: Callable[..., Any]
) -> None:
    """Whether a transform gives the function the leaves of the caller, with tracers for
    them and nothing else."""
    if transform is jax.jit:
        return
    if [np.shape(x) for x in leaves] != [np.shape(x) for x in demand.leaves]:
        raise LiftError(transform, "the function gets arrays of different shapes.")
    if values and not traces_in(leaves) <= traces_in(values):
        raise LiftError(
            transform, "it differentiates the function with respect to its arguments."
        )


class Function:
    """What is behind a function that `cachax.jit` returns: what it has learned."""

    def __init__(
        self,
        fun: Callable[..., Any],
        options: dict[str, Any],
        transform: Callable[..., Any],
    ) -> None:
        self.fun: Callable[[], Any] = _weakly(fun)
        """A weak reference: see `_function_for` in `jit.py`."""
        self.name = name_of(fun).rpartition(".")[2]
        self.qualname = name_of(fun)
        self.options = Options(fun, options)
        self.transform = transform
        self.brings = transform is jax.jit or _is_transparent(transform)
        self.keeps_programs = transform is jax.jit or hasattr(
            transform(lambda: None), "lower"
        )
        self.entries: dict[Any, Entry] = Recent()
        note_entries(self)

    def forget(self) -> None:
        """Start again, as if it had not been called."""
        self.entries.clear()

    def call(self, plain: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """A call that was not prepared by one like it."""
        options = self.options
        tree, statics = (args, kwargs), None
        if options.static:
            tree, statics = options.static.take_out(args, kwargs)
        if jit_is_disabled() or not options.is_flat:
            return plain(*args, **kwargs)
        try:
            leaves, structure = tree_flatten(tree)
        except Exception:  # JAX says best what is wrong
            return plain(*args, **kwargs)
        key = structure if statics is None else (structure, statics)
        if statics is not None and not is_hashable(statics):
            return plain(*args, **kwargs)
        try:
            entry = self.entries.get(key)
            if entry is None:
                entry = self.entries[key] = Entry(self, tree, structure, statics)
        except Exception:  # as above
            return plain(*args, **kwargs)
        key = entry.key_of(leaves, tree)
        return self.call_entry(entry, tree, leaves, key, plain, args, kwargs)

    def call_entry(
        self,
        entry: Entry,
        tree: Any,
        leaves: list[Any],
        key: Any,
        plain: Callable[..., Any],
        args: Any,
        kwargs: Any,
    ) -> Any:
        """A call with arguments of a known structure: with values that are known for
        these arrays, or that are to be computed."""
        is_incomplete = False
        try:
            values = entry.look_up(leaves, tree)
            if values is not None:
                out = self._call_known(entry, tree, leaves, key, values)
                if out is not _UNKNOWN:
                    return out
            return self._call_learning(entry, tree, leaves)
        except NewSubject:
            if tables.running:  # further out they must be found first
                raise
            is_incomplete = True
        except Exception as error:
            if not names_arguments(error):
                raise
        if is_incomplete:  # not in there, or errors would seem to come of it
            return self.call(plain, args, kwargs)
        # JAX's message names the leaves of a flat list: have it name the arguments. If
        # it works (a donated buffer was also part of a value), all the better.
        try:
            return plain(*args, **kwargs)
        except TypeError as error:
            note_argument(error, self.fun(), args, kwargs, self.options.static)
            raise

    def _call_known(
        self, entry: Entry, tree: Any, leaves: list[Any], key: Any, values: Any
    ) -> Any:
        program = entry.program
        try:
            out = _run(entry, program, values, leaves)
        except Unprepared:
            forget_failed_traces(program.call)
            entry.mistaken = True
            return _UNKNOWN
        entry.new_in_a_row = 0
        if key is not None and (key == entry.last or not entry.positions):
            entry.keep(leaves, tree, key, values)
        else:
            entry.last = key
        self.took(entry, tree, program.asks)
        return out

    def _call_learning(self, entry: Entry, tree: Any, leaves: list[Any]) -> Any:
        """With values that are to be computed, or a function to be traced."""
        objects = [] if entry.layout is None else entry.layout.objects(tree)
        if self._computes_inside(entry, objects, leaves):
            out = self._call_computing_inside(entry, leaves)
            if out is not _UNKNOWN:
                self.took(entry, tree, [need.ask for need in entry.needs], True)
                return out
        signature = signature_of(leaves)
        course = entry.courses.get(signature) or Course()
        asks: Any = None
        known: set[Ask] = set()
        tries_left = _TRIES
        computed = traced = False
        while True:
            demand = Demand(objects, entry.maps, leaves, entry.static_numpy)
            demand.tree = tree
            demand.gather(course.asks(demand.answers) if asks is None else iter(asks))
            demand.gather(ask for ask in entry.inside_asks if ask[1].was_supplied)
            demand.is_last = tries_left == 0
            answers = demand.in_order()
            program = self._program(entry, answers)
            values = [x for answer in answers.values() for x in answer.packed.arrays]
            outer = (_running.program, _running.demand)
            _running.program, _running.demand = program, demand
            try:
                out = _run(entry, program, values, leaves)
                break
            except Retrace as retrace:
                if retrace.demand is not demand:  # the end of a trace further out
                    raise
                forget_failed_traces(program.call)
                asks = retrace.asks
            except NeedsConcreteNumpy:
                entry.static_numpy = True
                asks = [*answers]
            finally:
                _running.program, _running.demand = outer
                computed |= demand.computed
                traced |= demand.was_traced
                entry.inside_asks |= demand.computed_inside
                demand.settle()
            tries_left -= known.issuperset(asks)
            known.update(asks)
        if traced:
            entry.courses.setdefault(signature, Course()).learn(
                answers, [*demand.asked]
            )
        entry.new_in_a_row = entry.new_in_a_row + 1 if computed else 0
        if not any(isinstance(x, Tracer) for x in leaves):
            entry.note(answers, program, traced, leaves, tree)
            entry.last = entry.key_of(leaves, tree)
            if not entry.positions and entry.last is not None and entry.program:
                entry.keep(leaves, tree, entry.last, values)
            self._pass_on_supplied(program, objects, out)
        self.took(entry, tree, program.asks)
        return out

    def _pass_on_supplied(self, program: Program, objects: list[Any], out: Any) -> None:
        """An object that is returned as it is keeps the values that were assigned."""
        for place, slot in program.returned:
            owner = objects[slot]
            keys: Any = keys_of(type(owner)).values()
            for key in keys:
                if key.was_supplied and key.is_supplied(owner):
                    layout: Any = layout_of((out,))
                    new = layout.objects((out,))[place]
                    memo_of(new).supply(key, key.peek(owner, None))

    def took(self, entry: Entry, tree: Any, asks: Any, is_inside: bool = False) -> None:
        """Which values a call took. Does nothing; reports wrap it."""

    def _program(self, entry: Entry, answers: Answers) -> Program:
        key = tuple(
            (ask, x.packed.form, x.looks, x.is_supplied) for ask, x in answers.items()
        )
        program = entry.programs.get((key, settings()))
        if program is None:
            program = entry.programs[key, settings()] = Program(entry, answers, False)
        return program

    def _computes_inside(
        self, entry: Entry, objects: list[Any], leaves: list[Any]
    ) -> bool:
        """Whether the objects of a call are new, like those of the calls before."""
        if entry.new_in_a_row < _MANY_NEW or entry.inside is _UNKNOWN:
            return False
        if entry.by_object or not entry.needs or current_trace() is not CONCRETE:
            return False
        if entry.inside is None and (
            tracing_is_forbidden()
            or any(need.statics[2] for need in entry.needs)  # JAX sorts keys
            or any(type(x) in NUMBERS or isinstance(x, Tracer) for x in leaves)
        ):
            return False
        return all(_is_new(need, objects, leaves) for need in entry.needs)

    def _call_computing_inside(self, entry: Entry, leaves: list[Any]) -> Any:
        """For objects that are new at every call: to compute their values beforehand
        would launch a program for each."""
        if entry.inside is None:
            entry.inside = Program(entry, {}, True)
        demand = Demand((), (), leaves, False)
        demand.is_last = True
        outer = (_running.program, _running.demand)
        _running.program, _running.demand = entry.inside, demand
        try:
            return _run(entry, entry.inside, [], leaves)
        except Exception as error:
            if demand.failed_with != id(error):  # while it ran
                raise
            entry.inside = _UNKNOWN  # it needs concrete values
            return _UNKNOWN
        finally:
            _running.program, _running.demand = outer


_UNKNOWN: Any = object()


def _is_new(need: Need, objects: list[Any], leaves: list[Any]) -> bool:
    """Whether nothing is known of a value, nor of those that its body reads."""
    slot, key = need.ask
    if need.inner is None or not isinstance(slot, int) or need.numbers:
        return False
    if key.attrname in getattr(objects[slot], "__dict__", ()):  # supplied by the user
        return False
    inner = ((key, need.positions), *need.inner)
    return not any(
        index.candidates(key, (*(id(leaves[i]) for i in places),))
        for key, places in inner
    )


def _run(entry: Entry, program: Program, values: Any, leaves: list[Any]) -> Any:
    if entry.donated:
        kept, donated = entry.pick_kept(leaves), entry.pick_donated(leaves)
        out = program.call(values, kept, donated)
    else:
        out = program.call(values, leaves)
    return out.take(leaves) if type(out) is Result else out


_WORDS_OF_JAX = ("_cached_values", "_leaves_", "donate", "valid JAX type")
"""In messages about the arguments of a program, and its results."""


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


def _weakly(fun: Any) -> Callable[[], Any]:
    try:
        return weakref.ref(fun)
    except TypeError:
        return lambda: fun


def _is_transparent(transform: Any) -> bool:
    """Whether a transform returns what the function returns. A decorator of the user's
    may do something with it."""
    module = getattr(transform, "__module__", "") or ""
    return module.split(".")[0] in ("jax", "equinox")
