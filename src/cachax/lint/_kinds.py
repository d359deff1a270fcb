"""Is a value a JAX array? Yes, no, or unknown."""

import ast
import re
from collections.abc import Iterable

from ._annotations import Annotations, is_none
from ._classes import Class, called_in_the_end, class_of, is_property
from ._closures import Closure, closures_returned
from ._fields import Field
from ._jax_names import (
    ATTRIBUTES_OF_ARRAYS,
    ATTRIBUTES_OF_NO_ARRAY,
    COLLECTIONS,
    METHODS_OF_ARRAYS,
    METHODS_WITHOUT_ARRAY,
    SAME_AS_ARGUMENT,
    UPDATES,
    Kind,
    kind_of_brackets,
    kind_of_call,
    makes_array_functions,
    public_name,
)
from ._module import Bound, FunctionNode, Module, ScopeNode
from ._objects import Objects, arguments, parameter_of
from ._project import Definition, Project

_MAPS = re.compile(r"jax\.(tree\.map|tree_map|tree_util\.tree_map)")
# Puts arrays into another structure: nothing is computed.
_REARRANGES = re.compile(r"jax\.(tree|tree_util)\.(?!(tree_)?(map|reduce))\w+")
# Methods that arrays have, and nothing else that may be in a field.
_CLEAR_METHODS = METHODS_OF_ARRAYS - {
    *("get", "set", "add", "copy", "sort", "view", "apply", "multiply", "power"),
    *("subtract", "mul", "div", "divide", "mean", "var", "std", "transpose", "trace"),
}
_QUESTION = re.compile(r"_*(is|has|check|count|num|len|get_shape|name|describe|plot)_?")
_MOST_DEPTH = 24  # of expressions and calls followed, one inside the other
_MOST_STEPS = 10_000  # for one question: `b = a + a; c = b + b; ...` doubles them


