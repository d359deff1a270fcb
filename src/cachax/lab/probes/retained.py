"""Objects kept after they are dropped

Three objects are made, read, used and let go. What is kept for them must not keep them.
"""

import gc
import weakref

from cachax.lab import Measured, Way, numbers

RANK = 53


def measure(way: Way) -> Measured:
    arrays = []
    for i in range(3):
        a = i * numbers()
        foo = way.new(a)
        _, foo = way.read(foo)
        _, foo = way.use(foo)
        arrays.append(weakref.ref(a))
    del a, foo
    gc.collect()
    alive = sum(ref() is not None for ref in arrays)
    return Measured(work=alive, least=0, of="object kept", note=f"{alive} of 3 kept")
