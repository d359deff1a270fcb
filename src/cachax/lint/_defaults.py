"""Values that methods read only for an argument that is not given."""

import ast
from collections.abc import Iterator

from ._annotations import is_none
from ._classes import Class, called_in_the_end
from ._module import FunctionNode
from ._objects import arguments
from ._tracing import TracedNode
from ._writes import own_object

_Parameter = tuple[FunctionNode, str]


def defaults_not_used(
    reached: dict[TracedNode, Class], first: set[str]
) -> set[ast.AST]:
    """The nodes of `self.state.params` in `if params is None: params =
    self.state.params`, where all calls among these functions give `params`. The first
    ones may be called from anywhere."""
    methods = {f: owner for f, owner in reached.items() if isinstance(f, FunctionNode)}
    given = {
        (function, name)
        for function in methods
        if function.name not in first
        for name in _optional(function)
    }
    calls = {function: _calls(function.name, methods) for function, _ in given}
    waiting = True
    while waiting:  # an argument may be an optional parameter of the caller
        lost = {
            (function, name)
            for function, name in given
            if not _is_given(function, name, calls[function], methods, given)
        }
        given -= lost
        waiting = bool(lost)
    return {
        node
        for function, name in given
        for branch in _branches_without(name, function)
        for node in ast.walk(branch)
    }


def _optional(function: FunctionNode) -> list[str]:
    """The parameters with None for a default."""
    of = function.args
    by_position = [*of.posonlyargs, *of.args]
    last = by_position[len(by_position) - len(of.defaults) :]
    pairs = [*zip(last, of.defaults, strict=True)]
    pairs += [(a, d) for a, d in zip(of.kwonlyargs, of.kw_defaults, strict=True) if d]
    return [argument.arg for argument, default in pairs if is_none(default)]


def _calls(
    name: str, methods: dict[FunctionNode, Class]
) -> list[tuple[FunctionNode, ast.Call | None]]:
    """Where methods use one of this name, and the call; None if it is only passed on.
    `partial(self.f, x=1)` counts as a call."""
    found: list[tuple[FunctionNode, ast.Call | None]] = []
    for caller, owner in methods.items():
        obj = own_object(caller, owner.module)
        for node in ast.walk(caller):
            match node:
                case ast.Attribute(ast.Name(variable), used) if used == name:
                    if variable == obj:
                        parent = owner.module.parent(node)
                        call = parent if isinstance(parent, ast.Call) else None
                        is_called = call and called_in_the_end(call) is node
                        found.append((caller, call if is_called else None))
    return found


def _is_given(
    function: FunctionNode,
    name: str,
    calls: list[tuple[FunctionNode, ast.Call | None]],
    methods: dict[FunctionNode, Class],
    given: set[_Parameter],
) -> bool:
    module = methods[function].module
    for caller, call in calls:
        if call is None:
            return False
        by_name = {k.arg: k.value for k in call.keywords if k.arg is not None}
        is_partial = call.func is not called_in_the_end(call)
        by_position = [] if is_partial else arguments(call, function, module)
        argument = ({p.arg: a for p, a in by_position} | by_name).get(name)
        if argument is None or is_none(argument):
            return False
        name_given = argument.id if isinstance(argument, ast.Name) else ""
        may_be_none = name_given in _optional(caller)
        if may_be_none and (caller, name_given) not in given:
            return False
    return bool(calls)


def _branches_without(name: str, function: FunctionNode) -> Iterator[ast.AST]:
    """What runs only if a parameter is None."""
    for node in ast.walk(function):
        match node:
            case ast.If(
                ast.Compare(ast.Name(tested), [ast.Is()], [ast.Constant(None)]), body
            ) if tested == name:
                yield from body
            case ast.IfExp(
                ast.Compare(ast.Name(tested), [ast.Is()], [ast.Constant(None)]), value
            ) if tested == name:
                yield value
            case ast.IfExp(
                ast.Compare(ast.Name(tested), [ast.IsNot()], [ast.Constant(None)]),
                _,
                value,
            ) if tested == name:
                yield value
