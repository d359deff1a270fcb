"""Where cached values live: beside their object, never in it.

One table, keyed by the identity of the object and holding it weakly. Not in the
instance `__dict__`, which chex flattens, nnx makes part of the tree structure,
equinox compares, and pickle writes.
"""

import inspect
import operator
import sys
import threading
import warnings
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import jax

from ._compat import Tracer
from ._errors import LeakedTracerError, NowhereToStoreError, holds_its_object
from ._levels import is_alive, may_be_kept
from ._parts import all_parts, instance_dict, plain_leaves, reached
from ._snapshot import Snapshot

memos: dict[int, "Memo | Pending"] = {}
"""By the id of the object. All there is; read it only through `memo_of`, but where
a nanosecond counts."""
_making = threading.Lock()


class Key(ABC):
    """What a value is kept under: for now, a cached property.

    Two properties of one name (one overriding the other) are two keys.
    """

    attrname: str | None
    traced_leaves: dict[Any, list[bool] | None]
    """By the structure of the object: which leaves of the value are traced when the
    object is. Filled in by who needs it."""

    moulds: dict[Any, Any]
    """The forms its values have had: one for all the objects that have it alike."""

    @abstractmethod
    def read(self, obj: Any) -> Any:
        """The value for `obj`, computed and kept if it is not there yet."""

    @abstractmethod
    def peek(self, obj: Any, default: Any) -> Any:
        """The value for `obj` if it is there, else `default`."""

    def of(self, obj: object) -> str:
        """How messages name this value of `obj`."""
        return f"{type(obj).__qualname__}.{self.attrname}"


Lender = Callable[[Key], Any]
"""Gives a value for a traced object from somewhere else, or `NOT_LENT`."""

NOT_LENT: Any = object()


class Memo(weakref.ref[Any]):
    """The values kept for one object, as long as its fields stay the same."""

    __slots__ = (
        "_locks",
        "_snapshot",
        "at_hand",
        "folded",
        "holds",
        "is_flat",
        "key",
        "lender",
        "packed",
        "values",
    )

    key: int
    values: dict[Key, Any]
    folded: dict[Key, "_Folded"]
    packed: dict[Key, Any]
    at_hand: "AtHand"
    lender: Lender | None
    holds: Callable[[Any], bool]
    """Whether the object still has the fields the values were computed from."""

    def __new__(cls, obj: object) -> "Memo":
        return super().__new__(cls, obj, _remove)

    def __init__(self, obj: object) -> None:
        super().__init__(obj, _remove)  # type: ignore[call-arg]  # typeshed: object's
        self.key = id(obj)
        values = self.values = {}
        folded = self.folded = {}
        packed = self.packed = {}
        at_hand = self.at_hand = AtHand()
        self.lender = None
        self._locks: dict[Key, threading.RLock] = {}

        def forget() -> None:
            values.clear()
            folded.clear()
            packed.clear()
            at_hand.withdraw()

        self._snapshot = Snapshot(obj, forget)
        self.holds = self._snapshot.holds
        self.is_flat = self._snapshot.is_flat

    def after_a_body(self, obj: object) -> "Memo":
        """Where to keep a value, now that its body has run.

        A body may set fields of its own object (a counter, something to use again)
        without that being a change to the object: all it has computed from is still
        there. An array replaced meanwhile, by whomever, is one: then the value is
        out of date already and goes to the memo that nobody asks any more.
        """
        now = memo_of(obj)
        return now if now is self or self._snapshot.all_still_in(obj) else self

    @contextmanager
    def one_thread(self, key: Key) -> Iterator[None]:
        """One thread at a time computes the value of `key`; the others wait.

        A lock for each value and not for each object: two values of two objects may
        need each other's crosswise without being circular.
        """
        with self._locks.setdefault(key, threading.RLock()):
            yield
        self._locks.pop(key, None)

    def is_busy(self, key: Key) -> bool:
        """Whether another thread is computing the value of `key`."""
        lock = self._locks.get(key)
        if lock is None:
            return False
        is_free = lock.acquire(blocking=False)
        if is_free:
            lock.release()
        return not is_free

    def get(self, key: Key, default: Any) -> Any:
        """The value kept under `key`, or `default`."""
        try:
            return self.values[key]
        except KeyError:
            folded = self.folded.get(key)
            return default if folded is None else folded.unfold(self())

    def keep(self, key: Key, value: Any) -> None:
        """Keep `value`, if it lives as long as the object and does not hold it."""
        if type(value) in plain_leaves and not isinstance(value, Tracer):
            self.values[key] = value
            return
        obj = self()
        if not may_be_kept(value, obj):
            if not is_alive(value):
                raise LeakedTracerError(key.of(obj))
        elif not _reaches(value, obj):
            self.values[key] = value
        elif (folded := _fold(value, obj)) is not None:
            self.folded[key] = folded
        else:
            warnings.warn(holds_its_object(key.of(obj)), stacklevel=_to_the_reader())

    def forget(self, key: Key) -> None:
        self.values.pop(key, None)
        self.folded.pop(key, None)
        self.packed.pop(key, None)
        self.at_hand.withdraw()


