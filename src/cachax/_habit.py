"""What a function asks for, learned from call to call.

Nobody says which values a function needs. It is traced with the ones it asked for
last time; if it asks for others, it is traced again with those.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ._carry import Ask, Carried, Loan, Retrace
from ._find import Layout

K = TypeVar("K")
T = TypeVar("T")
V = TypeVar("V")

_TRIES = 8
"""Traces that bring nothing new, until a function that never asks for the same twice
has to compute inside what it was not lent."""


class Recent(dict[K, V]):
    """A dictionary of the last thousand entries: what is kept for a function must
    not grow with the number of calls."""

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        if len(self) > 1000:
            self.pop(list(self)[0], None)  # noqa: RUF015 (threads: in one step)


@dataclass(eq=False)
class Habit:
    """What a function asked of arguments of one structure.

    The structure alone does not settle it (a function may look at shapes), but a
    warm call must not look at every leaf. So the last asks are taken for granted
    while all their values are there. If they are wrong, JAX traces, and the trace
    tells. Only to compute a value must it be known that it will be asked for.
    """

    layout: Layout | None
    asks: tuple[Ask, ...] = ()
    asks_by_signature: dict[Any, tuple[Ask, ...]] = field(default_factory=Recent)
    varies: bool = False

    def learn(self, signature: Any, asks: tuple[Ask, ...]) -> None:
        self.asks_by_signature[signature] = self.asks = asks
        self.varies = len(set(self.asks_by_signature.values())) > 1


def call_lending(
    habit: Habit,
    tree: Any,
    leaves: Sequence[Any],
    program: Callable[[Carried], T],
    *,
    at_once: bool = False,
) -> T:
    """`program(carried)`, with the values it asks of the objects in `tree`.

    The program must `lay` them on the traced copies while it is traced.
    """
    assert habit.layout is not None
    objects = habit.layout.objects(tree)
    signature = None
    loan = Loan(objects)
    carried = None if habit.varies else loan.gather_kept(habit.asks)
    if carried is None:
        signature = signature_of(leaves)
        loan = Loan(objects)
        carried = loan.gather(habit.asks_by_signature.get(signature, ()))
    tries_left = _TRIES
    known: set[Ask] = set()
    while True:
        loan.at_once, loan.is_last = at_once, tries_left == 0
        outer, _active.loan = _active.loan, loan
        try:
            result = program(carried)
            break
        except Retrace as retrace:
            if retrace.loan is not loan:  # the end of a trace further out
                raise
            asks = retrace.asks
        finally:
            _active.loan = outer
            loan.settle()
        tries_left -= known.issuperset(asks)
        known.update(asks)
        loan = Loan(objects)
        carried = loan.gather(asks)
    if loan.traced:
        asks = tuple(ask for ask, _ in carried.moulds)
        habit.learn(signature or signature_of(leaves), asks)
    return result


class _Active(threading.local):
    loan: Loan | None = None


_active = _Active()


def active_loan() -> Loan | None:
    """The loan of the call that is being traced."""
    return _active.loan


def signature_of(leaves: Sequence[Any]) -> Any:
    """What of the leaves a trace can see: their shapes and dtypes."""
    return tuple(
        (getattr(x, "shape", type(x)), getattr(x, "dtype", None), _is_weak(x))
        for x in leaves
    )


def _is_weak(x: Any) -> bool:
    return bool(getattr(x, "weak_type", False))
