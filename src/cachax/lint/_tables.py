"""Tables made by hand: variables outside of a function in which it keeps values."""

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ._annotations import is_none
from ._module import FunctionNode, Module, ScopeNode, dotted
from ._tracing import parameters

_EMPTY = {"dict", "OrderedDict", "defaultdict", "WeakKeyDictionary", "LRUCache"}


@dataclass(frozen=True)
class Entry:
    """`table[key] = value` or `table = value`, where `table` is not of the function."""

    table: str
    value: ast.expr
    node: ast.stmt


def entries(function: FunctionNode, module: Module) -> Iterator[Entry]:
    """What a function keeps for later calls: it looks whether the value is there, and
    returns it, or reads it back."""
    nodes = module.own_nodes(function)
    own = {*parameters(function), *module.bound_in(function)}
    declared = {
        name
        for node in nodes
        if isinstance(node, ast.Global | ast.Nonlocal)
        for name in node.names
    }
    asked = _asked_for(nodes)
    for node in nodes:
        if not isinstance(node, ast.Assign):
            continue
        for target in node.targets:
            starts_as: Callable[[ast.expr], bool]
            match target:
                case ast.Subscript(ast.Name(table)) if table not in own - declared:
                    starts_as = is_empty_table
                case ast.Name(table) if table in declared:
                    starts_as = is_none
                case _:
                    continue
            scope = _scope_of(table, function, module)
            if scope is None or table not in asked:
                continue
            made = [bound.value for bound in module.bound_in(scope)[table]]
            known = bool(made) and all(v is not None and starts_as(v) for v in made)
            kept = _is_returned(table, node, nodes) or _is_read_back(table, node, nodes)
            if known and kept and not _may_have_no_key(target, nodes):
                yield Entry(table, node.value, node)


def _scope_of(name: str, function: FunctionNode, module: Module) -> ScopeNode | None:
    """The scope around a function that has a variable."""
    around = [*module.around(function), module.tree]
    scopes = (s for s in around if isinstance(s, FunctionNode | ast.Module))
    return next((s for s in scopes if name in module.bound_in(s)), None)


def is_empty_table(value: ast.expr) -> bool:
    """`{}`, `dict()`, `OrderedDict()`, ..."""
    match value:
        case ast.Dict([], []):
            return True
        case ast.Call(made):
            return (dotted(made) or "").rpartition(".")[2] in _EMPTY
    return False


def _asked_for(nodes: list[ast.AST]) -> set[str]:
    """`key in table`, `table.get(key)`, `table is None`, `except KeyError`."""
    found: set[str] = set()
    for node in nodes:
        match node:
            case ast.Compare(_, [ast.In() | ast.NotIn()], [ast.Name(name)]):
                found.add(name)
            case ast.Compare(ast.Name(name), [ast.Is() | ast.IsNot()]):
                found.add(name)
            case ast.Call(ast.Attribute(ast.Name(name), "get")):
                found.add(name)
            case ast.Try(body, handlers) if any(map(_is_missing, handlers)):
                inner = (part for statement in body for part in ast.walk(statement))
                found |= {part.id for part in inner if isinstance(part, ast.Name)}
    return found


def _may_have_no_key(target: ast.expr, nodes: list[ast.AST]) -> bool:
    """`if key is None: return value`: nothing is kept for arguments without a key, as
    tracers are."""
    names = {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}
    for node in nodes:
        match node:
            case ast.Assign([ast.Name(name)], value) if name in names:
                names |= {n.id for n in ast.walk(value) if isinstance(n, ast.Name)}
    tests = (n.test for n in nodes if isinstance(n, ast.If) and _returns(n))
    compared = (n for test in tests for n in ast.walk(test))
    for node in compared:
        match node:
            case ast.Compare(ast.Name(name), [ast.Is()], [ast.Constant(None)]):
                if name in names:
                    return True
    return False


def _returns(node: ast.If) -> bool:
    return isinstance(node.body[-1], ast.Return)


def _is_missing(handler: ast.ExceptHandler) -> bool:
    return "KeyError" in (ast.unparse(handler.type) if handler.type else "")


def _is_returned(table: str, node: ast.Assign, nodes: list[ast.AST]) -> bool:
    names = {table}
    for part in [node.value, *node.targets]:
        if isinstance(part, ast.Name):
            names.add(part.id)
    returned = [n.value for n in nodes if isinstance(n, ast.Return) and n.value]
    return any(
        isinstance(part, ast.Name) and part.id in names
        for value in returned
        for part in ast.walk(value)
    )


def _is_read_back(table: str, node: ast.Assign, nodes: list[ast.AST]) -> bool:
    """`x = table[key]`. It is not a cache if the value comes from the table itself:
    `table[key] = table[key] + x`."""
    if any(isinstance(n, ast.Name) and n.id == table for n in ast.walk(node.value)):
        return False
    return any(
        isinstance(n, ast.Assign)
        and isinstance(n.value, ast.Subscript)
        and isinstance(n.value.value, ast.Name)
        and n.value.value.id == table
        for n in nodes
    )
