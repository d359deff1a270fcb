"""Random classes with random bodies, as source code: a failure is a program to read.

The source runs twice, with cachax and with plain properties, and what both show is
compared.
"""

import copy
import dataclasses
import functools
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

import cachax

from .programs import DifferenceError, Outcome, compare
from .worlds import NEEDS_CONCRETE

FIELDS = ("x", "y", "s", "k", "d", "l", "u", "opt", "part", "parts")
FAMILIES = {
    "flax": ("@struct.dataclass", "", "struct.field(pytree_node=False)"),
    "equinox": ("", "(eqx.Module)", "eqx.field(static=True)"),
    "frozen": ("@frozen", "", ""),
    "mutable": ("@mutable", "", ""),
    "node": ("@node", "", ""),
}
"""What is before the class, its bases, and how a static field is declared."""
PROPERTIES = 4


class Writer:
    """Draws source code."""

    def __init__(self, seed: int) -> None:
        self.r = Random(seed)
        self.may_look = self.r.random() < 0.5
        """Whether bodies look at the contents of arrays."""
        self.kinds: dict[str, str] = {}
        """What the properties return that were written so far."""

    def one(self, *choices: Any) -> Any:
        chosen = self.r.choice(choices)
        return chosen() if callable(chosen) else chosen

    def program(self) -> list[str]:
        lines: list[str] = []
        self.family = ""
        for name, fields, prefix in (
            ("Part", ("x", "s", "k"), "q"),
            ("Model", FIELDS, "p"),
        ):
            self.family = self.one(*FAMILIES)
            decorator, bases, static = FAMILIES[self.family]
            lines += [decorator] if decorator else []
            lines.append(f"class {name}{bases}:")
            for field in fields:
                is_static = field == "k" and static
                lines.append(f"    {field}: Any{f' = {static}' * bool(is_static)}")
            if static:  # fields without a default don't follow one that has one
                lines.append(lines.pop(len(lines) - len(fields) + fields.index("k")))
            count = 2 if prefix == "q" else PROPERTIES
            for number in range(count):
                lines += self.property(prefix, number)
            lines += self.method(prefix)
        lines += self.subclass()
        for number in range(PROPERTIES):
            lines += self.functions(number)
        lines += self.steps()
        return lines

    # Bodies

    def property(self, prefix: str, number: int) -> Iterator[str]:
        me, name = "self", f"{prefix}{number}"
        self.level, self.before = prefix, number
        yield "    @derived"
        yield f"    def {name}(self):"
        yield f"        a = {self.scalar(me, 2)}"
        statements = [self.statement(me) for _ in range(self.r.randrange(3))]
        for statement in statements:
            yield f"        {statement}"
        kind, value = self.result(me)
        may_differ = any("return" in statement for statement in statements)
        self.kinds[name] = "any" if may_differ else kind
        yield f"        return {value}"

    def method(self, prefix: str) -> Iterator[str]:
        self.before = len([name for name in self.kinds if name[0] == prefix])
        yield "    @method"
        yield "    def of(self, n):"
        yield f"        return {self.scalar('self', 1)} * n"

    def subclass(self) -> Iterator[str]:
        """Of the same fields, with one property in place of another's."""
        decorator, *_ = FAMILIES[self.family]
        if decorator:
            yield decorator
        yield "class Other(Model):"
        self.before = PROPERTIES - 1
        yield "    @derived"
        yield f"    def p{PROPERTIES - 1}(self):"
        yield f"        a = {self.scalar('self', 1)}"
        yield f"        return (a, super(Other, self).p{PROPERTIES - 1})"

    def statement(self, me: str) -> str:
        scalar = functools.partial(self.scalar, me, 1)
        is_model = self.level == "p"
        return self.one(
            lambda: f"if {self.condition(me)}: return {self.result(me)[1]}",
            lambda: f"if {self.condition(me)}: a = {scalar()}",
            lambda: f"a = a + {scalar()}",
            *(
                [
                    f"for v in {me}.l: a = a + jnp.sum(v)",
                    f"for k, v in {me}.d.items(): a = a + len(k) * jnp.sum(v)",
                    f"for v in {me}.parts: a = a + total(v.q{self.r.randrange(2)})",
                ]
                if is_model
                else []
            ),
        )

    def condition(self, me: str) -> str:
        looks = [
            lambda: f"{self.vector(me, 0)}[0] > 0",
            lambda: f"{self.scalar(me, 1)} > 1",
            lambda: f"jnp.any({self.vector(me, 0)} > 2)",
            lambda: f"np.asarray({self.vector(me, 0)}).max() > 1",
            lambda: f"bool({self.scalar(me, 0)} > 0)",
            lambda: f"int({self.scalar(me, 0)}) % 2",
        ]
        sees = [
            f"{me}.k > 1",
            lambda: f"len({self.vector(me, 0)}) > 3",
            lambda: f"{self.vector(me, 0)}.dtype == jnp.float32",
            f"jnp.ndim({me}.s) == 0",
        ]
        if self.level == "p":
            looks += [
                f"{me}.u[0] > 0",
                f"np.sum({me}.u) > 0",
                f"{me}.part.x[0] > {me}.x[0]",
                f"all(v[0] > 0 for v in {me}.l)",
                f"any(jnp.sum(v) > 0 for v in {me}.d.values())",
                f"any(v.s > 1 for v in {me}.parts)",
                f"{me}.of(2) > 0" if self.before >= PROPERTIES else f"{me}.s > 1",
            ]
            sees += [
                f"{me}.opt is None",
                f"'c' in {me}.d",
                f"len({me}.l) > 1",
                f"len({me}.parts) > 1",
                f"{me}.part.k > 1",
                f"hasattr({me}.part, 'x')",
            ]
        return self.one(*looks, *sees) if self.may_look else self.one(*sees)

    def vector(self, me: str, depth: int) -> str:
        fields = [f"{me}.x", f"getattr({me}, 'x')", f"vars({me})['x']"]
        if self.level == "p":
            fields += [
                *(f"{me}.y", f"{me}.d['a']", f"{me}.d['b']", f"{me}.l[0]"),
                *(f"{me}.part.x", f"{me}.l[-1]", f"{me}.parts[0].x", f"{me}.y"),
                f"({me}.y if {me}.opt is None else {me}.opt)",
                f"jnp.asarray({me}.u)",
                f"{{**vars({me})}}['y']",
                f"dataclasses.asdict({me}.part)['x']",
            ]
        fields += [
            f"{me}.{name}" for name in self.readable() if self.kinds[name] == "vector"
        ]
        if depth == 0:
            return self.one(*fields)
        a, s = self.vector(me, depth - 1), self.scalar(me, depth - 1)
        return self.one(
            *fields[:2],
            f"({a} * {s})",
            f"({a} + {s})",
            f"jnp.sort({a})",
            f"{a}[::-1]",
            f"jnp.where({a} > 0, {a}, {s})",
            f"jax.jit(lambda a, b: a * 2)({a}, {s})",
            f"jax.jit(lambda o: o.x + 1)({me})",
            f"jax.grad(lambda v: jnp.sum(v**2) * {s})({a} * 1.0)",
            f"jax.vmap(lambda e: e * {s})({a})",
            f"jax.lax.stop_gradient({a})",
            f"jax.lax.cond({s} > 0, lambda v: v, lambda v: -v, {a})",
            f"jax.lax.fori_loop(0, 2, lambda i, v: v * 2, {a})",
            f"jax.lax.scan(lambda c, v: (c, v * 2), {s} * 1.0, {a})[1]",
            f"{a}.at[0].set(7)",
            f"jnp.concatenate([{a}, {self.vector(me, 0)}])",
            f"jax.tree.map(lambda v: v * 2, {me}).x",
            f"twice({a})",
        )

    def scalar(self, me: str, depth: int) -> str:
        a = self.vector(me, max(depth - 1, 0))
        simple = [f"jnp.sum({a})", f"jnp.max({a})", f"{me}.s", f"{a}[0]", f"{me}.k"]
        for name in self.readable():
            kind = self.kinds[name]
            if kind == "number":
                simple += [f"{me}.{name}"] * 2
            else:
                simple.append(f"total({me}.{name}{'.q1' * (kind == 'part')})")
        if self.level == "p":
            q = f"q{self.r.randrange(2)}"
            simple += [f"total({me}.part.{q})", f"total({me}.parts[0].{q})"]
            simple += [f"sum(total(v.{q}) for v in {me}.parts)"]
        if depth == 0:
            return self.one(*simple)
        s, b = self.scalar(me, depth - 1), self.scalar(me, depth - 1)
        more = [
            f"({s} + {b})",
            f"{s} * {b}",
            f"jnp.minimum({s}, {b})",
            f"{a}.size",
            f"{a}.shape[0]",
            f"jnp.sum(jnp.stack([{s} * 1.0, {b} * 1.0]))",
            f"total(jax.tree.leaves({me})[-1])",
            f"size({me})",
            f"total({{'u': {a}, 'v': {s}}}['u'])",
        ]
        if self.may_look:
            more += [
                f"float({s})",
                f"np.asarray({a}).min()",
                f"jnp.sum(jnp.unique({a}))",
                f"jnp.sum({a}[{a} > 0])",
                f"{a}[0].item()",
                f"sum({a}.tolist())",
                f"len(set({a}.tolist()))",
                f"float(np.linalg.norm({a}))",
            ]
        if self.level == "p" and self.readable():
            name = self.one(*self.readable())
            field = self.one("y", "x", "opt")
            more.append(f"total(dataclasses.replace({me}, {field}={a}).{name})")
        if self.level == "p":
            more.append(f"total(dataclasses.replace({me}.part, x={a}).q0)")
            more.append(f"total(Part(x={a}, s={s}, k={me}.k).q1)")
            more += [f"{me}.part.of(2)", f"{me}.parts[-1].of({me}.k)"]
            more += [f"np.sum({me}.u)", f"{me}.u[0]", f"total(vars({me}.part))"]
            more += [f"total([*vars({me}).values()][:2])", f"total({me}.part)"]
        return self.one(*simple, *more)

    def readable(self) -> list[str]:
        """The properties that a body may read: those before it."""
        return [f"{self.level}{i}" for i in range(self.before)]

    def result(self, me: str) -> tuple[str, str]:
        a, s = self.vector(me, 1), self.scalar(me, 1)
        found: list[tuple[str, str]] = [
            *[("vector", f"{a} * a")] * 3,
            *[("scalar", f"a + {s}")] * 3,
            ("any", f"({a}, a, {s})"),
            ("any", f"{{'u': {a}, 'v': a}}"),
            ("vector", f"{me}.x"),
            ("any", f"[{me}.x, a]"),
            *[("number", self.number_of(me))] * 4,
        ]
        if self.level == "p":
            found += [
                ("part", f"Part(x={a} + a, s={s}, k={me}.k)"),
                ("part", f"{me}.part"),
                ("any", f"({me}.part, a)"),
                ("any", f"({me}.d, a)"),
                ("any", f"{{'u': {me}.u, 'v': a}}"),
                ("part", f"dataclasses.replace({me}.part, x={a} * a)"),
                ("any", "None"),
            ]
        if self.may_look:
            found += [("any", f"np.asarray({a})"), ("any", "float(a)")]
        return self.one(*found)  # type: ignore[no-any-return]

    def number_of(self, me: str) -> str:
        """What is a number outside of a program, unless its field is an array."""
        names = [f"{me}.{x}" for x in self.readable() if self.kinds[x] == "number"]
        fields = [f"{me}.s", *names, *names]
        if self.level == "p":
            fields += [f"{me}.part.s", f"{me}.u.mean()", f"{me}.u[0]"]
        number, other = self.one(*fields), self.one(*fields)
        return self.one(  # type: ignore[no-any-return]
            f"{number} * 2",
            f"{number} + {other}",
            f"{number} / 4 if {me}.k > 1 else {number}",
        )

    # What is done with the objects

    def functions(self, i: int) -> list[str]:
        field = self.one("x", "y", "s", "opt")
        return [
            f"read{i} = jit(lambda m: m.p{i})",
            f"rebuilt{i} = jit(lambda m, v: dataclasses.replace(m, {field}=v).p{i})",
            f"both{i} = jit(lambda m, n: (m.p{i}, total(n.p{i})))",
            f"shifted{i} = jit(lambda m: [total(o.p{i}) for o in (dataclasses.replace("
            f"m, s=m.s * 2), dataclasses.replace(m, x=m.x * 2), m)])",
            f"step{i} = jit(lambda m: dataclasses.replace(m, y=m.y + total(m.p{i})))",
            f"opt{i} = jit(lambda m: dataclasses.replace(m, opt=total(m.p{i}) * m.x))",
            f"slope{i} = jit(lambda m: jax.grad(lambda v: total("
            f"dataclasses.replace(m, x=v).p{i}))(m.x * 1.0))",
            f"loop{i} = jit(lambda m: jax.lax.scan(lambda c, v: (c + total(m.p{i}) * v,"
            f" v), m.x[0] * 1.0, m.x * 1.0))",
            f"inner{i} = jit(lambda m: (m.p{i}, m.part.q0, m.parts[-1].q1, m.of(2)))",
            f"plain{i} = plain_jit(lambda m: m.p{i})",
            f"within{i} = jit(lambda m, v: jax.jit(lambda o: o.p{i})("
            f"dataclasses.replace(m, {field}=v)))",
            f"saved{i} = jit(lambda m: jax.checkpoint(lambda o: total(o.p{i}))(m))",
            f"precise{i} = jit(lambda m: (m.p{i}, precisely(lambda: m.p{i})))",
            f"branch{i} = jit(lambda m: jax.lax.cond(jnp.sum(m.x) > 0, lambda:"
            f" total(m.p{i}) * 1.0, lambda: total(m.y) * 1.0))",
            f"given{i} = donating(lambda m: dataclasses.replace(m, y=m.y * 2,"
            f" opt=total(m.p{i}) + m.y))",
            f"set{i} = jit(lambda m, v: (setattr(m, {field!r}, v), m.p{i}))",
            f"batch{i} = jit(lambda m: jax.vmap(lambda v: total("
            f"dataclasses.replace(m, y=v).p{i}))(jnp.stack([m.y, m.y + 1])))",
        ]

    def array(self) -> str:
        size = self.one(3, 3, 3, 4)
        numbers = [self.r.randrange(-3, 4) for _ in range(size)]
        kind = self.one(*["jnp.float32"] * 5, "jnp.int32")
        return f"jnp.array({numbers}, {kind})"

    def number(self) -> str:
        return self.one("2.0", "2", "jnp.float32(2)", "0.5", "jnp.float32(0.5)", "-1.0")

    def field(self, name: str) -> str:
        if name == "k":
            return str(self.r.randrange(1, 3))
        if name == "s":
            return self.number()
        if name == "d":
            keys = self.one("ab", "ab", "abc")
            return f"{{{', '.join(f'{k!r}: {self.array()}' for k in keys)}}}"
        if name in ("l", "parts"):
            make = self.array if name == "l" else self.part
            return f"[{', '.join(make() for _ in range(self.one(1, 1, 2)))}]"
        if name == "part":
            return self.part()
        if name == "u":
            return self.array().replace("jnp.array", "np.array")
        return self.one("None", self.array) if name == "opt" else self.array()

    def part(self) -> str:
        k = self.r.randrange(1, 3)
        return f"Part(x={self.array()}, s={self.number()}, k={k})"

    def steps(self) -> Iterator[str]:
        names = ["m0"]
        fields = ", ".join(f"{name}={self.field(name)}" for name in FIELDS)
        yield f"m0 = {self.one('Model', 'Model', 'Other')}({fields})"
        for _ in range(self.r.randrange(6, 16)):
            new = f"m{len(names)}"
            line = self.step(*self.r.choices(names, k=2), new)
            names += [new] * line.startswith(f"{new} =")
            yield line
        for name in names:
            for i in range(PROPERTIES):
                yield f"show({name}.p{i})"

    def step(self, m: str, n: str, new: str) -> str:
        i = self.r.randrange(PROPERTIES)
        kind = self.r.randrange(10)
        field = self.one(*FIELDS)
        if kind < 2:
            return f"{new} = dataclasses.replace({m}, {field}={self.field(field)})"
        if kind == 2:
            field = self.one("x", "y", "part", "l")
            change = self.one(f"{n}.{field}", f"jax.tree.map(lambda v: v, {n}.{field})")
            return f"{new} = dataclasses.replace({m}, {field}={change})"
        if kind == 3 and self.family in ("mutable", "node"):
            name = f"p{self.r.randrange(PROPERTIES - 1)}"
            return self.one(  # type: ignore[no-any-return]
                *[f"{m}.{field} = {self.field(field)}"] * 3,
                f"{m}.{name} = {self.array()}",
            )
        if kind <= 4:
            return f"show({m}.p{i})"
        if kind == 5:
            function = self.one(
                "read", "inner", "plain", "loop", "precise", "branch", "moved"
            )
            return f"show({function}{i}({m}))"
        if kind == 6:
            function = self.one("step", "opt", "given")
            start = f"jax.tree.map(lambda v: v * 1, {m})" if function == "given" else m
            return f"{new} = repeat({function}{i}, {start}, {self.one(1, 1, 3)})"
        if kind == 7:
            function = self.one("slope", "batch", "saved")
            return f"show({function}{i}({m}))"
        if kind == 8:
            if self.family in ("mutable", "node") and self.r.random() < 0.3:
                return f"show(set{i}({m}, {self.array()}))"
            value = self.one(f"{n}.x", self.array)
            return f"show({self.one('rebuilt', 'within')}{i}({m}, {value}))"
        p, q = f"p{min(i, 2)}", self.one("q0", "q1")
        inner = f"preset({m}.part, {q}=times({m}.part.{q}))"
        change = self.one(
            *[f"{new} = preset({m}, {p}=times({m}.{p}))"] * 2,
            f"{new} = dataclasses.replace({m}, part={inner})",
            f"{new} = dataclasses.replace({m}, parts=[{inner}])",
            f"{new} = jax.tree.map(lambda v: v, {m})",
            f"{new} = jax.tree.map(lambda v: v * 2, {m})",
            f"{new} = copy.copy(jax.tree.map(lambda v: v, {m}))",
            f"{new} = copy.deepcopy(jax.tree.map(lambda v: v, {m}))",
            f"{new} = back({m})",
            f"show(both{i}({m}, {n}))",
            f"show(jax.vmap(lambda v: total(dataclasses.replace({m}, y=v).p{i}))"
            f"(jnp.stack([{m}.y, {n}.y])))",
            f"show(jax.grad(lambda v: total(dataclasses.replace({m}, x=v).p{i}) * 1.0)"
            f"({m}.x * 1.0))",
            f"show(jax.jvp(lambda v: total(dataclasses.replace({m}, x=v).p{i}) * 1.0,"
            f" [{m}.x * 1.0], [{m}.x * 1.0]))",
            f"show(jax.jacfwd(lambda v: total(dataclasses.replace({m}, l=[v]).p{i}))"
            f"({m}.x * 1.0))",
        )
        return str(change)


