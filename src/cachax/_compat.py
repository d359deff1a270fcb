"""The only file that uses JAX internals. Each says which versions it is for;
`tests/test_compat.py` fails loudly when JAX changes one of them."""

import enum
import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax._src import config as _config
from jax._src import core as _core  # trace_ctx, eval_trace: 0.4.36 and later
from jax._src import distributed as _distributed  # global_state: 0.4.36 and later
from jax._src import dtypes as _dtypes
from jax._src import sharding_impls as _shardings
from jax._src import source_info_util as _source_info
from jax._src import traceback_util as _tracebacks
from jax._src import tree_util as _tree_util  # _registry: 0.4.36 and later
from jax._src.array import ArrayImpl as ArrayImpl  # 0.4.36 and later
from jax._src.interpreters import partial_eval as _partial_eval
from jax._src.lax import lax as _lax  # _convert_element_type: 0.4.36 and later
from jax._src.state.types import AbstractRef  # 0.4.36 and later

UNSPECIFIED: Any = vars(_shardings)["UNSPECIFIED"]  # 0.4.36 and later
"""Left to JAX, which None in a sharding is not always."""

Tracer: Any = jax.core.Tracer
TraceBase: Any = _core.Trace
set_current_trace: Any = _core.set_current_trace
Trace = Any
"""One level of tracing. JAX has no public type for it."""

MODULES = ("jaxlib", "jax._src", "jax.sharding")
"""Where JAX defines the classes of meshes, shardings, rules and the like."""

COMPILED = MODULES[0]
"""Those of them that are written in C++."""

TRACES = (_core.Trace, _core.OpaqueTraceState)
"""Traces, and what says which one something belongs to. (From 0.4.36 on.)"""

CONCRETE: Trace = _core.eval_trace
"""The level of values that are not traced at all."""

for _part in ("_core", "_jit"):  # messages show the lines of the user instead
    _directory = str(Path(__file__).parent / _part)
    _source_info.register_exclusion(_directory)
    _tracebacks.register_exclusion(_directory)

api_boundary: Any = _tracebacks.api_boundary
"""Where tracebacks begin that are shown to users."""

_Jitted = type(jax.jit(lambda: None))

_REF_NAMES = ("MutableArray", "ArrayRef", "Ref")  # 0.4.36, 0.7, 0.8 and later
_REFS = tuple(getattr(_core, name) for name in _REF_NAMES if hasattr(_core, name))


trace_context: Any = _core.trace_ctx
"""Of this thread: its `trace` is the level at which operations happen now."""


def current_trace() -> Trace:
    return trace_context.trace


def trace_of(tracer: Any) -> Trace:
    return tracer._trace


def parent_of(trace: Trace) -> Trace | None:
    """The level just outside, or None where JAX does not say: the traces of jit,
    scan and the like only know theirs since 0.5."""
    return getattr(trace, "parent_trace", None)


@contextmanager
def at_trace(trace: Trace) -> Iterator[None]:
    """Operations inside this context happen at the level of `trace`, without the named
    axes of traces further in. (These are also part of the key of every compiled
    operation, which would be compiled again inside each `vmap` of a name.)

    `jax.ensure_compile_time_eval` would not do for `CONCRETE`: it folds constants
    inside nested jits and swallows their callbacks.
    """
    context: Any = _core.trace_ctx
    axes, axes_there = context.axis_env, _axes_at(trace)
    mesh = _no_mesh_before_0_5() if trace is CONCRETE else nullcontext()
    with mesh, _core.set_current_trace(trace):  # type: ignore[no-untyped-call]
        if axes is axes_there:
            yield
            return
        context.set_axis_env(axes_there)
        try:
            yield
        finally:
            context.set_axis_env(axes)


def _axes_at(trace: Trace) -> Any:
    """The named axes that a trace has, out of those that there are now. None at all
    where JAX doesn't say which traces are further in."""
    context: Any = _core.trace_ctx
    axes, further_in = context.axis_env, context.trace
    if axes is _core.top_axis_env or trace is CONCRETE:
        return _core.top_axis_env
    while further_in is not trace:
        names = _axes_of(further_in)
        further_in = parent_of(further_in)
        if names is None or further_in is None:
            return _core.top_axis_env
        for name in names & axes.axis_sizes.keys():
            axes = axes.pop_pure(name)
    return axes


def _axes_of(trace: Trace) -> set[Any] | None:
    """The named axes that a trace adds; None if that is unknown."""
    if hasattr(trace, "axis_data"):  # of vmap
        return {trace.axis_data.name}
    return None if what_traces(trace)[0] in ("shard_map", "pmap") else set()


