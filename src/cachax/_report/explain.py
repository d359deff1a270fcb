"""Explain what one call does with cached values."""

import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax

from .._core.memo import Key, keys_of, may_have_values, memo_of
from .._core.method import CachedMethod
from .._core.slots import is_pytree
from .._core.sources import sources_of
from .._errors import not_a_function, plain_name
from .._jit.call import name_of
from .._jit.notes import parameter
from .._jit.vmap import BatchKey
from .causes import MADE_INSIDE, RETURNED
from .events import Event, What
from .inside import computed_inside
from .intermediates import why_jit_pays
from .journal import Journal
from .property import Property
from .reads import wait_for
from .record import recording
from .report import Report
from .text import seconds, size, wrapped

_MISSING: Any = object()
_READ = (What.INLINE, What.COMPUTED, What.KNOWN, What.HIT)
"""Events at the line that reads a value."""
_OUTSIDE = {
    What.COMPUTED: "computed now",
    What.KNOWN: "found for the same arrays",
    What.HIT: "already cached",
}
"""What can happen to a value that is not an input of the function."""


@dataclass(repr=False)
class Explanation:
    """What one call did with cached values: the result of `explain`.

    `print` shows it as text, a notebook as a table.

    Example:
        >>> import equinox as eqx, jax, jax.numpy as jnp, cachax
        >>> class Line(eqx.Module):
        ...     x: jax.Array
        ...
        ...     @cachax.cached_property
        ...     def mean(self):
        ...         return self.x.mean()
        >>> mean_of = cachax.jit(lambda line: line.mean)
        >>> explanation = cachax.explain(mean_of, Line(jnp.ones(3)))
        >>> explanation.result
        Array(1., dtype=float32)
        >>> [(each.name, each.status) for each in explanation.properties]
        [('Line.mean', 'computed now, passed in')]
    """

    function: str
    """The name of the function."""
    result: Any
    """What the function returned."""
    properties: list[Property]
    """The cached properties of the arguments."""
    returned: list[Event]
    """The values that objects in the result have."""
    made_inside: list[Event]
    """The values of objects that the function made while JAX traced it."""
    programs: list[Event]
    """What JAX traced and compiled, and why."""
    report: Report
    """All events of the call."""

    def to_dict(self) -> dict[str, Any]:
        """The explanation as lists, dictionaries, strings and numbers.

        Returns:
            A dictionary that `json.dumps` takes.
        """
        return {
            "function": self.function,
            "properties": [asdict(each) for each in self.properties],
            "made_inside": [
                asdict(e) | {"what": e.what.value} for e in self.made_inside
            ],
            "returned": [asdict(e) | {"what": e.what.value} for e in self.returned],
            "programs": [asdict(e) | {"what": e.what.value} for e in self.programs],
        }

    def save(self, path: str | Path) -> None:
        """Write an HTML page, as `Report.save` does.

        Args:
            path: The file to write.

        Raises:
            OSError: The file can't be written.
        """
        self.report.save(path)

    def __str__(self) -> str:
        return "\n".join(_lines(self))

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        from .page import explanation_of

        return explanation_of(self)


