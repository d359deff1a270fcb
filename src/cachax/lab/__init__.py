"""Every known approach to caching a derived value, run on the installed JAX."""

from ._cell import Cell as Cell
from ._cell import measure as measure
from ._counting import compilations as compilations
from ._counting import computations as computations
from ._counting import computing as computing
from ._counting import counted as counted
from ._counting import derive as derive
from ._counting import on_the_host_only as on_the_host_only
from ._matrix import Matrix as Matrix
from ._matrix import known_probes as known_probes
from ._matrix import known_strategies as known_strategies
from ._matrix import run as run
from ._verdict import Measured as Measured
from ._verdict import Verdict as Verdict
from ._way import Way as Way
from ._way import numbers as numbers
