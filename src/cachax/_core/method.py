"""A method whose value is kept for each object and set of arguments."""

import functools
import types
from collections.abc import Callable
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

import jax

from .._errors import UnhashableArgumentError, not_a_method, plain_name
from .calls import CallKey, Calls, NotKeptError, Place
from .fields import ARRAYS, walk
from .memo import Source, declare, memo_of
from .values import is_hashable

P = ParamSpec("P")
R = TypeVar("R")


@overload
def cached_method(
    func: Callable[Concatenate[Any, P], R], /
) -> "CachedMethod[P, R]": ...
@overload
def cached_method(
    *, maxsize: int | None
) -> "Callable[[Callable[Concatenate[Any, P], R]], CachedMethod[P, R]]": ...
def cached_method(func: Any = None, /, *, maxsize: int | None = None) -> Any:
    """Cache a method: it is computed once for each object and set of arguments.

    `f(2)`, `f(n=2)` and a default of 2 are the same set of arguments. Otherwise it
    behaves as `cached_property` does.

    Args:
        func: The method. Its arguments must be hashable. Without it, `cached_method`
            returns a decorator.
        maxsize: How many values to keep for one object, those used last. By default
            there is no limit.

    Returns:
        A method. It is called as before.

    Raises:
        ValueError: `maxsize` is less than 1.
        UsageError: `func` is not a method.
        UnhashableArgumentError: In a call: an argument is an array, or not hashable.
        NowhereToStoreError: As with `cached_property`.

    Example:
        >>> import dataclasses, jax, jax.numpy as jnp, cachax
        >>> @jax.tree_util.register_dataclass
        ... @dataclasses.dataclass(frozen=True)
        ... class Sample:
        ...     x: jax.Array
        ...
        ...     @cachax.cached_method
        ...     def moment(self, n=2):
        ...         print("computing")
        ...         return jnp.mean(self.x**n)
        >>> sample = Sample(jnp.array([1.0, 3.0]))
        >>> cachax.jit(lambda s: s.moment(2))(sample), sample.moment(n=2)
        computing
        (Array(5., dtype=float32), Array(5., dtype=float32))
        >>> sample.moment()
        Array(5., dtype=float32)
    """
    if func is None:
        return functools.partial(CachedMethod, maxsize=maxsize)
    return CachedMethod(func, maxsize)


class CachedMethod(Calls, Source, Generic[P, R]):
    """What `cached_method` makes of a method."""

    def __init__(
        self, func: Callable[Concatenate[Any, P], R], maxsize: int | None
    ) -> None:
        if not callable(func):
            raise not_a_method(func)
        if maxsize is not None and maxsize < 1:
            raise ValueError(f"maxsize must be at least 1, not {maxsize}")
        super().__init__(func)
        self.attrname: str | None = None
        self.maxsize = maxsize
        self.__isabstractmethod__ = getattr(func, "__isabstractmethod__", False)

    def __getstate__(self) -> dict[str, Any]:
        """For copies, and for classes that are pickled whole: without what was
        learned."""
        learned = {"_keys", "_keys_of_atoms"}
        return {k: x for k, x in vars(self).items() if k not in learned}

    def __setstate__(self, state: dict[str, Any]) -> None:
        CachedMethod.__init__(self, state["__wrapped__"], state["maxsize"])
        vars(self).update(state)

    def __set_name__(self, owner: type, name: str) -> None:
        self.attrname = name
        declare(owner, name)

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...
    @overload
    def __get__(
        self, instance: object, owner: type | None = None
    ) -> Callable[P, R]: ...
    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __call__(self, obj: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        key = self._key_of_call(obj, args, kwargs)
        if key is None:
            return self.__wrapped__(obj, *args, **kwargs)  # type: ignore[no-any-return]
        value: R = key.read(obj)
        if self.maxsize is not None:
            self._keep_the_last(obj, key, self.maxsize)
        return value

    def keys_kept(self, obj: Any) -> list[CallKey]:
        """Under which there are values for `obj`."""
        memo = memo_of(obj)
        kept = [*memo.values, *memo.folded]
        return [k for k in kept if isinstance(k, CallKey) and k.source is self]

    def _key_of_call(self, obj: Any, args: Any, kwargs: Any) -> CallKey | None:
        call = None
        if not kwargs and _ATOMS.issuperset(map(type, args)):
            call = (args, *map(type, args))
            if call in self._keys_of_atoms:
                return self._keys_of_atoms[call]
        statics = self._given((obj, *args), kwargs)
        if statics is None:
            return None
        del statics[0]
        for place, argument in statics.items():
            has_arrays = _has_arrays(argument)
            if has_arrays or not is_hashable(argument):
                owner = f"{plain_name(type(obj))}.{self.attrname}"
                name = self._names.get(place, str(place))
                raise UnhashableArgumentError(owner, name, argument, has_arrays)
        try:
            key = self._key({0: obj, **statics}, (0,), True)
        except NotKeptError:
            return None
        if call is not None:
            self._keys_of_atoms[call] = key
        elif any(part is obj for part in walk(statics)):
            return None  # a value would keep its object
        return key

    def _name(self, statics: dict[Place, Any]) -> str:
        given = statics.items()
        words = [f"{k}={x!r}" if isinstance(k, str) else repr(x) for k, x in given]
        return f"{self.attrname}({', '.join(words)})"

    def _keep_the_last(self, obj: Any, key: CallKey, count: int) -> None:
        memo = memo_of(obj)
        if key in memo.values:
            memo.values[key] = memo.values.pop(key)
        for old in self.keys_kept(obj)[:-count]:
            old.forget(obj)


def _has_arrays(argument: Any) -> bool:
    return any(isinstance(x, ARRAYS) for x in jax.tree.leaves(argument))


_ATOMS = {int, bool, str, bytes, type(None)}
"""Types of which things are the same if they are equal."""
