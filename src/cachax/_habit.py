"""What a function asks for, learned from call to call.

Nobody says which values a function needs. It is traced with the ones it asked for
last time; if it asks for others, it is traced again with those.
"""

import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from ._carry import Ask, Carried, Loan, Retrace
from ._find import Layout
from ._pack import Mould
from ._parts import is_weak
from ._recent import Recent

T = TypeVar("T")

_TRIES = 8
"""Traces that bring nothing new, until a function that never asks for the same twice
has to compute inside what it was not lent."""


class Course:
    """What comes next: an ask, and what comes after it, by what the answer was.

    A function may look at the static part of a value and ask for another according
    to it. Nothing is computed of which it is not known that it will be asked for.
    """

    def __init__(self) -> None:
        self.ask: Ask | None = None
        self.after: dict[Mould, Course] = Recent()

    def learn(self, moulds: tuple[tuple[Ask, Mould], ...]) -> None:
        course = self
        for ask, mould in moulds:
            if course.ask != ask:
                course.ask = ask
                course.after.clear()
            course = course.after.setdefault(mould, Course())
        course.ask = None

    def asks(self, moulds: Sequence[tuple[Ask, Mould]]) -> Iterator[Ask]:
        """One ask after another; `moulds` must grow by the answer to each."""
        course: Course | None = self
        while course is not None and course.ask is not None:
            yield course.ask
            answered = moulds and moulds[-1][0] == course.ask
            course = course.after.get(moulds[-1][1]) if answered else None


@dataclass(eq=False)
class Habit:
    """What a function asked of arguments of one structure.

    The structure alone does not settle it (a function may look at shapes), but a
    warm call must not look at every leaf. So what was asked last, and answered, is
    taken for granted while all those values are there. If that is wrong, JAX traces,
    and the trace tells. Only to compute a value must it be known that it is needed.
    """

    layout: Layout | None
    usual: tuple[tuple[Ask, Mould], ...] = ()
    by_signature: dict[Any, Course] = field(default_factory=Recent)
    varies: bool = False
    computed_inside: set[Ask] = field(default_factory=set)
    """What could not be lent."""

    def learn(self, signature: Any, moulds: tuple[tuple[Ask, Mould], ...]) -> None:
        """After a trace with these values, in which none was missing or left over."""
        known = signature in self.by_signature
        if not known:
            self.by_signature[signature] = Course()
            is_first = len(self.by_signature) == 1
            self.varies |= not is_first and _asks(self.usual) != _asks(moulds)
        self.by_signature[signature].learn(moulds)
        self.usual = moulds


def _and(
    course: Course, given: list[Ask], moulds: Sequence[tuple[Ask, Mould]]
) -> Iterator[Ask]:
    yield from course.asks(moulds)
    yield from [ask for ask in given if ask not in _asks(moulds)]


def _just(asks: tuple[Ask, ...], _: object) -> Iterator[Ask]:
    return iter(asks)


def _asks(moulds: Sequence[tuple[Ask, Mould]]) -> list[Ask]:
    return [ask for ask, _ in moulds]


@dataclass(frozen=True)
class Lent(Generic[T]):
    """What came of a call: its result, and what it was lent."""

    result: T
    moulds: tuple[tuple[Ask, Mould], ...]
    was_warm: bool
    """Whether every value was there before."""
    was_traced: bool


def call_lending(
    habit: Habit,
    tree: Any,
    leaves: Sequence[Any],
    program: Callable[[Carried], T],
    borrower: object = None,
    *,
    at_once: bool = False,
) -> Lent[T]:
    """`program(carried)`, with the values it asks of the objects in `tree`.

    The program must `lay` them on the traced copies while it is traced.
    """
    owners = {} if habit.layout is None else habit.layout.by_slot(tree)
    signature = None
    loan = Loan(owners, borrower)
    given = loan.given(habit.computed_inside)
    carried = None if habit.varies or given else loan.gather_kept(habit.usual)
    was_warm = carried is not None
    if carried is None:
        signature = signature_of(leaves)
        course = habit.by_signature.get(signature) or Course()
        loan = Loan(owners, borrower)
        carried = loan.gather(functools.partial(_and, course, given))
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
            habit.computed_inside |= loan.computed_inside
            loan.settle()
        tries_left -= known.issuperset(asks)
        known.update(asks)
        loan = Loan(owners, borrower)
        carried = loan.gather(functools.partial(_just, asks))
    if loan.traced or known:
        habit.learn(signature or signature_of(leaves), carried.moulds)
    elif signature is not None:
        habit.usual = carried.moulds
    return Lent(result, carried.moulds, was_warm and not known, loan.traced)


class _Active(threading.local):
    loan: Loan | None = None


_active = _Active()


def active_loan() -> Loan | None:
    """The loan of the call that is being traced."""
    return _active.loan


def signature_of(leaves: Sequence[Any]) -> Any:
    """What of the leaves a trace can see: their shapes and dtypes."""
    return tuple(
        (getattr(x, "shape", type(x)), getattr(x, "dtype", None), is_weak(x))
        for x in leaves
    )
