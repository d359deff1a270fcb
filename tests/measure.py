"""Count what really happened, as the lab does; look into a jitted function."""

from typing import Any

from cachax._programs import Programs
from cachax.lab import compilations as compilations
from cachax.lab import computations as computations
from cachax.lab import computing as computing


def programs_of(fun: Any) -> Programs:
    """What is behind a function of `cachax.jit`."""
    programs: Programs = fun.clear_cache.__self__
    return programs