class Kinds:
    """Infers the kinds of values in one project.

    A name that is bound to different kinds, an unknown function and an object without
    an annotation are unknown.
    """

    def __init__(self, project: Project) -> None:
        self._project = project
        self._annotations = Annotations(project)
        self._objects = Objects(project)
        self._depth = 0
        self._steps = 0
        self._asked: set[FunctionNode] = set()
        # Parameters of mapped lambdas, and of functions for the arguments of a call.
        self._assumed: dict[ast.arg, Kind] = {}

    def of(self, node: ast.expr | None, module: Module) -> Kind:
        """The kind of an expression at its place in a file."""
        self._steps = self._steps + 1 if self._depth else 0
        if node is None or self._depth >= _MOST_DEPTH or self._steps > _MOST_STEPS:
            return Kind.UNKNOWN
        self._depth += 1
        try:
            return self._of(node, module)
        finally:
            self._depth -= 1

    def _of(self, node: ast.expr, module: Module) -> Kind:
        match node:
            case ast.Constant() | ast.JoinedStr() | ast.Lambda() | ast.Slice():
                return Kind.OTHER
            case ast.UnaryOp(ast.Not()) | ast.FormattedValue():
                return Kind.OTHER
            case ast.UnaryOp(_, operand) if self._is_leaf(operand, module):
                return Kind.ARRAY
            case ast.UnaryOp(_, operand) | ast.NamedExpr(_, operand):
                return self.of(operand, module)
            case ast.Starred(operand) | ast.Await(operand):
                return self.of(operand, module)
            case ast.BinOp(left, _, right):
                return self._arithmetic(left, right, module)
            case ast.Compare(left, operators, comparators):
                if any(isinstance(op, ast.Is | ast.IsNot | ast.In) for op in operators):
                    return Kind.OTHER
                return self._arithmetic(left, comparators[0], module)
            case ast.BoolOp(_, values):
                return either(self.of(value, module) for value in values)
            case ast.IfExp(_, yes, no):
                return either([self.of(yes, module), self.of(no, module)])
            case ast.Tuple(parts) | ast.List(parts) | ast.Set(parts):
                return _collection(self.of(part, module) for part in parts)
            case ast.Dict(_, parts):
                return _collection(self.of(part, module) for part in parts)
            case ast.ListComp(part) | ast.GeneratorExp(part) | ast.DictComp(_, part):
                return _collection([self.of(part, module)])
            case ast.Subscript(value, key):
                return self._part(value, key, module)
            case ast.Name(name):
                return self._name(node, name, module)
            case ast.Attribute(value, attribute):
                return self._attribute(node, value, attribute, module)
            case ast.Call():
                return self._call(node, module)
        return Kind.UNKNOWN

    def sometimes(self, node: ast.expr | None, module: Module) -> Kind:
        """The kind of an expression; of a local variable, an array from one of its
        assignments is enough."""
        kind = self.of(node, module)
        if kind is not Kind.UNKNOWN or not isinstance(node, ast.Name):
            return kind
        kinds = [self.of(bound.value, module) for bound in self._bounds(node, module)]
        return either(kinds) if any(k.has_arrays for k in kinds) else kind

    def _arithmetic(self, left: ast.expr, right: ast.expr, module: Module) -> Kind:
        if isinstance(left, ast.JoinedStr) or (
            isinstance(left, ast.Constant) and isinstance(left.value, str)
        ):
            return Kind.OTHER  # "%s" % x
        kinds = [self.of(left, module), self.of(right, module)]
        if Kind.UNKNOWN in kinds and any(
            self._is_leaf(side, module) for side in (left, right)
        ):
            return Kind.ARRAY
        return either(kinds)

    def _is_leaf(self, node: ast.expr, module: Module) -> bool:
        """`self.x` on a pytree, where `x` may be an array for all that is written. JAX
        traces it, and what is computed from it by operators is an array."""
        match node:
            case ast.Attribute(value, name):
                owner = self._objects.class_of(value, module)
                if owner is None or name not in owner.leaf_fields:
                    return False
                if owner.method(name) is not None:
                    return False
                field = owner.fields.get(name)
                return field is None or (
                    self.of_field(field) is not Kind.OTHER
                    and self._annotations.may_be_array(field.annotation, field.module)
                )
        return False

    def _part(self, value: ast.expr, key: ast.expr, module: Module) -> Kind:
        if _is_slice(key) and self._is_leaf(value, module):
            return Kind.ARRAY
        made = kind_of_brackets(self._project.name_of(value, module))
        if made is not Kind.UNKNOWN:
            return made
        kind = self.of(value, module)
        if isinstance(value, ast.Call) and kind in (Kind.TREE, Kind.UNKNOWN):
            name = self._project.name_of(value.func, module)
            if kind is Kind.TREE and _gives_only_arrays(name):
                return Kind.ARRAY
            return self._part_returned(value, key, module)
        return Kind.UNKNOWN if kind is Kind.TREE else kind

    def _part_returned(self, call: ast.Call, key: ast.expr, module: Module) -> Kind:
        """Of `f(x)[1]`, where every `return` of `f` has a tuple: of its second part."""
        found = self._function_called(call.func, module)
        number = key.value if isinstance(key, ast.Constant) else None
        if found is None or found[0] in self._asked or not isinstance(number, int):
            return Kind.UNKNOWN
        function, other = found
        nodes = other.own_nodes(function)
        values = [node.value for node in nodes if isinstance(node, ast.Return)]
        parts = [_part_of(value, number) for value in values]
        self._asked.add(function)
        try:
            kinds = {self.of(part, other) for part in parts}
        finally:
            self._asked.remove(function)
        return kinds.pop() if len(kinds) == 1 else Kind.UNKNOWN

    def _function_called(
        self, function: ast.expr, module: Module
    ) -> tuple[FunctionNode, Module] | None:
        """The function or method of the project that a call calls, and its file."""
        match self._project.resolve(function, module):
            case Definition(other, ast.FunctionDef() as inner):
                return inner, other
        if isinstance(function, ast.Attribute):
            owner = self._objects.class_of(function.value, module)
            method = owner.method(function.attr) if owner else None
            if method is not None:
                return method[1], method[0].module
        return None

    def _name(self, node: ast.Name, name: str, module: Module) -> Kind:
        for scope in module.scopes(node):
            if isinstance(scope, ast.ClassDef):
                continue
            if isinstance(scope, FunctionNode | ast.Lambda):
                parameter = parameter_of(scope, name)
                if parameter and not _is_bound_before(node, scope, module):
                    return self._given(parameter, module)
            bounds = module.bound_in(scope).get(name)
            if bounds:
                kind = self._bound(node, bounds, module)
                if kind is Kind.OTHER and all(map(_is_filled_later, bounds)):
                    put = module.put_into(scope).get(name, [])
                    inside = either(self.of(value, module) for value in put)
                    return Kind.TREE if inside.has_arrays else kind
                return kind
        return Kind.UNKNOWN

    def _given(self, parameter: ast.arg, module: Module) -> Kind:
        """Of a parameter: by its annotation, else as it is assumed to be called."""
        kind = self.of_annotation(parameter.annotation, module)
        return self._assumed.get(parameter, kind) if kind is Kind.UNKNOWN else kind

    def _bound(self, use: ast.Name, bounds: list[Bound], module: Module) -> Kind:
        """Of the last assignment, if that is sure to run; else all must agree."""
        before = [b for b in bounds if b.line < use.lineno] or bounds
        added = [bound for bound in before if _adds(bound)]
        before = [bound for bound in before if not _adds(bound)]
        if not before:
            return Kind.UNKNOWN
        if module.runs_before(before[-1].node, use):
            before = before[-1:]
        kinds = {self.of(bound.value, module) for bound in before}
        kind = kinds.pop() if len(kinds) == 1 else Kind.UNKNOWN
        # `total = 0`, then `total += x` with an array: an array, if it was numpy's too.
        return either([*(self.of(bound.value, module) for bound in added), kind])

    def _attribute(
        self, node: ast.Attribute, value: ast.expr, attribute: str, module: Module
    ) -> Kind:
        if attribute in ATTRIBUTES_OF_NO_ARRAY:
            return Kind.OTHER
        owner = self._objects.class_of(value, module)
        if owner is not None:
            return self.of_attribute(owner, attribute)
        name = self._project.name_of(node, module)
        if name.startswith(("jax.", "numpy.", "math.")):
            return Kind.OTHER  # `jnp.pi`, `jnp.float32`: it is not called
        if attribute in ("T", "mT") and self._is_leaf(value, module):
            return Kind.ARRAY
        kind = self.of(value, module)
        if kind is Kind.ARRAY and attribute == "size":
            return Kind.OTHER
        if kind is Kind.ARRAY:
            is_array = attribute in ATTRIBUTES_OF_ARRAYS
            return Kind.ARRAY if is_array else Kind.UNKNOWN
        return Kind.OTHER if kind is Kind.OTHER else Kind.UNKNOWN

    def of_attribute(self, owner: Class, name: str) -> Kind:
        """Of `obj.name`, where `obj` is of a class of the project."""
        method = owner.method(name)
        if method is not None:
            cls, function = method
            if not is_property(function) and name in cls.own_methods:
                return Kind.OTHER  # a bound method
            return self.returned(function, cls.module)
        field = owner.fields.get(name)
        return self.of_field(field) if field else Kind.UNKNOWN

    def of_field(self, field: Field) -> Kind:
        if field.annotation is not None:
            return self.of_annotation(field.annotation, field.module)
        values = [value for value in field.values if not is_none(value)]
        filled = [value for value in values if not _is_empty(value)]
        kinds = {self.of(value, field.module) for value in filled or values}
        if Kind.OTHER in kinds and len(kinds) > 1:
            return Kind.UNKNOWN
        return either(kinds) if kinds else Kind.UNKNOWN

    def may_be_array(self, field: Field) -> bool:
        """Whether its annotation, if it has one, leaves that open."""
        return self._annotations.may_be_array(field.annotation, field.module)

    def may_hold_arrays(self, field: Field) -> bool:
        return self._annotations.may_hold_arrays(field.annotation, field.module)

    def names_array(self, field: Field) -> bool:
        """Whether its annotation names an array among other things, or that of the
        parameter that is stored in it."""
        if field.annotation is not None:
            return self._annotations.names_array(field.annotation, field.module)
        said = [self._annotation_of(value, field.module) for value in field.values]
        return any(self._annotations.names_array(node, field.module) for node in said)

    def may_be_tree_of_arrays(
        self, annotation: ast.expr | None, module: Module
    ) -> bool:
        """Whether it names a pytree class that has no leaves, and a class of the
        package that has it for a base holds arrays."""
        for one in self._annotations.alternatives(annotation, module):
            cls = self._objects.annotated_class(one, module)
            if cls is not None and self._is_base_of_trees(cls):
                return True
        return False

    def field_may_be_tree_of_arrays(self, field: Field) -> bool:
        if field.annotation is not None:
            return self.may_be_tree_of_arrays(field.annotation, field.module)
        values = [v for value in field.values for v in _alternatives(value)]
        said = [self._annotation_of(value, field.module) for value in values]
        return any(self.may_be_tree_of_arrays(one, field.module) for one in said)

    def _is_base_of_trees(self, cls: Class) -> bool:
        if cls.family is None or cls.leaf_fields or not cls.family.flattens_fields:
            return False
        return any(self._object(one) is Kind.TREE for one in cls.subclasses)

    def _annotation_of(self, value: ast.expr, module: Module) -> ast.expr | None:
        if not isinstance(value, ast.Name):
            return None
        scope = next(iter(module.scopes(value)))
        if not isinstance(scope, FunctionNode) or _is_bound_before(
            value, scope, module
        ):
            return None
        parameter = parameter_of(scope, value.id)
        return parameter.annotation if parameter else None

    def of_annotation(self, annotation: ast.expr | None, module: Module) -> Kind:
        kind = self._annotations.kind(annotation, module)
        if kind is not Kind.UNKNOWN:
            return kind
        named = self._annotations.alternatives(annotation, module)
        classes = [self._objects.annotated_class(name, module) for name in named]
        kinds = {self._object(cls) if cls else Kind.UNKNOWN for cls in classes}
        return kinds.pop() if len(kinds) == 1 else Kind.UNKNOWN

    def returned(self, function: FunctionNode, module: Module) -> Kind:
        """What a function always returns: by its body, else by its annotation."""
        kinds = self._kinds_returned(function, module)
        kind = next(iter(kinds)) if len(kinds) == 1 else Kind.UNKNOWN
        return self._or_as_annotated(kind, function, module)

    def _returned_for(
        self, call: ast.Call, module: Module, function: FunctionNode, other: Module
    ) -> Kind:
        """What a function returns if it is called like this."""
        kind = self.returned(function, other)
        if kind is not Kind.UNKNOWN or function in self._asked:
            return kind
        given = {p: self.of(a, module) for p, a in arguments(call, function, other)}
        given = {p: kind for p, kind in given.items() if kind.has_arrays}
        if not given:
            return kind
        before, self._assumed = self._assumed, {**self._assumed, **given}
        try:
            key = (Kind, function, frozenset(given.items()))
            kinds = self._kinds_returned(function, other, key)
        finally:
            self._assumed = before
        return next(iter(kinds)) if len(kinds) == 1 else Kind.UNKNOWN

    def sometimes_returned(self, function: FunctionNode, module: Module) -> Kind:
        """The same, if an array from one of its `return` statements is enough."""
        kind = either(self._kinds_returned(function, module))
        kind = self._or_as_annotated(kind, function, module)
        if kind is Kind.UNKNOWN:
            nodes = module.own_nodes(function)
            values = [node.value for node in nodes if isinstance(node, ast.Return)]
            if any(self._is_made_of_arrays(value, module) for value in values):
                return Kind.TREE
        if kind is Kind.UNKNOWN and self._makes_arrays(function, module):
            return self.of_annotation(function.returns, module)
        return kind

    def kept(self, value: ast.expr | None, module: Module) -> Kind:
        """The kind of a value that code keeps for later: an array from one of the
        assignments of a variable is enough, and so is what a function makes of
        arrays."""
        kind = self.computed(value, module)
        made = kind is Kind.UNKNOWN and self._is_made_of_arrays(value, module)
        return Kind.TREE if made else kind

    def computed(self, value: ast.expr | None, module: Module) -> Kind:
        """The same, but what an unknown function makes of arrays is unknown: it may be
        an object of any kind, or made with numpy."""
        kind = self.sometimes(value, module)
        holds = kind is Kind.UNKNOWN and self._may_hold(value, module)
        return Kind.TREE if holds else kind

    def _may_hold(self, value: ast.expr | None, module: Module, depth: int = 4) -> bool:
        """Whether a value is an array, or has one in it, for one of the assignments of
        its variables and one of the `return` statements of the functions it calls."""
        if depth <= 0 or self.sometimes(value, module).has_arrays:
            return depth > 0
        match value:
            case ast.Tuple(parts) | ast.List(parts) | ast.Dict(_, parts):
                return any(self._may_hold(part, module, depth - 1) for part in parts)
            case ast.Name():
                bounds = [b for b in self._bounds(value, module) if not _adds(b)]
                values = [bound.value for bound in bounds]
                return any(self._may_hold(one, module, depth - 1) for one in values)
            case ast.Call(ast.Attribute(inner, name)) if name in _CLEAR_METHODS:
                return self._may_hold(inner, module, depth - 1)
            case ast.Call(function):
                found = self._function_called(function, module)
                if found is None or found[0] in self._asked:
                    return False
                inner_function, other = found
                nodes = other.own_nodes(inner_function)
                returned = [n.value for n in nodes if isinstance(n, ast.Return)]
                self._asked.add(inner_function)
                try:
                    return any(self._may_hold(v, other, depth - 1) for v in returned)
                finally:
                    self._asked.remove(inner_function)
        return False

    def _is_made_of_arrays(
        self, value: ast.expr | None, module: Module, depth: int = 4
    ) -> bool:
        """Whether it is what an unknown function or method makes of arrays, or a new
        object that holds them. What is worth keeping rarely is a question."""
        if isinstance(value, ast.Name):
            bounds = self._bounds(value, module)
            values = [bound.value for bound in bounds if not _adds(bound)]
            return depth > 0 and any(
                self._is_made_of_arrays(one, module, depth - 1) for one in values
            )
        if self.of(value, module) is Kind.OTHER:
            return False
        while isinstance(value, ast.Attribute | ast.Subscript):
            value = value.value
        if not isinstance(value, ast.Call) or self.of(value, module) is Kind.OTHER:
            return False
        match self._project.resolve(value.func, module):
            case Definition(other, ast.ClassDef() as inner):
                cls = class_of(inner, other, self._project)
                known = cls.family is not None or cls.is_known_whole
                stored = _stored_arguments(cls, value) if known else []
                return any(
                    self.of(argument, module).has_arrays
                    or self._is_made_of_arrays(argument, module, depth - 1)
                    for argument in stored
                )
            case Definition(other, ast.FunctionDef() as function):
                if (
                    self._makes_arrays(function, other)
                    and self.of_annotation(function.returns, other).has_arrays
                ):
                    return True
        name = public_name(self._project.name_of(value.func, module))
        if _REARRANGES.fullmatch(name) or self._is_question(value, module):
            return False
        given = [*value.args, *(keyword.value for keyword in value.keywords)]
        return self._is_method_of_array(value.func, module) or any(
            self._is_surely_array(argument, module) for argument in given
        )

    def _bounds(self, name: ast.Name, module: Module) -> list[Bound]:
        """The assignments of a local variable, in its function or one around that."""
        for scope in module.scopes(name):
            if isinstance(scope, FunctionNode | ast.Lambda):
                bounds = module.bound_in(scope).get(name.id, [])
                if bounds or parameter_of(scope, name.id):
                    return bounds
        return []

    def _is_method_of_array(self, function: ast.expr, module: Module) -> bool:
        return (
            isinstance(function, ast.Attribute)
            and self.of(function.value, module).has_arrays
        )

    def _is_question(self, call: ast.Call, module: Module) -> bool:
        name = self._project.name_of(call.func, module)
        known = "." in name and not name.startswith("self.")
        if not known and not self._is_method_of_array(call.func, module):
            return True  # neither imported nor defined here
        name = getattr(call.func, "attr", "") or getattr(call.func, "id", "")
        return _QUESTION.match(name) is not None

    def _is_surely_array(self, node: ast.expr, module: Module) -> bool:
        if self.of(node, module).has_arrays:
            return True
        match node:
            case ast.Attribute(value, name) if self._is_leaf(node, module):
                owner = self._objects.class_of(value, module)
                field = owner.fields.get(name) if owner else None
                said = (
                    ast.unparse(field.annotation) if field and field.annotation else ""
                )
                return not re.fullmatch(r"(\w+\.)?Any", said)
        return False

    def _or_as_annotated(
        self, kind: Kind, function: FunctionNode, module: Module
    ) -> Kind:
        if kind is not Kind.UNKNOWN:
            return kind
        return self._annotations.kind(function.returns, module)

    def _makes_arrays(self, function: FunctionNode, module: Module) -> bool:
        """Whether a function of JAX is called in it. A class that holds arrays may as
        well be given numpy's."""
        calls = (node for node in ast.walk(function) if isinstance(node, ast.Call))
        names = (self._project.name_of(call.func, module) for call in calls)
        return any(kind_of_call(name).has_arrays for name in names)

    def _kinds_returned(
        self, function: FunctionNode, module: Module, key: object = None
    ) -> set[Kind]:
        """Of each of its `return` statements, those of None left out."""
        if function in self._asked:  # it calls itself
            return {Kind.UNKNOWN}
        self._asked.add(function)
        try:
            if self._assumed and _is_nested(function, module):
                return self._find_kinds_returned(function, module)  # not for all calls
            return module.remember(
                key or (Kind, function),
                lambda: self._find_kinds_returned(function, module),
            )
        finally:
            self._asked.remove(function)

    def _find_kinds_returned(self, function: FunctionNode, module: Module) -> set[Kind]:
        own = module.own_nodes(function)
        if any(isinstance(node, ast.Yield | ast.YieldFrom) for node in own):
            return {Kind.UNKNOWN}
        for decorator in function.decorator_list:
            name = self._project.name_of(called_in_the_end(decorator), module)
            if makes_array_functions(name):
                return {Kind.TREE}
        values = [node.value for node in own if isinstance(node, ast.Return)]
        found = {self.of(v, module) for v in values if v is not None and not is_none(v)}
        return found or {Kind.UNKNOWN}

    def _call(self, node: ast.Call, module: Module) -> Kind:
        function = node.func
        if is_update(node):
            return Kind.ARRAY
        resolved = self._project.resolve(function, module)
        match resolved:
            case Definition(other, ast.FunctionDef() as inner):
                if not kind_of_call(resolved.name).has_arrays:
                    return self._returned_for(node, module, inner, other)
            case Definition(other, ast.ClassDef() as inner):
                return self._made(class_of(inner, other, self._project), node, module)
        name = self._project.name_of(function, module)
        kind = self._named_call(name, node, module)
        if kind is not Kind.UNKNOWN:
            return kind
        if isinstance(function, ast.Attribute) and not name.startswith("jax."):
            kind = self._method_call(node, function, module)
            if kind is not Kind.UNKNOWN:
                return kind
        owner = self._objects.class_of(function, module)
        call = owner.method("__call__") if owner else None
        if call is not None:
            return self.returned(call[1], call[0].module)
        if isinstance(function, ast.Call):
            kind = self._call_of_closure(function, module)
            if kind is not Kind.UNKNOWN:
                return kind
        made_by = called_in_the_end(function)
        if function is not made_by and makes_array_functions(
            self._project.name_of(made_by, module)
        ):
            makes_function = _is_partial_of(function, made_by)
            return Kind.OTHER if makes_function else Kind.TREE
        return Kind.UNKNOWN

    def _call_of_closure(self, maker: ast.Call, module: Module) -> Kind:
        """Of `make(1)(x)`, where `make` returns functions."""
        match self._project.resolve(maker.func, module):
            case Definition(other, ast.FunctionDef() as function):
                found = closures_returned(function, other, self._project)
                kinds = {self._returned_by(closure) for closure in found}
                return kinds.pop() if len(kinds) == 1 else Kind.UNKNOWN
        return Kind.UNKNOWN

    def array_in(self, closure: Closure) -> str | None:
        """The variable with an array that a function takes along from its maker."""
        for node in closure.taken_along:
            if self.sometimes(node, closure.module).has_arrays:
                return node.id
        return None

    def _returned_by(self, closure: Closure) -> Kind:
        if isinstance(closure.function, ast.Lambda):
            return self.of(closure.function.body, closure.module)
        return self.returned(closure.function, closure.module)

    def _made(self, cls: Class, call: ast.Call, module: Module) -> Kind:
        """Of a new object: a pytree holds the arrays that its constructor stores."""
        kind = self._object(cls)
        if kind is Kind.UNKNOWN and cls.family is not None:
            stored = _stored_arguments(cls, call)
            if any(self.of(argument, module).has_arrays for argument in stored):
                return Kind.TREE
        return kind

    def _object(self, cls: Class) -> Kind:
        """Of an object: a pytree with a field for arrays, or that its constructor
        assigns an array to, holds some."""
        if cls.family is None:
            return Kind.UNKNOWN
        holds = any(
            self._annotations.kind(field.annotation, field.module).has_arrays
            or any(self.of(value, field.module).has_arrays for value in field.values)
            for field in cls.fields.values()
            if not field.static
        )
        return Kind.TREE if holds else Kind.UNKNOWN

    def _named_call(self, name: str, node: ast.Call, module: Module) -> Kind:
        first = node.args[0] if node.args else None
        if SAME_AS_ARGUMENT.fullmatch(public_name(name)):
            return self.of(first, module)
        if name in COLLECTIONS:
            return _collection([self.of(first, module)]) if first else Kind.OTHER
        if _MAPS.fullmatch(public_name(name)):
            return self._mapped(node, module)
        return kind_of_call(name)

    def _mapped(self, call: ast.Call, module: Module) -> Kind:
        """Of a tree, every leaf of which is what the function gives."""
        match call.args:
            case [ast.Lambda(of, body), *trees]:
                before, self._assumed = self._assumed, dict(self._assumed)
                for argument, tree in zip(of.args, trees, strict=False):
                    if self._is_surely_array(tree, module):
                        self._assumed[argument] = Kind.ARRAY
                kind = self.of(body, module)
                self._assumed = before
            case [function, *_]:
                kind = kind_of_call(self._project.name_of(function, module))
            case _:
                return Kind.UNKNOWN
        return _collection([kind])

    def _method_call(
        self, call: ast.Call, function: ast.Attribute, module: Module
    ) -> Kind:
        if function.attr in _CLEAR_METHODS and self._is_leaf(function.value, module):
            return Kind.ARRAY
        owner = self._objects.class_of(function.value, module)
        if owner is not None:
            method = owner.method(function.attr)
            if method is None:
                return Kind.UNKNOWN
            return self._returned_for(call, module, method[1], method[0].module)
        kind = self.of(function.value, module)
        if kind is Kind.ARRAY and function.attr in METHODS_OF_ARRAYS:
            return Kind.ARRAY
        if kind is Kind.ARRAY and function.attr in METHODS_WITHOUT_ARRAY:
            return Kind.OTHER
        return Kind.OTHER if kind is Kind.OTHER else Kind.UNKNOWN


