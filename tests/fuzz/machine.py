"""What a program does: operations on objects, in one world.

An operation draws what it needs from its own seed, so that a program stays valid when
others are dropped from it. Both worlds draw the same, and each operation returns what
the two are compared by.
"""

import copy
import gc
import pickle
import threading
from collections import Counter
from dataclasses import dataclass
from random import Random
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import cachax

from .once import Once
from .worlds import (
    FAMILIES,
    MUTABLE,
    PROPS,
    PYTREES,
    World,
    assign,
    fields,
    get,
    inside,
    make,
    numbers,
    replace,
    total,
)

NUMBERS = [1, 2.0, 2, -0.0, 0.0, 0.5, np.float32(2), "array", "array", "array"]
"""What the field `n` can be: Python's, numpy's, or a JAX array."""
WAYS = ["same", "new b", "new a", "mapped"]


@dataclass(frozen=True)
class Op:
    name: str
    seed: int


@dataclass(frozen=True)
class Profile:
    """What a program is about. Few things at a time, so that programs which share a
    profile share what is compiled for them."""

    families: tuple[str, ...]
    props: tuple[str, ...]
    styles: tuple[str, ...]
    ways: tuple[str, ...]
    """How a jitted function returns its object."""
    numbers: tuple[Any, ...]
    statics: tuple[Any, ...]
    nesting: str
    shapes: tuple[Any, ...]

    @classmethod
    def draw(cls, r: Random) -> "Profile":
        return cls(
            tuple(r.sample(FAMILIES, 2)),
            tuple(r.sample(sorted(PROPS), 3)),
            tuple(r.sample(sorted(STYLES), 3)),
            tuple(r.sample(WAYS, 1)),
            tuple(r.sample(NUMBERS, 2)),
            tuple(r.sample([1, 2, "x"], 2)),
            r.choice(["", "child", "list", "dict"]),
            r.choice([((3,), (3,)), ((3,), (3,)), ((3,), (5,))]),
        )


def depth(obj: Any) -> int:
    return 1 + max(map(depth, inside(obj)), default=0)


def is_pytree(obj: Any) -> bool:
    return type(obj).__name__ in PYTREES and all(map(is_pytree, inside(obj)))


def is_mutable(obj: Any) -> bool:
    return type(obj).__name__ in MUTABLE


