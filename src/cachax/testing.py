"""Check that the laws hold for your own classes.

`check_laws` does that. The other functions are used by the programs that it shows.
"""

import contextlib
import copy
import dataclasses
import gc
import inspect
import pickle
import re
import sys
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import cachax

from ._check.alike import altered as altered
from ._check.alike import assigning as assigning
from ._check.alike import cold as cold
from ._check.alike import fields as fields
from ._check.alike import is_floating
from ._check.alike import looks as looks
from ._check.alike import variants as variants
from ._check.compare import Tolerance, difference
from ._check.globals import function_of, globals_of
from ._check.laws import AFRESH, GLOBAL, ITSELF, TRIALS, Trial
from ._check.shown import shown
from ._compat import is_jitted
from ._core.computed import Computed
from ._core.memo import keys_of
from ._core.slots import is_pytree
from ._errors import (
    CachaxError,
    NotKeptWarning,
    StaleValueError,
    UnknownPropertyError,
    plain_name,
    warning_again,
)
from ._watch import watching

_NUMBERS = (jax.Array, np.ndarray, np.generic, bool, int, float, complex)


@dataclasses.dataclass(frozen=True)
class Finding:
    """A law that does not hold.

    Example:
        >>> from cachax import testing
        >>> print(testing.Finding(1, "once", "mean", "It ran twice.", "..."))
        mean: once
          It ran twice.
        <BLANKLINE>
            ...
    """

    law: int
    """The number of the law."""
    title: str
    """What was checked."""
    property: str
    """The name of the property."""
    why: str
    """What is wrong, and what to do about it."""
    program: str
    """The smallest program that shows it. It raises."""

    def __str__(self) -> str:
        lines = [f"{self.property}: {self.title}", f"  {self.why}", ""]
        return "\n".join([*lines, *(f"    {x}" for x in self.program.splitlines())])


@dataclasses.dataclass(frozen=True)
class NotTried:
    """A check that could not be made.

    Example:
        >>> from cachax import testing
        >>> print(testing.NotTried("pickled", "mean", "the class can't be pickled"))
        mean: pickled: the class can't be pickled
    """

    title: str
    """What was to be checked."""
    property: str
    """The name of the property."""
    why: str
    """The reason."""

    def __str__(self) -> str:
        return f"{self.property}: {self.title}: {self.why}"


@dataclasses.dataclass(frozen=True)
class Report:
    """The result of `check_laws`. `print` shows it.

    Example:
        >>> import cachax
        >>> class Square:
        ...     @cachax.cached_property
        ...     def area(self):
        ...         return 9
        >>> report = cachax.testing.check_laws(Square())
        >>> report.owner, report.properties, report.findings
        ('Square', ('area',), ())
    """

    owner: str
    """The name of the class."""
    properties: tuple[str, ...]
    """The names of the properties."""
    findings: tuple[Finding, ...]
    """The laws that don't hold."""
    not_tried: tuple[NotTried, ...]
    """The checks that could not be made."""
    held: int
    """How many checks found nothing."""

    @property
    def ok(self) -> bool:
        """Whether all laws hold."""
        return not self.findings

    def __str__(self) -> str:
        of = ", ".join(self.properties) or "no cached property"
        count = f"{self.held} held, {len(self.findings)} did not"
        text = [f"The laws on {self.owner} ({of}): {count}."]
        text += [str(finding) for finding in self.findings]
        if self.not_tried:
            text.append("\n".join(["Not tried:", *self._reasons()]))
        return "\n\n".join(text)

    def _reasons(self) -> list[str]:
        """Each one once, with all that was not tried for it."""
        titles: dict[tuple[str, str], list[str]] = {}
        for each in self.not_tried:
            titles.setdefault((each.property, each.why), []).append(each.title)
        return [
            f"  {name}: {why}\n    ({'; '.join(those)})"
            for (name, why), those in titles.items()
        ]


class LawsError(CachaxError, AssertionError):
    """Laws don't hold for an object. `report` has each of them.

    Example:
        >>> import itertools, cachax
        >>> class Counter:
        ...     numbers = itertools.count()
        ...     @cachax.cached_property
        ...     def number(self):
        ...         return next(self.numbers)
        >>> try:
        ...     cachax.testing.check_laws(Counter())
        ... except cachax.testing.LawsError as error:
        ...     print(error.report.findings[0].property)
        number
    """

    def __init__(self, report: Report) -> None:
        super().__init__(str(report))
        self.report = report
        """The report."""