@contextmanager
def as_in_a_program() -> Iterator[None]:
    """Operations may do what they may in a compiled program: use constants in spite of
    `jax.transfer_guard`, and have a nan that is not in the result."""
    config: Any = jax.config
    with ExitStack() as stack:
        if config.jax_debug_nans:
            stack.enter_context(jax.debug_nans(False))
        if config.jax_debug_infs:
            stack.enter_context(jax.debug_infs(False))
        if config.jax_transfer_guard_host_to_device is not None:
            stack.enter_context(jax.transfer_guard_host_to_device("allow"))
        yield


@contextmanager
def _no_mesh_before_0_5() -> Iterator[None]:
    """The mesh is part of that key too, and before 0.5 no mesh is None inside a trace
    and () outside."""
    if jax.__version_info__ >= (0, 5):
        yield
        return
    mesh: Any = vars(_config)["abstract_mesh_context_manager"]
    before = mesh.swap_local(() if mesh.value is None else mesh.value)
    try:
        yield
    finally:
        mesh.set_local(before)


def is_ref(x: object) -> bool:
    """Whether `x` is a JAX reference: an array whose contents change in place."""
    if isinstance(x, Tracer):
        return isinstance(x.aval, AbstractRef)
    return issubclass(type(x), _REFS)  # not isinstance, which runs code of theirs


BASE = "_base_array"
"""Of random keys: the array that they are around."""


def results_of(out: Any) -> tuple[Sequence[Any], Callable[[list[Any]], Any]]:
    """What a primitive has returned, and how to return other results in their place."""
    if isinstance(out, list | tuple):
        return out, list
    if not hasattr(out, "map"):
        return [out], operator.itemgetter(0)

    def rebuilt(new: list[Any]) -> Any:  # of shard_map: a tree of JAX's own, from 0.10
        remaining = iter(new)
        return out.map(lambda _: next(remaining))

    return [*out], rebuilt


def base_of(array: Any) -> Any:
    """The array that has the contents of this one: of random keys, the one inside."""
    return getattr(array, BASE, array)


def share_memory(array: Any, other: Any) -> bool:
    """Whether a part of one array is in the place of a part of the other."""
    if array is other:
        return False
    are_whole = _is_on_one_device(array) and _is_on_one_device(other)
    if are_whole and base_of(array).nbytes != base_of(other).nbytes:
        return False  # else the next line waits for them
    return not places_of(array).isdisjoint(places_of(other))


def places_of(array: Any) -> set[Any]:
    """Where the parts of an array are."""
    if isinstance(array, Tracer) or not isinstance(array, jax.Array):
        return set()
    if array.is_deleted():
        return set()
    array = base_of(array)
    is_one = _is_on_one_device(array)
    parts = [array] if is_one else [x.data for x in array.addressable_shards]
    is_cpu = any(device.platform == "cpu" for device in array.sharding.device_set)
    if is_cpu or jax.__version_info__ < (0, 7):
        for part in parts:  # the pointers wait, and let no callback run meanwhile
            part.block_until_ready()
    return {(*x.devices(), x.unsafe_buffer_pointer()) for x in parts if x.size}


def _is_on_one_device(array: Any) -> bool:
    if isinstance(array, Tracer) or not isinstance(array, jax.Array):
        return False
    return array.is_fully_addressable and len(array.sharding.device_set) == 1


def is_placed_like(array: Any, other: Any) -> bool:
    """Whether both are on the same devices, and may be moved or not. (How they are
    spread over these may be different: of a sum, say.)"""
    if array._committed != other._committed:
        return False
    one, two = array.sharding, other.sharding
    return one is two or bool(one.device_set == two.device_set)


def shardings_for(prefix: Any, tree: Any) -> list[Any]:
    """The shardings of the leaves of a tree, of which a prefix is given. (For all
    versions.)"""
    found: list[Any] = _tree_util.broadcast_prefix(prefix, tree, lambda x: x is None)
    return found


def is_placed_as(x: Any, sharding: Any) -> bool:
    """Whether an argument is where this item of `in_shardings` says."""
    is_free = sharding is None or sharding is UNSPECIFIED or isinstance(x, Tracer)
    if is_free or not isinstance(x, jax.Array | np.ndarray):
        return True
    if isinstance(x, np.ndarray):
        return False
    if isinstance(sharding, jax.sharding.PartitionSpec):
        return bool(getattr(x.sharding, "spec", None) == sharding)
    if not isinstance(sharding, jax.sharding.Sharding):  # a layout
        return True
    try:
        return bool(x.sharding.is_equivalent_to(sharding, x.ndim))
    except Exception:  # it doesn't fit: JAX says why
        return True


def is_same_sharding(array: Any, other: Any) -> bool:
    """Whether both arrays are placed alike. (The result of a program on a mesh with
    explicit axes has `P("x", None)` where an argument has `P("x")`.)"""
    one, two = array._sharding, other._sharding
    if one == two:
        return True
    is_named = isinstance(one, jax.sharding.NamedSharding) and type(one) is type(two)
    return bool(
        is_named and one.mesh == two.mesh and one.is_equivalent_to(two, array.ndim)
    )


