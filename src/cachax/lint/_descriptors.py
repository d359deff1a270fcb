"""Which decorators compute a value once and keep it: functools', and others."""

import ast
import enum
import re

from ._classes import Class, called_in_the_end, class_of
from ._module import FunctionNode, Module
from ._project import Definition, Project

FUNCTOOLS = re.compile(
    r"functools\.cached_property"
    r"|(backports\.)?cached_property\.(threaded_)?cached_property"
)
_LIBRARIES = re.compile(
    r"django\.utils\.functional\.cached_property|werkzeug\.utils\.cached_property"
    r"|astropy\.utils\.(decorators\.)?lazyproperty|boltons\.cacheutils\.cachedproperty"
    r"|monty\.functools\.lazy_property|pyramid\.decorator\.reify|funcy\.cached_property"
    r"|torch\.distributions\.utils\.lazy_property|sympy\.utilities\.cached_property"
)
_WITHOUT_TRACERS = re.compile(r"numpyro\.(.+\.)?lazy_property")
_IN_THE_TREE = re.compile(r"netket\.(.+\.)?(property_cached|CachedProperty)")
TABLES = re.compile(
    r"functools\.(lru_cache|cache)|methodtools\.lru_cache"
    r"|cachetools\.(cached|cachedmethod)|cachetools\.func\.\w+_cache"
)
# Calls in a `__get__` that take the object and compute nothing from it.
_QUESTIONS = {
    *(
        "setattr",
        "getattr",
        "hasattr",
        "delattr",
        "vars",
        "type",
        "id",
        "hash",
        "super",
    ),
    *("isinstance", "issubclass", "repr", "str", "ref", "WeakMethod", "MethodType"),
    *("partial", "bind", "__get__", "__set__", "__setattr__", "__getattribute__"),
}
_MOST_STEPS = 4  # from a decorator through functions that return one


class Caching(enum.Enum):
    """Where a decorator keeps the value it computes."""

    ON_OBJECT = "in the `__dict__` of the object"
    WITHOUT_TRACERS = "the same, unless the value is a tracer"
    IN_THE_TREE = "in a field that JAX knows: netket's property_cached"
    IN_TABLE = "in a table, with the object as the key"

    @property
    def on_object(self) -> bool:
        return self is not Caching.IN_TABLE


def caching(node: ast.expr, module: Module, project: Project) -> Caching | None:
    """Where the decorator, or the function called in `y = wrap(f)`, keeps a value."""
    return _caching(node, module, project, _MOST_STEPS)


def _caching(
    node: ast.expr, module: Module, project: Project, steps: int
) -> Caching | None:
    if steps <= 0:
        return None
    resolved = project.resolve(called_in_the_end(node), module)
    match resolved:
        case str():
            return _by_name(resolved)
        case Definition(other, ast.ClassDef() as inner):
            by_name = _by_name(resolved.name)
            return by_name or other.remember(
                (Caching, inner),
                lambda: _of_class(class_of(inner, other, project), project),
            )
        case Definition(other, ast.FunctionDef() as function):
            by_name = _by_name(resolved.name)
            return by_name or other.remember(
                (Caching, function),
                lambda: _of_function(function, other, project, steps),
            )
        case Definition(other, ast.Assign(_, value)):
            return _of_value(value, other, project, steps)
    return None


def _by_name(name: str) -> Caching | None:
    if FUNCTOOLS.fullmatch(name) or _LIBRARIES.fullmatch(name):
        return Caching.ON_OBJECT
    if _WITHOUT_TRACERS.fullmatch(name):
        return Caching.WITHOUT_TRACERS
    if _IN_THE_TREE.fullmatch(name):
        return Caching.IN_THE_TREE
    return None


def _of_class(cls: Class, project: Project) -> Caching | None:
    """A class that computes in `__get__` and writes to the object, or is a
    `functools.cached_property` and leaves `__get__` as it is."""
    found = cls.method("__get__")
    if found is None:
        bases = [base for c in cls.ancestors for base in c.bases]
        known = (_by_name(base) for base in bases if isinstance(base, str))
        return next((where for where in known if where), None)
    owner, function = found
    arguments = [*function.args.posonlyargs, *function.args.args]
    if len(arguments) < 2:
        return None
    return _kept_by(function, arguments[1].arg, owner.module)


def _of_function(
    function: ast.FunctionDef, module: Module, project: Project, steps: int
) -> Caching | None:
    """A function that makes a property of what it is given: it returns one, or a
    property of an inner function that writes to its object."""
    arguments = [*function.args.posonlyargs, *function.args.args]
    if not arguments:
        return None
    for node in module.own_nodes(function):
        if isinstance(node, ast.Return) and node.value is not None:
            where = _of_value(node.value, module, project, steps)
            if where is not None:
                return where
    return None


