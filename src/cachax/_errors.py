"""Errors, warnings and notes. Each message names the class, the property and what to do
instead."""

import inspect
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet


class CachaxError(Exception):
    """Base class of the errors that cachax raises.

    Example:
        >>> import cachax
        >>> try:
        ...     cachax.warm(3)
        ... except cachax.CachaxError as error:
        ...     print(error)
        cachax.warm: int has no cached properties.
    """


class UsageError(CachaxError, TypeError):
    """A function or decorator of cachax was applied to something it can't handle.

    Example:
        >>> import cachax
        >>> class Mesh:
        ...     @cachax.cached_property
        ...     def refined(self, factor):
        ...         return factor
        Traceback (most recent call last):
            ...
        cachax._errors.UsageError: Mesh.refined takes an argument 'factor', so it \
can't be a cached property. For one value per set of arguments, use \
`@cachax.cached_method`.
    """


class NowhereToStoreError(CachaxError, TypeError):
    """A cached property is declared on a class whose objects can't be weakly
    referenced.

    Example:
        >>> import cachax
        >>> class Mesh:
        ...     __slots__ = ("x",)
        ...
        ...     @property
        ...     def size(self):
        ...         return mesh_size(self)
        >>> @cachax.cache
        ... def mesh_size(mesh):
        ...     return 1
        >>> Mesh().size
        1

    A function with `cachax.cache` works for such a class. `cached_property` needs
    `"__weakref__"` in the slots.
    """

    def __init__(self, cls: type, name: str) -> None:
        super().__init__(
            f"{plain_name(cls)}.{name}: objects of this class can't be weakly "
            "referenced, so there is nowhere to keep a cached value. "
            f"{_why_not_weak(cls)}"
        )


class UnknownPropertyError(CachaxError, AttributeError):
    """A name is not that of a cached property of the object's class.

    Example:
        >>> import cachax
        >>> class Mesh:
        ...     @cachax.cached_property
        ...     def size(self):
        ...         return 1
        >>> cachax.warm(Mesh(), "sise")
        Traceback (most recent call last):
            ...
        cachax._errors.UnknownPropertyError: Mesh has no cached property 'sise'. It \
has: size.
    """

    def __init__(self, cls: type, name: str, known: Iterable[str]) -> None:
        names = ", ".join(sorted(known))
        owner = plain_name(cls)
        method = str(name).partition("(")[0]
        who = owner
        if not isinstance(name, str):
            said = "The name of a cached property must be a string."
        elif type(getattr(cls, method, None)).__name__ == "CachedMethod":
            said = f"{owner}.{method} is a cached method, not a cached property."
        else:
            said, who = f"{owner} has no cached property {name!r}.", "It"
        super().__init__(
            f"{said} "
            + (f"{who} has: {names}." if names else f"{who} has none at all.")
        )


class UnhashableValueError(CachaxError, TypeError):
    """A cached value that a jitted function uses has a part that is neither an array
    nor hashable.

    Example:
        >>> import equinox as eqx, jax, jax.numpy as jnp, cachax
        >>> class Mesh(eqx.Module):
        ...     x: jax.Array
        ...
        ...     @cachax.cached_property
        ...     def names(self):
        ...         return {"left", "right"}  # return a frozenset instead
        >>> mesh = Mesh(jnp.ones(2))
        >>> try:
        ...     cachax.jit(lambda m: m.x * len(m.names))(mesh)
        ... except cachax.UnhashableValueError as error:
        ...     print(str(error)[:59])
        Mesh.names returned a value with a part of type 'set', whic
    """

    def __init__(self, owner: str, part: object) -> None:
        kind = type(part).__name__
        super().__init__(
            f"{owner} returned a value with a part of type {kind!r}, which is neither "
            "an array nor hashable. Inside `cachax.jit` such a part is static, and JAX "
            "retraces when it changes, so it must be hashable. Return an array, a "
            "tuple, a frozenset or another hashable value instead, or read the "
            "property outside and pass what you need of it."
        )