def has_several_devices() -> bool:
    """Whether arrays may be in different places."""
    return jax.local_device_count() > 1


def is_jitted(fun: object) -> bool:
    """Whether `fun` came out of `jax.jit`."""
    return isinstance(fun, _Jitted)


def forget_failed_traces(jitted: Any) -> None:
    """Let calls whose trace has raised use JAX's fast path again.

    JAX takes a call with arguments like those on a slow path from then on, even
    when it has compiled it since (50 µs or more; 0.4.36 to 0.11 at least). Compiled
    programs are not forgotten, only the entries of its fast path in C++.
    """
    if is_jitted(jitted):
        jitted._clear_cache()


def jit_is_disabled() -> bool:
    disabled: bool = jax.config.jax_disable_jit  # type: ignore[attr-defined]
    return disabled


def inputs_used(jaxpr: Any) -> list[bool]:
    """Which inputs the outputs, or the effects, depend on."""
    return without_unused(jaxpr)[1]


def without_unused(jaxpr: Any) -> tuple[Any, list[bool]]:
    """A jaxpr without the operations that don't count, and which inputs it has left."""
    inner = jaxpr.jaxpr
    used, inputs = _partial_eval.dce_jaxpr(inner, [True] * len(inner.outvars))
    return used, list(inputs)


def what_traces(trace: Trace) -> tuple[str, str]:
    """The transformation that a trace belongs to, and the function it traces, as far as
    JAX says: `("jit", "predict")`, `("vmap", "")`."""
    info = getattr(getattr(trace, "frame", None), "debug_info", None)
    if info is None:
        name = type(trace).__name__
        return _TRACES.get(name, name.removesuffix("Trace").lower()), ""
    said = getattr(info, "func_src_info", None) or getattr(info, "func_name", "")
    return str(info.traced_for).split(" ")[0], str(said).split(" ")[0]


_TRACES = {
    "BatchTrace": "vmap",
    "JVPTrace": "grad",
    "LinearizeTrace": "grad",  # 0.7 and later
    "JaxprTrace": "grad",
    "ShardMapTrace": "shard_map",
    "MapTrace": "pmap",
}


def explicit_sharding(array: Any) -> Any:
    """The sharding in the type of an array (0.6 and later), or None."""
    aval = getattr(array, "aval", None)
    sharding = getattr(aval, "sharding", None)
    mesh = getattr(sharding, "mesh", None)
    if mesh is None or mesh.empty:
        return None
    is_auto = getattr(mesh, "are_all_axes_auto", None)  # with a `_` before 0.8
    is_auto = getattr(mesh, "_are_all_axes_auto", True) if is_auto is None else is_auto
    return None if is_auto else sharding


def is_registered(cls: type) -> bool:
    """Whether JAX takes objects of this class apart. (Not by `jax.tree.structure`,
    which would run the code of the class.)"""
    return cls in _tree_util._registry or issubclass(cls, tuple)


NEED_CONTENTS = {"concrete_or_error", "expand_bool_indices", "_expand_bool_indices"}
"""Functions of JAX that ask a tracer for its value and can't do without it: for a
boolean mask, `jnp.unique`, a shape. (The function for masks has a `_` in 0.4.36, and
none in 0.10. In one that is not listed JAX raises, and the body runs again.)"""

aval_of: Any = vars(_core).get("typeof") or vars(_core)["get_aval"]  # 0.7; before


def aval_of_number(number: Any) -> tuple[Any, ...]:
    """The shape, dtype and weak type that a number has inside `jit`."""
    if isinstance(number, np.generic):
        return ((), jax.dtypes.canonicalize_dtype(number.dtype), False)
    if type(number) is bool:
        return ((), _BOOL, False)
    return ((), _dtypes.result_type(type(number)), True)


_BOOL = jax.numpy.dtype(bool)


def eval_jaxpr(jaxpr: Any, consts: Any, *arrays: Any) -> list[Any]:
    """Runs a jaxpr operation by operation."""
    results = _core.eval_jaxpr(jaxpr, consts, *arrays)
    pairs = zip(results, jaxpr.outvars, strict=True)
    return [x if isinstance(x, jax.Array) else _as_array(x, v.aval) for x, v in pairs]


def _as_array(literal: Any, aval: Any) -> Any:
    weak_type = getattr(aval, "weak_type", False)
    convert = vars(_lax)["_convert_element_type"]
    return convert(literal, aval.dtype, weak_type=weak_type)


