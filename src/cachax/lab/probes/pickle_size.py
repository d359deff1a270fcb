"""Extra bytes in the pickle

How many bytes more a pickled warm object takes than a cold one, and whether the value
is correct after loading.
"""

import pickle

from cachax.lab import Measured, Way, numbers

RANK = 52


def measure(way: Way) -> Measured:
    cold = len(pickle.dumps(way.new(numbers())))
    pickled = pickle.dumps(way.warm(numbers()))
    read, _ = way.read(pickle.loads(pickled))
    more = max(len(pickled) - cold, 0)
    return Measured(
        read,
        way.exact(numbers()),
        work=more,
        least=0,
        of="byte",
        note=f"{more:+d} bytes",
    )