class UnhashableArgumentError(CachaxError, TypeError):
    """A cached method was called with an argument that is not hashable.

    Example:
        >>> import cachax
        >>> class Mesh:
        ...     @cachax.cached_method
        ...     def refined(self, factors):
        ...         return sum(factors)
        >>> mesh = Mesh()
        >>> mesh.refined((1, 2))
        3
        >>> mesh.refined([1, 2])
        Traceback (most recent call last):
            ...
        cachax._errors.UnhashableArgumentError: Mesh.refined: the argument 'factors' \
is of type 'list'. A value is kept for each set of arguments, so they must be \
hashable. Pass a tuple for a list, a frozenset for a set.
    """

    def __init__(self, owner: str, name: str, argument: object, is_array: bool) -> None:
        kind = type(argument).__name__
        is_tracer = is_array and kind.endswith("Tracer")
        what = (
            "traced, so its value is not known yet"
            if is_tracer
            else f"of type {kind!r}"
        )
        if is_tracer:
            instead = (
                "If it is an argument of a jitted function, name it there in "
                "`static_argnames`. Otherwise make"
            )
        elif is_array:
            instead = "Arrays are not. Pass a Python number, make"
        else:
            instead = "Pass a tuple for a list, a frozenset for a set."
        if is_array:
            instead += (
                " it a field of the object, or write a plain method that uses cached "
                "properties."
            )
        super().__init__(
            f"{owner}: the argument {name!r} is {what}. A value is kept for each set "
            f"of arguments, so they must be hashable. {instead}"
        )


class PresetError(CachaxError, ValueError):
    """A value given to `preset` has a different shape from what the body returns.

    Example:
        >>> import equinox as eqx, jax, jax.numpy as jnp, cachax
        >>> class Line(eqx.Module):
        ...     x: jax.Array
        ...
        ...     @cachax.cached_property
        ...     def mean(self):
        ...         return self.x.mean()
        >>> cachax.preset(Line(jnp.ones(3)), mean=jnp.ones(3))
        Traceback (most recent call last):
            ...
        cachax._errors.PresetError: Line.mean: the body returns an array of shape (), \
and the given one has the shape (3,).
    """

    def __init__(self, owner: str, wanted: Any, given: Any) -> None:
        super().__init__(
            f"{owner}: the body returns an array of shape {wanted}, and the given one "
            f"has the shape {given}."
        )


class LiftError(CachaxError, TypeError):
    """`lift` was applied to a transformation that cached values can't be passed
    through.

    Example:
        >>> import jax, cachax
        >>> try:
        ...     cachax.lift(jax.vmap)
        ... except cachax.LiftError as error:
        ...     print(str(error)[:44])
        cachax.lift(vmap): it maps the function over
    """

    def __init__(self, transform: object, reason: str) -> None:
        name = getattr(transform, "__name__", None) or repr(transform)
        super().__init__(
            f"cachax.lift({name}): {reason} Only a transformation that runs the "
            "function once, on the same values, can be lifted: `jax.jit`, "
            "`equinox.filter_jit`, `jax.checkpoint`, or your own decorator around one "
            f"of them. Apply {name} without `lift`: a cached property is correct under "
            "it, and is computed for what the function gets there."
        )


class LeakedTracerError(CachaxError, ValueError):
    """A value holds a tracer that does not come from its object.

    Example:
        >>> import jax, cachax
        >>> saved = []
        >>> _ = jax.jit(lambda x: saved.append(x) or x)(1.0)
        >>> class Leaky:
        ...     @cachax.cached_property
        ...     def value(self):
        ...         return saved[0]
        >>> try:
        ...     Leaky().value
        ... except cachax.LeakedTracerError as error:
        ...     print(str(error)[:39])
        Leaky.value: the value holds a tracer t
    """

    def __init__(self, owner: str) -> None:
        super().__init__(
            f"{owner}: the value holds a tracer that does not come from the fields of "
            "its object, so it must not outlive its trace. Most often the body uses "
            "something outside the object (a global, a closure, a value saved by an "
            "earlier trace). Make it a field of the object, or use a method instead of "
            "a cached property."
        )