def _of_value(
    value: ast.expr, module: Module, project: Project, steps: int
) -> Caching | None:
    """Of what a maker of properties returns: `CachedProperty(f)`,
    `property(lru_cache(None)(f))`, `property(inner)`, or `inner`, which is one."""
    match value:
        case ast.Lambda(_, body):
            return _of_value(body, module, project, steps - 1)
        case ast.Call(function, [inner, *_]):
            name = project.name_of(function, module)
            if name in ("property", "builtins.property"):
                return _of_getter(inner, module, project)
            return _caching(function, module, project, steps - 1)
        case ast.Name():
            match project.resolve(value, module):
                case Definition(other, ast.FunctionDef() as inner_function):
                    decorators = inner_function.decorator_list
                    names = [project.name_of(node, other) for node in decorators]
                    if "property" in names:
                        return _of_getter(value, module, project)
    return None


def _of_getter(node: ast.expr, module: Module, project: Project) -> Caching | None:
    """Of the function that a property is made of."""
    if is_table(node, module, project):
        return Caching.IN_TABLE
    match project.resolve(node, module):
        case Definition(other, ast.FunctionDef() as function):
            if any(is_table(d, other, project) for d in function.decorator_list):
                return Caching.IN_TABLE
            arguments = [*function.args.posonlyargs, *function.args.args]
            if arguments:
                return _kept_by(function, arguments[0].arg, other)
    return None


def is_table(node: ast.expr, module: Module, project: Project) -> bool:
    """`lru_cache`, `lru_cache(3)`, `lru_cache(None)(f)` and the like."""
    name = project.name_of(called_in_the_end(node), module)
    return TABLES.fullmatch(name) is not None


def _kept_by(function: FunctionNode, obj: str, module: Module) -> Caching | None:
    """Where a getter keeps what it computes from the object."""
    nodes = module.own_nodes(function)
    if not any(_computes(node, obj) for node in nodes):
        return None
    if not any(_writes_to(node, obj, _dicts_of(nodes, obj)) for node in nodes):
        return None
    if any(_asks_for_tracers(node) for node in nodes):
        return Caching.WITHOUT_TRACERS
    return Caching.ON_OBJECT


def _computes(node: ast.AST, obj: str) -> bool:
    """`self.function(obj)`."""
    match node:
        case ast.Call(ast.Name(name) | ast.Attribute(_, name), arguments):
            given = any(isinstance(a, ast.Name) and a.id == obj for a in arguments)
            return given and name not in _QUESTIONS
    return False


def _dicts_of(nodes: list[ast.AST], obj: str) -> set[str]:
    """Variables for the `__dict__` of the object, or for a dictionary on it."""
    found = set()
    for node in nodes:
        match node:
            case ast.Assign([ast.Name(name), *_], value):
                if _is_on(value, obj):
                    found.add(name)
    return found


def _is_on(node: ast.AST, obj: str) -> bool:
    """`obj.cache`, `vars(obj)`, `getattr(obj, name)`, `vars(obj).setdefault(...)`."""
    match node:
        case ast.Attribute(ast.Name(name)):
            return name == obj
        case ast.Call(ast.Name("vars" | "getattr"), [ast.Name(name), *_]):
            return name == obj
        case ast.Call(ast.Attribute(inner, "setdefault" | "get")):
            return _is_on(inner, obj)
    return False


def _writes_to(node: ast.AST, obj: str, dicts: set[str]) -> bool:
    match node:
        case ast.Call(
            ast.Name("setattr") | ast.Attribute(_, "__setattr__"),
            [ast.Name(name), _, _],
        ):
            return name == obj
        case ast.Call(ast.Attribute(inner, "setdefault" | "update")):
            return _is_on(inner, obj)
        case ast.Assign(targets):
            return any(_is_kept_in(target, obj, dicts) for target in targets)
    return False


def _is_kept_in(target: ast.expr, obj: str, dicts: set[str]) -> bool:
    match target:
        case ast.Attribute(ast.Name(name)):
            return name == obj
        case ast.Subscript(ast.Name(name)) if name in dicts:
            return True
        case ast.Subscript(_, ast.Name(key)) if key == obj:
            return True  # a table of the descriptor, with the object as the key
        case ast.Subscript(container):
            return _is_on(container, obj)
    return False


def _asks_for_tracers(node: ast.AST) -> bool:
    name = getattr(node, "attr", "") or getattr(node, "id", "")
    return "tracer" in name.lower()