# What the source refers to


def frozen(cls: type) -> Any:
    return _registered(dataclasses.dataclass(frozen=True)(cls))


def mutable(cls: type) -> Any:
    return _registered(dataclasses.dataclass(eq=False)(cls))


def _registered(cls: Any) -> Any:
    names = [each.name for each in dataclasses.fields(cls)]
    data = [name for name in names if name != "k"]
    return jax.tree_util.register_dataclass(cls, data_fields=data, meta_fields=["k"])


def node(cls: type) -> Any:
    """A pytree with its own functions to flatten it."""
    made: Any = dataclasses.dataclass(eq=False)(cls)
    names = [each.name for each in dataclasses.fields(made) if each.name != "k"]

    def unflatten(k: Any, parts: Any) -> Any:
        new = object.__new__(made)
        vars(new).update(zip(names, parts, strict=True))
        new.k = k
        return new

    jax.tree_util.register_pytree_node(
        made, lambda obj: ([getattr(obj, x) for x in names], obj.k), unflatten
    )
    return made


def total(value: Any) -> Any:
    return sum((jnp.sum(x) for x in jax.tree.leaves(value)), 0.0)


def size(obj: Any) -> Any:
    """A function that gets the object."""
    return obj.x.size * 2


@jax.custom_jvp
def twice(v: Any) -> Any:
    return v * 2


