"""Where cached values live: beside their object, never in it.

One table, keyed by the identity of the object and holding it weakly. Not in the
instance `__dict__`, which chex flattens, nnx makes part of the tree structure,
equinox compares, and pickle writes.
"""

import inspect
import sys
import threading
import warnings
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import jax

from ._compat import Tracer
from ._errors import LeakedTracerError, NowhereToStoreError, holds_its_object
from ._levels import is_alive, may_be_kept
from ._parts import all_parts, plain_leaves, reached
from ._recent import forget_guesses
from ._shelf import AtHand
from ._snapshot import Snapshot

memos: dict[int, "Memo"] = {}
"""By the id of the object. All there is; read it only through `memo_of`, but where
a nanosecond counts."""
making = threading.Lock()


class Source:
    """What a class has to say that values are kept for its objects: a cached property,
    a cached method."""


class Key(ABC):
    """What a value is kept under: a cached property, or a cached method and arguments.

    Two properties of one name (one overriding the other) are two keys.
    """

    attrname: str | None
    traced_leaves: dict[Any, list[bool] | None]
    """By the structure of the object: which leaves of the value are traced when the
    object is. Filled in by who needs it."""

    moulds: dict[Any, Any]
    """The forms its values have had: one for all the objects that have it alike."""

    was_given = False
    """Whether there ever was a value that somebody gave, instead of the body."""

    def is_given(self) -> None:
        """Take note of it. It may be of another kind than those that are computed: one
        that can travel, which they cannot."""
        if not self.was_given:
            self.was_given = True
            forget_guesses()

    @abstractmethod
    def read(self, obj: Any) -> Any:
        """The value for `obj`, computed and kept if it is not there yet."""

    @abstractmethod
    def peek(self, obj: Any, default: Any) -> Any:
        """The value for `obj` if it is there, else `default`."""

    @abstractmethod
    def forget(self, obj: Any) -> None:
        """The value for `obj`."""

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
        "from_kin",
        "holds",
        "is_flat",
        "key",
        "lender",
        "on_trust",
        "packed",
        "values",
    )

    key: int
    values: dict[Key, Any]
    folded: dict[Key, "_Folded"]
    packed: dict[Key, Any]
    at_hand: AtHand
    lender: Lender | None
    on_trust: bool
    """Whether some of the values were given, and not computed."""
    from_kin: bool
    """Whether some of the values were known from another object."""
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
        self.on_trust = False
        self.from_kin = False
        self._locks: dict[Key, threading.RLock] = {}

        def forget() -> None:
            values.clear()
            folded.clear()
            packed.clear()
            at_hand.withdraw()

        self._snapshot = Snapshot(obj, forget)
        self.holds = self._snapshot.holds
        self.is_flat = self._snapshot.is_flat

    def hold(self) -> None:
        """Its object is in use: have it looked at as fast as can be."""
        self._snapshot.hold(self())
        self.holds = self._snapshot.holds

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


def _to_the_reader() -> int:
    """Frames from the caller of this to the line that reads a property."""
    frame, level = sys._getframe(1), 1
    while frame.f_back and frame.f_globals.get("__name__", "").startswith("cachax."):
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
            return memo
        new = Memo(obj)
        with making:
            if memos.get(id(obj)) is memo:  # else another thread has been here first
                if isinstance(memo, Memo) and memo() is obj:  # not pending (_fresh.py)
                    new._locks = memo._locks  # a body may be at work, and set a field
                    memo.at_hand.withdraw()
                memos[id(obj)] = new
                return new


def _remove(memo: Memo, memos: dict[int, Any] = memos) -> None:
    # Called by the last objects of a program too, when globals are gone already.
    if memos.get(memo.key) is memo:
        del memos[memo.key]
    memo.at_hand.withdraw()


_names: WeakKeyDictionary[type, tuple[str, ...]] = WeakKeyDictionary()
# Names, and not the keys: a key holds its function, and that may hold the class.


def names_of(cls: type) -> tuple[str, ...]:
    """The names under which `cls` has sources of values."""
    try:
        return _names[cls]
    except KeyError:
        attributes: dict[str, Any] = {}
        for base in reversed(cls.__mro__):
            attributes |= vars(base)
        names = tuple(n for n, a in attributes.items() if isinstance(a, Source))
        _names[cls] = names
        return names


def sources_of(cls: type) -> dict[str, Source]:
    """The sources of values that are attributes of `cls`, by name."""
    return {name: inspect.getattr_static(cls, name) for name in names_of(cls)}


def keys_of(cls: type) -> dict[str, Key]:
    """Those among them that are one key: the cached properties."""
    sources = sources_of(cls).items()
    return {name: source for name, source in sources if isinstance(source, Key)}


_subjects: WeakSet[type] = WeakSet()
_late = 0
"""How many classes got a source of values after somebody had looked for some."""


def may_have_values(cls: type) -> bool:
    """Whether `cls` has sources of values, or cached functions are called on its
    objects."""
    return bool(names_of(cls)) or cls in _subjects


def becomes_subject(cls: type) -> bool:
    """Take note that a cached function is called on objects of `cls`. True if that is
    new."""
    is_new = not may_have_values(cls)
    if is_new:
        _subjects.add(cls)
    return is_new


def late_sources() -> int:
    """Changes when a class that was in use gets another source of values: the traces
    made until then know nothing of it."""
    return _late


def subjects() -> object:
    """Changes with the classes that may have values, and so may what was found out
    about a tree."""
    return len(_subjects), _late


def declare(cls: type, name: str) -> None:
    """Take note that `cls` has a key under `name`, if its objects can have a memo."""
    global _late
    if cls.__weakrefoffset__ == 0 and not _is_mixin(cls):
        raise NowhereToStoreError(cls, name)
    for known in [*_names]:
        if issubclass(known, cls):
            _names.pop(known, None)
            _late += 1
            forget_guesses()


def _is_mixin(cls: type) -> bool:
    """Whether `cls` has no fields at all: `__slots__ = ()`, so that its subclasses
    are free to have slots, `__weakref__` among them."""
    return cls.__basicsize__ == object.__basicsize__ and cls.__itemsize__ == 0
