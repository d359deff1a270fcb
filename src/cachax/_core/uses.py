"""Which inputs of an object a body uses, and what was learned about it.

Learned from the first computation (`follow.py`), or from an abstract trace
(`traced.py`).
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from .._compat import settings
from .fields import walk_fields
from .inputs import ORDER, Given, Inputs
from .memo import keys_of, may_have_values
from .parts import NUMBERS
from .recent import Recent


class Uses(NamedTuple):
    """What of the inputs of an object counts for a value."""

    positions: tuple[int, ...]
    """The arrays it used. Of the others only the shape, dtype and weak type count, if
    the body read the field that they are in. (Numbers in `Inputs.arrays`.)"""
    unread: frozenset[int] = frozenset()
    """The parts that make no difference, arrays or not, and `ORDER` if it doesn't."""
    is_host: bool = False
    """Whether the body looks at contents of arrays, or can't be traced."""
    reads: tuple[Any, ...] = ()
    """The cached values that the body reads, and those that these read, and whether
    they are of this object."""
    is_varying: bool = False
    """Whether what it uses may depend on the contents of arrays: each run of the body
    is followed, and these are the uses of one run. (Of all runs, if learned.)"""

    def is_shareable(self, inputs: Inputs) -> bool:
        """Whether the identities of the arrays describe the value. Those of numpy
        arrays, which can be written to, don't."""
        return inputs.writable.isdisjoint(self.positions)

    def arrays(self, inputs: Inputs) -> list[Any]:
        """Those that it used."""
        return [inputs.arrays[i] for i in self.positions]

    @property
    def is_ordered(self) -> bool:
        """Whether the order of dictionaries may matter."""
        return ORDER not in self.unread

    @property
    def kind(self) -> "Kind":
        """Which parts count."""
        return self.positions, self.unread, self.reads

    def statics(self, inputs: Inputs) -> Given:
        """The rest: what distinguishes values that came from the same arrays."""
        given = inputs.given(*self.kind)
        return given._replace(settings=settings(), uses=self)


Kind = tuple[tuple[int, ...], frozenset[int], tuple[Any, ...]]


def uses_of(
    inputs: Inputs,
    used: Iterable[int],
    read: Iterable[int],
    is_host: bool = False,
    reads: Iterable[Any] = (),
) -> Uses:
    used = {*used}
    read = {*read, *(inputs.parts[i] for i in used)}
    unread = inputs.every_part.difference(read if inputs.orders else read - {ORDER})
    positions = tuple(sorted(used - inputs.numbers))
    return Uses(positions, unread, is_host, tuple(reads))


def everything(inputs: Inputs, is_host: bool = True, reads: Any = ()) -> Uses:
    """For a body that may use anything."""
    every = range(len(inputs.arrays))
    return uses_of(inputs, every, inputs.every_part, is_host, reads)


def all_reads(obj: Any) -> dict[Any, None]:
    """What a body may read that could not be followed."""
    parts = {type(x): x for x in walk_fields(obj) if may_have_values(type(x))}
    return {(key, False): None for cls in parts for key in keys_of(cls).values()}


class Learned:
    """The uses of one property, by what the body could see when they were learned."""

    def __init__(self) -> None:
        self._uses: dict[Any, Uses] = Recent()
        self._kinds: dict[Any, dict[Kind, None]] = Recent()
        """What was used and read, by the shape of the object."""
        self._varying: dict[Any, bool] = Recent()
        """Where it depends on the contents of arrays, likewise; and whether a run of
        the body can be followed."""
        self.keys_read: dict[Any, None] = {}
        """All that the body has read, of whatever object."""

    def get(self, inputs: Inputs) -> Uses | None:
        now = settings()
        is_varying = self._varying.get((inputs.shape, inputs.writable, now))
        if is_varying is not None:
            reads = [(key, False) for key in self.keys_read]  # now it may be any
            return everything(inputs, reads=reads)._replace(is_varying=is_varying)
        for kind in self.kinds(inputs):
            uses = self._uses.get((kind, inputs.given(*kind), now))
            if uses is not None and NUMBERS.isdisjoint(map(type, uses.arrays(inputs))):
                return uses
        return None

    def kinds(self, inputs: Inputs) -> list[Kind]:
        """What the body has used and read of objects of this shape. First those to
        which the order of dictionaries doesn't matter."""
        kinds = [*self._kinds.get(inputs.shape, ())]
        return sorted(kinds, key=lambda kind: ORDER not in kind[1])

    def put_kind(self, shape: Any, uses: Uses) -> None:
        self.keys_read |= {key: None for key, _ in uses.reads}
        self._kinds.setdefault(shape, Recent())[uses.kind] = None

    def put(self, inputs: Inputs, uses: Uses) -> None:
        self.put_kind(inputs.shape, uses)
        kind = uses.kind
        place = (inputs.shape, inputs.writable, settings())
        if uses.is_varying:
            self._varying.setdefault(place, True)
            return
        if place in self._varying and uses.is_host:  # it could not be followed
            self._varying[place] = False
            return
        self._uses[kind, inputs.given(*kind), settings()] = uses