class StaleValueError(CachaxError, ValueError):
    """Raised inside `verify`: a cached value is not what its body returns now.

    Example:
        >>> import cachax
        >>> factor = 2
        >>> class Mesh:
        ...     @cachax.cached_property
        ...     def scaled(self):
        ...         return 10.0 * factor  # a global
        >>> mesh = Mesh()
        >>> try:
        ...     with cachax.verify():
        ...         mesh.scaled
        ...         factor = 3
        ...         mesh.scaled
        ... except cachax.StaleValueError as error:
        ...     error.owner, error.field, error.largest
        20.0
        ('Mesh.scaled', None, 10.0)
    """

    def __init__(
        self,
        owner: str,
        what: str,
        why: str,
        field: str | None = None,
        largest: float | None = None,
    ) -> None:
        super().__init__(
            f"{owner}: the cached value is not what its body returns now. {what} {why}"
        )
        self.owner = owner
        """The class and the property."""
        self.field = field
        """The field that was changed, if it is known."""
        self.largest = largest
        """The largest difference, if the two differ in numbers."""


class DisagreementError(CachaxError, RuntimeError):
    """Inside `agree`: the processes are about to do different things.

    Example:
        >>> import cachax
        >>> def train():
        ...     pass
        >>> try:
        ...     with cachax.agree():
        ...         train()
        ... except cachax.DisagreementError as error:
        ...     print(error)  # what each process was about to do, and at which line
    """


class EnvironmentVariableError(CachaxError, ValueError):
    """The value of an environment variable is not understood."""

    def __init__(self, name: str, value: str) -> None:
        super().__init__(
            f"{name}={value!r} is not understood. Set it to 1, or to options: "
            "timeout=30, every=10, or both, separated by a comma."
        )


class NotKeptWarning(UserWarning):
    """A value can't be cached: it would keep its object alive, or go stale unnoticed.

    The warning is given once for each property or function.

    Example:
        >>> import warnings, numpy as np, cachax
        >>> @cachax.cache
        ... def doubled(x):
        ...     return 2 * x
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     _ = doubled(np.ones(2))  # use jnp.ones(2)
        >>> caught[0].category.__name__
        'NotKeptWarning'
    """


class DroppedValueWarning(UserWarning):
    """Inside `warn_dropped`: a plain `jax.jit` function computes a cached property.

    Example:
        >>> import warnings, equinox as eqx, jax, jax.numpy as jnp, cachax
        >>> class Line(eqx.Module):
        ...     x: jax.Array
        ...
        ...     @cachax.cached_property
        ...     def mean(self):
        ...         return self.x.mean()
        >>> with cachax.warn_dropped(), warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     _ = jax.jit(lambda line: line.mean)(Line(jnp.ones(3)))
        >>> print(str(caught[0].message)[:41])
        Line.mean is computed inside `jax.jit` an
    """


class OneProcessWarning(UserWarning):
    """While a report is made: a line inside `if jax.process_index() == 0` uses arrays
    of several processes.

    Example:
        >>> import warnings, cachax
        >>> warnings.filterwarnings("error", category=cachax.OneProcessWarning)
    """


# Names in messages


def plain_name(named: Any) -> str:
    """The qualified name of a class or function, without the function it is local to.

    >>> plain_name("main.<locals>.Mesh.size"), plain_name(dict)
    ('Mesh.size', 'dict')
    """
    name = named if isinstance(named, str) else named.__qualname__
    return str(name).rpartition("<locals>.")[2]


# Warnings

_warned: WeakSet[Any] = WeakSet()


def warn_once(about: Any, warning: Warning, stacklevel: int) -> None:
    """Give a warning, unless there was one about the same property or function."""
    if about not in _warned:
        warnings.warn(warning, stacklevel=stacklevel + 1)
        _warned.add(about)


@contextmanager
def warning_again() -> Iterator[None]:
    """Inside this context, warnings that were given before are given again."""
    before = [*_warned]
    _warned.clear()
    try:
        yield
    finally:
        _warned.update(before)


