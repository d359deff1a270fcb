"""Why a value was computed inside a trace, and why a function was traced again."""

import sys
from typing import Any

import jax

from .._compat import what_traces
from .._core.computed import tables
from .._core.levels import traces_in
from .._jit.notes import parameter

RETURNED = "returned its object"
MADE_INSIDE = "the object is made inside"
DROPS = "drops cached values: use"
CANNOT_PASS = "cachax can't pass this value into the trace"
USE_VMAP = "`cachax.vmap` computes it once for the batch"
TO_FIX = (DROPS, CANNOT_PASS, USE_VMAP)
"""In reasons for which there is a remedy."""

_FROM_OUTSIDE = (
    "If it doesn't change, use it from outside the body instead of passing it in."
)
_LOOPS = {"scan", "while_loop", "fori_loop", "while", "cond", "switch", "map"}


def why_inline(obj: Any, was_provided: bool, called: str = "") -> str:
    """Why the value of this traced object is computed where it is read.

    `was_provided` says whether a value from outside was tried first; `called` is the
    name of the `cachax.jit` function that is being called.
    """
    found = {what_traces(trace) for trace in traces_in(obj)}
    kinds = {kind for kind, _ in found}
    functions = sorted(function for _, function in found if function)
    if was_provided:
        return CANNOT_PASS
    if "vmap" in kinds or "shard_map" in kinds or "pmap" in kinds:
        kind = "vmap" if "vmap" in kinds else sorted(kinds & {"shard_map", "pmap"})[0]
        more = f"; {USE_VMAP}" if kind == "vmap" else ""
        return f"a property of one example under `{kind}`{more}"
    running = {table.trace for table in tables.running}
    if kinds <= _LOOPS:
        return f"{MADE_INSIDE} the body of a {sorted(kinds)[0]}. {_FROM_OUTSIDE}"
    if called in functions or (running & traces_in(obj)):
        return f"{MADE_INSIDE} the trace"
    if "jit" in kinds:
        name = f" of {functions[0]}" if functions else ""
        return f"`jax.jit`{name} {DROPS} `cachax.jit`{_or_equinox(obj)}"
    if "grad" in kinds:
        return "differentiated with respect to its object"
    if "checkpoint" in kinds:
        return f"`jax.checkpoint` {DROPS} `cachax.lift(jax.checkpoint)`"
    return f"inside {sorted(kinds)[0]}" if kinds else "inside a trace"


def _or_equinox(obj: Any) -> str:
    """`equinox.filter_jit` is a `jax.jit` for JAX, and what it takes may be more."""
    module = getattr(sys.modules.get("equinox"), "Module", None)
    is_module = module is not None and isinstance(obj, module)
    return " or `cachax.lift(equinox.filter_jit)`" if is_module else ""


class Signature:
    """What of a call a trace depends on."""

    def __init__(self, fun: Any, args: Any, kwargs: Any) -> None:
        given = {parameter(fun, i): x for i, x in enumerate(args)} | kwargs
        self.structure: Any = jax.tree.structure((args, kwargs))
        self.leaves: dict[str, str] = {}
        self.sizes: dict[str, tuple[str, int]] = {}
        for name, argument in given.items():
            paths, _ = jax.tree_util.tree_flatten_with_path(argument)
            for path, leaf in paths:
                self.leaves[f"{name}{jax.tree_util.keystr(path)}"] = _kind(leaf)
            self.sizes |= _sizes(argument, name)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Signature)
            and self.structure == other.structure
            and self.leaves == other.leaves
        )

    def __hash__(self) -> int:
        return hash(tuple(self.leaves.items()))

    def changed_since(self, old: "Signature") -> str:
        for path, size in self.sizes.items():
            before = old.sizes.get(path)
            if before is not None and before != size and before[0] == size[0]:
                word = "grew" if size[1] > before[1] else "shrank"
                return (
                    f"structure changed: the {size[0]} {path} {word} "
                    f"from {before[1]} to {size[1]}"
                )
        if self.leaves.keys() != old.leaves.keys() or self.structure != old.structure:
            new = [path for path in self.leaves if path not in old.leaves]
            gone = [path for path in old.leaves if path not in self.leaves]
            if new or gone:
                said = [f"{p} is new" for p in new] + [f"{p} is gone" for p in gone]
                return f"structure changed: {', '.join(said[:3])}"
            return "structure changed: a static part is different"
        for path, kind in self.leaves.items():
            if kind != old.leaves[path]:
                return f"{path} changed from {old.leaves[path]} to {kind}"
        return "different values are used"


def why_traced(signature: Signature, before: list[Signature]) -> str:
    """Why a function was traced for a call, given the calls before it."""
    if not before:
        return "first call"
    if signature in before:
        return "different values are passed in"
    return signature.changed_since(before[-1])


def what_to_change(why: str) -> str:
    """Advice for a function that is compiled again and again."""
    before, _, after = why.partition(" changed from ")[2].partition(" to ")
    if not after:
        return "keep the structure the same: stack the arrays into one, or pad the list"
    if before.replace(_WEAK, "") == after.replace(_WEAK, ""):
        return (
            "one of them has a weak type, as Python numbers have: convert it with "
            "`jnp.asarray(x, dtype)` before the loop"
        )
    if before.partition("[")[2] != after.partition("[")[2]:
        return "pad the array to one shape"
    return "give it the same dtype in every call"


def _sizes(tree: Any, path: str) -> dict[str, tuple[str, int]]:
    """The lengths of the lists, tuples and dicts, by their place."""
    found: dict[str, tuple[str, int]] = {}
    if isinstance(tree, list | tuple | dict):
        found[path] = (type(tree).__name__, len(tree))
        items = tree.items() if isinstance(tree, dict) else enumerate(tree)
        for key, part in items:
            found |= _sizes(part, f"{path}[{key!r}]")
    return found


_WEAK = " (weak)"


def _kind(leaf: Any) -> str:
    shape = getattr(leaf, "shape", None)
    if shape is None:
        return type(leaf).__name__
    weak = _WEAK if getattr(leaf, "weak_type", False) else ""
    return f"{leaf.dtype}[{','.join(map(str, shape))}]{weak}"