class Machine:
    """Runs the operations of a program in one world."""

    def __init__(self, world: World, profile: Profile, seed: int) -> None:
        self.world, self.profile = world, profile
        self.once = Once()
        self.objects: dict[str, Any] = {}
        self.made = 0
        self.allowed: Counter[str] | None = Counter()
        self.may_need_concrete = False
        self.lines: list[str] = []
        numbers_ = np.random.default_rng(seed)
        self.arrays = [
            jnp.asarray(numbers_.integers(-4, 5, profile.shapes[i % 2]), jnp.float32)
            for i in range(6)
        ]

    def run(self, op: Op) -> Any:
        """What the operation returns. `allowed` then says how often each body may run
        in it: no limit where it is None. Where it `may_need_concrete` values, cachax
        can do no more than JAX: the object is made of tracers."""
        self.allowed, self.may_need_concrete = Counter(), False
        self.lines.append(f"{op.name}()")
        return getattr(self, op.name)(Random(op.seed))

    # What operations are made of

    def say(self, text: str) -> None:
        """The operation as text, with the names of its objects."""
        self.lines[-1] = text

    def keep(self, obj: Any) -> str:
        name = f"o{self.made}"
        self.made += 1
        self.objects[name] = obj
        return name

    def pick(self, r: Random, pytree: bool = False) -> tuple[str, Any]:
        names = [n for n, o in self.objects.items() if is_pytree(o) or not pytree]
        if not names:
            family = next((f for f in self.profile.families if f in PYTREES), "Flax")
            made = self.create(r, family)
            self.lines.append("")  # for the operation itself
            return made
        # The last ones more often: programs get to a point.
        name = names[-1 - min(r.randrange(4), r.randrange(len(names))) % len(names)]
        return name, self.objects[name]

    def prop(self, r: Random, obj: Any) -> str:
        possible = [
            name
            for name in self.profile.props
            if is_pytree(obj) or not PROPS[name].is_jitted
        ]
        return r.choice(possible or ["one"])

    def array(self, r: Random) -> tuple[str, Any]:
        i = r.randrange(len(self.arrays))
        return f"A{i}", self.arrays[i]

    def number(self, r: Random, family: str = "") -> Any:
        number = r.choice(self.profile.numbers)
        if family == "Nnx" and number in (0.0, 2):
            # Static there. For JAX, 2 and 2.0 are the same structure: an object that
            # `jax.jit` returns may have either.
            return 4
        return jnp.float32(3) if isinstance(number, str) else number

    def expect(self, obj: Any, name: str) -> None:
        """The body of this property, and those it reads, run at most once."""
        if self.allowed is not None and self.world.counted:
            self.allowed += self.once.cost(obj, name)

    # Objects

    def create(self, r: Random, family: str = "") -> tuple[str, Any]:
        family = family or r.choice(self.profile.families)
        pytree = family in PYTREES
        nesting = self.profile.nesting
        child: Any = None
        items: Any = {} if nesting == "dict" else []
        said = ""
        fitting = {
            name: o
            for name, o in self.objects.items()
            if depth(o) == 1
            and (is_pytree(o) or not pytree)
            and (family != "Nnx" or type(o).__name__ == "Nnx")
        }
        if fitting and nesting == "child" and r.random() < 0.6:
            name = r.choice(sorted(fitting))
            child, said = fitting[name], f", child={name}"
        if fitting and nesting in ("list", "dict") and r.random() < 0.6:
            some = r.choices(sorted(fitting), k=2)
            items = [fitting[name] for name in some]
            said += f", items=[{', '.join(some)}]"
            if nesting == "dict":
                items = dict(zip("pq", items, strict=True))
                said += " as a dict"
        (a_name, a), (b_name, b) = self.array(r), self.array(r)
        if r.random() < 0.05:
            b, b_name = np.asarray(b), f"np.asarray({b_name})"
        n, k = self.number(r, family), r.choice(self.profile.statics)
        obj = make(
            self.world.classes[family], a=a, b=b, n=n, k=k, child=child, items=items
        )
        name = self.keep(obj)
        self.say(f"{name} = {family}({a_name}, {b_name}, n={n!r}, k={k!r}{said})")
        return name, obj

    def replace(self, r: Random) -> Any:
        name, obj = self.pick(r)
        field = r.choice(["a", "b", "b", "n", "k"])
        if field == "k" and type(obj).__name__ == "Chex":
            field = "n"
        said, value = self._value(r, field)
        new = self.keep(replace(obj, **{field: value}))
        self.say(f"{new} = replace({name}, {field}={said})")
        return self.objects[new]

    def assign(self, r: Random) -> Any:
        name, obj = self.pick(r)
        if not is_mutable(obj):
            return None
        # An nnx module decides when it is made whether a field is a Variable.
        field = r.choice(["a", "b", "a" if type(obj).__name__ == "Nnx" else "n"])
        said, value = self._value(r, field)
        if field in "ab":  # the shape stays: nnx does not let it change
            same = [
                (f"A{i}", x)
                for i, x in enumerate(self.arrays)
                if x.shape == fields(obj)[field].shape
            ]
            said, value = r.choice(same)
        self.say(f"{name}.{field} = {said}")
        assign(obj, field, value)
        return obj

    def _value(self, r: Random, field: str) -> tuple[str, Any]:
        if field in ("a", "b"):
            return self.array(r)
        value = r.choice(self.profile.statics) if field == "k" else self.number(r)
        return repr(value), value

    def tree_map(self, r: Random) -> Any:
        name, obj = self.pick(r, pytree=True)
        way = r.choice(["x", "x + 1", "flatten"])
        if way == "flatten":
            new = jax.tree.unflatten(*jax.tree.flatten(obj)[::-1])
        else:
            new = jax.tree.map(lambda x: x if way == "x" else x + 1, obj)
        self.say(f"{self.keep(new)} = tree.map(lambda x: {way}, {name})")
        return new

    def copy(self, r: Random) -> Any:
        name, obj = self.pick(r)
        way = r.choice([copy.copy, copy.deepcopy, _pickled])
        new = way(obj)
        self.say(f"{self.keep(new)} = {way.__name__}({name})")
        return new if is_pytree(new) else fields(new)["a"]

    def drop(self, r: Random) -> None:
        if len(self.objects) > 2:
            name, _ = self.pick(r)
            self.say(f"del {name}")
            del self.objects[name]

    def collect(self, r: Random) -> None:
        self.say("gc.collect()")
        if self.world.cached:
            gc.collect()

    # The cache

    def read(self, r: Random) -> Any:
        name, obj = self.pick(r)
        prop = self.prop(r, obj)
        self.say(f"{name}.{prop}")
        self.expect(obj, prop)
        return get(obj, prop)

    def clear(self, r: Random) -> None:
        name, obj = self.pick(r)
        prop = self.prop(r, obj)
        names = [] if "(" in prop or r.random() < 0.5 else [prop]
        self.say(f"clear({', '.join([name, *map(repr, names)])})")
        self.once.forget()
        self.world.clear(obj, *names)

    def warm(self, r: Random) -> None:
        name, obj = self.pick(r)
        prop = self.prop(r, obj)
        if "(" not in prop:
            self.say(f"warm({name}, {prop!r})")
            self.expect(obj, prop)
            self.world.warm(obj, prop)

    def preset(self, r: Random) -> Any:
        """The value that the body would return; and a different one, on an object that
        is not used again."""
        name, obj = self.pick(r)
        different = r.random() < 0.5
        value = jnp.float32(77) if different else get(obj, "one")
        self.allowed = None
        self.say(f"preset({name}, one={'77.0' if different else f'{name}.one'})")
        if not self.world.cached:
            if different:
                return value, [value] if is_pytree(obj) else [], get(obj, "one")
            new = copy.copy(obj) if not is_pytree(obj) else jax.tree.map(_same, obj)
            return self.keep(new)
        new = cachax.preset(obj, one=value)
        self.once.distrust(new)
        if not different:
            return self.keep(new)
        jitted = self._reader("one", "positional")(new) if is_pytree(obj) else []
        return get(new, "one"), jitted, get(obj, "one")

    # Calls

    def jit(self, r: Random) -> Any:
        name, obj = self.pick(r, pytree=True)
        prop, style = self.prop(r, obj), r.choice(self.profile.styles)
        other_name, other = self.pick(r, pytree=True)
        x, flag = self.arrays[r.randrange(2) * 2], r.choice([0, 1])
        self.say(f"jit[{style}]({name}, {other_name}, A, {flag}) reads {prop}")
        self.expect(obj, prop)
        if style in ("twice", "objects_in_a_list"):
            self.expect(other, prop)
        function = self._reader(prop, style)
        if style in ("twice", "objects_in_a_list"):
            return function(obj, other)
        return function(obj, x) if style == "second" else function(obj)

    def _reader(self, prop: str, style: str) -> Any:
        return self.world.function(
            (prop, style), lambda: STYLES[style](self.world, prop)
        )

    def method(self, r: Random) -> Any:
        name, obj = self.pick(r, pytree=True)
        self.say(f"{name}.called(2.0)")
        for prop in ("one", "power(2)"):
            self.expect(obj, prop)
        return obj.called(2.0)

    def second_function(self, r: Random) -> Any:
        """The same function jitted again, and objects closed over."""
        name, obj = self.pick(r, pytree=True)
        prop = self.prop(r, obj)
        closed = r.random() < 0.5
        self.say(f"jit(lambda x: x * {name}.{prop})" if closed else f"jit again {prop}")
        self.expect(obj, prop)
        if closed:
            return self.world.jit(lambda x: x * total(get(obj, prop)))(2.0)
        return self.world.jit(lambda o: numbers(get(o, prop)))(obj)

    def come_back(self, r: Random) -> Any:
        """An object that a jitted function returns: itself, or with a new field."""
        name, obj = self.pick(r, pytree=True)
        prop = self.prop(r, obj)
        way = r.choice(self.profile.ways)
        self.expect(obj, prop)

        def build() -> Any:
            return self.world.jit(lambda o: (_stepped(o, way), numbers(get(o, prop))))

        new, value = self.world.function((prop, way), build)(obj)
        self.say(f"{self.keep(new)}, _ = jit[returns {way}]({name}) reads {prop}")
        self._follow(obj, new, way)
        return new, value

    def _follow(self, old: Any, new: Any, way: str) -> None:
        kept = {"same": "abn", "new b": "an", "new a": "bn", "mapped": ""}[way]
        if self.world.counted:
            parts = {"inside"} if way != "mapped" else set()
            self.once.follow(old, new, {*kept} | parts)

    def donate(self, r: Random) -> Any:
        """A training loop over an object with separate arrays, donated in each step."""
        name, obj = self.pick(r, pytree=True)
        prop, way = self.prop(r, obj), r.choice(["same", "new b"])
        state = jax.tree.map(lambda x: jnp.array(x, copy=True), obj)
        if r.random() < 0.5:
            self.expect(state, prop)
            get(state, prop)

        def build() -> Any:
            def step(o: Any) -> Any:
                return _stepped(o, way), total(get(o, prop))

            return self.world.jit(step, donate_argnums=0)

        step, values = self.world.function((prop, way, "donated"), build), []
        self.say(
            f"{name} copied; 3 times: s, _ = step(s), donated, reads {prop}, {way}"
        )
        for _ in range(3):
            self.expect(state, prop)
            new, value = step(state)
            self._follow(state, new, way)
            state = new
            values.append(value)
        self.say(f"{self.keep(state)} = {self.lines[-1]}")
        return state, values

    # Transformations: bodies may run in each of them

    def vmap(self, r: Random) -> Any:
        name, obj = self.pick(r, pytree=True)
        prop, way = self.prop(r, obj), r.choice(["jax", "cachax", "jitted"])
        self.say(f"vmap[{way}](lambda o: o.{prop})(stacked {name})")
        self.allowed, self.may_need_concrete = None, True
        batch = jax.tree.map(lambda x: jnp.stack([x, x + 1]), obj)

        def build() -> Any:
            def fun(o: Any) -> Any:
                return numbers(get(o, prop))

            if way == "jitted":
                return self.world.jit(self.world.vmap(fun))
            return jax.vmap(fun) if way == "jax" else self.world.vmap(fun)

        return self.world.function((prop, way, "vmap"), build)(batch)

    def grad(self, r: Random) -> Any:
        name, obj = self.pick(r, pytree=True)
        prop, way = self.prop(r, obj), r.choice(["by a", "by all", "of jit", "jitted"])
        if r.random() < 0.5:
            get(obj, prop)
        self.say(f"grad[{way}](lambda o: o.{prop})({name})")
        self.allowed, self.may_need_concrete = None, True

        def of_object(o: Any) -> Any:
            return total(get(o, prop))

        def by_a(a: Any, o: Any) -> Any:
            return total(get(replace(o, a=a), prop))

        def build() -> Any:
            if way == "by a":
                return jax.grad(by_a)
            if way == "jitted":
                return self.world.jit(jax.grad(by_a))
            fun = self.world.jit(of_object) if way == "of jit" else of_object
            return jax.grad(fun, allow_int=True)

        fun = self.world.function((prop, way, "grad"), build)
        slopes = fun(fields(obj)["a"], obj) if way in ("by a", "jitted") else fun(obj)
        return [x for x in jax.tree.leaves(slopes) if x.dtype == jnp.float32]

    def scan(self, r: Random) -> Any:
        name, obj = self.pick(r, pytree=True)
        prop, carried = self.prop(r, obj), r.random() < 0.5
        self.say(f"scan({'carry' if carried else 'closure'} {name}) reads {prop}")
        self.allowed = None
        if carried:
            start = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), obj)
            body = lambda o, _: (_negated(o), numbers(get(o, prop)))  # noqa: E731
            return jax.lax.scan(body, start, None, length=2)
        body = lambda c, _: (c + total(get(obj, prop)), c)  # noqa: E731
        return jax.lax.scan(body, jnp.float32(0), None, length=2)

    def threads(self, r: Random) -> Any:
        name, obj = self.pick(r)
        prop = self.prop(r, obj)
        self.say(f"3 threads read {name}.{prop}")
        self.expect(obj, prop)
        if prop == "picky":  # what raises is not kept
            self.allowed = None
        found: list[Any] = []

        def read() -> None:
            try:
                found.append(numbers(get(obj, prop)))
            except Exception as error:
                found.append(type(error).__name__)

        threads = [threading.Thread(target=read) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return found

    def without_jit(self, r: Random) -> Any:
        name, obj = self.pick(r, pytree=True)
        prop = self.prop(r, obj)
        self.say(f"with disable_jit(): jit[positional]({name}) reads {prop}")
        self.allowed = None
        with jax.disable_jit():
            return self._reader(prop, "positional")(obj)


def _same(x: Any) -> Any:
    return x


def _pickled(obj: Any) -> Any:
    return pickle.loads(pickle.dumps(obj))


def _negated(obj: Any) -> Any:
    return jax.tree.map(lambda x: -x, obj)


def _stepped(obj: Any, way: str) -> Any:
    if way == "same":
        return obj
    if way == "mapped":
        return jax.tree.map(lambda x: x + 1, obj)
    return replace(obj, **{way[-1]: 2 * fields(obj)[way[-1]]})


OPS = {
    "create": 5,
    "replace": 6,
    "assign": 5,
    "tree_map": 3,
    "copy": 2,
    "drop": 2,
    "collect": 1,
    "read": 12,
    "clear": 2,
    "warm": 2,
    "preset": 1,
    "jit": 22,
    "method": 2,
    "second_function": 1,
    "come_back": 7,
    "donate": 3,
    "vmap": 2,
    "grad": 3,
    "scan": 1,
    "threads": 2,
    "without_jit": 1,
}
"""How often each operation is drawn: those that compile something new, seldom."""


# The shapes of a call that reads a property


def _positional(w: World, prop: str) -> Any:
    return w.jit(lambda o: numbers(get(o, prop)))


def _keyword(w: World, prop: str) -> Any:
    jitted = w.jit(lambda *, o, scale: [scale * total(get(o, prop))])
    return lambda o: jitted(o=o, scale=2.0)


def _second(w: World, prop: str) -> Any:
    jitted = w.jit(lambda x, o: (x * 2, numbers(get(o, prop))))
    return lambda o, x: jitted(x, o)


def _objects_in_a_list(w: World, prop: str) -> Any:
    jitted = w.jit(lambda tree: [numbers(get(o, prop)) for o in tree["objects"]])
    return lambda o, p: jitted({"objects": [o, p], "x": 1.0})


def _twice(w: World, prop: str) -> Any:
    return w.jit(lambda o, p: (numbers(get(o, prop)), numbers(get(p, prop))))


def _static(w: World, prop: str) -> Any:
    jitted = w.jit(lambda o, n: numbers(get(o, prop)) * n, static_argnums=1)
    return lambda o: jitted(o, 2)


def _nested(w: World, prop: str) -> Any:
    inner = w.jit(lambda o: numbers(get(o, prop)))
    return w.jit(lambda o: (inner(o), total(get(o, prop))))


def _in_a_loop(w: World, prop: str) -> Any:
    return w.jit(
        lambda o: jax.lax.fori_loop(
            0, 2, lambda _, c: c + total(get(o, prop)), jnp.float32(0)
        )
    )


def _in_a_branch(w: World, prop: str) -> Any:
    return w.jit(
        lambda o: jax.lax.cond(
            jnp.sum(fields(o)["a"]) > 0,
            lambda: total(get(o, prop)),
            lambda: jnp.float32(0),
        )
    )


def _vmap_inside(w: World, prop: str) -> Any:
    return w.jit(lambda o: jax.vmap(lambda x: x + total(get(o, prop)))(jnp.ones(2)))


def _own_object(w: World, prop: str) -> Any:
    return w.jit(lambda o: (o, numbers(get(o, prop))))


def _checkpoint(w: World, prop: str) -> Any:
    return w.lift(jax.checkpoint)(lambda o: numbers(get(o, prop)))


def _filter_jit(w: World, prop: str) -> Any:
    return w.lift(eqx.filter_jit)(lambda o: numbers(get(o, prop)))


STYLES = {
    "positional": _positional,
    "keyword": _keyword,
    "second": _second,
    "objects_in_a_list": _objects_in_a_list,
    "twice": _twice,
    "static": _static,
    "nested": _nested,
    "in_a_loop": _in_a_loop,
    "in_a_branch": _in_a_branch,
    "vmap_inside": _vmap_inside,
    "own_object": _own_object,
    "checkpoint": _checkpoint,
    "filter_jit": _filter_jit,
}