def _is_partial_of(node: ast.expr, function: ast.expr) -> bool:
    """`partial(jax.jit, ...)`: what it makes of a function is a function."""
    return isinstance(node, ast.Call) and function in node.args


def _part_of(value: ast.expr | None, number: int) -> ast.expr | None:
    """`value[number]`, if it is a tuple: in `(x, *y)`, all but the first are in `y`."""
    parts = value.elts if isinstance(value, ast.Tuple) else []
    for index, part in enumerate(parts):
        if index == number or isinstance(part, ast.Starred):
            return part
    return None


def _stored_arguments(cls: Class, call: ast.Call) -> list[ast.expr]:
    """Those that become fields as they are: all of a dataclass, else `self.x = x`.
    Static fields are not part of the tree."""
    by_name = {k.arg: k.value for k in call.keywords if k.arg is not None}
    constructor = cls.method("__init__")
    if constructor is None:
        return [*call.args, *by_name.values()]
    owner, function = constructor
    names = [a.arg for a in [*function.args.posonlyargs, *function.args.args]][1:]
    by_name |= dict(zip(names, call.args, strict=False))
    stored: list[ast.expr] = []
    for node in owner.module.own_nodes(function):
        match node:
            case ast.Assign([ast.Attribute(ast.Name("self"), field)], ast.Name(name)):
                is_static = field in cls.fields and cls.fields[field].static
                if name in by_name and not is_static:
                    stored.append(by_name[name])
    return stored


