"""The options of `jax.jit`: which arguments they name, and how they read for a function
with one more argument in front."""

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from ._carry import Brought
from ._compat import UNSPECIFIED


def one_result_more(options: dict[str, Any]) -> dict[str, Any]:
    """The options of `jax.jit`, for a function with one more result at the end."""
    given = options.get("out_shardings", UNSPECIFIED)
    if given is UNSPECIFIED:
        return options
    return {**options, "out_shardings": Brought(given, UNSPECIFIED)}


def one_further(options: dict[str, Any], arguments: int) -> dict[str, Any]:
    """The options of `jax.jit`, for a function with one more argument in front."""
    options = dict(options)
    for name in ("static_argnums", "donate_argnums"):
        if options.get(name) is not None:
            numbers = _as_tuple(options[name])
            options[name] = tuple(n + 1 if n >= 0 else n for n in numbers)
    given = options.get("in_shardings", UNSPECIFIED)
    if given is not UNSPECIFIED:
        each = given if arguments == -1 else (given,) * arguments
        options["in_shardings"] = (UNSPECIFIED, *each)
    return options


class Arguments:
    """Some of a function's arguments, by number and by name."""

    def __init__(self, numbers: Iterable[int], names: Iterable[str]) -> None:
        self.numbers = frozenset(numbers)
        self.names = frozenset(names)

    @classmethod
    def static(cls, fun: Callable[..., Any], options: dict[str, Any]) -> "Arguments":
        """The static ones, as `jax.jit` sees it: of numbers and names, what is not
        given follows from the signature."""
        numbers = options.get("static_argnums")
        names = options.get("static_argnames")
        if numbers is None and names is None:
            return cls((), ())
        if numbers is not None and names is not None:
            return cls(_as_tuple(numbers), _as_tuple(names))
        try:
            parameters = [
                p.name if p.kind is p.POSITIONAL_OR_KEYWORD else None
                for p in inspect.signature(fun).parameters.values()
            ]
        except (TypeError, ValueError):
            parameters = []
        if numbers is None:
            names = _as_tuple(names)
            return cls((i for i, p in enumerate(parameters) if p in names), names)
        numbers = _as_tuple(numbers)
        chosen = (p for i, p in enumerate(parameters) if p and i in numbers)
        return cls(numbers, chosen)

    def among(self, count: int) -> set[int]:
        """Which of so many positional arguments they are."""
        return {n % count for n in self.numbers if -count <= n < count}

    def take_out(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """The other arguments, and these."""
        if not self.numbers and not self.names:
            return (args, kwargs), None
        chosen = self.among(len(args))
        others = [x for i, x in enumerate(args) if i not in chosen]
        named = {k: x for k, x in kwargs.items() if k not in self.names}
        statics = (
            *((i, type(args[i]), args[i]) for i in sorted(chosen)),
            *((k, type(x), x) for k, x in sorted(kwargs.items()) if k in self.names),
        )
        return (tuple(others), named), statics


def _as_tuple(one_or_many: Any) -> tuple[Any, ...]:
    return (one_or_many,) if isinstance(one_or_many, int | str) else tuple(one_or_many)