class Shelf(dict[int, Any]):
    """What a function has at hand for its warm calls, by the id of an object.

    Whoever puts something there tells the memos it came from, which withdraw it when
    they forget, at the latest when the object goes.
    """

    __slots__ = ("__weakref__", "together")

    def __init__(self) -> None:
        self.together: Any = None
        """What was put together from several of the entries."""


class AtHand:
    """Where the values of one memo are at hand for functions."""

    __slots__ = ("_places",)

    def __init__(self) -> None:
        self._places: dict[tuple[int, int], weakref.ref[Shelf]] = {}

    def note(self, shelf: Shelf, entry: int) -> None:
        if len(self._places) > 100:  # functions come and go
            alive = {p: ref for p, ref in self._places.items() if ref() is not None}
            self._places = alive
        self._places[id(shelf), entry] = weakref.ref(shelf)

    def withdraw(self) -> None:
        for (_, entry), ref in [*self._places.items()]:
            shelf = ref()
            if shelf is not None:
                shelf.together = None
                shelf.pop(entry, None)
        self._places.clear()


def _to_the_reader() -> int:
    """Frames from the caller of this to the line that reads a property."""
    frame, level = sys._getframe(1), 1
    while frame.f_back and frame.f_globals["__name__"].startswith("cachax."):
        frame, level = frame.f_back, level + 1
    return level


def _reaches(value: Any, obj: object) -> bool:
    """Whether `value` holds `obj`, directly or by values cached on what it holds."""
    return any(part is obj for part in reached(value, _parts_and_values))


def _parts_and_values(x: Any) -> list[Any]:
    memo = memos.get(id(x))
    values = [*memo.values.values()] if isinstance(memo, Memo) else []
    return all_parts(x) + values


class _Folded:
    """A value that holds its own object, kept without the object.

    The table is out of the garbage collector's sight: a value in it that held its
    object would keep both for ever.
    """

    def __init__(self, value: Any, leaves: list[Any], structure: Any) -> None:
        self._leaves = leaves
        self._structure = structure
        self._last = _weakly(value)

    def unfold(self, obj: object) -> Any:
        value = self._last()
        if value is None:
            leaves = [obj if x is _ITSELF else x for x in self._leaves]
            value = self._structure.unflatten(leaves)
            self._last = _weakly(value)
        return value


_ITSELF = object()


def _fold(value: Any, obj: object) -> _Folded | None:
    """`value` without `obj`; None if it holds it where JAX does not see it."""
    try:
        leaves, structure = jax.tree.flatten(value, is_leaf=lambda x: x is obj)
        leaves = [_ITSELF if x is obj else x for x in leaves]
        hollow = jax.tree.unflatten(structure, leaves)
    except Exception:  # no tree, or of a class that looks at what it is built from
        return None
    return None if _reaches(hollow, obj) else _Folded(value, leaves, structure)