twice.defjvp(lambda primals, tangents: (twice(*primals), tangents[0] * 2))


def precisely(read: Callable[[], Any]) -> Any:
    with jax.default_matmul_precision("float32"):
        return read()


def repeat(step: Callable[[Any], Any], obj: Any, times: int) -> Any:
    for _ in range(times):
        obj = step(obj)
    return obj


class Side:
    """One of the two runs."""

    def __init__(self, is_cached: bool) -> None:
        self.is_cached = is_cached
        self.shown: list[tuple[Outcome, bool]] = []
        """What each line has shown or raised, and whether a function had to be run
        without jit, then or (if values were supplied) before."""
        self._fell_back = False
        self._supplied: dict[tuple[int, str], tuple[Any, Any, Any]] = {}
        """Values by object and name, with the object, which keeps its id, and with its
        fields then: those of `preset` are for them."""

    def derived(self, body: Any) -> Any:
        """A property that reads what was supplied, without a cache."""
        if self.is_cached:
            return cachax.cached_property(body)
        name = body.__name__

        def read(obj: Any) -> Any:
            _, value, then = self._supplied.get((id(obj), name), (None, None, ()))
            is_valid = then is None or (then and then == [*map(id, vars(obj).values())])
            return value if is_valid else body(obj)

        def write(obj: Any, value: Any) -> None:
            self._supplied[id(obj), name] = (obj, value, None)

        return property(read, write)

    def preset(self, obj: Any, **values: Any) -> Any:
        if self.is_cached:
            return cachax.preset(obj, **values)
        new = copy.copy(obj)
        fields = [*map(id, vars(new).values())]
        for (key, name), (_, value, then) in [*self._supplied.items()]:
            if key == id(obj) and then in (None, fields):
                self._supplied[id(new), name] = (new, value, then)
        for name, value in values.items():
            self._supplied[id(new), name] = (new, value, fields)
        return new

    def _has_supplied(self, args: Any) -> bool:
        objects = {id(obj) for obj, *_ in self._supplied.values()}
        parts = [*args, *(getattr(x, "part", None) for x in args)]
        parts += [part for x in args for part in getattr(x, "parts", ())]
        return any(id(part) in objects for part in parts)

    def jit(
        self, fun: Callable[..., Any], jit: Any = None, **options: Any
    ) -> Callable[..., Any]:
        if self.is_cached and jit is None:
            return cachax.jit(fun, **options)
        jitted = jax.jit(fun, **options)

        def call(*args: Any) -> Any:
            if jit is None and self._has_supplied(args):
                self._fell_back = True
                return fun(*(self.preset(x) if hasattr(x, "part") else x for x in args))
            try:
                return jitted(*args)
            except NEEDS_CONCRETE:
                self._fell_back = True
                again = fun(*jax.tree.map(lambda x: x, args))  # it may assign to them
                return jax.tree.map(jnp.asarray, again)

        return call

    def run(self, lines: list[str]) -> None:
        """The definitions together, then one line after the other."""
        names: dict[str, Any] = {
            "Any": Any,
            "back": self.jit(lambda m: m),
            "cachax": cachax,
            "copy": copy,
            "dataclasses": dataclasses,
            "derived": self.derived,
            "donating": functools.partial(self.jit, donate_argnums=0),
            "eqx": eqx,
            "frozen": frozen,
            "jax": jax,
            "jit": self.jit,
            "jnp": jnp,
            "method": cachax.cached_method if self.is_cached else lambda body: body,
            "mutable": mutable,
            "node": node,
            "np": np,
            "preset": self.preset,
            "plain_jit": functools.partial(self.jit, jit=jax.jit),
            "precisely": precisely,
            "repeat": repeat,
            "size": size,
            "struct": struct,
            "times": functools.partial(jax.tree.map, lambda v: v * 3),
            "total": total,
            "twice": twice,
            "__name__": __name__,
        }
        is_step = [line.startswith(("m", "show(")) for line in lines]
        start = is_step.index(True) if True in is_step else len(lines)
        self._do("\n".join(lines[:start]), names)
        for line in lines[start:]:
            self._do(line, names)

    def _do(self, source: str, names: dict[str, Any]) -> None:
        found: list[Any] = []
        names["show"] = found.append
        self._fell_back = False
        try:
            exec(source, names)
            outcome = Outcome(jax.block_until_ready(found))
        except Exception as error:
            outcome = Outcome(error=error)
        self.shown.append((outcome, self._fell_back or bool(self._supplied)))


