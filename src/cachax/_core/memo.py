"""Values kept beside their object, never in it.

One table, by the identity of the object, which it holds weakly. Not in the instance
`__dict__`, which chex flattens, nnx makes part of the tree structure, equinox compares,
and pickle writes. It makes reads fast, and it is the only place for values that
identity of arrays can't describe: values supplied by the user, and those of objects
with numpy arrays, references or hidden state.
"""

import inspect
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from weakref import WeakSet

from .._compat import Tracer, settings
from .._errors import (
    LeakedTracerError,
    NowhereToStoreError,
    holds_its_object,
    plain_name,
    warn_once,
)
from .fields import (
    WEAK,
    all_parts,
    attributes,
    has_nothing,
    plain_leaves,
    reached,
    walk,
    walk_fields,
)
from .index import Changes, Contents, Record
from .inputs import Inputs, inputs_in_fields
from .levels import is_alive, may_be_kept
from .parts import identity_of
from .snapshot import Snapshot
from .sources import Source as Source
from .sources import forget_names, names_of, sources_of
from .structure import flatten

memos: dict[int, "Memo"] = {}
"""By the id of the object. Use `memo_of`, except where a nanosecond counts."""
_making = threading.Lock()


class Key:
    """What a value is kept under: a cached property, or a cached method and arguments.

    Two properties of one name (one overriding the other) are two keys.
    """

    attrname: str | None
    read: Callable[[Any], Any]
    """The value for an object, computed and kept if it is not there yet."""
    peek: Callable[[Any, Any], Any]
    """The value for an object if it is there, else a default."""
    forget: Callable[[Any], None]
    is_assigned: Callable[[Any], bool]
    """Of a value that the user supplied: whether it stays when a field is assigned."""

    was_supplied = False
    """Whether a user ever assigned a value."""

    def note_supplied(self) -> None:
        """From now on, `jit` looks at the objects themselves for this property."""
        if not self.was_supplied:
            self.was_supplied = True
            forget_entries()

    def of(self, obj: object) -> str:
        """How messages name this value of `obj`."""
        return f"{plain_name(type(obj))}.{self.attrname}"


NOT_PROVIDED: Any = object()


class Supplied(NamedTuple):
    """A value that the user supplied."""

    value: Any
    is_assigned: bool


@dataclass(frozen=True, eq=False)
class Provider:
    """Gives values for a traced object from outside its trace."""

    provide: Callable[[Key], Any]
    """Gives the value, or `NOT_PROVIDED`."""
    outside: Callable[[], dict[Any, Supplied]] = dict
    """Gives the values that the user supplied there."""
    but: frozenset[Any] = frozenset()
    """The names of values that it doesn't give."""
    has_computed: bool = True
    """Whether it gives values that were computed, beside those that were supplied."""
    has_preset: bool = True
    """Whether it gives those among them that were not assigned."""

    def __call__(self, key: Key) -> Any:
        is_its = self.has_computed or key in self.supplied()
        is_its = is_its and key.attrname not in self.but
        return self.provide(key) if is_its else NOT_PROVIDED

    def supplied(self) -> dict[Any, Any]:
        """The values that the user supplied."""
        return {
            key: value
            for key, (value, is_assigned) in self.outside().items()
            if key.attrname not in self.but and (self.has_preset or is_assigned)
        }

    def supplied_only(self) -> "Provider":
        """After a value was assigned, or cleared."""
        return replace(self, has_computed=False)

    def assigned_only(self) -> "Provider":
        """After a field was assigned."""
        return replace(self, has_computed=False, has_preset=False)