def _alternatives(value: ast.expr) -> list[ast.expr]:
    """`x` and `y` for `x if test else y` and `x or y`."""
    match value:
        case ast.IfExp(_, yes, no):
            return [*_alternatives(yes), *_alternatives(no)]
        case ast.BoolOp(_, values):
            return [one for part in values for one in _alternatives(part)]
    return [value]


def _is_nested(function: FunctionNode, module: Module) -> bool:
    return any(isinstance(node, FunctionNode) for node in module.around(function))


def _is_bound_before(use: ast.Name, scope: ScopeNode, module: Module) -> bool:
    """Whether a parameter has a different value by then."""
    bounds = module.bound_in(scope).get(use.id, [])
    return any(bound.line < use.lineno and not _adds(bound) for bound in bounds)


def _is_slice(key: ast.expr) -> bool:
    """`x[1:]`, `x[:, 0]`, `x[..., None]`."""
    parts = key.elts if isinstance(key, ast.Tuple) else [key]
    return any(
        isinstance(part, ast.Slice)
        or (isinstance(part, ast.Constant) and part.value is ...)
        for part in parts
    )


def _adds(bound: Bound) -> bool:
    """`x += ...`: bound before, and now a little more."""
    return isinstance(bound.node, ast.AugAssign)


def _is_filled_later(bound: Bound) -> bool:
    return _is_empty(bound.value)


def _is_empty(value: ast.expr | None) -> bool:
    """A list or dictionary of Python that is made empty."""
    match value:
        case ast.List([]) | ast.Dict([]) | ast.Call(ast.Name("list" | "dict"), [], []):
            return True
    return False


def either(kinds: Iterable[Kind]) -> Kind:
    """Of a value that is one of several: one array is enough."""
    found = set(kinds)
    for kind in (Kind.ARRAY, Kind.TREE, Kind.UNKNOWN):
        if kind in found:
            return kind
    return Kind.OTHER


def _collection(kinds: Iterable[Kind]) -> Kind:
    kind = either(kinds)
    return Kind.TREE if kind is Kind.ARRAY else kind


def _gives_only_arrays(name: str) -> bool:
    return public_name(name).startswith(("jax.numpy.", "jax.scipy.", "jax.lax.linalg."))


def is_update(node: ast.AST) -> bool:
    """`x.at[...].set(...)` and the like: of arrays only."""
    match node:
        case ast.Call(ast.Attribute(ast.Subscript(ast.Attribute(_, "at")), update)):
            return update in UPDATES
    return False
