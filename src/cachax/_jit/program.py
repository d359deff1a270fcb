"""A function compiled for certain values, and what happens while it is traced."""

import functools
import inspect
import operator
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np

from .._compat import CONCRETE, UNSPECIFIED, Tracer, current_trace
from .._core.calls import signature
from .._core.computed import Argument, running_table
from .._core.levels import traces_in
from .._core.memo import inputs_of, memo_of
from .._core.parts import NUMBERS
from .._core.structure import Structure
from .._errors import LiftError
from .demand import Answers, Demand, Retrace
from .entry import Entry
from .results import About, bring_out


class Unprepared(BaseException):
    """Ends a trace that should not happen: the program is not the one for this call."""


class Running(threading.local):
    """What may be traced in this thread: a program, or a body (`body.py`); and the call
    that this is for."""

    program: Any = None
    demand: Demand | None = None


running = Running()


@contextmanager
def tracing(program: Any, demand: Demand) -> Iterator[None]:
    """In this context, the program may be traced, for this call."""
    outer = (running.program, running.demand)
    running.program, running.demand = program, demand
    try:
        yield
    finally:
        running.program, running.demand = outer


class Program:
    """A function that takes values, if it needs some, and the arguments of the user's
    function, compiled. `function` is a `Function`, which has its programs."""

    def __init__(
        self,
        function: Any,
        entry: Entry,
        answers: Answers,
        args: Any,
        computes_inside: bool = False,
    ) -> None:
        options, self.fun = entry.options, function.fun
        self.asks = tuple(answers)
        self.forms = tuple(answer.packed.form for answer in answers.values())
        self.computes_inside = computes_inside
        self._brings = function.brings
        self._static = options.static
        self._layout = entry.layout
        self._transform = function.transform
        self.takes_values = any(form.holes for form in self.forms)
        self.about: About | None = None
        """What comes out besides the result, if there is something."""
        weakly = weakref.ref(self)  # a cycle would wait for the garbage collector

        def run(*args: Any, **kwargs: Any) -> Any:
            program = weakly()
            if program is None:
                raise Unprepared
            values, args = (args[0], args[1:]) if program.takes_values else ((), args)
            try:
                return program._run(values, args, kwargs)
            except Retrace:
                # Given up. JAX would keep the arrays that the function closes over.
                current_trace().invalidate()
                raise

        run.__name__ = run.__qualname__ = function.name
        _sign(run, self.fun(), self.takes_values)
        _place(run, self.fun())
        given = options.of_program(args) if self.takes_values else {**options.given}
        self._has_tree = self._brings and "out_shardings" in given
        if self._has_tree:
            given["out_shardings"] = {About(): (given["out_shardings"], UNSPECIFIED)}
        self.call: Any = self._transform(run, **given)

    def bound(self, values: Any) -> Callable[..., Any]:
        """The program as a function of the arguments."""
        return functools.partial(self.call, values) if self.takes_values else self.call

    def take(self, result: Any, entry: Entry, args: Any, kwargs: Any) -> Any:
        """What the function returned, given what the program did."""
        about = self.about
        return result if about is None else about.take(result, entry, args, kwargs)

    def _result(self, out: Any, about: About, arrays: Any = ()) -> Any:
        """What the program returns, given the result of the function."""
        about.has_arrays = bool(about.brought) or self._has_tree
        result = (out, arrays) if about.has_arrays else out
        first: About = vars(self).setdefault("_first", about)  # in whatever thread
        if self._has_tree or not (first is about or first.is_like(about)):
            self.about = first
            return {about: result}
        if not first.is_empty:
            self.about = first
        return result

    def _without_trace(self, args: Any, kwargs: Any) -> Any:
        """The same if the function runs as it is."""
        out = self.fun()(*args, **kwargs)
        if not self._brings:
            return out
        self.about = About() if self.about is None else self.about
        return {About(): out}

    def _run(self, values: Any, args: Any, kwargs: Any) -> Any:
        demand: Any = running.demand
        is_mine = demand is not None and running.program is self
        if current_trace() is (demand.outer if is_mine else CONCRETE):
            # No trace: `debug_nans` looks for an operation, or a lifted decorator.
            return self._without_trace(*(demand.call if is_mine else (args, kwargs)))
        if is_mine and self._transform is not jax.jit:
            args, kwargs = _in_places_of(self.fun(), demand.call, args, kwargs)
        tree, _ = self._static.take_out(args, kwargs)
        # (The function may change what is in it, or make it unusable.)
        leaves, structure = jax.tree.flatten(tree)
        if self._transform is not jax.jit:
            if not any(isinstance(x, Tracer) for x in leaves):  # they are the caller's
                return self._without_trace(args, kwargs)
            if is_mine and demand.was_traced:
                raise LiftError(self._transform, "it runs the function twice.")
        is_complete = True
        if is_mine:
            given_tree, _ = self._static.take_out(*demand.call)
            is_complete = _shape(structure) == _shape(jax.tree.structure(given_tree))
        elif self._transform is not jax.jit or _has_own_classes(tree):
            raise Unprepared  # arguments may be in other places, or without a leaf
        if not is_mine or demand.was_traced:
            if self._layout is not None:
                raise Unprepared
            demand = Demand((), (), leaves, False)
        _check_the_same(demand, leaves, values, self._transform)
        try:
            copies = [] if self._layout is None else self._layout.objects(tree)
        except ValueError:  # a class that is rebuilt as a different one
            copies = []
        copies = copies if is_complete else []
        demand.start()
        given = demand.fill(self.asks, values, leaves) if is_complete else {}
        demand.provide_for(copies, given)
        arguments = [
            Argument(copy, inputs_of(copy), provider, is_shared)
            for copy, is_shared in zip(copies, demand.sharing(copies), strict=True)
            if (provider := memo_of(copy).provider) is not None
        ]
        inside: Any = demand if self.computes_inside else None
        if self._brings and not (is_complete and _are_as_given(structure, leaves)):
            leaves, inside = [], None
        try:
            with running_table() as table:
                table.arguments = arguments
                out = self.fun()(*args, **kwargs)
                if not self._brings:
                    demand.check()
                    return out
                given_as = Structure(structure)
                about, arrays = bring_out(out, given_as, leaves, table, copies, inside)
                demand.check()
                return self._result(out, about, arrays)
        except Exception as error:
            demand.check_failed(error)
            raise
        finally:
            given.clear()  # the memo of an object in a value holds them