def difference(lines: list[str]) -> str | None:
    """What cachax does that plain properties don't."""
    ours, theirs = Side(True), Side(False)
    ours.run(lines)
    theirs.run(lines)
    steps = ["definitions", *(x for x in lines if x.startswith(("m", "show(")))]
    for line, (mine, _), (other, fell_back) in zip(
        steps, ours.shown, theirs.shown, strict=True
    ):
        if other.error is not None:
            continue
        if fell_back and isinstance(mine.error, NEEDS_CONCRETE):
            continue  # of an object made of tracers
        if isinstance(mine.error, cachax.UnknownPropertyError | cachax.PresetError):
            return None  # a shorter program, or a value of a different shape
        try:
            compare(mine, other, fell_back)
        except DifferenceError as error:
            return f"{line}: {error}"
    return None


def shrunk(lines: list[str]) -> list[str]:
    """With as few lines as still differ."""
    i = len(lines) - 1
    while i >= 0:
        fewer = lines[:i] + lines[i + 1 :]
        lines, i = fewer if difference(fewer) else lines, i - 1
    return lines


def failure_of(seed: int) -> str | None:
    """The program of this seed, as short as it still differs, and how."""
    lines = Writer(seed).program()
    if difference(lines) is None:
        return None
    lines = shrunk(lines)
    return "\n".join([f"# seed {seed}", *lines, f"# {difference(lines)}"])