class Memo(weakref.ref[Any]):
    """The values kept for one object, as long as its fields stay the same."""

    __slots__ = (
        "_locks",
        "_snapshot",
        "changes",
        "contents",
        "folded",
        "holds",
        "identity_then",
        "indexed",
        "key",
        "others",
        "packed",
        "provider",
        "settings",
        "supplied",
        "values",
    )

    key: int
    values: dict[Key, Any]
    folded: dict[Key, "_Folded"]
    packed: dict[Any, Any]
    """Values as programs take them (`_jit`)."""
    provider: Provider | None
    indexed: dict[Key, Record]
    """The records of values that are in the index too, or were: one that was cleared
    there is cleared here."""
    changes: int
    """Of the index, when that was last checked."""
    supplied: dict[Key, Any]
    """What was supplied by `preset`. (Not the values that hold their object.)"""
    identity_then: Any
    """The identity of the object then. (It stays when a property is assigned.)"""
    contents: list[Contents]
    """What stands for the object in the keys of calls, like the contents of an array:
    what is ready for these calls goes with it (`_jit`). One, or none yet."""
    others: "dict[Any, Memo]"
    """Those of the object for other configurations of JAX, and this one."""
    holds: Callable[[Any], bool]
    """Whether the object still has the fields the values were computed from."""

    def __new__(cls, obj: object) -> "Memo":
        return super().__new__(cls, obj, _remove)

    def __init__(self, obj: object) -> None:
        super().__init__(obj, _remove)  # type: ignore[call-arg]  # typeshed: object's
        self.key = id(obj)
        self.values, self.folded, self.packed, self.indexed = {}, {}, {}, {}
        self.contents = []
        self.provider = None
        self.supplied = {}
        self.identity_then = None
        self.changes = Changes.count
        self.settings = settings()
        self.others = {}
        self._locks: dict[Key, threading.RLock] = {}

        tables: list[Any] = [self.values, self.folded, self.packed, self.indexed]
        tables.append(self.contents)

        def forget() -> None:
            for table in tables:
                table.clear()

        self._snapshot = Snapshot(obj, forget)
        self.holds = self._snapshot.holds

    def drop_cleared(self, contents: Contents | None = None) -> None:
        """Records were cleared, or all those of an array: forget their values. (Not
        those whose records are gone for another reason: to clear one object must make
        no difference to others.)"""
        self.changes = Changes.count
        for key, record in [*self.indexed.items()]:
            owners = () if contents is None else [ref() for ref in record.owners]
            if record.is_cleared or any(owner is contents for owner in owners):
                self._drop(key)

    def _drop(self, key: Key) -> None:
        for table in (self.values, self.folded, self.indexed):
            table.pop(key, None)
        self.contents.clear()

    def after_a_body(self, obj: object) -> "Memo":
        """Where to keep a value, now that its body has run.

        A body may set fields of its object (a counter, something to reuse). That is
        not a change, as long as everything it has computed from is still there. If a
        thread has replaced an array meanwhile, the value is stale already, and goes
        to a memo that is not used any more.
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
        obj = self()
        is_plain = type(value) in plain_leaves and value is not obj
        if is_plain and not isinstance(value, Tracer):
            self.values[key] = value
            return
        if not may_be_kept(value, obj):
            if not is_alive(value):
                raise LeakedTracerError(key.of(obj))
        elif not _reaches(value, obj):
            self.values[key] = value
        elif (folded := _fold(value, obj)) is not None:
            self.folded[key] = folded
        else:
            about = getattr(key, "source", key)
            warn_once(about, holds_its_object(key.of(obj)), _to_the_reader())

    def supply(self, key: Key, value: Any) -> None:
        """Keep a value that was not computed."""
        obj = self()
        is_inner = not may_be_kept(value, obj) and is_alive(value)
        if is_inner and type(obj).__dictoffset__:  # the level of `obj` is this one then
            attributes(obj)[key.attrname or ""] = value
            return
        self.keep(key, value)
        if self.get(key, self) is self:
            raise LeakedTracerError(key.of(self()))
        self.supplied[key] = self.values.get(key, self.folded.get(key))
        self.identity_then = self._identity()
        self.contents.clear()

    def keep_supplied(self, obj: Any, before: "Memo", is_same: bool) -> None:
        """What was supplied for `obj`, if its fields are the same still: properties may
        have been assigned, or the configuration of JAX is different."""
        if before.supplied and (is_same or before.identity_then == self._identity()):
            for key, value in before.supplied.items():
                if key.attrname not in attributes(obj):
                    self.supply(key, before.get(key, value))

    def set_provider(self, provider: Provider) -> None:
        """Get values from it, as long as the fields stay the same."""
        self.provider = provider
        if provider.supplied():
            self.identity_then = self._identity()

    def provide_supplied(self, key: Key, supplied: Supplied) -> None:
        """A value came out of a function that was called in the trace of the object."""
        known = {} if self.provider is None else self.provider.outside()
        known[key] = supplied
        self.set_provider(
            Provider(lambda key: known[key].value, lambda: known, has_computed=False)
        )

    def hide(self, name: str | None) -> None:
        """From now on, no value of this name is provided."""
        if self.provider is not None:
            self.provider = replace(self.provider, but=self.provider.but | {name})

    def take_over(self, before: "Memo") -> None:
        """What is provided, after something was assigned to the object."""
        if before.provider is not None and before.identity_then == self._identity():
            self.provider = before.provider.supplied_only()
            self.identity_then = before.identity_then
        elif before.provider is not None:
            self.provider = before.provider.assigned_only()

    def _identity(self) -> Any:
        """Of the object."""
        inputs = inputs_in_fields(self())
        return self._snapshot if inputs is None else inputs.identity

    def forget(self, key: Key) -> None:
        for memo in (self, *self.others.values()):
            memo._drop(key)
            memo.supplied.pop(key, None)

    def forget_computed(self) -> None:
        if self.provider is not None:
            self.provider = self.provider.supplied_only()
        for memo in (self, *self.others.values()):
            for key in {*memo.values, *memo.folded}.difference(memo.supplied):
                memo.forget(key)


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
    values = [*memo.values.values()] if memo is not None else []
    is_weak = type(x) in WEAK or issubclass(type(x), weakref.ref)
    return values if is_weak else all_parts(x) + values


class _Folded:
    """A value that holds its own object, kept without the object.

    The table is out of the garbage collector's sight: a value in it that held its
    object would keep both forever.
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
        leaves, structure = flatten(value, lambda x: x is obj)
        leaves = [_ITSELF if x is obj else x for x in leaves]
        hollow = structure.unflatten(leaves)
    except Exception:  # no tree, or of a class that looks at what it is built from
        return None
    return None if _reaches(hollow, obj) else _Folded(value, leaves, structure)


