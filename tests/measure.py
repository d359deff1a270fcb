"""Count what really happened, as the lab does."""

from cachax.lab import compilations as compilations
from cachax.lab import computations as computations
from cachax.lab import computing as computing
