"""Detects whether the fields of an object have changed.

Fields are compared by identity: a field set to a different array is a change, whatever
the array contains. A numpy array written to in place can't be detected.
"""

import functools
import gc
import types
import weakref
from collections.abc import Callable
from typing import Any

from .._compat import ArrayImpl, is_ref
from .fields import (
    BUFFERS,
    BUILTIN_ATOMS,
    contents,
    dict_fields,
    fields_in,
    instance_dict,
    is_frozen,
    is_opaque,
    is_open,
    parts_of,
    plain_leaves,
    walk_fields,
)

_UNCHANGING = {ArrayImpl, *BUILTIN_ATOMS}


class Snapshot:
    """The identities of everything inside an object at one moment.

    An id means nothing once its owner is gone, so what has an id in here is either
    held (numbers, strings) or watched by a weak reference (arrays, objects): when one
    of those dies, the snapshot no longer holds and `on_death` is called. Holding the
    arrays would be simpler, but then `obj.a = b` keeps the old array alive.
    """

    __slots__ = ("_held", "_ids", "holds")

    holds: Callable[[Any], bool]
    """Whether the object still has the fields it had."""

    def __init__(self, obj: object, on_death: Callable[[], None]) -> None:
        inside = fields_in(obj)
        is_flat = plain_leaves.issuperset(map(type, inside))
        is_deep = parts_of(type(obj)) is not dict_fields
        if not is_flat:
            is_deep = is_deep or not all(map(_is_identified, inside))
            inside = [part for part in walk_fields(obj) if part is not obj]
            is_deep = is_deep or any(map(_may_change, inside))
        # By types first: most parts of a model are arrays.
        kinds = {type(x) for x in inside}.difference(_UNCHANGING)
        others = [x for x in inside if type(x) in kinds] if kinds else []
        changes_unnoticed = any(is_ref(x) or isinstance(x, BUFFERS) for x in others)
        is_deep = is_deep or changes_unnoticed
        ids = [id(type(obj))]  # contains no references: they would hold `void`
        self._ids = ids
        """Empty once the snapshot no longer holds."""

        def void(_: object) -> None:
            ids.clear()
            on_death()

        if is_deep:
            self._held = [_watch(part, void) for part in inside]
            ids[:] = _ids_within(obj)
            self.holds = lambda obj: _ids_within(obj) == ids
        else:
            fields = instance_dict(obj, "__dict__")
            self._held = [_watch(part, void) for part in fields.values()]
            self.holds = _same_by_name(type(obj), tuple(fields), self._held)
        if changes_unnoticed:
            ids.clear()

    def all_still_in(self, obj: object) -> bool:
        """Whether every array and object that was in `obj` is in it now, whatever was
        added, and whatever numbers and strings were changed."""
        watched = [x() for x in self._held if isinstance(x, weakref.ref)]
        now = set(map(id, walk_fields(obj)))
        return bool(self._ids) and all(id(x) in now for x in watched)


def _same_by_name(cls: type, names: Any, held: list[Any]) -> Callable[[Any], bool]:
    """For objects with a `__dict__`, which most have. `held` is what is held of each
    field, or a reference to it."""
    reads: Any = cls.__getattribute__
    make = _comparison(
        names,
        tuple(isinstance(x, weakref.ref) for x in held),
        is_frozen(cls),
        reads is object.__getattribute__,
    )
    holds: Callable[[Any], bool] = make(cls, instance_dict, *held)
    return holds


@functools.lru_cache(1000)
def _comparison(
    names: tuple[str, ...], are_weak: tuple[bool, ...], is_frozen: bool, is_plain: bool
) -> Any:
    """Makes a function that compares the fields of an object, written out for their
    names: every read of a property calls one.

    A dead reference gives None, and so does a field that was set to None: that doesn't
    make them the same. Nor are they if there is no field of that name. The class of an
    object that is not frozen can be reassigned, as its fields can.
    """
    fields = "obj.__dict__" if is_plain else "get(obj, '__dict__')"
    checks = [] if is_frozen else ["type(obj) is cls"]
    checks.append(f"len(fields := {fields}) == {len(names)}")
    for i, (name, is_weak) in enumerate(zip(names, are_weak, strict=True)):
        part = f"part_{i}() is not None" if is_weak else f"part_{i}"
        checks.append(f"fields.get({name!r}, get) is {part}")
    parts = "".join(f", part_{i}" for i in range(len(names)))
    code = f"lambda cls, get{parts}: lambda obj: {' and '.join(checks)}"
    return eval(compile(code, f"{__file__}: compiled", "eval"))


def _is_identified(part: object) -> bool:
    """Whether the id of `part` identifies it. That of a list doesn't: the list may be
    gone and its id reused, so its contents are compared."""
    return type(part).__weakrefoffset__ != 0 or _can_be_held(part)


def _may_change(part: object) -> bool:
    """A variable that a function closes over can be assigned again."""
    is_function = isinstance(part, types.FunctionType)
    return bool(fields_in(part)) if is_function else is_open(part)


def _can_be_held(part: Any) -> bool:
    """Whether there is no array in `part`, and not the object."""
    if type(part) is tuple:
        return BUILTIN_ATOMS.issuperset(map(type, part))
    is_closed = is_opaque(type(part)) and not gc.is_tracked(part)  # range, date
    return is_closed or parts_of(type(part)) is None


def _ids_within(obj: object) -> list[int]:
    """The ids of everything inside, container by container."""
    ids: list[int] = []
    for thing, parts in contents(obj, fields_in):
        ids.append(id(type(thing)))
        ids += map(id, parts)
    return ids


def _watch(part: Any, void: Callable[[object], None]) -> object:
    if type(part) in BUILTIN_ATOMS:
        return part
    try:
        return weakref.ref(part, void)
    except TypeError:
        # The contents of a container are watched one by one.
        return part if _can_be_held(part) else type(part)
