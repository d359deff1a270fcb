"""The cached property: a value that is computed once for each object."""

import functools
from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

from .._compat import SETTINGS
from .._errors import check_method
from .body import carrying_body
from .computed import MISSING, Computed
from .index import Changes
from .memo import Source, declare, forget_computed_with, memos
from .recent import Recent
from .sources import class_of
from .uses import Learned

_x64, _precision, _promotion, _prng, _split = SETTINGS

T_co = TypeVar("T_co", covariant=True)


class cached_property(Computed, Source, Generic[T_co]):
    """A drop-in replacement for `functools.cached_property` that is correct under JAX.

    The body runs once for each object, wherever it is read first. The value is kept for
    the arrays it came from: not as a leaf, not in the `__dict__` of the object. An
    object rebuilt from the same arrays has it too, and one with different arrays
    doesn't.

    Args:
        func: A method without other arguments than `self`. For a method with
            arguments, use `cached_method`.

    Raises:
        UsageError: `func` has other arguments, or is a `property`.
        NowhereToStoreError: Objects of the class can't be weakly referenced: it has
            `__slots__` without `__weakref__`, or is a `NamedTuple`. (Before Python 3.12
            it is the cause of a `RuntimeError`.)

    Example:
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

    # Without a method, as in `@cached_property()`, it raises an error that says so: the
    # default is not part of the type.
    def __init__(
        self,
        func: Callable[[Any], T_co] = None,  # type: ignore[assignment]  # noqa: RUF013
    ) -> None:
        check_method(func)
        super().__init__(getattr(func, "__name__", ""), carrying_body(func, func))
        self.func = func
        self._is_pydantic = False
        self.__doc__ = func.__doc__
        self.__isabstractmethod__ = getattr(func, "__isabstractmethod__", False)
        self.__module__ = func.__module__

    def __getstate__(self) -> dict[str, Any]:
        """For copies, and for classes that are pickled whole: without what was
        learned."""
        state = vars(self).items()
        learned = (Recent, Learned)
        return {k: x for k, x in state if k != "body" and not isinstance(x, learned)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        cached_property.__init__(self, state["func"])
        vars(self).update(state)

    def __set_name__(self, owner: type, name: str) -> None:
        modules = [base.__module__.partition(".")[0] for base in owner.__mro__]
        self._is_pydantic = "pydantic" in modules
        if self.attrname is None:
            self.attrname = name
        elif name != self.attrname:
            raise TypeError(
                "Cannot assign the same cached_property to two different names "
                f"({self.attrname!r} and {name!r})."
            )
        declare(owner, name)

    # pydantic takes an assignment on a frozen model only for what functools has.
    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        is_set = self.attrname is not None
        is_its = is_set and self._is_pydantic
        return functools.cached_property if is_its else class_of(self)

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> T_co: ...
    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        memo = memos.get(id(instance))  # `memo_of`, without the cost of calls
        if (
            memo is not None
            and memo() is instance
            and memo.holds(instance)
            and memo.changes == Changes.count
            and memo.settings
            == (
                _x64.value,
                _precision.value,
                _promotion.value,
                _prng.value,
                _split.value,
            )
        ):
            try:
                return memo.values[self]
            except KeyError:
                pass
        value = self.stored(instance)
        if value is MISSING:
            return self._compute(instance, self.memo_of(instance))
        return value

    # With functools, `obj.p = v` and `del obj.p` work on the instance `__dict__`,
    # where the cached value is too. Here it is not: for `del` to forget it, this has
    # to be a data descriptor.
    def __set__(self, instance: Any, value: Any) -> None:
        self.note_supplied()
        try:
            instance.__dict__[self.attrname] = value
        except AttributeError:
            raise AttributeError(
                f"{type(instance).__name__!r} object attribute {self.attrname!r} is "
                "read-only"
            ) from None

    def __delete__(self, instance: Any) -> None:
        if self.peek(instance, MISSING) is MISSING:
            raise AttributeError(self.attrname)
        self.forget(instance)

    def forget(self, obj: Any) -> None:
        was_supplied = self.is_supplied(obj)
        if self.stored(obj) is not MISSING:
            del obj.__dict__[self.attrname]
        super().forget(obj)
        if was_supplied:
            self.memo_of(obj).hide(self.attrname)
            forget_computed_with(obj)

    # A value that the user stored on the instance takes precedence, as with functools.
    def stored(self, obj: Any) -> Any:
        fields = getattr(obj, "__dict__", None)
        if fields is None or self.attrname not in fields:
            return MISSING
        attributes = (vars(base).get(self.attrname or "") for base in type(obj).__mro__)
        if not any(x is self for x in attributes):  # a field of a different class
            return MISSING
        self.note_supplied()
        return fields[self.attrname]

    def peek(self, obj: Any, default: Any) -> Any:
        value = self.stored(obj)
        return super().peek(obj, default) if value is MISSING else value

    def is_assigned(self, obj: Any) -> bool:
        """Whether it stays when a field is assigned: the user did not `preset` it."""
        outside = self.memo_of(obj).provider
        is_outside = outside is not None and self in outside.assigned_only().supplied()
        return is_outside or self.stored(obj) is not MISSING