def hidden_in(jaxpr: Any) -> list[Any]:
    """What the results of a jaxpr depend on and its text doesn't show: constants of the
    functions that it calls, callbacks, other objects. Derivative rules have no
    influence on results, and what only reports has none either."""
    found = [*getattr(jaxpr, "consts", ())]
    for eqn in jaxpr.eqns:
        if not str(eqn.primitive).startswith(("debug_", "custom_")):
            found += [x for x in jax.tree.leaves(eqn.params) if _is_hidden(x)]
        for inner in _jaxprs_in(eqn.params):
            found += [*getattr(inner, "consts", ())]
            found += hidden_in(getattr(inner, "jaxpr", inner))
    return found


def operations_in(jaxpr: Any) -> list[Any]:
    """The names of all operations, and the types of their results. A scalar may be
    converted first, or not: a Python number is converted when it is used."""
    found: list[Any] = []
    for eqn in jaxpr.eqns:
        if str(eqn.primitive) in _CONVERSIONS and not _may_be_rounded(eqn):
            continue
        found.append((str(eqn.primitive), [str(x.aval) for x in eqn.outvars]))
        for each in _jaxprs_in(eqn.params):
            found += operations_in(getattr(each, "jaxpr", each))
    return found


_CONVERSIONS = ("convert_element_type", "broadcast_in_dim")


def _may_be_rounded(eqn: Any) -> bool:
    """Whether it converts an array, or a scalar to an integer, which numpy does in a
    different way."""
    before, after = eqn.invars[0].aval, eqn.outvars[0].aval
    if getattr(before, "shape", ()):
        return True
    is_subtype: Any = vars(jax.dtypes)["issubdtype"]
    is_to_integer = is_subtype(after.dtype, np.integer)
    return bool(is_to_integer and is_subtype(before.dtype, np.inexact))


def _is_hidden(x: Any) -> bool:
    return not _is_jaxpr(x) and not isinstance(x, _SHOWN)


_SHOWN: tuple[type, ...] = (bool, int, float, complex, str, bytes, type, enum.Enum)
_SHOWN += (np.dtype, np.generic, jax.sharding.Sharding, jax.sharding.PartitionSpec)


def calls_host(primitive: Any, params: dict[str, Any]) -> bool:
    """Whether an operation calls a function of Python when it runs."""
    if "callback" in str(primitive) or str(primitive).startswith("debug_"):
        return True
    jaxprs = (getattr(each, "jaxpr", each) for each in _jaxprs_in(params))
    return any(calls_host(x.primitive, x.params) for each in jaxprs for x in each.eqns)


def functions_in(params: dict[str, Any]) -> list[Any]:
    """The functions of Python that operations may call later: callbacks, and rules for
    derivatives and batches, inside other operations too."""
    found = [x for x in params.values() if callable(x) or hasattr(x, "call_wrapped")]
    for each in _jaxprs_in(params):
        for eqn in getattr(each, "jaxpr", each).eqns:
            found += functions_in(eqn.params)
    return [x for x in found if not _is_jaxpr(x) and not isinstance(x, type)]


def is_call(primitive: Any) -> bool:
    """Whether an operation is the call of a jitted function."""
    return str(primitive) in ("jit", "pjit")  # 0.7 and later; before


def has_jaxprs(params: dict[str, Any]) -> bool:
    return bool(_jaxprs_in(params))


def _jaxprs_in(params: dict[str, Any]) -> list[Any]:
    leaves = jax.tree.leaves([*params.values()], is_leaf=_is_jaxpr)
    return [x for x in leaves if _is_jaxpr(x)]


_JAXPRS: Any = (_core.Jaxpr, getattr(_core, "ClosedJaxpr", _core.Jaxpr))  # one in 0.12


def _is_jaxpr(x: Any) -> bool:
    return isinstance(x, _JAXPRS)


SETTINGS: tuple[Any, ...] = (
    _config.enable_x64,
    _config.default_matmul_precision,
    _config.numpy_dtype_promotion,
    _config.default_prng_impl,
    _config.threefry_partitionable,
)
"""The configuration that the numbers in a value depend on."""


def settings() -> tuple[Any, ...]:
    """What they are now."""
    x64, precision, promotion, prng, split = SETTINGS
    return (x64.value, precision.value, promotion.value, prng.value, split.value)


@contextmanager
def configured(settings: tuple[Any, ...]) -> Iterator[None]:
    """In this context, the configuration is this one."""
    with ExitStack() as stack:
        for state, value in zip(SETTINGS, settings, strict=True):
            stack.enter_context(state(value))
        yield


def tracing_is_forbidden() -> bool:
    """Inside `jax.no_tracing`."""
    return bool(_config.no_tracing.value)


def has_processes() -> bool:
    """Whether this process may be one of several: `jax.distributed.initialize` was
    called."""
    return _distributed.global_state.client is not None


def coordination_client() -> Any:
    """Of the service that `jax.distributed` starts: a table of strings that all
    processes share. None without it."""
    return _distributed.global_state.client