def _weakly(value: Any) -> Callable[[], Any]:
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: None


def memo_of(obj: Any) -> Memo:
    """The memo of `obj`, without values that are out of date."""
    while True:
        memo = memos.get(id(obj))
        is_same = memo is not None and memo() is obj and memo.holds(obj)
        if is_same and memo.settings == settings():  # type: ignore[union-attr]
            if memo.changes != Changes.count:  # type: ignore[union-attr]
                memo.drop_cleared()  # type: ignore[union-attr]
            return memo  # type: ignore[return-value]
        other = memo.others.get(settings()) if is_same else None  # type: ignore[union-attr]
        new = Memo(obj) if other is None or not other.holds(obj) else other
        if memo is not None and memo() is obj:
            new.keep_supplied(obj, memo, is_same)
            if is_same:  # but not the configuration
                new.provider, new.others = memo.provider, memo.others
                new.others |= {memo.settings: memo, new.settings: new}
            else:
                new.take_over(memo)
        with _making:
            if memos.get(id(obj)) is memo:  # else another thread was faster
                if memo is not None and memo() is obj:
                    new._locks = memo._locks  # a body may be running, and set a field
                memos[id(obj)] = new
                new.drop_cleared()
                return new


def has_memo(obj: Any) -> bool:
    """Whether something is kept beside `obj`."""
    memo = memos.get(id(obj))
    return memo is not None and memo() is obj


def inputs_of(obj: Any) -> Inputs | None:
    """The inputs of `obj`, with the values that the user supplied."""
    return inputs_in_fields(obj, _identities_of_supplied)


def _identities_of_supplied(obj: Any) -> list[tuple[Key, Any]]:
    """The properties whose values the user supplied, and what tells these values from
    others; for a traced object, outside of its trace."""
    found = supplied_for(obj) if names_of(type(obj)) else {}
    keys = sorted(found, key=lambda key: key.attrname or "")
    return [(key, _identity_of_value(found[key])) for key in keys]


def _identity_of_value(value: Any) -> tuple[Any, ...]:
    """What tells a value from others, without holding it: there is no weak reference to
    a dictionary or a list, so it is described by what is in it."""
    return tuple(
        (type(x), len(x)) if isinstance(x, _CONTAINERS) else identity_of(x)
        for x in walk(value)
    )


