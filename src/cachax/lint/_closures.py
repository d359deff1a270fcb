"""Functions that functions return, and the variables that they take along."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ._module import FunctionNode, Module
from ._project import Definition, Project

_MOST_DEPTH = 4  # of functions that return what other functions return


@dataclass(frozen=True)
class Closure:
    """A function that is defined in another one, which returns it."""

    function: FunctionNode | ast.Lambda
    maker: FunctionNode
    module: Module

    @property
    def taken_along(self) -> Iterator[ast.Name]:
        """Where it reads variables that are assigned in its maker."""
        of = self.function.args
        own = {argument.arg for argument in [*of.posonlyargs, *of.args, *of.kwonlyargs]}
        own |= set(self.module.bound_in(self.function))
        names = set(self.module.bound_in(self.maker)) - own
        for node in ast.walk(self.function):
            if isinstance(node, ast.Name) and node.id in names:
                yield node


def closures_returned(
    function: FunctionNode, module: Module, project: Project, depth: int = _MOST_DEPTH
) -> Iterator[Closure]:
    """The functions that a function returns, as far as they are defined in it or in one
    that it calls for them."""
    own = module.own_nodes(function)
    returned = [node.value for node in own if isinstance(node, ast.Return)]
    return closures_in(returned, function, module, project, depth)


def closures_in(
    values: list[ast.expr | None],
    function: FunctionNode,
    module: Module,
    project: Project,
    depth: int = _MOST_DEPTH,
) -> Iterator[Closure]:
    """The functions that these values of a function are, or are made of."""
    waiting = list(values)
    inside = module.definitions_in(function)
    seen: set[str] = set()
    for value in waiting:  # grows while it is walked
        match value:
            case ast.Lambda():
                yield Closure(value, function, module)
            case ast.Tuple(parts):
                waiting += parts
            case ast.Name(name) if name not in seen:
                seen.add(name)
                match inside.get(name):
                    case ast.FunctionDef() as made:
                        yield Closure(made, function, module)
                    case ast.Assign(_, assigned):
                        waiting.append(assigned)
            case ast.Call(maker, arguments):
                waiting += arguments[:1]  # `jax.jit(f)`, `partial(f, 1)`
                match project.resolve(maker, module):
                    case Definition(other, ast.FunctionDef() as called) if depth > 0:
                        yield from closures_returned(called, other, project, depth - 1)
