"""After assignment to a field

A different array is assigned to the field of a warm object. A frozen class that
refuses is correct.
"""

from cachax.lab import Measured, Way, numbers

RANK = 24


def measure(way: Way) -> Measured:
    foo = way.warm(numbers())
    _, foo = way.use(foo)
    try:
        way.assign(foo, 2 * numbers())
    except AttributeError:
        return Measured(note="refused: the class is frozen")
    used, foo = way.use(foo)
    read, foo = way.read(foo)
    truth = way.exact(2 * numbers())
    return Measured([used, read], [truth, truth])