def explain(fun: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Explanation:
    """Call a function, and explain what it does with the cached values of its
    arguments.

    A jitted function that was called before is also traced again, without being run,
    to find the values that its program computes inside.

    Args:
        fun: A `cachax.jit` function, a `jax.jit` function or a plain one. Of a method,
            the object is the first argument.
        *args: Its arguments. It is called once.
        **kwargs: Its keyword arguments.

    Returns:
        An `Explanation`. `print` shows it; `result` has what the function returned.

    Raises:
        UsageError: `fun` is not a function.
        Exception: Whatever `fun` raises.

    Example:
        >>> import dataclasses, jax, jax.numpy as jnp, cachax
        >>> @jax.tree_util.register_dataclass
        ... @dataclasses.dataclass(frozen=True)
        ... class Line:
        ...     x: jax.Array
        ...
        ...     @cachax.cached_property
        ...     def mean(self):
        ...         return jnp.mean(self.x)
        >>> line = Line(jnp.array([1.0, 3.0]))
        >>> def mean_of(line):
        ...     return line.mean
        >>> (mean,) = cachax.explain(jax.jit(mean_of), line).properties
        >>> mean.status
        'computed inside the program'
        >>> mean.why
        '`jax.jit` of mean_of drops cached values: use `cachax.jit`'
        >>> (mean,) = cachax.explain(cachax.jit(mean_of), line).properties
        >>> mean.status
        'computed now, passed in'
    """
    if not callable(fun):
        raise not_a_function("explain", fun)
    if hasattr(fun, "__self__") and hasattr(fun, "__func__"):  # equinox has its own
        args, fun = (fun.__self__, *args), fun.__func__
    tree = (args, kwargs)
    objects = dict(enumerate(_named_objects(fun, tree)))
    there = {number: _kept(obj) for number, (_, obj) in objects.items()}
    name = plain_name(name_of(fun))
    with recording(name) as journal:
        result = wait_for(fun(*args, **kwargs))
    report = journal.report
    if report.count("inline") + report.count("traced") == 0:
        report.events += computed_inside(fun, args, kwargs)
    properties = [
        _property(argument, obj, name, key, name in there[number], alike, journal)
        for number, (argument, obj) in objects.items()
        for alike in [sum(type(x) is type(obj) for _, x in objects.values())]
        for name, key in _keys(obj).items()
    ]
    numbers = {journal.number(obj) for _, obj in objects.values()}
    returned = [
        e for e in report.events if e.what is What.RETURNED and e.object not in numbers
    ]
    inside = [e for e in report.events if _is_of_other_object(e) and e not in returned]
    programs = [e for e in report.events if e.what in (What.TRACED, What.COMPILED)]
    return Explanation(name, result, properties, returned, inside, programs, report)


def _kept(obj: Any) -> set[str]:
    """The names of the properties that are cached."""
    memo = memo_of(obj)
    return {n for n, key in _keys(obj).items() if key.peek(obj, memo) is not memo}


def _keys(obj: Any) -> dict[str, Key]:
    """The keys of its class, those of its methods that have been called, and for a
    batch those of its examples."""
    calls = sources_of(type(obj)).values()
    methods = [
        k for m in calls if isinstance(m, CachedMethod) for k in m.keys_kept(obj)
    ]
    of_each = [key for key in memo_of(obj).values if isinstance(key, BatchKey)]
    return keys_of(type(obj)) | {key.of(obj): key for key in [*methods, *of_each]}


def _property(
    argument: str,
    obj: Any,
    name: str,
    key: Key,
    was_there: bool,
    alike: int,
    journal: Journal,
) -> Property:
    number = journal.number(obj)
    mine = [
        event
        for event in journal.report.events
        if event.name == key.of(obj)
        and (event.object == number or (event.object == 0 and alike == 1))
        and event.what is not What.DROPPED
        and not _is_of_other_object(event)
    ]
    kinds = {event.what for event in mine}
    is_known = What.KNOWN in kinds
    status = ["already cached"] if was_there and not is_known else []
    status += ["computed now"] if What.COMPUTED in kinds else []
    status += ["found for the same arrays"] if What.KNOWN in kinds else []
    status += ["passed in"] if What.PASSED in kinds else []
    status += ["returned"] if What.RETURNED in kinds else []
    is_inside = {What.INLINE, What.INSIDE} & kinds
    status += ["computed inside the program"] if is_inside else []
    if not mine:
        status += ["not used"]
    whys = [e.why for e in mine if e.why and not e.why.startswith("into ")]
    read = [e.where for e in mine if e.what in _READ]
    if mine:
        read.append(journal.read_at.get(key))
    host = (
        "its body needs concrete values"
        if What.COMPUTED in kinds and _is_host_only(key, obj)
        else ""
    )
    memory = why_jit_pays(key, obj) if What.COMPUTED in kinds and not host else ""
    return Property(
        argument,
        key.of(obj),
        ", ".join(status),
        "; ".join(dict.fromkeys(filter(None, [*whys, host, memory]))),
        read[0] if read else None,
        sum(e.seconds for e in mine if e.what is What.COMPUTED),
        max((e.bytes for e in mine), default=0),
    )


def _is_of_other_object(event: Event) -> bool:
    is_returned = event.what is What.RETURNED and event.why.endswith(RETURNED)
    is_made = event.what is What.INLINE and event.why.startswith(MADE_INSIDE)
    return is_made or is_returned


def _is_host_only(key: Any, obj: Any) -> bool:
    """Whether the body needs concrete values, so that a trace of it fails."""
    try:
        jax.eval_shape(lambda copy: jax.tree.leaves(key.body(copy)) and None, obj)
    except (
        jax.errors.ConcretizationTypeError,
        jax.errors.TracerArrayConversionError,
        jax.errors.TracerIntegerConversionError,
    ):
        return True
    except Exception:  # for a different reason
        return False
    return False


def _named_objects(fun: Any, tree: Any) -> list[tuple[str, Any]]:
    """The objects among the arguments, with their names."""
    found = []
    for path, obj in _objects(tree):
        argument = _argument(fun, path)
        found.append((argument, obj))
        for _, inner in _inner_objects(obj):
            found.append((f"{argument}, inside: {type(inner).__name__}", inner))
    return found


def _objects(tree: Any) -> list[tuple[str, Any]]:
    def is_object(x: Any) -> bool:
        return x is not tree and may_have_values(type(x))

    paths, _ = jax.tree_util.tree_flatten_with_path(tree, is_leaf=is_object)
    return [
        (jax.tree_util.keystr(path), x)
        for path, x in paths
        if may_have_values(type(x)) and is_pytree(x)
    ]


def _inner_objects(obj: Any) -> list[tuple[str, Any]]:
    direct = _objects(obj)
    return [pair for one in direct for pair in [one, *_inner_objects(one[1])]]


def _argument(fun: Any, path: str) -> str:
    """`gp`, `meshes[2]`: the path of an argument, by the name of its parameter."""
    if path.startswith("[0]["):
        number, _, rest = path.removeprefix("[0][").partition("]")
        path = parameter(fun, int(number)) + rest
    elif path.startswith("[1]['"):
        name, _, rest = path.removeprefix("[1]['").partition("']")
        path = name + rest
    return path


def _lines(explanation: Explanation) -> list[str]:
    width = min(shutil.get_terminal_size((100, 24)).columns, 100)
    lines = [explanation.function]
    for argument in dict.fromkeys(p.argument for p in explanation.properties):
        lines.append(f"  {argument}")
        for each in explanation.properties:
            if each.argument == argument:
                lines += _property_lines(each, width)
    others = _other_values(explanation)
    if others:
        lines.append("  objects that aren't arguments")
        for said in others:
            lines += wrapped(said, width, "    ")
    elif not explanation.properties:
        lines.append("  no argument has cached properties")
    if explanation.returned:
        lines.append("  result")
        for event in explanation.returned:
            lines += wrapped(f"{event.name}: returned with its object", width, "    ")
    if explanation.made_inside:
        lines.append("  objects made inside the trace")
        for event in explanation.made_inside:
            said = f"{event.name}: computed inside the program, read at {event.where}"
            lines += wrapped(said, width, "    ")
            lines += wrapped(f"-> {event.why}", width, "      ")
    if explanation.programs:
        lines.append("  programs")
        for said in program_words(explanation.programs):
            lines += wrapped(said, width, "    ")
    return lines


def _other_values(explanation: Explanation) -> list[str]:
    """What the function did with values of objects that it closes over."""
    arguments = {each.name for each in explanation.properties}
    others = [
        event
        for event in explanation.report.events
        if event.what in _OUTSIDE and event.name not in arguments
    ]
    found = dict.fromkeys((e.name, _OUTSIDE[e.what], e.where) for e in others)
    return [f"{name}: {status}, read at {where}" for name, status, where in found]


def program_words(programs: list[Event]) -> list[str]:
    """A line for each trace and compilation, and one for the operations of a value."""
    groups: dict[tuple[Any, ...], list[Event]] = {}
    for event in programs:
        is_part = event.why.startswith("to compute ")
        name = "" if is_part else plain_name(event.name)
        groups.setdefault((event.what, name, event.why), []).append(event)
    said = []
    for (what, name, why), events in groups.items():
        took = seconds(sum(e.seconds for e in events))
        who = name or (
            events[0].name if len(events) == 1 else f"{len(events)} operations"
        )
        times = f" {len(events)} times" if name and len(events) > 1 else ""
        took = f" in {took}" if took != "-" else ""
        said.append(f"{who} {what.value}{times}{took}" + (f": {why}" if why else ""))
    return said


def _property_lines(each: Property, width: int) -> list[str]:
    about = [each.status]
    about += [seconds(each.seconds)] if each.seconds else []
    about += [size(each.bytes)] if each.bytes else []
    about += [f"read at {each.where}"] if each.where else []
    lines = wrapped(f"{each.name}: {', '.join(about)}", width, "    ")
    return lines + (wrapped(f"-> {each.why}", width, "      ") if each.why else [])
