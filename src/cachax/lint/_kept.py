"""Derived values that code keeps on its objects: cached properties, or home-made."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from ._classes import Class, Wrapped, called_in_the_end, is_property
from ._code import Code, Found
from ._descriptors import Caching, caching
from ._families import Keeps
from ._fields import constant_keyword
from ._finding import Severity
from ._jax_names import Kind
from ._module import FunctionNode, Module
from ._project import Project
from ._writes import (
    Write,
    is_maker,
    is_returned,
    is_returned_whole,
    own_object,
    writes,
)

_OUTSIDE = re.compile(r"jax\.(ensure_compile_time_eval|(_src\.)?core\.eval_context)")
CACHAX = re.compile(r"cachax\.cached_(property|method)")


@dataclass(frozen=True)
class Kept:
    """A value that is kept in the `__dict__` of an object, outside of its fields."""

    cls: Class
    attribute: str
    function: Wrapped
    node: ast.expr | ast.stmt  # the decorator, or the statement that keeps it
    how: str
    kind: Kind
    decorator: ast.expr | None = None
    caching: Caching = Caching.ON_OBJECT

    @property
    def name(self) -> str:
        return f"{self.cls.name}.{self.attribute}"

    @property
    def keeps(self) -> Keeps | None:
        """What happens to the value when JAX rebuilds the object, if it does that."""
        if self.cls.family is None:
            return None
        if self.caching is Caching.IN_THE_TREE:
            return Keeps.FIELD
        return self.cls.family.keeps


def reported(kept: Kept, message: str, severity: Severity | None = None) -> Found:
    """If the linter can't tell whether the value has arrays, it is information."""
    sure = kept.kind.has_arrays
    may = "" if sure else " (if the value holds JAX arrays, which is unknown)"
    return Found(
        kept.node,
        f"`{kept.name}` ({kept.how}){may}: {message}",
        severity if sure else Severity.INFORMATION,
        kept.decorator if sure else None,
    )


def kept_values(code: Code) -> list[Kept]:
    """All of a file, those that are sure to hold no JAX array left out."""
    return code.module.remember(
        kept_values,
        lambda: [kept for kept in _all(code) if kept.kind is not Kind.OTHER],
    )


def _all(code: Code) -> Iterator[Kept]:
    for own in code.classes:
        cls = own if own.family else _made_with(own, code)
        for function in own.own_methods.values():
            decorator = cached_decorator(function, code.module, code.project)
            if decorator is not None:
                yield _kept(cls, function.name, function, decorator, code)
            elif not is_maker(function, cls):
                yield from _home_made(cls, function, code)
        for name, (wrapped, call) in own.wrapped.items():
            where = caching(call.func, code.module, code.project)
            if where is not None and where.on_object:
                yield _kept(cls, name, wrapped, call, code)


def _kept(cls: Class, name: str, function: Wrapped, node: ast.expr, code: Code) -> Kept:
    is_decorator = node in getattr(function, "decorator_list", ())
    how = f"@{ast.unparse(node)}" if is_decorator else f"{name} = {ast.unparse(node)}"
    call = node if is_decorator else getattr(node, "func", node)
    where = caching(call, code.module, code.project) or Caching.ON_OBJECT
    if constant_keyword(call, "pytree_ignore") is True:  # netket
        where = Caching.ON_OBJECT
    kind = _value(function, code)
    decorator = node if is_decorator else None
    return Kept(cls, name, function, node, how, kind, decorator, where)


def _made_with(mixin: Class, code: Code) -> Class:
    """The first pytree class of the file that a class without a family is a base of; if
    there is none, the class itself."""
    users = (c for c in code.classes if c.family and mixin in c.ancestors)
    return next(users, mixin)


def cached_decorator(
    function: FunctionNode, module: Module, project: Project
) -> ast.expr | None:
    """The decorator that keeps a value in the `__dict__`, if there is one."""
    for node in function.decorator_list:
        where = caching(node, module, project)
        if where is not None and where.on_object:
            return node
    return None


def is_cachax(function: FunctionNode, module: Module, project: Project) -> bool:
    """Whether it is a property of cachax already."""
    return any(
        CACHAX.fullmatch(project.name_of(called_in_the_end(node), module))
        for node in function.decorator_list
    )


def cachax_values(code: Code) -> Iterator[tuple[Class, FunctionNode, ast.expr]]:
    """The cached properties and methods of cachax in a file, with their decorators."""
    for cls in code.classes:
        for function in cls.own_methods.values():
            for node, name in code.decorators(function):
                if CACHAX.fullmatch(name):
                    yield cls, function, node


def _value(function: Wrapped, code: Code) -> Kind:
    if isinstance(function, ast.Lambda):
        return code.kinds.of(function.body, code.module)
    returns = [n for n in ast.walk(function) if isinstance(n, ast.Return) and n.value]
    if not returns or is_concrete(function, code):
        return Kind.OTHER
    return code.kinds.sometimes_returned(function, code.module)


def is_concrete(function: FunctionNode, code: Code) -> bool:
    """It computes outside of any trace: `with jax.ensure_compile_time_eval():`."""
    names = (
        code.name_of(item.context_expr.func)
        for node in ast.walk(function)
        if isinstance(node, ast.With)
        for item in node.items
        if isinstance(item.context_expr, ast.Call)
    )
    return any(_OUTSIDE.fullmatch(name) for name in names)


def holds_arrays(
    write: Write, function: FunctionNode, obj: str, code: Code, kind: Kind
) -> bool:
    """Whether it is an array that a function keeps: by the kind of the value, else
    because the function returns it and is annotated to return an array."""
    if kind is Kind.UNKNOWN and is_returned_whole(write, function, obj, code.module):
        kind = code.kinds.of_annotation(function.returns, code.module)
    return kind.has_arrays


def mentions_tracers(function: FunctionNode) -> bool:
    """It looks itself whether it is traced."""
    names = (getattr(n, "attr", getattr(n, "id", "")) for n in ast.walk(function))
    return any("tracer" in name.lower() or "trace_state" in name for name in names)


def _home_made(cls: Class, function: FunctionNode, code: Code) -> Iterator[Kept]:
    """`if self._x is None: self._x = ...; return self._x`, and `_x` is not a field."""
    obj = own_object(function, code.module)
    if obj is None or is_concrete(function, code):
        return
    what = "property" if is_property(function) else "method"
    seen: set[str] = set()
    for write in writes(function, obj, code.module):
        is_cache = write.is_lazy and not write.is_item and write.attribute not in seen
        if not is_cache or write.attribute in cls.tree_fields:
            continue
        if not is_returned(write, function, obj, code.module):
            continue
        kind = code.kinds.kept(write.value, code.module)
        if kind.has_arrays:  # else it is any state at all
            seen.add(write.attribute)
            how = f"a lazy {what} that writes to `{obj}.{write.attribute}`"
            yield Kept(cls, function.name, function, write.node, how, kind)