def holds_its_object(owner: str) -> NotKeptWarning:
    return NotKeptWarning(
        f"{owner} returned a value that refers back to its object (a closure over "
        "`self`, a bound method, or a class that is not a pytree). A cache of it would "
        "never be freed, so it is computed at every read. Refer to the fields instead "
        "(`x = self.x; return lambda q: f(q, x)`), or return a pytree."
    )


def argument_not_kept(function: str) -> NotKeptWarning:
    return NotKeptWarning(
        f"{function} was called on a NumPy array. It can be written to in place, which "
        "cachax can't detect, so the value is computed at every call. Pass a JAX array "
        "instead: convert it once, with `jnp.asarray(x)`."
    )


def dropped(owner: str) -> DroppedValueWarning:
    return DroppedValueWarning(
        f"{owner} is computed inside `jax.jit` and dropped when the program ends. Use "
        "`cachax.jit` to compute it once, outside."
    )


def in_one_process(what: str, where: str, condition: str) -> OneProcessWarning:
    return OneProcessWarning(
        f"{what} at {where}, inside `if {condition}`. Its arrays are those of several "
        "processes, so all of them must do the same: otherwise they wait for each "
        "other and never continue. Do it before the `if` (`cachax.warm(obj)` computes "
        "values ahead); values that are computed already can be read in one process."
    )


# Reasons for a stale value


def written_to(place: str) -> str:
    return (
        f"The NumPy array in {place} was written to in place after the value was "
        "computed, which cachax can't detect. Assign a new array instead, or call "
        "`cachax.clear` on the object after writing."
    )


def maybe_written_to(places: str) -> str:
    return (
        "The value was computed before `cachax.verify` began. There are NumPy arrays "
        f"in {places}, and cachax can't detect writing to them in place. Assign a new "
        "array instead. Otherwise the body uses something outside the object that has "
        "changed, such as a global."
    )


NOT_A_FUNCTION = (
    "The body returns a different value each time: it uses something outside the "
    "object, such as a random generator, a clock or a counter. Make it a field (a key "
    "of `jax.random`), or write a plain method."
)
OUTSIDE = (
    "The fields are the same, and the body returns the same value each time it runs "
    "now. It uses something outside the object that has changed: a global, a closure, "
    "a file. Make it a field."
)


# Notes on errors of JAX


def host_only_note(owner: str) -> str:
    return (
        f"cachax: {owner} needs concrete values (it uses NumPy, SciPy or a Python "
        "`if`) but was read on a traced object. Under `cachax.jit` it is computed "
        "outside the trace, if its object is an argument and the value consists of "
        "arrays and hashable parts. Under plain `jax.jit`, `jax.vmap` or `jax.grad`, "
        "and in the carry of a loop, read it outside and pass the value."
    )


def argument_note(place: str, part: Any) -> str:
    """For an argument of a jitted function, or a part of one, that JAX refuses."""
    said = f"cachax: the argument {place} is "
    if callable(part):
        return said + (
            "a function, and JAX only takes arrays. Make the field static "
            "(`equinox.field(static=True)`, `flax.struct.field(pytree_node=False)`), "
            "or use `cachax.lift(equinox.filter_jit)` in place of `cachax.jit`. An "
            "argument that is a function must be named in `static_argnames`."
        )
    kind = type(part)
    if kind.__module__ == "builtins":
        return said + (
            f"of type {kind.__name__!r}, and JAX only takes arrays. Make the field "
            "static, or name the argument in `static_argnames`."
        )
    return said + (
        f"an object of {plain_name(kind)}, which is not a pytree: JAX doesn't know "
        "where its arrays are. Make the class an `equinox.Module` or a "
        "`flax.struct.dataclass`, or register a dataclass with "
        "`jax.tree_util.register_dataclass`."
    )


# Mistakes in the use of a decorator or a function