def _weakly(value: Any) -> Callable[[], Any]:
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: None


def memo_of(obj: Any) -> Memo:
    """The memo of `obj`, with no value in it that is out of date."""
    while True:
        memo = memos.get(id(obj))
        if memo is not None and memo() is obj and memo.holds(obj):
            return memo  # type: ignore[return-value]  # one that is pending never holds
        new = Memo(obj)
        with _making:
            if memos.get(id(obj)) is memo:  # else another thread has been here first
                if isinstance(memo, Memo) and memo() is obj:
                    new._locks = memo._locks  # a body may be at work, and set a field
                    memo.at_hand.withdraw()
                memos[id(obj)] = new
                return new


class Pending(weakref.ref[Any]):
    """What came out of a call for an object that was new to it: kept as it is until
    somebody asks. Most such objects are gone by then.

    Only for an object that is frozen and has nothing but arrays and the like in it:
    it is all right to hold them, as the object does.
    """

    __slots__ = ("arrays", "call", "fields", "key")

    key: int
    fields: tuple[Any, ...]
    call: "FreshCall"
    arrays: Any
    """Not there while the call is under way."""

    def holds(self, obj: Any) -> bool:
        """Never. But if the object is as it was, it has a memo now."""
        # Not for ever: the call may be traced, and want what this thread is computing.
        if not self.call.lock.acquire(timeout=1):
            return False
        try:
            fields = instance_dict(obj, "__dict__").values()
            is_same = len(fields) == len(self.fields)
            is_same = is_same and all(map(operator.is_, fields, self.fields))
            if is_same and hasattr(self, "arrays"):
                memo = Memo(obj)
                for key, value in self.call.values(self.arrays).items():
                    memo.keep(key, value)
                with _making:
                    if memos.get(self.key) is self:
                        memos[self.key] = memo
        finally:
            self.call.lock.release()
        return False


class FreshCall(Protocol):
    """Where something that is pending comes from."""

    lock: threading.RLock
    """Held while it is under way."""

    def values(self, arrays: Any) -> dict[Key, Any]:
        """What the arrays it brought out are."""


def remove_pending(pending: Pending, memos: dict[int, Any] = memos) -> None:
    if memos.get(pending.key) is pending:
        del memos[pending.key]


def _remove(memo: Memo, memos: dict[int, Any] = memos) -> None:
    # Called by the last objects of a program too, when globals are gone already.
    if memos.get(memo.key) is memo:
        del memos[memo.key]
    memo.at_hand.withdraw()


_names: WeakKeyDictionary[type, tuple[str, ...]] = WeakKeyDictionary()
# Names, and not the keys: a key holds its function, and that may hold the class.


def names_of(cls: type) -> tuple[str, ...]:
    """The names under which `cls` has keys."""
    try:
        return _names[cls]
    except KeyError:
        attributes: dict[str, Any] = {}
        for base in reversed(cls.__mro__):
            attributes |= vars(base)
        names = tuple(n for n, a in attributes.items() if isinstance(a, Key))
        _names[cls] = names
        return names


def keys_of(cls: type) -> dict[str, Key]:
    """The keys that are attributes of `cls`, by name."""
    return {name: inspect.getattr_static(cls, name) for name in names_of(cls)}


def declare(cls: type, name: str) -> None:
    """Take note that `cls` has a key under `name`, if its objects can have a memo."""
    if cls.__weakrefoffset__ == 0 and not _is_mixin(cls):
        raise NowhereToStoreError(cls, name)
    _names.clear()


def _is_mixin(cls: type) -> bool:
    """Whether `cls` has no fields at all: `__slots__ = ()`, so that its subclasses
    are free to have slots, `__weakref__` among them."""
    return cls.__basicsize__ == object.__basicsize__ and cls.__itemsize__ == 0