_CONTAINERS = (list, tuple, dict, set, frozenset)


def supplied_for(obj: Any) -> dict[Key, Any]:
    """The values that the user supplied; for a traced object, outside of its trace."""
    found: dict[Key, Any] = {}
    memo = memos.get(id(obj))
    may_have_some = memo is not None and (memo.supplied or memo.provider)
    if may_have_some and memo() is obj:  # type: ignore[misc]
        memo = memo_of(obj)
        found |= {} if memo.provider is None else memo.provider.supplied()
        found |= memo.supplied
    fields = attributes(obj)
    for name in fields.keys() & names_of(type(obj)):
        key = inspect.getattr_static(type(obj), name)
        if isinstance(key, Key):
            key.note_supplied()
            found[key] = fields[name]
    return found


def forget_computed_with(obj: Any) -> None:
    """A value that was supplied for `obj` is gone, and so is what was computed from it,
    for all objects that it is a part of."""
    for memo in [*memos.values()]:
        if any(part is obj for part in walk_fields(memo())):
            memo.forget_computed()


def supplied_outside(owner: Any) -> dict[Any, Supplied]:
    """The values that the user supplied for `owner`, if there is one."""
    found = {} if owner is None else supplied_for(owner)
    return {key: Supplied(x, key.is_assigned(owner)) for key, x in found.items()}


def has_preset(obj: Any) -> bool:
    """Whether it has a value that was supplied by `preset`."""
    return has_memo(obj) and bool(memos[id(obj)].supplied)


def preset_keys(obj: Any) -> list[Key]:
    """Of what was supplied by `preset`; for a traced object, outside of its trace."""
    assigned = attributes(obj)
    return [key for key in supplied_for(obj) if key.attrname not in assigned]


def has_supplied(obj: Any) -> bool:
    """Whether there is such a value. (A body may have put it there, too.)"""
    return can_have_values(obj) and bool(supplied_for(obj))


def contents_of_object(obj: Any) -> Contents:
    """What stands for `obj` as long as its fields stay the same. (With a different
    configuration, JAX traces the function again.)"""
    memo = memos.get(id(obj))
    if not (
        memo is not None
        and memo() is obj
        and memo.holds(obj)
        and memo.changes == Changes.count
    ):
        memo = memo_of(obj)
    found = memo.contents
    if not found:
        found.append(Contents())
    return found[0]


def _remove(memo: Memo, memos: dict[int, Any] = memos) -> None:
    # Called by the last objects of a program too, when globals are gone already.
    memo.others.clear()  # a cycle would wait for the garbage collector
    if memos.get(memo.key) is memo:
        del memos[memo.key]


def keys_of(cls: type) -> dict[str, Key]:
    """Those among them that are one key: the cached properties."""
    sources = sources_of(cls).items()
    return {name: source for name, source in sources if isinstance(source, Key)}


_subjects: WeakSet[type] = WeakSet()
_entries: WeakSet[Any] = WeakSet()
"""What jitted functions have learned about calls."""


def note_entries(entries: Any) -> None:
    _entries.add(entries)


def forget_entries() -> None:
    """Something changed that a call can't detect: a class in use got a cached property,
    or a value was assigned to one for the first time."""
    for each in [*_entries]:
        each.forget()


def may_have_values(cls: type) -> bool:
    """Whether `cls` has sources of values, or cached functions are called on its
    objects."""
    return bool(names_of(cls)) or cls in _subjects


def can_have_values(obj: Any) -> bool:
    """The same for an object, which has to have a memo for them."""
    return may_have_values(type(obj)) and type(obj).__weakrefoffset__ != 0


def becomes_subject(cls: type) -> bool:
    """Note that a cached function is called on objects of `cls`. True if that is
    new."""
    is_new = not may_have_values(cls)
    if is_new:
        _subjects.add(cls)
        forget_entries()
    return is_new


def declare(cls: type, name: str) -> None:
    """Note that `cls` has a key under `name`, if its objects can have a memo."""
    # A class without fields leaves its subclasses free to have `__weakref__`.
    if cls.__weakrefoffset__ == 0 and not has_nothing(cls):
        raise NowhereToStoreError(cls, name)
    if forget_names(cls):
        forget_entries()