def check_method(func: Any) -> None:
    """Raise `UsageError` unless `func` can be the body of a cached property."""
    if func is None:
        raise UsageError("Write `@cachax.cached_property` without parentheses.")
    if isinstance(func, property) or hasattr(type(func), "__set_name__"):
        name = _name_inside(func)
        raise UsageError(
            f"{name} is already a `{type(func).__name__}`. Remove that decorator: "
            "`@cachax.cached_property` replaces it."
        )
    if isinstance(func, staticmethod | classmethod):
        raise UsageError(
            f"{_name_inside(func)} is a `{type(func).__name__}`, and a cached property "
            "is computed from its object. Use `@cachax.cache` on a function instead."
        )
    if not callable(func):
        kind = type(func).__name__
        raise UsageError(
            f"`cachax.cached_property` decorates a method, not an object of type "
            f"{kind!r}."
        )
    try:
        parameters = [*inspect.signature(func).parameters.values()]
    except (TypeError, ValueError):  # builtins without a signature
        return
    name = plain_name(getattr(func, "__qualname__", None) or repr(func))
    if not parameters:
        raise UsageError(f"{name} takes no argument. A cached property needs `self`.")
    if parameters[0].kind is inspect.Parameter.VAR_POSITIONAL:
        parameters.insert(0, parameters[0])  # it takes `self`, and all others
    for parameter in parameters[1:]:
        has_value = parameter.default is not parameter.empty
        if not has_value and parameter.kind not in _OPTIONAL:
            raise UsageError(
                f"{name} takes an argument {parameter.name!r}, so it can't be a cached "
                "property. For one value per set of arguments, use "
                "`@cachax.cached_method`."
            )


_OPTIONAL = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _name_inside(decorated: Any) -> str:
    """Of the function in a property, a classmethod or another descriptor."""
    for attribute in ("fget", "func", "__func__", "__wrapped__"):
        inner = getattr(decorated, attribute, None)
        if inner is not None and hasattr(inner, "__qualname__"):
            return plain_name(inner)
    return repr(decorated)


def not_a_method(given: object) -> UsageError:
    """For `cached_method` on something else."""
    hint = f" Write `maxsize={given!r}`." if isinstance(given, int) else ""
    kind = type(given).__name__
    return UsageError(
        f"`cachax.cached_method` decorates a method, not an object of type {kind!r}."
        + hint
    )


def not_lifted(transform: object, given: object) -> UsageError:
    """For a call of what `lift` returns with something else than a function."""
    name = getattr(transform, "__name__", None) or repr(transform)
    return UsageError(
        f"cachax.lift({name}) takes a function, not an object of type "
        f"{type(given).__name__!r}: `lift` is for transformations, such as "
        "`cachax.lift(jax.checkpoint)(f)(obj)`. To pass cached values into a function "
        f"of your own, write `cachax.jit({name})`."
    )


def given_a_class(function: str, cls: type) -> UsageError:
    return UsageError(
        f"cachax.{function} takes an object, not a class: {plain_name(cls)}."
    )


def not_a_function(function: str, given: object) -> UsageError:
    return UsageError(
        f"cachax.{function} takes a function and its arguments, not an object of type "
        f"{plain_name(type(given))!r}: write `cachax.{function}(f, x)` for `f(x)`."
    )


def given_a_function(function: str) -> UsageError:
    return UsageError(
        f"cachax.{function} takes an object with cached values. To cache the results "
        "of a function, use `@cachax.cache`; of a method, `@cachax.cached_property` or "
        "`@cachax.cached_method`."
    )


def nothing_to_warm(cls: type, inside: type | None) -> UsageError:
    said = f"cachax.warm: {plain_name(cls)} has no cached properties."
    if hasattr(cls, "dtype"):
        said += (
            " Pass the object, and the name as a string: `cachax.warm(obj, 'name')`."
        )
    if inside is not None:
        name = plain_name(inside)
        said += (
            f" It contains an object of {name}: call `cachax.warm` on each of those."
        )
    return UsageError(said)


def _why_not_weak(cls: type) -> str:
    if issubclass(cls, tuple):
        return (
            "It is a tuple (a NamedTuple?): make it a frozen dataclass registered "
            "with JAX instead."
        )
    return (
        "It has __slots__ without '__weakref__': add '__weakref__' to them, or write "
        "`@dataclass(slots=True, weakref_slot=True)`."
    )
