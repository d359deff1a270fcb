"""A class: its bases across files, its family, its fields and its methods."""

import ast
import functools
import re
from collections.abc import Iterable, Iterator

from ._families import (
    BY_BASE,
    BY_DECORATOR,
    HARMLESS_BASES,
    HARMLESS_DECORATORS,
    NAMED_TUPLE,
    PYTREE,
    Family,
)
from ._fields import Field, constant_keyword, is_static, strings
from ._module import FunctionNode, Module, dotted, parts_of
from ._project import Definition, Project

_PROPERTIES = re.compile(r"\w*property\w*|reify|lazy", re.IGNORECASE)
_FLATTENERS = ("tree_flatten", "tree_flatten_with_keys", "__tree_flatten__")
Wrapped = FunctionNode | ast.Lambda  # what a property is made of


class Class:
    """A class of the project. Everything is found on first use."""

    def __init__(self, node: ast.ClassDef, module: Module, project: Project) -> None:
        self.node = node
        self.module = module
        self.project = project

    @property
    def name(self) -> str:
        return self.node.name

    def is_same_as(self, other: "Class") -> bool:
        """Also if its file was parsed twice: as one that is checked, and as one that an
        import leads to."""
        same_file = self.module.path == other.module.path
        return self.node is other.node or (
            self.module.path is not None
            and same_file
            and self.node.lineno == other.node.lineno
        )

    @functools.cached_property
    def decorators(self) -> list[str]:
        """Their full names; that of what is called, or of what `partial` is given."""
        return [self._function_of(node) for node in self.node.decorator_list]

    def _function_of(self, node: ast.expr) -> str:
        return self.project.name_of(called_in_the_end(node), self.module)

    @functools.cached_property
    def bases(self) -> list["Class | str"]:
        """Classes of the project, and the full names of others."""
        found: list[Class | str] = []
        for node in self.node.bases:
            base = node.value if isinstance(node, ast.Subscript) else node
            resolved = self.project.resolve(base, self.module)
            match resolved:
                case Definition(module, ast.ClassDef() as inner):
                    if inner is not self.node:
                        found.append(class_of(inner, module, self.project))
                case Definition():
                    found.append("")
                case _:
                    found.append(resolved or "")
        return found

    @functools.cached_property
    def ancestors(self) -> list["Class"]:
        """This class and its bases in the project, each once, the nearest first."""
        found = [self]
        for cls in found:  # grows while it is walked
            found += [b for b in cls.bases if isinstance(b, Class) and b not in found]
        return found

    @functools.cached_property
    def subclasses(self) -> list["Class"]:
        """The classes of its package that have it for a base, directly or not."""
        files = self.project.files_with_base(self.name, self.module)
        classes = [class_of(n, m, self.project) for m in files for n in m.classes]
        return [
            cls
            for cls in classes
            if any(base.is_same_as(self) for base in cls.ancestors[1:])
        ]

    @functools.cached_property
    def is_known_whole(self) -> bool:
        """Every base is a class of the project, of a known family, or harmless."""
        return all(
            isinstance(base, Class) or BY_BASE[base] or HARMLESS_BASES.fullmatch(base)
            for cls in self.ancestors
            for base in cls.bases
        )

    @functools.cached_property
    def is_decorated_as_known(self) -> bool:
        """No decorator that might make a different kind of class of it."""
        return all(
            BY_DECORATOR[name] or HARMLESS_DECORATORS.fullmatch(name)
            for name in self.decorators
        )

    @functools.cached_property
    def family(self) -> Family | None:
        """How JAX takes its objects apart; None if it does not, or that is unknown."""
        return self._family_by_decorator or self._family_by_base

    @property
    def _family_by_decorator(self) -> Family | None:
        for node, name in zip(self.node.decorator_list, self.decorators, strict=True):
            family = BY_DECORATOR[name] or self._family_by_own_decorator(node)
            if family:
                return family
        registered = self.module.remember(
            _registered_by_calls,
            lambda: _registered_by_calls(self.module, self.project),
        )
        return registered.get(self.node)

    def _family_by_own_decorator(self, node: ast.expr) -> Family | None:
        """A decorator of the project that registers what it is given."""
        match self.project.resolve(called_in_the_end(node), self.module):
            case Definition(module, ast.FunctionDef() as function):
                return _registers(function, module, self.project)
        return None

    @property
    def _family_by_base(self) -> Family | None:
        for cls in self.ancestors:
            own = BY_BASE[f"{cls.module.name}.{cls.name}"]
            for family in [own, *(BY_BASE[b] for b in cls.bases if isinstance(b, str))]:
                # A subclass of a NamedTuple class is not a NamedTuple: it has a dict.
                if family and (family is not NAMED_TUPLE or cls is self):
                    return family
            if cls._registers_its_subclasses:
                return PYTREE
        return None

    @functools.cached_property
    def _registers_its_subclasses(self) -> bool:
        """In `__init_subclass__`, in `__new__`, or by its metaclass."""
        hooks = [
            self.own_methods.get(name) for name in ("__init_subclass__", "__new__")
        ]
        for argument in self.node.keywords:
            if argument.arg == "metaclass":
                match self.project.resolve(argument.value, self.module):
                    case Definition(module, ast.ClassDef() as meta):
                        if _registers(meta, module, self.project):
                            return True
        return any(h and _registers(h, self.module, self.project) for h in hooks)

    @functools.cached_property
    def is_frozen(self) -> bool:
        """Its family is, and no class changes that."""
        heads = [
            head
            for cls in self.ancestors
            for head in [cls.node, *cls.node.decorator_list]
        ]
        thawed = any(
            constant_keyword(head, "frozen") is False
            or constant_keyword(head, "mutable") is True
            for head in heads
        )
        return self.family is not None and self.family.frozen and not thawed

    @functools.cached_property
    def own_functions(self) -> list[FunctionNode]:
        """Methods and properties, with the setters of properties."""
        return [node for node in self.node.body if isinstance(node, FunctionNode)]

    @functools.cached_property
    def own_methods(self) -> dict[str, FunctionNode]:
        """By name. For a property, that is what computes it."""
        return {f.name: f for f in self.own_functions if not is_setter(f)}

    def method(
        self, name: str, below: "Class | None" = None
    ) -> tuple["Class", FunctionNode] | None:
        """A method, and the class that has it. For `y = property(f)` in the body of
        the class, that is `f`. With `below`, as `super()` finds it in that class."""
        start = self.ancestors.index(below) + 1 if below else 0
        for cls in self.ancestors[start:]:
            if name in cls.own_methods:
                return cls, cls.own_methods[name]
            wrapped = cls.wrapped.get(name, (None,))[0]
            if isinstance(wrapped, FunctionNode):
                return cls, wrapped
        return None

    @functools.cached_property
    def wrapped(self) -> dict[str, tuple[Wrapped, ast.Call]]:
        """The functions in `y = property(f)` or `y = wrap(1)(f)` in the body."""
        found: dict[str, tuple[Wrapped, ast.Call]] = {}
        for node in self.node.body:
            match node:
                case ast.Assign([ast.Name(name)], ast.Call() as call):
                    function = self._wrapped_by(call)
                    if function is not None:
                        found[name] = (function, call)
        return found

    def _wrapped_by(self, call: ast.Call) -> Wrapped | None:
        inner: ast.expr = call
        for _ in range(8):
            if not isinstance(inner, ast.Call) or not inner.args:
                break
            inner = inner.args[0]
        if isinstance(inner, ast.Lambda):
            return inner
        match self.project.resolve(inner, self.module):
            case Definition(module, ast.FunctionDef() as function):
                return function if module is self.module else None
        return None

    @functools.cached_property
    def fields(self) -> dict[str, Field]:
        """Annotated in the body, else set in `__init__`; the nearest class wins."""
        found: dict[str, Field] = {}
        for cls in self.ancestors:
            for field in [*cls._annotated(), *cls._set_in_init().values()]:
                found.setdefault(field.name, field)
        return found

    @property
    def own_fields(self) -> list[Field]:
        """The fields that are annotated in its own body."""
        return list(self._annotated())

    @property
    def declared(self) -> dict[str, Field]:
        """The fields that are annotated in the body: those a dataclass knows."""
        return {n: field for n, field in self.fields.items() if field.annotation}

    @functools.cached_property
    def tree_fields(self) -> set[str]:
        """The attributes that JAX knows of: declared, or read where it is flattened."""
        names = {name for name in self.declared if self.family}
        for function, _ in self._flatteners:
            for node in ast.walk(function):
                if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                    names.add(node.attr)
        return names

    @functools.cached_property
    def leaf_fields(self) -> set[str]:
        """The attributes that become tracers under a transformation."""
        if self.family is None:
            return set()
        names = {name for name, field in self.declared.items() if not field.static}
        if not self.family.flattens_fields:
            names = set()
        for function, module in self._flatteners[:1]:
            names = set(_children(function, module))
        return names | self._named_leaves

    @property
    def _flatteners(self) -> list[tuple[Wrapped, Module]]:
        """Its own, else those of the nearest base that has some."""
        return next((c.own_flatteners for c in self.ancestors if c.own_flatteners), [])

    @functools.cached_property
    def own_flatteners(self) -> list[tuple[Wrapped, Module]]:
        """The functions that take its objects apart, and their files: methods with the
        names that JAX knows, or what a call in its file registers."""
        found: list[tuple[Wrapped, Module]] = [
            (self.own_methods[name], self.module)
            for name in _FLATTENERS
            if name in self.own_methods
        ]
        for call in self._registrations("register_pytree"):
            if len(call.args) < 2:
                continue
            function: object = call.args[1]
            module = self.module
            match self.project.resolve(call.args[1], self.module):
                case Definition(module, ast.FunctionDef() as function):
                    pass
            if isinstance(function, Wrapped):
                found.append((self._called_by_lambda(function) or function, module))
        return found

    def _called_by_lambda(self, function: Wrapped) -> FunctionNode | None:
        """The method in `lambda obj: obj.flatten()`."""
        match function:
            case ast.Lambda(_, ast.Call(ast.Attribute(ast.Name(), name))):
                return self.own_methods.get(name)
        return None

    @property
    def _named_leaves(self) -> set[str]:
        """Those that numpyro's distributions name: `pytree_data_fields`, and the keys
        of `arg_constraints`."""
        found: set[str] = set()
        for cls in self.ancestors:
            own = cls.module.definitions_in(cls.node)
            for name in ("pytree_data_fields", "arg_constraints"):
                match own.get(name):
                    case ast.Assign(_, ast.Tuple() | ast.List() as names):
                        found |= strings(names)
                    case ast.Assign(_, ast.Dict(keys)):
                        found |= {s for key in keys if key for s in strings(key)}
        return found

    def _annotated(self) -> Iterator[Field]:
        for node in self.node.body:
            match node:
                case ast.AnnAssign(ast.Name(name), annotation, value):
                    if not _is_of_the_class(annotation):
                        static = name in self._meta_fields or is_static(value)
                        in_init = constant_keyword(value, "init") is not False
                        yield Field(
                            name,
                            self.module,
                            annotation,
                            static=static,
                            in_init=in_init,
                            default=value,
                            node=node,
                        )

    def called_by(self, names: Iterable[str]) -> list[str]:
        """These methods, and those that they call. A base class may be in a different
        file, and a subclass may override what a constructor calls."""
        found = list(names)
        for name in found:  # grows while it is walked
            for owner in self.ancestors:
                function = owner.own_methods.get(name)
                called = members_called(function) if function else set()
                found += sorted(called.difference(found))
        return found

    def _set_in_init(self) -> dict[str, Field]:
        """By the constructors, and by what they call."""
        found: dict[str, Field] = {}
        for name in self.called_by(("__init__", "setup", "__post_init__")):
            function = self.own_methods.get(name)
            for attr, value in _assigned_to_self(function) if function else ():
                before = found[attr].values if attr in found else ()
                found[attr] = Field(attr, self.module, None, (*before, value))
        return found

    @functools.cached_property
    def _meta_fields(self) -> set[str]:
        """Those that `register_dataclass` is told are static."""
        calls = [n for n in self.node.decorator_list if isinstance(n, ast.Call)]
        found = {
            name
            for call in [*calls, *self._registrations("register_dataclass")]
            for argument in call.keywords
            if argument.arg == "meta_fields"
            for name in strings(argument.value)
        }
        calls = self._registrations("register_dataclass")
        by_position = [call.args[2] for call in calls if len(call.args) > 2]
        return found.union(*map(strings, by_position))

    def _registrations(self, function: str) -> list[ast.Call]:
        """The calls of `register_dataclass(Foo, ...)` or another function, whose name
        begins so, for this class in its file."""
        return [
            call
            for call in self.module.calls
            if (dotted(call.func) or "").rpartition(".")[2].startswith(function)
            and call.args
            and isinstance(call.args[0], ast.Name)
            and call.args[0].id == self.name
        ]

    @functools.cached_property
    def has_slots_without_weakref(self) -> bool:
        """Its objects cannot be referred to weakly."""
        for cls in self.ancestors:
            if not cls.has_slots or cls._has_weakref_slot:
                return False
            if any(isinstance(b, str) and b != "object" for b in cls.bases):
                return False  # a base that nothing is known of may have one
        return True

    @property
    def has_slots(self) -> bool:
        return "__slots__" in self.module.definitions_in(self.node) or any(
            constant_keyword(node, "slots") is True for node in self.node.decorator_list
        )

    @property
    def _has_weakref_slot(self) -> bool:
        slots = self.module.definitions_in(self.node).get("__slots__")
        value = getattr(slots, "value", None)
        literal = isinstance(value, ast.Tuple | ast.List | ast.Constant | ast.Set)
        unknown = slots is not None and not literal
        return (
            unknown
            or (value is not None and "__weakref__" in strings(value))
            or any(
                constant_keyword(n, "weakref_slot") is True
                for n in self.node.decorator_list
            )
        )


