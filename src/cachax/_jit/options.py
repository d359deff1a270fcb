"""The options of `jax.jit`: which arguments they name, and what they mean for a program
that takes cached values too."""

import inspect
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .._compat import UNSPECIFIED, shardings_for


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
        """The other arguments, with None in place of these; and these."""
        if not self:
            return (args, kwargs), ()
        chosen = self.among(len(args))
        others = (None if i in chosen else x for i, x in enumerate(args))
        named = {k: x for k, x in kwargs.items() if k not in self.names}
        statics = (
            *((i, type(args[i]), args[i]) for i in sorted(chosen)),
            *((k, type(x), x) for k, x in sorted(kwargs.items()) if k in self.names),
        )
        return (tuple(others), named), statics


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
        numbers, names = options.get("static_argnums"), options.get("static_argnames")
        self.static = Arguments.of(fun, numbers, names)
        self.given = options
        donating = (options.get(f"donate{x}") for x in ("", "_argnums", "_argnames"))
        self.donates = any(x is not None for x in donating)
        spares_first = str(options.get("donate")).endswith("-except-first")
        self.is_supported = options.get("abstracted_axes") is None and not spares_first
        """The values would come first, and they are not to be donated either."""

    def in_shardings(self, tree: Any) -> list[Any]:
        """Of the leaves of arguments, with None for static ones. Empty if none is
        given."""
        given = self.given.get("in_shardings")
        if given is None or given is UNSPECIFIED:
            return []
        args, _ = tree
        static = self.static.among(len(args))
        others = tuple(x for i, x in enumerate(args) if i not in static)
        is_one = not isinstance(given, tuple | list)
        try:
            return shardings_for(
                (given,) * len(others) if is_one else tuple(given), others
            )
        except ValueError:  # it doesn't fit: JAX says why
            return []

    def of_program(self, args: Sequence[Any]) -> dict[str, Any]:
        """The same for a program that has one more argument, which comes first."""
        options = dict(self.given)
        for name in ("static_argnums", "donate_argnums"):
            if options.get(name) is not None:
                numbers = _as_numbers(options[name])
                options[name] = tuple(n + 1 if n >= 0 else n for n in numbers)
        if options.get("donate") in ("all", "warn"):  # of `equinox.filter_jit`
            options["donate"] += "-except-first"
        shardings = options.get("in_shardings")
        if shardings is not None and shardings is not UNSPECIFIED:
            if not isinstance(shardings, tuple | list):
                count = len(args) - len(self.static.among(len(args)))
                shardings = (shardings,) * count
            options["in_shardings"] = (UNSPECIFIED, *shardings)
        return options