def check_laws(
    obj: Any, *names: str, constants: Iterable[str] = (), raises: bool = True
) -> Report:
    """Check that the laws hold for an object, on copies of it.

    A global that a body depends on is found by changing it for a moment. If it never
    changes, declare it `Final` where it is defined, or name it in `constants`.

    Args:
        obj: An object of your class.
        *names: The names of cached properties; all of them, if there are none.
        constants: The names of globals that never change.
        raises: Whether to raise an error if a law doesn't hold.

    Returns:
        A report. `ok` says whether all laws hold.

    Raises:
        LawsError: A law doesn't hold. The message says which, for which property, why,
            and shows the smallest program in which it fails.
        UnknownPropertyError: The class has no cached property of this name.

    Example:
        >>> import dataclasses, jax, jax.numpy as jnp, cachax
        >>> from cachax import testing
        >>> @jax.tree_util.register_dataclass
        ... @dataclasses.dataclass(frozen=True)
        ... class Line:
        ...     x: jax.Array
        ...
        ...     @cachax.cached_property
        ...     def mean(self):
        ...         return jnp.mean(self.x)
        >>> testing.check_laws(Line(jnp.array([1.0, 3.0]))).ok
        True
    """
    keys = keys_of(type(obj))
    for name in names:
        if name not in keys:
            raise UnknownPropertyError(type(obj), name, keys)
    checks = _Checks(obj, frozenset(constants))
    for name in names or keys:
        checks.try_property(name)
    report = checks.report(names or tuple(keys))
    if raises and not report.ok:
        raise LawsError(report)
    return report


class _Checks:
    """The checks of one object."""

    def __init__(self, obj: Any, constants: frozenset[str]) -> None:
        self._obj = obj
        self._constants = constants
        self._is_tree = is_pytree(obj)
        self._findings: list[Finding] = []
        self._not_tried: list[NotTried] = []
        self._held = 0

    def report(self, names: tuple[str, ...]) -> Report:
        return Report(
            plain_name(type(self._obj)),
            names,
            tuple(self._findings),
            tuple(self._not_tried),
            self._held,
        )

    def try_property(self, name: str) -> None:
        error = self._run("obj.{p}", name)
        if error is not None:
            raises = "" if _says_so_itself(error) else "the body raises "
            self._skip("all except 9", name, f"{raises}{_words(error)}")
            self._try(ITSELF, name)
            return
        for trial in TRIALS:
            if trial.of_trees and not self._is_tree:
                self._skip(trial.name, name, "JAX does not know the class")
            elif not self._try(trial, name) and trial.is_cause:
                self._skip("all else", name, "it would fail for the same reason")
                return
        self._try_globals(name)

    def _try(self, trial: Trial, name: str) -> bool:
        """Whether the law holds, or can't be checked."""
        if trial.baseline:
            error = self._run(trial.baseline, name)
            if error is not None:
                why = f"without a cache it fails too, {_words(error)}"
                return self._skip(trial.name, name, why)
        error = self._run(trial.program, name)
        if error is None:
            self._held += 1
            return True
        if _says_so_itself(error):
            return self._skip(trial.name, name, _words(error))
        self._find(trial, name, self._why(trial, error), trial.program)
        return False

    def _try_globals(self, name: str) -> None:
        body = getattr(type(self._obj), name).func
        func = function_of(body)
        if func is None:
            return
        for each in sorted(globals_of(func) - self._constants):
            program = GLOBAL.program.replace("{name}", each)
            if is_jitted(body):
                start, end = program.rsplit("    obj.{p}", 1)
                program = f"{start}{AFRESH}    obj.{{p}}{end}"
            before = func.__globals__[each]
            try:
                error = self._run(program, name)
            finally:
                func.__globals__[each] = before
                if is_jitted(body):
                    body.clear_cache()
            if error is None:
                self._held += 1
            elif isinstance(error, StaleValueError):
                why = (
                    f"The body uses the global {each!r}. When that changes, the cached "
                    "value is stale. Make it a field of the object. If it never "
                    f"changes, declare it `{each}: Final = ...` or pass "
                    f"`constants=[{each!r}]`."
                )
                self._find(GLOBAL, name, why, program)
            else:
                self._skip(f"{GLOBAL.name}: {each}", name, _words(error))

    def _run(self, program: str, name: str) -> Exception | None:
        """What it raises, on a fresh object."""
        scope = {**_SCOPE, "obj": cold(self._obj)}
        code = compile(program.format(p=name), f"<law of {name}>", "exec")
        with warnings.catch_warnings(), warning_again():
            warnings.simplefilter("error", NotKeptWarning)
            try:
                exec(code, scope)
            except Exception as error:
                error.__traceback__ = None  # it holds the object
                return error
        return None

    def _skip(self, title: str, name: str, why: str) -> bool:
        self._not_tried.append(NotTried(title, name, why))
        return True

    def _find(self, trial: Trial, name: str, why: str, program: str) -> None:
        runnable = shown(self._obj, program.format(p=name))
        self._findings.append(Finding(trial.law, trial.name, name, why, runnable))

    def _why(self, trial: Trial, error: Exception) -> str:
        lost = _lost_fields(self._obj) if self._is_tree else []
        if lost and trial.title == "rebuilt by JAX":
            fields = ", ".join(map(repr, lost))
            return (
                f"The field {fields} is lost or changed when JAX flattens and rebuilds "
                "the object. Its flatten function must return all fields, and its "
                f"unflatten function must set them. ({_words(error)})"
            )
        if trial.title == "the fields after a read":
            return (
                f"The body changes its object. {error} A body must only read: inside "
                "jit it runs on a different object, or not at all."
            )
        if isinstance(error, AssertionError | StaleValueError):
            return str(error)
        return _words(error)


