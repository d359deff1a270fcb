"""Of which class of the project is an object? As far as that is written down."""

import ast

from ._classes import Class, class_of
from ._module import PARSE_ERRORS, FunctionNode, Module
from ._project import Definition, Project

# Functions of a class that do not make an object of it.
_NO_MAKERS = {"__init__", "mro", "__subclasses__", "register"}
_MOST_DEPTH = 24  # of attributes and names followed, one inside the other


class Objects:
    """Knows the objects of one project by annotations, assignments and calls."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._depth = 0

    def class_of(self, node: ast.expr | None, module: Module) -> Class | None:
        """The class of the project that an expression is an object of, if it is known:
        `self`, a parameter or field with an annotation, or a call of the class."""
        if node is None or self._depth >= _MOST_DEPTH:
            return None
        self._depth += 1
        try:
            return self._class_of(node, module)
        finally:
            self._depth -= 1

    def _class_of(self, node: ast.expr, module: Module) -> Class | None:
        match node:
            case ast.Name(name):
                return self._class_of_name(node, name, module)
            case ast.Attribute(value, attribute):
                owner = self.class_of(value, module)
                return self.class_of_attribute(owner, attribute) if owner else None
            case ast.Call(function):
                return self.annotated_class(function, module)
        return None

    def class_of_attribute(self, owner: Class, attribute: str) -> Class | None:
        """The class of `obj.attribute`, where `obj` is of a class of the project."""
        field = owner.fields.get(attribute)
        if field is None:
            return None
        if field.annotation is not None:
            return self.annotated_class(field.annotation, field.module)
        one = field.values[0] if len(field.values) == 1 else None
        return self.class_of(one, field.module)

    def class_made_by(self, call: ast.expr | None, module: Module) -> Class | None:
        """The class of what a call returns: of the class itself, of one of its class
        methods, or of a function with an annotation."""
        if not isinstance(call, ast.Call):
            return self.class_of(call, module)
        match self._project.resolve(call.func, module):
            case Definition(other, ast.FunctionDef(returns=ast.expr() as returns)):
                made = self.annotated_class(returns, other)
                if made is not None:
                    return made
        if isinstance(call.func, ast.Attribute) and call.func.attr not in _NO_MAKERS:
            made = self.annotated_class(call.func.value, module)  # `State.create(...)`
            if made is not None:
                return made
        return self.annotated_class(call.func, module)

    def _class_of_name(self, node: ast.Name, name: str, module: Module) -> Class | None:
        for scope in module.scopes(node):
            if isinstance(scope, FunctionNode | ast.Lambda):
                parameter = parameter_of(scope, name)
                if parameter is not None:
                    if is_self(scope, parameter, module):
                        outer = module.parent(scope)
                        assert isinstance(outer, ast.ClassDef)
                        return class_of(outer, module, self._project)
                    return self.annotated_class(parameter.annotation, module)
            bounds = module.bound_in(scope).get(name)
            if bounds:
                same = len(bounds) == 1
                return self.class_of(bounds[0].value, module) if same else None
        return None

    def annotated_class(self, node: ast.expr | None, module: Module) -> Class | None:
        """The class of the project that an annotation names."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                node = ast.parse(node.value, mode="eval").body
            except PARSE_ERRORS:
                return None
        match self._project.resolve(node, module):
            case Definition(other, ast.ClassDef() as inner):
                return class_of(inner, other, self._project)
        return None


def is_self(
    function: FunctionNode | ast.Lambda, parameter: ast.arg, module: Module
) -> bool:
    """Whether it is the object that a method is called on."""
    if isinstance(function, ast.Lambda):
        return False
    arguments = [*function.args.posonlyargs, *function.args.args]
    decorators = {getattr(node, "id", "") for node in function.decorator_list}
    return (
        isinstance(module.parent(function), ast.ClassDef)
        and bool(arguments)
        and arguments[0] is parameter
        and not decorators & {"staticmethod", "classmethod"}
        and function.name not in ("__new__", "__init_subclass__", "__class_getitem__")
    )


def arguments(
    call: ast.Call, function: FunctionNode, module: Module
) -> list[tuple[ast.arg, ast.expr]]:
    """Which parameters of a function a call gives, and what."""
    of = function.args
    by_position = [*of.posonlyargs, *of.args]
    if by_position and is_self(function, by_position[0], module):
        del by_position[0]
    given = list(zip(by_position, call.args, strict=False))
    by_name = {k.arg: k.value for k in call.keywords if k.arg is not None}
    named = [p for p in [*of.args, *of.kwonlyargs] if p.arg in by_name]
    return [*given, *((parameter, by_name[parameter.arg]) for parameter in named)]


def parameter_of(function: FunctionNode | ast.Lambda, name: str) -> ast.arg | None:
    arguments = function.args
    for argument in [
        *arguments.posonlyargs,
        *arguments.args,
        *arguments.kwonlyargs,
    ]:
        if argument.arg == name:
            return argument
    return None
