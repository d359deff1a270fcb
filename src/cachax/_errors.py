"""What can go wrong, and how it is said: every message names the class, the
property, and the way out."""

from collections.abc import Iterable


class CachaxError(Exception):
    """Base of every error cachax raises on its own account."""


class NowhereToStoreError(CachaxError, TypeError):
    """A cached property on a class whose objects cannot be held weakly."""

    def __init__(self, cls: type, name: str) -> None:
        super().__init__(
            f"{cls.__qualname__}.{name}: objects of this class cannot be weakly "
            "referenced, so there is nowhere to keep a cached value. "
            f"{_why_not_weak(cls)}"
        )


class UnknownPropertyError(CachaxError, AttributeError):
    """A name that is no cached property of the object's class."""

    def __init__(self, cls: type, name: str, known: Iterable[str]) -> None:
        names = ", ".join(sorted(known))
        super().__init__(
            f"{cls.__qualname__} has no cached property {name!r}. "
            + (f"It has: {names}." if names else "It has none at all.")
        )


class UnhashableValueError(CachaxError, TypeError):
    """A cached value with a static part that `jit` cannot tell from another."""

    def __init__(self, owner: str, part: object) -> None:
        kind = type(part).__name__
        super().__init__(
            f"{owner} returned a value with a part of type {kind!r}, which is neither "
            "an array nor hashable. Inside `cachax.jit` such a part is static: it must "
            "be hashable, so that a change of it can be seen and traced anew. Return "
            "an array, a tuple, a frozenset or another hashable value instead, or read "
            "the property outside and pass what you need of it."
        )


class UnhashableArgumentError(CachaxError, TypeError):
    """An argument of a cached method that a value cannot be kept under."""

    def __init__(self, owner: str, name: str, argument: object, is_array: bool) -> None:
        kind = type(argument).__name__
        super().__init__(
            f"{owner}: the argument {name!r} is of type {kind!r}. A value is kept for "
            "each set of arguments, so they must be hashable. "
            + (
                "An array is not, and a traced one has no value yet: make it a field "
                "of the object, or write a plain method that uses cached properties."
                if is_array
                else "Give a tuple for a list, a frozenset for a set."
            )
        )


class LiftError(CachaxError, TypeError):
    """A transform that values cannot be carried through."""

    def __init__(self, transform: object, reason: str) -> None:
        name = getattr(transform, "__name__", None) or repr(transform)
        super().__init__(
            f"cachax.lift({name}): {reason} Only a transform that runs the function "
            "once, on the same values, can be lifted: `jax.jit`, `equinox.filter_jit`, "
            "`jax.checkpoint`, a decorator of your own around one of them. Apply "
            f"{name} by itself: a cached property is right under it, and is computed "
            "for what the function gets there."
        )


class LeakedTracerError(CachaxError, ValueError):
    """A value that holds a tracer its object knows nothing of."""

    def __init__(self, owner: str) -> None:
        super().__init__(
            f"{owner}: the value holds a tracer that does not come from the fields of "
            "its object, so it dies before the object does and must not be kept. Most "
            "often something outside the object (a global, a closure, a value saved by "
            "an earlier trace) was used. Make it a field of the object, or use a "
            "method instead of a cached property."
        )


class StaleValueError(CachaxError, ValueError):
    """Inside `verify`: a kept value that is not what its body returns now."""

    def __init__(
        self,
        owner: str,
        what: str,
        why: str,
        field: str | None = None,
        largest: float | None = None,
    ) -> None:
        super().__init__(
            f"{owner}: the value that was kept is not what its body returns now. "
            f"{what} {why}"
        )
        self.owner = owner
        """The class and the property."""
        self.field = field
        """The field that was changed, if that can be told."""
        self.largest = largest
        """The largest difference, if the two differ in numbers."""


class DisagreementError(CachaxError, RuntimeError):
    """Inside `agree`: the processes are about to do different things."""


class EnvironmentVariableError(CachaxError, ValueError):
    """An environment variable that cachax reads and can't understand."""

    def __init__(self, name: str, value: str) -> None:
        super().__init__(
            f"{name}={value!r} is not understood. Set it to 1, or to options: "
            "timeout=30, every=10, or both, separated by a comma."
        )


def written_to(place: str) -> str:
    return (
        f"The numpy array in {place} was written to in place after the value was "
        "computed, which nobody can see. Assign a new array instead, or call "
        "`cachax.clear` on the object after writing."
    )


def maybe_written_to(places: str) -> str:
    return (
        "The value was computed before `cachax.verify` looked on. There are numpy "
        f"arrays in {places}: one that is written to in place is not noticed. Assign a "
        "new array instead. Else the body uses something outside the object that has "
        "changed, such as a global."
    )


NOT_A_FUNCTION = (
    "The body returns another value each time: it uses something outside the object, "
    "such as a random generator, a clock, a counter. Make what it uses a field (a key "
    "of `jax.random`), or write a plain method."
)
OUTSIDE = (
    "The fields are the same, and so is the value each time the body runs now. It uses "
    "something outside the object that has changed: a global, a closure, a file. Make "
    "it a field."
)


class NotKeptWarning(UserWarning):
    """A value that cannot be kept: it would keep its object alive for ever, or be out
    of date without anybody knowing."""


class OneProcessWarning(UserWarning):
    """While a report is made: something is done with global arrays that the other
    processes don't do."""


def in_one_process(what: str, where: str, condition: str) -> OneProcessWarning:
    return OneProcessWarning(
        f"{what} at {where}, inside `if {condition}`. Its arrays are those of several "
        "processes, so all of them have to do the same: otherwise they wait for each "
        "other forever. Do it before the `if` (`cachax.warm(obj)` computes values "
        "ahead); what is computed already can be read in one process."
    )


def holds_its_object(owner: str) -> NotKeptWarning:
    return NotKeptWarning(
        f"{owner} returned a value that refers back to its own object (a closure over "
        "`self`, a bound method, or a class that is no pytree). Keeping it would keep "
        "both alive for ever, so it is computed at every read. Refer to the fields "
        "instead (`x = self.x; return lambda q: f(q, x)`), or return a pytree."
    )


def argument_not_kept(function: str) -> NotKeptWarning:
    return NotKeptWarning(
        f"{function} was called on a numpy array. It may be written to in place, and "
        "nobody would know, so the value is computed at every call. Give it an array "
        "of JAX instead (`jnp.asarray(x)`), once and for all."
    )


def host_only_note(owner: str) -> str:
    return (
        f"cachax: {owner} was computed on traced values here, and its body needs real "
        "numbers (numpy, scipy, a Python `if`). On an object passed to a `cachax.jit` "
        "function it is computed outside the trace, if its value is made of arrays and "
        "hashable parts; under plain `jax.jit`, `jax.vmap` or `jax.grad`, read it "
        "outside and pass the value."
    )


def _why_not_weak(cls: type) -> str:
    if issubclass(cls, tuple):
        return (
            "It is a tuple (a NamedTuple?): make it a frozen dataclass registered "
            "with JAX instead."
        )
    return (
        "It has __slots__ without '__weakref__': add '__weakref__' to them, or say "
        "`@dataclass(slots=True, weakref_slot=True)`."
    )
