"""The descriptors: a property that is computed once for each object."""

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

import jax

from ._body import carrying_body
from ._compat import is_jitted
from ._errors import NowhereToStoreError, host_only_note
from ._levels import at_level_of
from ._memo import NOT_LENT, Key, Memo, declare, memo_of, memos
from ._recent import Recent

T_co = TypeVar("T_co", covariant=True)

_MISSING: Any = object()
_NEEDS_NUMBERS = (
    jax.errors.ConcretizationTypeError,  # TracerBoolConversionError among them
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)


class cached_property(Key, Generic[T_co]):
    """A drop-in for `functools.cached_property` that is right under JAX.

    The body runs once for each object, wherever it is reached first. The value is
    kept beside the object: not as a leaf, not in its `__dict__`. It is dropped when
    a field changes, and an object rebuilt from other leaves starts afresh.

    >>> import dataclasses, jax, jax.numpy as jnp, cachax
    >>> @jax.tree_util.register_dataclass
    ... @dataclasses.dataclass(frozen=True)
    ... class Sample:
    ...     x: jax.Array
    ...
    ...     @cachax.cached_property
    ...     def norm(self):
    ...         print("computing")
    ...         return jnp.linalg.norm(self.x)
    >>> sample = Sample(jnp.array([3.0, 4.0]))
    >>> sample.norm
    computing
    Array(5., dtype=float32)
    >>> cachax.jit(lambda s: s.x / s.norm)(sample)
    Array([0.6, 0.8], dtype=float32)
    """

    def __init__(self, func: Callable[[Any], T_co]) -> None:
        self.func = func
        self.attrname: str | None = None
        self.moulds: dict[Any, Any] = Recent()
        self.traced_leaves: dict[Any, list[bool] | None] = Recent()
        self.__doc__ = func.__doc__
        self.__module__ = func.__module__
        self._body: Callable[[Any], T_co] = (
            carrying_body(func) if is_jitted(func) else func
        )

    def __set_name__(self, owner: type, name: str) -> None:
        if self.attrname is None:
            self.attrname = name
        elif name != self.attrname:
            raise TypeError(
                "Cannot assign the same cached_property to two different names "
                f"({self.attrname!r} and {name!r})."
            )
        declare(owner, name)

    @property
    def __isabstractmethod__(self) -> bool:
        return getattr(self.func, "__isabstractmethod__", False)

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> T_co: ...
    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        memo = memos.get(id(instance))  # `memo_of`, without the price of a call
        if memo is not None and memo() is instance and memo.holds(instance):
            try:
                return memo.values[self]
            except KeyError:
                pass
        return self.read(instance)

    # With functools, `obj.p = v` and `del obj.p` work on the instance `__dict__`,
    # where the cached value is too. Here it is not, and so that `del` still forgets
    # it this has to be a data descriptor.
    def __set__(self, instance: Any, value: Any) -> None:
        try:
            instance.__dict__[self.attrname] = value
        except AttributeError:
            raise self._no_dict(instance) from None

    def __delete__(self, instance: Any) -> None:
        laid = getattr(instance, "__dict__", {}).pop(self.attrname, _MISSING)
        memo = memo_of(instance)
        if laid is _MISSING and memo.get(self, _MISSING) is _MISSING:
            raise AttributeError(self.attrname)
        memo.forget(self)

    def read(self, obj: Any) -> Any:
        # What a user has laid into the instance wins, as it does with functools.
        fields = getattr(obj, "__dict__", None)
        if fields is not None and self.attrname in fields:
            return fields[self.attrname]
        try:
            memo = memo_of(obj)
        except TypeError:
            if type(obj).__weakrefoffset__ != 0:
                raise
            raise NowhereToStoreError(type(obj), self.func.__name__) from None
        value = memo.values.get(self, _MISSING)
        return self._compute(obj, memo) if value is _MISSING else value

    def peek(self, obj: Any, default: Any) -> Any:
        fields = getattr(obj, "__dict__", None)
        if fields is not None and self.attrname in fields:
            return fields[self.attrname]
        return memo_of(obj).get(self, default)

    def _compute(self, obj: Any, memo: Memo) -> Any:
        if self.attrname is None:
            raise TypeError(
                "Cannot use cached_property instance without calling "
                "__set_name__ on it."
            )
        with memo.one_thread(self):
            memo = memo_of(obj)  # another thread's body may have led to a new one
            value = memo.get(self, _MISSING)
            if value is not _MISSING:
                return value
            if memo.lender is not None:
                value = memo.lender(self)
                if value is not NOT_LENT:
                    memo.values[self] = value
                    return value
            value = self._evaluate(obj)
            memo.after_a_body(obj).keep(self, value)
            return value

    def _evaluate(self, obj: Any) -> T_co:
        try:
            return at_level_of(obj, self._body)
        except _NEEDS_NUMBERS as error:
            if not getattr(error, "__notes__", ()):  # not said yet, further inside
                error.add_note(host_only_note(self.of(obj)))
            raise

    def _no_dict(self, obj: object) -> AttributeError:
        return AttributeError(
            f"{type(obj).__name__!r} object attribute {self.attrname!r} is read-only"
        )