def _says_so_itself(error: Exception) -> bool:
    """Whether cachax itself reports what it can't do: that is law 9, not a failure."""
    if isinstance(error, NotKeptWarning):
        return True
    allowed = not isinstance(error, StaleValueError | cachax.LeakedTracerError)
    return isinstance(error, CachaxError) and allowed


def _words(error: Exception) -> str:
    first = re.sub(r" at 0x[0-9a-f]+", "", str(error).strip().split("\n")[0])
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def _lost_fields(obj: Any) -> list[str]:
    try:
        before, after = fields(obj), fields(jax.tree.map(lambda x: x, obj))
    except Exception:
        return []
    return [
        name
        for name, value in before.items()
        if name not in after or difference(after[name], value) is not None
    ]


def check_same(one: Any, other: Any) -> None:
    """Raise an error if two values differ by more than rounding.

    Args:
        one: A value.
        other: A value.

    Raises:
        AssertionError: They differ.

    Example:
        >>> from cachax import testing
        >>> testing.check_same({"x": 1.0}, {"x": 1.0 + 1e-12})
        >>> testing.check_same([1.0], [2.0])
        Traceback (most recent call last):
            ...
        AssertionError: The largest difference is 1 at [0].
    """
    found = difference(one, other, Tolerance(rounding=True))
    if found is not None:
        raise AssertionError(str(found))


def arrays(value: Any) -> list[Any]:
    """The numbers in a value, as arrays that a jitted function can return.

    Args:
        value: A pytree.

    Returns:
        The arrays and numbers among its leaves.

    Example:
        >>> from cachax import testing
        >>> testing.arrays({"a": 1.0, "b": "text"})
        [Array(1., dtype=float32, weak_type=True)]
    """
    leaves = jax.tree.leaves(value)
    return [jnp.asarray(x) for x in leaves if _is_numeric(x)]


def _is_numeric(leaf: Any) -> bool:
    if isinstance(leaf, np.ndarray | np.generic):
        return leaf.dtype.kind in "biufc"
    return isinstance(leaf, _NUMBERS)


def total(value: Any) -> Any:
    """The sum of the floating-point numbers in a value, to be differentiated.

    Args:
        value: A pytree.

    Returns:
        The sum.

    Raises:
        TypeError: There are no floating-point numbers in it.

    Example:
        >>> from cachax import testing
        >>> testing.total({"a": 1.0, "b": "text", "c": 2.0})
        Array(3., dtype=float32)
    """
    found = [x for x in arrays(value) if jnp.issubdtype(x.dtype, jnp.floating)]
    if not found:
        raise TypeError("there are no floating-point numbers in the value")
    return sum(jnp.sum(x) for x in found)


def gradient(fun: Callable[[Any], Any], obj: Any) -> list[Any]:
    """A gradient with respect to the floating-point leaves of an object.

    Args:
        fun: A function of the object that returns a number.
        obj: The object, a pytree.

    Returns:
        A list of gradients, one for each floating-point leaf.

    Raises:
        TypeError: The object has no floating-point leaves.

    Example:
        >>> from cachax import testing
        >>> testing.gradient(lambda d: d["x"] ** 2, {"n": 1, "x": 3.0})
        [Array(6., dtype=float32, weak_type=True)]
    """
    leaves, structure = jax.tree.flatten(obj)
    places = [i for i, x in enumerate(leaves) if is_floating(x)]
    if not places:
        raise TypeError("there are no floating-point numbers among the leaves")

    def of_them(given: list[Any]) -> Any:
        filled = [*leaves]
        for i, x in zip(places, given, strict=True):
            filled[i] = x
        return fun(jax.tree.unflatten(structure, filled))

    found: list[Any] = jax.grad(of_them)([jnp.asarray(leaves[i]) for i in places])
    return found


@contextlib.contextmanager
def computations(obj: Any, name: str) -> Iterator[list[int]]:
    """Count how often the body of a property runs for an object.

    Args:
        obj: The object.
        name: The name of the property.

    Returns:
        A context manager that gives a list, with a 1 for each run.

    Example:
        >>> import cachax
        >>> class Square:
        ...     @cachax.cached_property
        ...     def area(self):
        ...         return 9
        >>> square = Square()
        >>> with cachax.testing.computations(square, "area") as runs:
        ...     square.area, square.area
        (9, 9)
        >>> runs
        [1]
    """
    runs: list[int] = []
    wanted = keys_of(type(obj))[name]
    ref = weakref.ref(obj)

    def counting(evaluate: Callable[..., Any]) -> Callable[..., Any]:
        def evaluating(key: Any, of: Any, inputs: Any) -> Any:
            if key is wanted and of is ref():
                runs.append(1)
            return evaluate(key, of, inputs)

        return evaluating

    with watching({(Computed, "evaluate"): counting}):
        yield runs


_SCOPE = {
    "ThreadPoolExecutor": ThreadPoolExecutor,
    "cachax": cachax,
    "copy": copy,
    "gc": gc,
    "inspect": inspect,
    "jax": jax,
    "jnp": jnp,
    "pickle": pickle,
    "testing": sys.modules[__name__],
    "weakref": weakref,
}
"""What the programs use."""
