"""Objects that are rebuilt for every call, from arrays whose values are known.

`f(replace(mesh, density=d))` in a loop: the object is another one each time, and
nothing has to be computed for it (`_kin.py`). What such a call needs is put on a shelf
by the arrays that it was computed from, and not by the object, which is gone after it.
"""

from collections.abc import Sequence
from itertools import compress
from typing import Any

from ._compat import forget_failed_traces
from ._computed import Computed
from ._find import FIRST
from ._levels import traces_in
from ._makeup import look_of, makeup_of, place_of
from ._memo import memo_of, memos
from ._parts import instance_dict, is_simple
from ._ready import Declined, Moulds, Unprepared, one_or_all, picking
from ._shelf import Shelf


class Rebuilt:
    """What a function has at hand for frozen objects of one class and its fields."""

    def __init__(self, names: Sequence[str], used: Sequence[bool]) -> None:
        self.names = (*names,)
        self.used = (*used,)
        self._pick = picking([i for i, is_used in enumerate(used) if is_used])
        pairs = zip(names, used, strict=True)
        self._unused = [name for name, is_used in pairs if not is_used]
        self._shelf = Shelf()
        self.moulds: Moulds = ()
        """Of the values that were put there last."""

    def call(self, first: Any, rest: tuple[Any, ...]) -> Any:
        """The result; `Declined` if what it takes is not at hand."""
        fields = instance_dict(first, "__dict__")
        if (*fields,) != self.names or id(first) in memos:
            return Declined
        ready = self._shelf.get((*map(id, self._pick([*fields.values()])),))
        if ready is None:
            return Declined
        values, program, likes, _ = ready
        for name, kind, aval, look, place in likes:
            field = fields[name]
            if (
                type(field) is not kind
                # All that look alike mostly have one between them.
                or (getattr(field, "aval", look) is not aval and look_of(field) != look)
                or (place is not None and place_of(field) != place)
            ):
                return Declined
        try:
            return program(values, first, *rest)
        except Unprepared:
            forget_failed_traces(program)
            return Declined

    def put(
        self, first: Any, moulds: Moulds, values: Any, program: Any, records: list[Any]
    ) -> None:
        self.moulds = moulds
        fields = instance_dict(first, "__dict__")
        picked = self._pick([*fields.values()])
        key = (*map(id, picked),)
        likes = [(name, *_seen(fields[name])) for name in self._unused]
        # Nobody watches them, so their ids are kept by holding them.
        atoms = [x for x in picked if not type(x).__weakrefoffset__]
        self._shelf[key] = (values, program, likes, atoms)
        for record in records:
            record.at_hand.note(self._shelf, key)


def _seen(array: Any) -> tuple[Any, ...]:
    """All that a body may see of an array without making use of its numbers."""
    aval = getattr(array, "aval", None)
    return (type(array), aval, look_of(array), place_of(array))


def what_is_known(first: Any, moulds: Moulds) -> tuple[list[bool], list[Any]] | None:
    """Which fields of a simple object its values depend on, and the records of these;
    None if one of the values is not known from other objects."""
    makeup = makeup_of(first) if is_simple(first) else None
    if makeup is None or traces_in(first):
        return None
    fields = instance_dict(first, "__dict__")
    used = dict.fromkeys(fields, False)
    records = []
    for (slot, key), _ in moulds:
        known = key.kin.known(makeup) if isinstance(key, Computed) else None
        if slot != FIRST or known is None:
            return None
        record, arrays_used = known
        ids = [*map(id, makeup.arrays)]
        unused = {*ids} - {*compress(ids, arrays_used)}  # one may be in two fields
        for name, field in fields.items():
            used[name] |= id(field) not in unused
        records.append(record)
    return [*used.values()], records


def values_of(first: Any, moulds: Moulds) -> Any:
    """As a program takes them; None if one of them cannot be relied on."""
    values: list[Any] = []
    for (_, key), mould in moulds:
        packed, changes = memo_of(first).packed.get(key, (None, None))
        if packed is None or changes is not None or packed[2] != mould:
            return None
        values += packed[1]
    return one_or_all(values)
