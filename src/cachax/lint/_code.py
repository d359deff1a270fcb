"""The code of one file and what is known of it: what a rule looks at."""

import ast
import functools
from dataclasses import dataclass

from ._classes import Class, called_in_the_end, class_of
from ._finding import Severity
from ._jax_names import public_name
from ._kinds import Kinds
from ._module import FunctionNode, Module
from ._objects import Objects
from ._project import Project
from ._source import Source
from ._tracing import Traced, traced_functions


@dataclass(frozen=True)
class Found:
    """A place where a rule applies; a severity only where it is not the rule's own."""

    node: ast.expr | ast.stmt
    message: str
    severity: Severity | None = None
    # A functools decorator that may become the one of cachax.
    replaceable: ast.expr | None = None


@dataclass(frozen=True)
class Code:
    """A parsed file among those of its project."""

    source: Source
    module: Module
    project: Project

    @functools.cached_property
    def kinds(self) -> Kinds:
        return Kinds(self.project)

    @functools.cached_property
    def objects(self) -> Objects:
        return Objects(self.project)

    @functools.cached_property
    def classes(self) -> list[Class]:
        return [
            class_of(node, self.module, self.project) for node in self.module.classes
        ]

    @functools.cached_property
    def traced(self) -> list[Traced]:
        return traced_functions(self.module, self.project)

    @functools.cached_property
    def traced_nodes(self) -> dict[ast.AST, Traced]:
        """By function; where a function is traced in several ways, the first."""
        found: dict[ast.AST, Traced] = {}
        for traced in self.traced:
            found.setdefault(traced.function, traced)
        return found

    def name_of(self, node: ast.AST | None) -> str:
        """The full public name of what an expression stands for."""
        return public_name(self.project.name_of(node, self.module))

    def decorators(self, function: FunctionNode) -> list[tuple[ast.expr, str]]:
        """Each with the full name of its function."""
        return [
            (node, self.name_of(called_in_the_end(node)))
            for node in function.decorator_list
        ]

    def class_around(self, node: ast.AST) -> Class | None:
        """The class that a method, or something in it, belongs to."""
        for outer in self.module.around(node):
            if isinstance(outer, ast.ClassDef):
                return class_of(outer, self.module, self.project)
        return None