def members_called(function: FunctionNode) -> set[str]:
    """The names of what it calls on a variable: `self.set_up()`."""
    return {
        node.func.attr
        for node in ast.walk(function)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
    }


def _assigned_to_self(function: FunctionNode) -> Iterator[tuple[str, ast.expr]]:
    """`self.x = value`, `self.x, self.y = values`, and what is put into `self.x` by
    `self.x.append(value)` or `self.x[key] = value`."""
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets, value):
                for target in targets:
                    yield from _attributes_in(target, value)
            case ast.AnnAssign(target, value=ast.expr() as value):
                yield from _attributes_in(target, value)
            case ast.Call(
                ast.Attribute(ast.Attribute(ast.Name("self"), attr), "append"), [value]
            ):
                yield attr, _collection_of(value)


def _collection_of(value: ast.expr) -> ast.expr:
    return ast.copy_location(ast.List([value], ast.Load()), value)


def _attributes_in(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    match target:
        case ast.Attribute(ast.Name("self"), attr):
            yield attr, value
        case ast.Subscript(ast.Attribute(ast.Name("self"), attr)):
            yield attr, _collection_of(value)
        case ast.Tuple(targets) | ast.List(targets):
            if any(isinstance(inner, ast.Starred) for inner in targets):
                return
            for inner, part in zip(targets, parts_of(value, len(targets)), strict=True):
                yield from _attributes_in(inner, part)


def _children(function: Wrapped, module: Module) -> Iterator[str]:
    """The attributes in the first of the two parts that a `tree_flatten` returns."""
    assigned = module.bound_in(function)
    obj = next((argument.arg for argument in function.args.args), "self")
    returned = [
        n.value for n in module.own_nodes(function) if isinstance(n, ast.Return)
    ]
    if isinstance(function, ast.Lambda):
        returned = [function.body]
    for value in returned:
        match value:
            case ast.Tuple([children, _]):
                parts = [children]
                for part in parts:  # grows while it is walked
                    for inner in ast.walk(part):
                        match inner:
                            case ast.Attribute(ast.Name(variable), name) if (
                                variable == obj
                            ):
                                yield name
                            case ast.Name(name) if len(assigned.get(name, [])) == 1:
                                value = assigned[name][0].value
                                if value is not None and value not in parts:
                                    parts.append(value)


def _is_of_the_class(annotation: ast.expr) -> bool:
    """`ClassVar[...]`, `typing.ClassVar`, or the same in a string."""
    return any(
        "ClassVar" in str(getattr(node, part, ""))
        for node in ast.walk(annotation)
        for part in ("id", "attr", "value")
        if not isinstance(getattr(node, part, ""), ast.AST)
    )


def class_of(node: ast.ClassDef, module: Module, project: Project) -> Class:
    """The class of a node: always the same one."""
    return module.remember((Class, node), lambda: Class(node, module, project))


def is_setter(function: FunctionNode) -> bool:
    """`@x.setter`: to write is its purpose."""
    return any(
        isinstance(node, ast.Attribute) and node.attr in ("setter", "deleter")
        for node in function.decorator_list
    )


def is_property(function: FunctionNode) -> bool:
    """Read without a call: one of its decorators is called a property."""
    for decorator in function.decorator_list:
        node = called_in_the_end(decorator)
        name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
        if _PROPERTIES.fullmatch(name):
            return True
    return False


def called_in_the_end(node: ast.expr) -> ast.expr:
    """The function behind `f`, `f(...)` and `partial(f, ...)`.

    >>> ast.unparse(called_in_the_end(ast.parse("partial(a.f, x=1)", mode="eval").body))
    'a.f'
    """
    for _ in range(8):
        if not isinstance(node, ast.Call):
            break
        is_partial = (dotted(node.func) or "").rpartition(".")[2] == "partial"
        node = node.args[0] if is_partial and node.args else node.func
    return node


def _registered_by_calls(module: Module, project: Project) -> dict[ast.AST, Family]:
    """The classes of a file that a call registers: `register_pytree_node(Foo, ...)`."""
    found: dict[ast.AST, Family] = {}
    for call in module.calls:
        name = (dotted(call.func) or "").rpartition(".")[2]
        if call.args and name.startswith("register"):
            family = BY_DECORATOR[project.name_of(call.func, module)]
            match project.resolve(call.args[0], module):
                case Definition(_, ast.ClassDef() as node) if family:
                    found[node] = family
    return found


def _registers(function: ast.AST, module: Module, project: Project) -> Family | None:
    """The family of what a function of the project registers with JAX."""
    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            family = BY_DECORATOR[project.name_of(called_in_the_end(node), module)]
            if family:
                return family
    return None
