"""Bytes more in the pickle when warm

How many bytes more a warm object takes, and whether what comes back is right.
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
