"""The options of `jax.jit`: which arguments they name, and what they mean for a program
that takes a flat list of arrays."""

import inspect
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax

from .._compat import UNSPECIFIED

_ABOUT_ARGUMENTS = (
    "static_argnums",
    "static_argnames",
    "donate_argnums",
    "donate_argnames",
    "in_shardings",
)


class Arguments:
    """Some of a function's arguments, by number and by name."""

    def __init__(self, numbers: Iterable[int], names: Iterable[str]) -> None:
        self.numbers = frozenset(numbers)
        self.names = frozenset(names)

    def __bool__(self) -> bool:
        return bool(self.numbers or self.names)

    @classmethod
    def of(cls, fun: Callable[..., Any], numbers: Any, names: Any) -> "Arguments":
        """As `jax.jit` understands it: of numbers and names, what is not given follows
        from the signature."""
        if numbers is None and names is None:
            return cls((), ())
        if numbers is not None and names is not None:
            return cls(_as_numbers(numbers), _as_names(names))
        try:
            parameters = [
                p.name if p.kind is p.POSITIONAL_OR_KEYWORD else None
                for p in inspect.signature(fun).parameters.values()
            ]
        except (TypeError, ValueError):
            parameters = []
        if numbers is None:
            names = _as_names(names)
            return cls((i for i, p in enumerate(parameters) if p in names), names)
        numbers = _as_numbers(numbers)
        count = len(parameters)
        chosen = {n % count for n in numbers if -count <= n < count}
        return cls(numbers, (p for i, p in enumerate(parameters) if p and i in chosen))

    def among(self, count: int) -> set[int]:
        """Which of so many positional arguments they are."""
        return {n % count for n in self.numbers if -count <= n < count}

    def take_out(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """The other arguments, and these."""
        chosen = self.among(len(args))
        others = [x for i, x in enumerate(args) if i not in chosen]
        named = {k: x for k, x in kwargs.items() if k not in self.names}
        statics = (
            *((i, type(args[i]), args[i]) for i in sorted(chosen)),
            *((k, type(x), x) for k, x in sorted(kwargs.items()) if k in self.names),
        )
        return (tuple(others), named), statics

    def put_back(self, tree: Any, statics: Any) -> tuple[Any, Any]:
        """All arguments again."""
        args, kwargs = tree
        args, kwargs = [*args], dict(kwargs)
        for name, _, value in statics:
            if isinstance(name, int):
                args.insert(name, value)
            else:
                kwargs[name] = value
        return tuple(args), kwargs


def _as_numbers(one_or_many: Any) -> tuple[int, ...]:
    try:
        return (operator.index(one_or_many),)
    except TypeError:
        return tuple(map(operator.index, one_or_many))


def _as_names(one_or_many: Any) -> tuple[str, ...]:
    return (one_or_many,) if isinstance(one_or_many, str) else tuple(one_or_many)


class Options:
    """Those of one function."""

    def __init__(self, fun: Callable[..., Any], options: dict[str, Any]) -> None:
        def named(what: str) -> Arguments:
            numbers, names = f"{what}_argnums", f"{what}_argnames"
            return Arguments.of(fun, options.get(numbers), options.get(names))

        self.static = named("static")
        self.donated = named("donate")
        self.in_shardings = options.get("in_shardings", UNSPECIFIED)
        self.out_shardings = options.get("out_shardings", UNSPECIFIED)
        self.others = {k: x for k, x in options.items() if k not in _ABOUT_ARGUMENTS}
        self.is_flat = options.get("abstracted_axes") is None
        """Whether a flat program can stand for the function."""

    def donated_leaves(self, args: Any, kwargs: Any) -> tuple[int, ...]:
        """Which leaves of the arguments (all of them, static ones too) are donated."""
        statics = self.static.among(len(args))
        chosen = self.donated.numbers - statics  # JAX ignores negative ones
        found: list[int] = []
        start = 0

        def add(part: Any, is_chosen: bool) -> None:
            nonlocal start
            end = start + len(jax.tree.leaves(part))
            found.extend(range(start, end) if is_chosen else ())
            start = end

        for i, arg in enumerate(args):
            if i not in statics:
                add(arg, i in chosen)
        for name in sorted(kwargs):
            if name not in self.static.names:
                add(kwargs[name], name in self.donated.names)
        return tuple(found)

    def leaf_shardings(self, tree: Any) -> list[Any] | None:
        """`in_shardings` for each leaf; None if it isn't given."""
        if self.in_shardings is UNSPECIFIED or self.in_shardings is None:
            return None
        args, kwargs = tree
        found: list[Any] = []

        def spread(sharding: Any, part: Any) -> None:
            found.extend([sharding] * len(jax.tree.leaves(part)))

        jax.tree.map(spread, self.in_shardings, args, is_leaf=_is_sharding)
        return found + [UNSPECIFIED] * len(jax.tree.leaves(kwargs))


def _is_sharding(x: Any) -> bool:
    return x is None or isinstance(x, jax.sharding.Sharding | type(UNSPECIFIED))


def picking(places: Sequence[int]) -> Callable[[list[Any]], Sequence[Any]]:
    """A function that takes the things in these places out of a list, in C."""
    if len(places) > 1:
        return operator.itemgetter(*places)
    (place,) = places or (0,)
    return operator.itemgetter(slice(place, place + len(places)))
