"""A parsed file: its imports, its definitions, and what encloses what."""

import ast
import dataclasses
import functools
import typing
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
ScopeNode = FunctionNode | ast.Lambda | ast.ClassDef | ast.Module
T = TypeVar("T")


# What `parse` may raise; the last two on what is nested too deeply.
PARSE_ERRORS = (SyntaxError, ValueError, RecursionError, MemoryError)


# What `from ... import *` brings along, of modules that matter here.
_STARS = {m.__name__: m.__all__ for m in (dataclasses, functools, typing)}


def parse(text: str) -> ast.Module:
    """The syntax tree, without Python's warnings about old escapes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text)


def dotted(node: ast.AST | None) -> str | None:
    """The expression as a dotted name, if it is one.

    >>> dotted(ast.parse("a.b.c", mode="eval").body)
    'a.b.c'
    """
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return ".".join([node.id, *reversed(names)])


@dataclass(frozen=True)
class Bound:
    """A name bound by an assignment, and to what.

    `value` is None if what is bound is unknown (a `with`, a loop).
    """

    node: ast.AST
    value: ast.expr | None

    @property
    def line(self) -> int:
        line: int = getattr(self.node, "lineno", 0)
        return line


class Module:
    """A file that was parsed. What rules need is collected on first use."""

    def __init__(self, tree: ast.Module, name: str = "", path: Path | None = None):
        self.tree = tree
        self.name = name
        self.path = path
        self._notes: dict[object, object] = {}

    def remember(self, key: object, find: Callable[[], T]) -> T:
        """What was found out about this file under a key; if nothing was, it is now."""
        if key not in self._notes:
            self._notes[key] = find()
        return cast(T, self._notes[key])

    @property
    def is_package(self) -> bool:
        return self.path is not None and self.path.name == "__init__.py"

    @functools.cached_property
    def _walked(self) -> tuple[list[ast.AST], dict[ast.AST, ast.AST]]:
        nodes: list[ast.AST] = [self.tree]
        parents: dict[ast.AST, ast.AST] = {}
        for node in nodes:  # grows while it is walked
            for child in ast.iter_child_nodes(node):
                parents[child] = node
                nodes.append(child)
        return nodes, parents

    @property
    def nodes(self) -> list[ast.AST]:
        """All of them, the outer ones first."""
        return self._walked[0]

    def parent(self, node: ast.AST) -> ast.AST | None:
        return self._walked[1].get(node)

    def around(self, node: ast.AST) -> Iterator[ast.AST]:
        """What encloses a node, from the inside out."""
        outer = self.parent(node)
        while outer is not None:
            yield outer
            outer = self.parent(outer)

    def scopes(self, node: ast.AST) -> Iterator[ScopeNode]:
        """The scopes a name at this node is looked up in; the module is the last."""
        inside_function = isinstance(node, ast.Lambda | FunctionNode)
        for outer in self.around(node):
            if isinstance(outer, ast.ClassDef):
                if not inside_function:
                    yield outer
            elif isinstance(outer, FunctionNode | ast.Lambda):
                inside_function = True
                yield outer
        yield self.tree

    @functools.cached_property
    def classes(self) -> list[ast.ClassDef]:
        return [node for node in self.nodes if isinstance(node, ast.ClassDef)]

    @functools.cached_property
    def functions(self) -> list[FunctionNode]:
        return [node for node in self.nodes if isinstance(node, FunctionNode)]

    @functools.cached_property
    def calls(self) -> list[ast.Call]:
        return [node for node in self.nodes if isinstance(node, ast.Call)]

    @functools.cached_property
    def imports(self) -> dict[str, str]:
        """Local name to dotted origin. Of two imports of a name, that of JAX counts,
        else the first: what comes after is mostly for when the import fails."""
        found: dict[str, str] = {}
        for name, origin in self._all_imports():
            if name not in found or _is_of_jax(origin) > _is_of_jax(found[name]):
                found[name] = origin
        return found

    def _all_imports(self) -> Iterator[tuple[str, str]]:
        """In the order of the lines: each name, and its origin."""
        nodes = [n for n in self.nodes if isinstance(n, ast.Import | ast.ImportFrom)]
        for node in sorted(nodes, key=lambda node: node.lineno):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    origin = alias.name if alias.asname else alias.name.split(".")[0]
                    yield alias.asname or origin, origin
                continue
            base = self._origin(node)
            if node.names[0].name == "*":
                yield from ((name, f"{base}.{name}") for name in _STARS.get(base, ()))
            for alias in node.names:
                yield alias.asname or alias.name, f"{base}.{alias.name}"

    @functools.cached_property
    def stars(self) -> list[str]:
        """The modules in `from ... import *`."""
        return [
            self._origin(node)
            for node in self.nodes
            if isinstance(node, ast.ImportFrom) and node.names[0].name == "*"
        ]

    def stands_in(self, definition: ast.AST, name: str) -> bool:
        """Whether it is only for when the name is not imported:
        `except ImportError: x = None`, or `if ...: import x`, `else: x = None`; a
        function or class too, outside of others."""
        if name not in self.imports:
            return False
        around = list(self.around(definition))
        if any(isinstance(node, ast.ExceptHandler) for node in around):
            return True
        is_conditional = any(isinstance(node, ast.If) for node in around)
        is_local = any(isinstance(node, FunctionNode | ast.ClassDef) for node in around)
        return is_conditional and (isinstance(definition, ast.Assign) or not is_local)

    def _origin(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        package = self.name.split(".")
        package = package[: len(package) - node.level + self.is_package]
        return ".".join([*package, *([node.module] if node.module else [])])

    @property
    def definitions(self) -> dict[str, ast.stmt]:
        """Top-level classes, functions and assigned names."""
        return self.definitions_in(self.tree)

    def definitions_in(self, scope: ast.AST) -> dict[str, ast.stmt]:
        """Classes, functions and assignments of a scope; the last of a name counts."""
        key = (_definitions, scope)
        return self.remember(key, lambda: _definitions(self.own_nodes(scope)))

    def own_nodes(self, scope: ast.AST) -> list[ast.AST]:
        """The nodes of a scope, without those of the functions and classes in it."""
        return self.remember((_own_nodes, scope), lambda: _own_nodes(scope))

    def bound_in(self, scope: ScopeNode) -> dict[str, list[Bound]]:
        """The assignments of a scope by name, in the order of the lines."""
        key = (_bindings, scope)
        return self.remember(key, lambda: _bindings(self.own_nodes(scope)))

    def put_into(self, scope: ScopeNode) -> dict[str, list[ast.expr]]:
        """What a scope puts into lists and dictionaries, by their names."""
        key = (_put_into, scope)
        return self.remember(key, lambda: _put_into(self.own_nodes(scope)))

    def runs_before(self, earlier: ast.AST, later: ast.AST) -> bool:
        """Whether a statement is in the same block as a node after it, or in one around
        that: then it has run when the node does."""
        around = {later, *self.around(later)}
        block = self.parent(earlier)
        for field in ("body", "orelse", "finalbody"):
            statements = getattr(block, field, None)
            if isinstance(statements, list) and earlier in statements:
                return not around.isdisjoint(statements)
        return False


def _is_of_jax(origin: str) -> bool:
    return origin.partition(".")[0] == "jax"


def _own_nodes(scope: ast.AST) -> list[ast.AST]:
    found = list(ast.iter_child_nodes(scope))
    for node in found:  # grows while it is walked
        if not isinstance(node, FunctionNode | ast.Lambda | ast.ClassDef):
            found += ast.iter_child_nodes(node)
    return found


def _definitions(nodes: list[ast.AST]) -> dict[str, ast.stmt]:
    found: dict[str, ast.stmt] = {}
    for node in nodes:
        if isinstance(node, FunctionNode | ast.ClassDef):
            found[node.name] = node
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    found[target.id] = node
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found[node.target.id] = node
        elif type(node).__name__ == "TypeAlias":  # `type X = ...`, from Python 3.12
            parts: Any = node
            alias = ast.Assign([parts.name], parts.value)
            found[parts.name.id] = ast.copy_location(alias, parts)
    return found


def _bindings(nodes: list[ast.AST]) -> dict[str, list[Bound]]:
    found: dict[str, list[Bound]] = {}
    for node in nodes:
        for name, value in _bound_by(node):
            found.setdefault(name, []).append(Bound(node, value))
    for bounds in found.values():
        bounds.sort(key=lambda bound: bound.line)
    return found


def _put_into(nodes: list[ast.AST]) -> dict[str, list[ast.expr]]:
    found: dict[str, list[ast.expr]] = {}
    for node in nodes:
        match node:
            case ast.Call(
                ast.Attribute(ast.Name(name), "append" | "extend" | "insert"),
                [*_, value],
            ) | ast.Assign([ast.Subscript(ast.Name(name))], value):
                found.setdefault(name, []).append(value)
    return found


def _bound_by(node: ast.AST) -> Iterator[tuple[str, ast.expr | None]]:
    match node:
        case ast.Assign(targets, value):
            for target in targets:
                yield from _unpacked(target, value)
        case ast.AugAssign(ast.Name(name), _, value):
            yield name, value
        case ast.AnnAssign(ast.Name(name), _, value) | ast.NamedExpr(
            ast.Name(name), value
        ):
            yield name, value
        case ast.For(target) | ast.AsyncFor(target) | ast.comprehension(target):
            yield from _unpacked(target, None)
        case ast.withitem(_, ast.expr() as target):
            yield from _unpacked(target, None)
        case (
            ast.ExceptHandler(_, str(name)) | ast.FunctionDef(name) | ast.ClassDef(name)
        ):
            yield name, None


def _unpacked(
    target: ast.AST, value: ast.expr | None
) -> Iterator[tuple[str, ast.expr | None]]:
    match target:
        case ast.Name(name):
            yield name, value
        case ast.Starred(inner):
            yield from _unpacked(inner, None)
        case ast.Tuple(targets) | ast.List(targets):
            parts: list[ast.expr | None] = [None] * len(targets)
            if value is not None:
                parts = [*parts_of(value, len(targets))]
            for inner, part in zip(targets, parts, strict=True):
                yield from _unpacked(inner, part)


def parts_of(value: ast.expr, count: int) -> list[ast.expr]:
    """What each of the targets gets that a value is unpacked into."""
    if isinstance(value, ast.Tuple) and len(value.elts) == count:
        return value.elts
    numbers = map(ast.Constant, range(count))
    items = [ast.Subscript(value, number, ast.Load()) for number in numbers]
    return [ast.copy_location(item, value) for item in items]
