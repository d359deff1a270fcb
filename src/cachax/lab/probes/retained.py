"""Memory leaked

Four objects are made, read, used and dropped. How many arrays of the last three are
still in memory?
"""

import gc
import weakref

from cachax.lab import Measured, Way, numbers

RANK = 53


def measure(way: Way) -> Measured:
    arrays = []
    for i in range(4):
        a = (i + 1) * numbers()
        foo = way.new(a)
        _, foo = way.read(foo)
        _, foo = way.use(foo)
        arrays.append(weakref.ref(a))
    del a, foo
    gc.collect()
    alive = sum(ref() is not None for ref in arrays[1:])
    return Measured(work=alive, least=0, of="array", note=f"{alive} of 3 kept")