def _in_places_of(fun: Any, call: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """The arguments by position and by keyword as in the call: equinox passes those by
    position that can be, with those that have defaults."""
    count, names = len(call[0]), [*signature(fun).parameters]
    if len(args) > count:
        others = zip(names[count:], args[count:], strict=False)
        named = {name: x for name, x in others if name in call[1]}
        args, kwargs = args[:count], named | kwargs
    return args, kwargs


def _shape(structure: Any) -> Any:
    """Where the leaves are, without what is static."""
    return [*map(_shape, structure.children())] or structure.num_leaves


def _has_own_classes(tree: Any) -> bool:
    """Whether there is more in it than lists, tuples and dictionaries."""
    builtin = (list, tuple, dict, type(None))
    parts = jax.tree.leaves(tree, is_leaf=lambda x: type(x) not in builtin)
    return not jax.tree_util.all_leaves(parts)


def _are_as_given(structure: Any, leaves: list[Any]) -> bool:
    """Whether these are the leaves that a program takes. A class may compute others
    when it is rebuilt."""
    again = jax.tree.leaves(jax.tree.unflatten(structure, leaves))
    return len(again) == len(leaves) and all(map(operator.is_, again, leaves))


def _sign(run: Any, fun: Any, takes_values: bool) -> None:
    """Give `run` the signature of the user's function, after the values: JAX's messages
    name arguments by it, and static ones are found by it."""
    values = inspect.Parameter("_cached_values", inspect.Parameter.POSITIONAL_ONLY)
    parameters = signature(fun).parameters.values()
    before = [values] if takes_values else []
    run.__signature__ = inspect.Signature([*before, *parameters])


def _place(run: Any, fun: Any) -> None:
    """JAX's messages say where a function is defined: that is the user's function."""
    while isinstance(fun, functools.partial):
        fun = fun.func
    code = getattr(inspect.unwrap(fun), "__code__", None)
    if code is not None:

        def at_its_place() -> None: ...

        at_its_place.__code__ = at_its_place.__code__.replace(
            co_filename=code.co_filename, co_firstlineno=code.co_firstlineno
        )
        at_its_place.__name__ = run.__name__
        run.__wrapped__ = at_its_place


def _check_the_same(
    demand: Demand, leaves: Any, values: Any, transform: Callable[..., Any]
) -> None:
    """Whether a transform gives the function the leaves of the caller, with tracers for
    them and nothing else."""
    if transform is jax.jit:
        return
    if [np.shape(x) for x in leaves] != [np.shape(x) for x in demand.leaves]:
        raise LiftError(transform, "the function gets arrays of different shapes.")
    arrays = [x for x in values if type(x) not in NUMBERS]
    if arrays and not traces_in(leaves) <= traces_in(arrays):
        raise LiftError(
            transform, "it differentiates the function with respect to its arguments."
        )
