"""The program of a law, as a user can run it."""

import inspect
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def shown(obj: Any, program: str) -> str:
    """The program as a user can run it."""
    made = _expression(obj)
    named = {"jnp": "import jax.numpy as jnp", "testing": "from cachax import testing"}
    named["np"] = "import numpy as np"
    named["ThreadPoolExecutor"] = "from concurrent.futures import ThreadPoolExecutor"
    named |= {x: f"import {x}" for x in ("cachax", "copy", "gc", "jax", "pickle")}
    named |= {x: f"import {x}" for x in ("inspect", "weakref")}
    text = f"obj = {made}\n{program.strip()}\n"
    used = [line for x, line in named.items() if re.search(rf"\b{x}\b", text)]
    return "\n".join([*sorted(used, key=_in_order), "", text])


def _in_order(line: str) -> tuple[bool, str]:
    return line.startswith("from"), line


def _expression(obj: Any) -> str:
    """Python that makes `obj`, if that is short."""
    name = type(obj).__qualname__.split(".")[-1]
    unknown = f"...  # the {name} given to check_laws"
    try:
        wanted = [*inspect.signature(type(obj)).parameters]
        words = [f"{x}={_literal(getattr(obj, x))}" for x in wanted]
    except (AttributeError, TypeError, ValueError):  # not all of it is there as a field
        return unknown
    return f"{name}({', '.join(words)})"


def _literal(value: Any) -> str:
    if isinstance(value, jax.Array | np.ndarray):
        if value.size > 16 or not jnp.issubdtype(value.dtype, jnp.number):
            raise ValueError(value)
        library = "jnp" if isinstance(value, jax.Array) else "np"
        return f"{library}.array({np.asarray(value).tolist()}, {str(value.dtype)!r})"
    if not isinstance(value, bool | int | float | str | type(None)):
        raise TypeError(value)
    return repr(value)
