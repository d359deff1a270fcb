"""Programs that gave wrong numbers, crashed, kept memory or computed too often."""

import array
import ctypes
import datetime
import decimal
import functools
import gc
import io
import random
import threading
import weakref
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import Any

import attrs
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pydantic
import pytest
from flax import nnx
from scipy.spatial import KDTree

import cachax
from cachax.lab import compilations, computations, computing

from families import NNX_IS_PYTREE


def static(**kwargs: Any) -> Any:
    return field(metadata={"static": True}, **kwargs)


def pytree(cls: type) -> Any:
    return jax.tree_util.register_dataclass(dataclass(frozen=True)(cls))


def same(got: Any, expected: Any) -> None:
    """Bit by bit, with its dtype."""
    for x, y in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        assert jnp.result_type(x) == jnp.result_type(y)
        np.testing.assert_array_equal(x, y)


def x3() -> jax.Array:
    return jnp.array([1.0, 2.0, 4.0])


@pytree
class Box:
    x: Any
    n: Any = 0

    @cachax.cached_property
    def doubled(self) -> Any:
        computing("doubled")
        return 2 * self.x

    @cachax.cached_method
    def power(self, n: Any) -> Any:
        computing("power")
        return self.x * 3


# Wrong numbers: static parts


class Stamp(datetime.datetime):
    label = 0


class Money(decimal.Decimal):
    label = 0


class Items(array.array):  # type: ignore[type-arg]
    label = 0


def labelled(part: Any, label: int) -> Any:
    part.label = label
    return part


PARTS: dict[str, Any] = {
    "KDTree": (
        lambda n: KDTree(np.array([[float(n)], [5.0]])),
        lambda part: float(part.query([0.0])[0]),
    ),
    "BytesIO": (
        lambda n: io.BytesIO(bytes([n, n])),
        lambda part: part.getvalue()[0],
    ),
    "Random": (
        lambda n: random.Random(n),
        lambda part: random.Random.getstate(part)[1][1] % 1000,
    ),
    "ctypes number": (lambda n: ctypes.c_double(n), lambda part: part.value),
    "ctypes array": (lambda n: (ctypes.c_int * 2)(n, n), lambda part: part[0]),
    "datetime": (lambda n: Stamp(n, 1, 1), lambda part: part.year),
    "Decimal": (lambda n: Money(n), lambda part: float(part)),
    "array": (lambda n: Items("i", [n]), lambda part: part[0]),
}

# Equal for Python, and so for the tree structures of JAX; not the same object.
EQUAL_PARTS: dict[str, Any] = {
    "equal datetime": (
        lambda n: labelled(Stamp(2024, 1, 1), n),
        lambda part: part.label,
    ),
    "equal Decimal": (lambda n: labelled(Money(7), n), lambda part: part.label),
    "equal array": (lambda n: labelled(Items("i", [7]), n), lambda part: part.label),
}


@pytree
class WithPart:
    x: Any
    part: Any = static()
    read: Any = static()

    @cachax.cached_property
    def p(self) -> Any:
        return self.x * self.read(self.part)


class Holder:
    """The same, not a pytree, and not frozen."""

    def __init__(self, x: Any, part: Any, read: Any) -> None:
        self.x, self.part, self.read = x, part, read

    @cachax.cached_property
    def p(self) -> Any:
        return self.x * self.read(self.part)


@pytest.mark.parametrize("kind", PARTS)
@pytest.mark.parametrize("mode", ["eager", "jit"])
def test_static_parts_that_look_alike_are_distinguished(kind: str, mode: str) -> None:
    make, read = PARTS[kind]
    x = x3()
    get = cachax.jit(lambda o: o.p) if mode == "jit" else (lambda o: o.p)
    kept = [make(n) for n in (1, 2, 3)]
    for part in kept * 2:
        same(get(WithPart(x, part, read)), x * read(part))


@pytest.mark.parametrize("kind", [*PARTS, *EQUAL_PARTS])
def test_a_part_that_is_exchanged_for_one_that_looks_alike(kind: str) -> None:
    make, read = {**PARTS, **EQUAL_PARTS}[kind]
    x = x3()
    holder = Holder(x, make(1), read)
    for part in [make(1), make(2), make(3), make(2)]:
        holder.part = part
        same(holder.p, x * read(part))


@pytest.mark.parametrize("kind", ["KDTree", "BytesIO", "Random"])
def test_static_values_that_look_alike_are_distinguished(kind: str) -> None:
    """In the value itself: each has a program that was traced for it."""
    make, read = PARTS[kind]

    @pytree
    class Valued:
        x: Any
        n: Any = static()

        @cachax.cached_property
        def part(self) -> Any:
            return make(self.n)

    use = cachax.jit(lambda o: o.x * read(o.part))
    for n in (1, 2, 3, 1):
        same(use(Valued(x3(), n)), x3() * read(make(n)))


# Wrong numbers: supplied values


@dataclass
class Open:
    x: Any
    y: Any

    @cachax.cached_property
    def p(self) -> Any:
        computing("p")
        return 2 * self.x


jax.tree_util.register_dataclass(Open, ["x", "y"], [])


def by_preset(obj: Any, value: Any) -> Any:
    return cachax.preset(obj, p=value)


def by_assignment(obj: Any, value: Any) -> Any:
    new = replace(obj)
    new.p = value
    return new


supplied = pytest.mark.parametrize("supply", [by_preset, by_assignment])


def opened() -> Open:
    return Open(x3(), jnp.zeros(()))


@supplied
def test_a_supplied_value_does_not_reach_the_original(supply: Any) -> None:
    """The program was traced for an object without one."""
    step = cachax.jit(lambda s: (s.p, Open(s.x, s.y + 1)))
    obj = opened()
    same(step(obj)[0], 2 * x3())
    given = supply(obj, -x3())
    value, after = step(given)
    same(value, -x3())
    for one in [obj, Open(obj.x, obj.y), Open(obj.x, obj.y + 1), step(obj)[1]]:
        same(one.p, 2 * x3())
        same(step(one)[0], 2 * x3())
    fresh = Open(after.x + 0, after.y)
    same(fresh.p, 2 * x3())


@supplied
def test_a_supplied_value_does_not_reach_objects_made_from_a_result(
    supply: Any,
) -> None:
    step = cachax.jit(lambda s: (s.p, Open(s.x, s.y + 1)))
    step(opened())
    given = supply(opened(), -x3())
    _, after = step(given)
    changed = replace(after, x=after.x + 1)
    same(changed.p, 2 * (x3() + 1))
    same(step(changed)[0], 2 * (x3() + 1))
    for other in [Open(after.x, after.y), replace(after, y=after.y + 1)]:
        same(other.p, 2 * x3())
        same(step(other)[0], 2 * x3())


@supplied
def test_an_object_that_is_returned_as_it_is_keeps_its_supplied_value(
    supply: Any,
) -> None:
    through = cachax.jit(lambda s: (s, s.p))
    through(opened())
    obj, value = through(supply(opened(), -x3()))
    same(value, -x3())
    same(obj.p, -x3())
    again, value = through(obj)
    same(value, -x3())
    same(again.p, -x3())
    same(through(opened())[1], 2 * x3())


@supplied
def test_a_supplied_value_does_not_reach_an_object_that_is_made_in_the_function(
    supply: Any,
) -> None:
    """Traced for an object without one, where both have the same value."""
    use = cachax.jit(lambda s: (s.p, Open(s.x, s.y).p, replace(s, y=s.y + 1).p))
    obj = opened()
    given = supply(obj, -x3())
    for _ in range(2):
        same(list(use(obj)), [2 * x3()] * 3)
        same(list(use(given)), [-x3(), 2 * x3(), 2 * x3()])
    same(list(use(given)), [-x3(), 2 * x3(), 2 * x3()])


@supplied
@pytest.mark.parametrize("jit", [cachax.jit, jax.jit])
def test_a_returned_object_passes_no_supplied_value_on(jit: Any, supply: Any) -> None:
    through, use = jit(lambda s: (s, s.p)), cachax.jit(lambda s: s.p)
    through(opened())
    out, _ = through(supply(opened(), -x3()))
    for other in [replace(out, y=out.y + 1), Open(out.x, out.y + 2)]:
        same(other.p, 2 * x3())
        same(use(other), 2 * x3())


@supplied
def test_one_of_two_arguments_has_a_supplied_value(supply: Any) -> None:
    use = cachax.jit(lambda a, b: a.p + 10 * b.p)
    obj = opened()
    given = supply(obj, -x3())
    for _ in range(2):
        same(use(obj, obj), 22 * x3())
        same(use(given, obj), 19 * x3())
        same(use(obj, given), -8 * x3())
        same(use(given, given), -11 * x3())


# Wrong numbers: arguments of methods


class Methods:
    @cachax.cached_method
    def positional(self, a: Any, /, **kw: Any) -> Any:
        return ("positional", a, sorted(kw.items()))

    @cachax.cached_method
    def variadic(self, *args: Any, **kw: Any) -> Any:
        return ("variadic", args, sorted(kw.items()))

    @cachax.cached_method
    def keywords(self, /, **kw: Any) -> Any:
        return ("keywords", sorted(kw.items()))

    @cachax.cached_method
    def default(self, a: Any = 1, *, b: Any = 2) -> Any:
        return ("default", a, b)


CALLS: list[Any] = [
    ("positional", (5,), {"a": 1}),
    ("positional", (7,), {"a": 1}),
    ("positional", (1,), {"a": 5}),
    ("positional", (1,), {}),
    ("variadic", (1, 2), {}),
    ("variadic", (), {"args": (1, 2)}),
    ("variadic", ((1, 2),), {}),
    ("variadic", (), {"kw": 1}),
    ("variadic", (), {"kw": (("kw", 1),)}),
    ("keywords", (), {"self": 1}),
    ("keywords", (), {"self": 2}),
    ("keywords", (), {"kw": 2}),
    ("keywords", (), {}),
    ("default", (), {}),
    ("default", (2,), {}),
    ("default", (1,), {"b": 1}),
    ("default", (True,), {}),
    ("default", (1.0,), {}),
]


def test_arguments_of_a_cached_method_are_not_mixed_up() -> None:
    obj = Methods()
    plain = {
        "positional": lambda a, /, **kw: ("positional", a, sorted(kw.items())),
        "variadic": lambda *args, **kw: ("variadic", args, sorted(kw.items())),
        "keywords": lambda **kw: ("keywords", sorted(kw.items())),
        "default": lambda a=1, *, b=2: ("default", a, b),
    }
    for name, args, kwargs in CALLS * 2:
        got = getattr(obj, name)(*args, **kwargs)
        expected = plain[name](*args, **kwargs)
        assert got == expected
        assert repr(got) == repr(expected)


def test_arguments_of_a_cached_method_are_not_mixed_up_inside_jit() -> None:
    @pytree
    class Scaled:
        x: Any

        @cachax.cached_method
        def by(self, a: int, /, **kw: int) -> Any:
            computing("by")
            return self.x * (100 * a + kw.get("a", 0))

    obj = Scaled(x3())
    use = cachax.jit(lambda o: (o.by(5, a=1), o.by(7, a=1), o.by(1, a=5), o.by(1)))
    with computations() as counts:
        for _ in range(2):
            expected = [x3() * n for n in (501, 701, 105, 100)]
            same(list(use(obj)), expected)
    assert counts == {"by": 4}


# Wrong numbers: named axes


@pytree
class OverAxis:
    x: Any

    @cachax.cached_property
    def size(self) -> Any:
        return jnp.sum(self.x) * jax.lax.psum(1, "i")

    @cachax.cached_property
    def index(self) -> Any:
        return jnp.sum(self.x) + jax.lax.axis_index("i")


@pytest.mark.parametrize("jit", [jax.jit, cachax.jit])
@pytest.mark.parametrize("mapped", [False, True])
def test_two_axes_of_different_sizes_in_one_function(jit: Any, mapped: bool) -> None:
    @jit
    def fun(obj: Any) -> Any:
        def over(n: int) -> Any:
            def inner(i: Any, o: Any) -> Any:
                return (o.size + o.index) + 0 * i

            objs = OverAxis(jnp.stack([obj.x] * n)) if mapped else obj
            axes = (0, 0 if mapped else None)
            return jax.vmap(inner, axes, axis_name="i")(jnp.zeros(n), objs)

        return over(2), over(3), over(2)

    expected = [7.0 * n + 7.0 + np.arange(n, dtype=np.float32) for n in (2, 3, 2)]
    same(list(fun(OverAxis(x3()))), expected)


def test_an_axis_inside_an_axis_of_the_same_name() -> None:
    obj = OverAxis(x3())

    @jax.jit
    def fun(obj: Any) -> Any:
        def outer(i: Any) -> Any:
            inner = jax.vmap(lambda j: obj.size + 0 * j, axis_name="i")(jnp.zeros(3))
            return obj.size + 0 * i, inner

        return jax.vmap(outer, axis_name="i")(jnp.zeros(2))

    outer, inner = fun(obj)
    same(outer, 14.0 * np.ones(2, dtype=np.float32))
    same(inner, 21.0 * np.ones((2, 3), dtype=np.float32))


# Wrong numbers: values of numpy


@pytree
class Host:
    """A value of numpy, made by `make`; and x."""

    x: Any
    make: Any = static()

    @cachax.cached_property
    def v(self) -> Any:
        return self.make()


def third() -> Any:
    return np.array([1.0, 2.0]) / 3


def big() -> Any:
    return np.array([2**40 + 1, 3])


def small() -> Any:
    return np.array([2, 3], dtype=np.int32)


NUMPY: dict[str, Any] = {
    "float64 arithmetic": (third, lambda o: o.x[0] + (o.v * 3e9 - 1e9 - 1 / 3)[0]),
    "float64 dtype": (third, lambda o: o.x[0] * (o.v.dtype == np.float64)),
    "float64 differences": (
        lambda: np.array([1.0, 1.0 + 1e-12]),
        lambda o: o.x[0] * float(np.diff(o.v)[0] * 1e12),
    ),
    "a number of float64": (
        lambda: np.float64(1) / 3,
        lambda o: o.x[0] * float(o.v * 3e9 - 1e9),
    ),
    "integers that do not fit": (big, lambda o: o.x[0] * float(o.v[0] % 1000)),
    "np.matrix": (
        lambda: np.matrix([[1.0, 2.0], [3.0, 4.0]], dtype=np.float32),
        lambda o: o.x[0] * jnp.asarray(o.v * o.v),
    ),
    "masked array": (
        lambda: np.ma.masked_array(np.ones(3, np.float32), [True, False, False]),
        lambda o: o.x[0] * float(o.v.sum()),
    ),
    "record array": (
        lambda: np.rec.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f4")]),
        lambda o: o.x[0] * float(o.v.b[0]),
    ),
    "array of strings": (
        lambda: np.array(["ab", "c"]),
        lambda o: o.x[0] * len(o.v[0]),
    ),
    "integers as Python integers": (small, lambda o: o.x[0] * sum(int(i) for i in o.v)),
    "integers as a shape": (small, lambda o: o.x[0] + jnp.zeros(o.v)),
    "integers as a shape, one by one": (small, lambda o: o.x[:2].reshape(o.v[0], 1)),
    "a range over a number": (
        lambda: np.int32(3),
        lambda o: sum((o.x[0] * i for i in range(o.v)), 0.0),
    ),
    "boolean mask": (
        lambda: np.array([True, False, True]),
        lambda o: o.x[o.v],
    ),
    "an if": (small, lambda o: o.x if o.v[0] > 1 else -o.x),
    "a method that only numpy has": (small, lambda o: o.x[0] * o.v.tolist()[1]),
    "numpy functions": (
        small,
        lambda o: o.x[0] * float(np.linalg.norm(o.v)),
    ),
    "float16": (
        lambda: np.array([0.1], dtype=np.float16),
        lambda o: o.x[0] * (o.v + np.float16(1)).astype(np.float32),
    ),
    "read as an array": (lambda: np.ones(3, np.float32), lambda o: o.x @ o.v),
    "an index": (lambda: np.array([2, 0]), lambda o: o.x[o.v]),
    "promoted": (lambda: np.ones(3, np.int8), lambda o: o.v + jnp.int8(1)),
}


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.parametrize("case", NUMPY)
def test_a_numpy_value_is_the_same_inside_jit_and_outside(case: str) -> None:
    make, fun = NUMPY[case]
    use = cachax.jit(fun)
    expected = fun(Host(x3(), make))
    for _ in range(3):
        obj = Host(x3(), make)
        got = use(obj)
        assert jnp.result_type(got) == jnp.result_type(expected)
        np.testing.assert_allclose(got, expected, rtol=1e-6)
        np.testing.assert_allclose(use(obj), expected, rtol=1e-6)


@pytest.mark.parametrize("make", [third, big, small])
def test_a_numpy_value_that_changes_is_the_new_one(make: Any) -> None:
    @pytree
    class Sized:
        x: Any

        @cachax.cached_property
        def v(self) -> Any:
            return make() * len(np.asarray(self.x))

    use = cachax.jit(lambda o: o.x[0] * float(o.v[0]))
    for n in (1, 2, 3, 2):
        obj = Sized(jnp.ones(n))
        same(use(obj), obj.x[0] * float(make()[0] * n))


# Not detected: changes of fields


class Base:
    @functools.cached_property
    def k(self) -> Any:
        return 1.0


@dataclass
class Overrides(Base):
    """A field of the name of its base's cached property."""

    x: Any
    k: Any = 2.0

    @cachax.cached_property
    def p(self) -> Any:
        return self.x * self.k


jax.tree_util.register_dataclass(Overrides, ["x", "k"], [])


def test_a_field_that_overrides_a_cached_property_of_functools() -> None:
    obj, use = Overrides(x3(), 2.0), cachax.jit(lambda o: o.p)
    for k in [2.0, 3.0, 4.0]:
        obj.k = k
        same(obj.p, x3() * k)
        same(use(obj), x3() * k)


def test_a_field_that_a_different_thread_changes_while_the_body_runs() -> None:
    started, changed = threading.Event(), threading.Event()

    class Slow:
        def __init__(self, x: Any) -> None:
            self.x = x

        @cachax.cached_property
        def p(self) -> Any:
            value = 2 * self.x
            started.set()
            assert changed.wait(10)
            return value

    obj = Slow(x3())
    thread = threading.Thread(target=lambda: obj.p)
    thread.start()
    assert started.wait(10)
    obj.x = x3() + 1
    changed.set()
    thread.join()
    same(obj.p, 2 * (x3() + 1))


class Unit(float):
    unit = "m"


class Name(str):
    __slots__ = ("size",)
    size: int


def unit(name: str) -> Unit:
    number = Unit(2.0)
    number.unit = name
    return number


def named(size: int) -> Name:
    name = Name("x")
    name.size = size
    return name


class Measured:
    def __init__(self, x: Any, by: Any) -> None:
        self.x, self.by = x, by

    @cachax.cached_property
    def p(self) -> Any:
        if isinstance(self.by, Name):
            return self.x * self.by.size
        return self.x * len(self.by.unit)


@pytest.mark.parametrize(
    "parts",
    [[unit("m"), unit("km"), unit("mm/s")], [named(1), named(2), named(3)]],
    ids=["float", "str"],
)
def test_an_equal_number_or_string_with_other_fields(parts: Any) -> None:
    obj = Measured(x3(), parts[0])
    for part in parts:
        obj.by = part
        same(obj.p, Measured(x3(), part).p)
    sizes = [float(Measured(x3(), part).p[0]) for part in parts]
    assert len(set(sizes)) == 3


@dataclass
class Parts:
    x: Any
    parts: Any

    @cachax.cached_property
    def p(self) -> Any:
        return self.x * self.first

    @property
    def first(self) -> Any:
        parts = self.parts
        return next(iter(parts.values() if isinstance(parts, dict) else parts))


def test_an_ordered_dict_whose_order_changes() -> None:
    obj = Parts(x3(), OrderedDict(a=1.0, b=2.0))
    same(obj.p, x3())
    obj.parts.move_to_end("a")
    same(obj.p, 2 * x3())
    obj.parts.move_to_end("a", last=False)
    same(obj.p, x3())


@pytest.mark.parametrize(
    "make", [lambda: bytearray(b"\x01"), lambda: array.array("i", [1])]
)
def test_bytes_that_change_in_place(make: Any) -> None:
    obj = Parts(x3(), make())
    same(obj.p, x3())
    obj.parts[0] = 2
    same(obj.p, 2 * x3())


# Crashes: donation, settings


@pytest.mark.parametrize("argnums", [0, (0,), np.int64(0)], ids=repr)
def test_a_value_that_is_the_donated_array(argnums: Any) -> None:
    @pytree
    class Alias:
        x: Any

        @cachax.cached_property
        def own(self) -> Any:
            computing("own")
            return self.x

    step = cachax.jit(lambda s: Alias(s.x + s.own), donate_argnums=argnums)
    state = Alias(x3())
    for n in range(1, 4):
        old = state
        state = step(state)
        same(state.x, 2**n * x3())
        assert old.x.is_deleted()


@pytree
class Sum:
    x: Any

    @cachax.cached_property
    def total(self) -> Any:
        return jnp.sum(self.x)


@pytest.mark.parametrize("setting", [jax.debug_nans, jax.debug_infs])
@pytest.mark.parametrize("warm", [False, True])
def test_a_first_call_while_nans_are_looked_for(setting: Any, warm: bool) -> None:
    obj = Sum(x3())
    if warm:
        cachax.warm(obj)
    with setting(True):
        same(cachax.jit(lambda o: o.total + 1)(obj), np.float32(8))


@pytest.mark.parametrize("setting", [jax.debug_nans, jax.debug_infs])
def test_a_nan_is_reported_as_by_jax_jit(setting: Any) -> None:
    bad = jnp.array([jnp.nan if setting is jax.debug_nans else jnp.inf])
    fun = cachax.jit(lambda o: o.total * 2)
    with setting(True), pytest.raises(FloatingPointError, match="invalid value"):
        fun(Sum(bad))
    same(fun(Sum(x3())), np.float32(14))


@pytest.mark.parametrize("warm", [False, True])
def test_a_nan_of_the_function_itself_in_a_first_call(warm: bool) -> None:
    obj = Sum(x3())
    if warm:
        cachax.warm(obj)
    fun = cachax.jit(lambda o: jnp.log(-o.total))
    with jax.debug_nans(True), pytest.raises(FloatingPointError, match="nan"):
        fun(obj)
    assert np.isnan(fun(obj))


def test_an_infinity_of_the_function_itself_in_a_first_call() -> None:
    fun = cachax.jit(lambda o: 1 / (o.total - 7))
    with jax.debug_infs(True), pytest.raises(FloatingPointError, match="inf"):
        fun(Sum(x3()))
    assert np.isinf(fun(Sum(x3())))


def test_new_objects_cause_no_trace() -> None:
    use = cachax.jit(lambda o: o.total + 1)
    for n in range(3):
        use(Sum(x3() + n))
    objects = [Sum(x3() + n) for n in range(12)]
    with jax.no_tracing():
        got = [use(obj) for obj in objects]
    same(got, [jnp.sum(obj.x) + 1 for obj in objects])


# Crashes: objects without arrays


@pytree
class Grid:
    n: int = static()

    @cachax.cached_property
    def points(self) -> Any:
        return jnp.arange(float(self.n))


jits = pytest.mark.parametrize("jit", [jax.jit, cachax.jit])


@jits
@pytest.mark.usefixtures("no_leaks")
def test_an_object_without_arrays_that_is_returned(jit: Any) -> None:
    @jit
    def fun(x: Any) -> Any:
        grid = Grid(3)
        return x * grid.points, grid

    value, grid = fun(x3())
    same(value, x3() * jnp.arange(3.0))
    same(grid.points + 1, jnp.arange(3.0) + 1)


@jits
@pytest.mark.usefixtures("no_leaks")
def test_an_object_without_arrays_that_is_stored(jit: Any) -> None:
    stored: list[Any] = []

    @jit
    def fun(x: Any) -> Any:
        stored.append(Grid(3))
        return x * stored[-1].points

    same(fun(x3()), x3() * jnp.arange(3.0))
    same(stored[-1].points + 1, jnp.arange(3.0) + 1)


@jits
@pytest.mark.usefixtures("no_leaks")
def test_an_object_without_arrays_in_an_inner_jit(jit: Any) -> None:
    @jit
    def fun(x: Any) -> Any:
        grid = Grid(3)
        inner = jax.jit(lambda y: y * grid.points)(x)
        mapped = jax.vmap(lambda y: y * grid.points)(jnp.stack([x, x]))
        return inner + grid.points, mapped + grid.points

    inner, mapped = fun(x3())
    points = jnp.arange(3.0)
    same(inner, x3() * points + points)
    same(mapped, jnp.stack([x3() * points + points] * 2))


@jits
def test_an_object_without_arrays_as_an_argument(jit: Any) -> None:
    grid = Grid(3)

    @jit
    def fun(g: Any, x: Any) -> Any:
        return jax.jit(lambda h: h.points * x)(g), g

    value, out = fun(grid, x3())
    same(value, x3() * jnp.arange(3.0))
    same(out.points, jnp.arange(3.0))
    same(grid.points, jnp.arange(3.0))


@jits
@pytest.mark.parametrize("warm", [False, True])
def test_an_argument_without_arrays_that_is_stored(jit: Any, warm: bool) -> None:
    stored: list[Any] = []

    @jit
    def fun(g: Any, x: Any) -> Any:
        def inner(h: Any, y: Any) -> Any:
            stored.append(h)
            return h.points * y

        stored.append(g)
        return g.points + jax.jit(inner)(g, x) + jax.jit(lambda y: y * g.points)(x)

    for _ in range(3):
        grid = Grid(3)
        if warm:
            cachax.warm(grid)
        points = jnp.arange(3.0)
        same(fun(grid, x3()), points + 2 * points * x3())
        same(grid.points + 1, points + 1)
    for grid in stored:
        same(grid.points + 1, points + 1)


# Crashes: options and arguments


@pytree
class Counted:
    x: Any

    @cachax.cached_property
    def n(self) -> int:
        return 2 * self.x.shape[0]


@pytest.mark.parametrize("order", [[3, 6], [6, 3]])
def test_a_number_is_static_for_some_shapes_only(order: Any) -> None:
    def fun(o: Any) -> Any:
        return jnp.zeros(o.n) if len(o.x) < 5 else o.x * o.n

    use = cachax.jit(fun)
    for n in [*order, *order]:
        obj = Counted(jnp.ones(n))
        same(use(obj), fun(Counted(jnp.ones(n))))


def test_a_number_that_is_static_for_one_shape_makes_no_programs_for_others() -> None:
    """The number is computed from a leaf, which is traced: so is the result, unless the
    body needs a concrete value."""

    @pytree
    class Whole:
        x: Any
        k: Any

        @cachax.cached_property
        def n(self) -> Any:
            return int(self.k) if len(self.x) < 5 else 6 * self.k

    use = cachax.jit(lambda o: jnp.zeros(o.n) if len(o.x) < 5 else o.x * o.n)
    use(Whole(jnp.ones(3), 3))
    x = jnp.ones(6)
    use(Whole(x, 1))
    objects = [Whole(x, n) for n in range(6)]
    with compilations() as compiled:
        got = [use(obj) for obj in objects]
    same(got, [obj.x * 6 * n for n, obj in enumerate(objects)])
    assert len(compiled) <= 1  # the one for objects that are new on every call


@pytest.mark.parametrize("number", [1, (1,), np.int64(1), (np.int64(1),)], ids=repr)
def test_numbers_of_numpy_name_static_arguments(number: Any) -> None:
    fun = cachax.jit(lambda o, n: o.doubled[:n], static_argnums=number)
    plain = jax.jit(lambda o, n: 2 * o.x[:n], static_argnums=number)
    for n in (1, 2, 1):
        same(fun(Box(x3()), n), plain(Box(x3()), n))


def test_parameters_of_any_name() -> None:
    def fun(_cached_values: Any, values: Any, leaves: Any, self: Any) -> Any:
        return _cached_values.doubled + values + leaves + self

    use = cachax.jit(fun)
    for _ in range(2):
        same(use(Box(x3()), 1, leaves=2, self=3), 2 * x3() + 6)
        got = use(_cached_values=Box(x3()), values=1, leaves=2, self=3)
        same(got, 2 * x3() + 6)
    same(cachax.jit(lambda **_cached_values: _cached_values["a"])(a=1.0), 1.0)


def test_checkpoint_with_a_python_number_as_leaf() -> None:
    @cachax.lift(jax.checkpoint)
    def fun(o: Any) -> Any:
        return jnp.sum(o.doubled * o.n)

    def plain(o: Any) -> Any:
        return jnp.sum(2 * o.x * o.n)

    for n in (3, 2.0, 3):
        same(fun(Box(x3(), n)), plain(Box(x3(), n)))
        same(
            jax.grad(lambda x, n=n: fun(Box(x, n)))(x3()),
            jax.grad(lambda x, n=n: plain(Box(x, n)))(x3()),
        )
        same(cachax.jit(fun)(Box(x3(), n)), plain(Box(x3(), n)))


def recursive() -> Any:
    def factorial(n: int) -> int:
        return 1 if n < 2 else n * factorial(n - 1)

    return factorial


def over_a_list(items: Any) -> Any:
    return lambda n: items[n % len(items)]


FUNCTIONS = {
    "recursive": recursive,
    "over a list": lambda: over_a_list([6, 7]),
    "over itself": lambda: over_itself(),
}


def over_itself() -> Any:
    cell: list[Any] = []
    fun = lambda n: len(cell) * n  # noqa: E731
    cell.append(fun)
    return fun


functions = pytest.mark.parametrize("kind", FUNCTIONS)


@functions
def test_a_local_function_as_a_static_argument(kind: str) -> None:
    use = cachax.jit(lambda o, f: o.doubled * f(3), static_argnums=1)
    fun = FUNCTIONS[kind]()
    for f in [fun, FUNCTIONS[kind](), fun]:
        same(use(Box(x3()), f), 2 * x3() * f(3))


@functions
def test_a_local_function_as_an_argument_of_a_method(kind: str) -> None:
    box, fun = Box(x3()), FUNCTIONS[kind]()
    with computations() as counts:
        same(box.power(fun), 3 * x3())
        same(box.power(fun), 3 * x3())
        same(cachax.jit(lambda o: o.power(fun))(box), 3 * x3())
    assert counts == {"power": 1}


@functions
def test_a_local_function_as_an_argument_of_a_cached_function(kind: str) -> None:
    @cachax.cache
    def apply(box: Any, f: Any) -> Any:
        return box.x * f(3)

    fun = FUNCTIONS[kind]()
    for f in [fun, fun, FUNCTIONS[kind]()]:
        same(apply(Box(x3()), f), x3() * f(3))


@functions
def test_a_local_function_as_a_value(kind: str) -> None:
    @pytree
    class Applies:
        x: Any

        @cachax.cached_property
        def fun(self) -> Any:
            computing("fun")
            return FUNCTIONS[kind]()

    obj = Applies(x3())
    use = cachax.jit(lambda o: o.x * o.fun(3))
    with computations() as counts:
        for _ in range(2):
            same(use(obj), x3() * FUNCTIONS[kind]()(3))
            assert obj.fun(3) == FUNCTIONS[kind]()(3)
    assert counts == {"fun": 1}


@functions
def test_a_local_function_in_a_field(kind: str) -> None:
    class Holds:
        def __init__(self, f: Any) -> None:
            self.f = f

        @cachax.cached_property
        def p(self) -> Any:
            return x3() * self.f(3)

    obj = Holds(FUNCTIONS[kind]())
    same(obj.p, x3() * obj.f(3))
    obj.f = lambda n: n + 0.5
    same(obj.p, x3() * 3.5)


class Link(eqx.Module):
    x: Any
    inner: Any

    @cachax.cached_property
    def total(self) -> Any:
        below = 0.0 if self.inner is None else self.inner.total
        return jnp.sum(self.x) + below


@pytest.mark.parametrize("mode", ["eager", "jit", "filter_jit"])
def test_a_chain_of_a_hundred_objects(mode: str) -> None:
    x, link = jnp.ones(()), None
    for _ in range(100):
        link = Link(x, link)
    wrap = {
        "eager": lambda f: f,
        "jit": cachax.jit,
        "filter_jit": cachax.lift(eqx.filter_jit),
    }[mode]
    same(wrap(lambda o: o.total + 0)(link), np.float32(100))


# Other libraries: pydantic and attrs


def test_a_pydantic_model_needs_no_setting() -> None:
    class Model(pydantic.BaseModel):
        n: float

        @cachax.cached_property
        def doubled(self) -> Any:
            computing("pydantic")
            return 2 * self.n

        @cachax.cached_method
        def times(self, factor: int) -> Any:
            computing("times")
            return factor * self.n

    model = Model(n=3.0)
    with computations() as counts:
        assert model.doubled == 6.0
        assert model.doubled == 6.0
        assert model.times(3) == model.times(3) == 9.0
    assert counts == {"pydantic": 1, "times": 1}
    assert set(Model.model_fields) == {"n"}
    assert model.model_dump() == {"n": 3.0}


def test_a_pydantic_model_sees_its_fields_change() -> None:
    class Model(pydantic.BaseModel):
        n: float

        @cachax.cached_property
        def doubled(self) -> Any:
            return 2 * self.n

    model = Model(n=3.0)
    assert model.doubled == 6.0
    model.n = 4.0
    assert model.doubled == 8.0


def frozen_model(**values: Any) -> Any:
    """As in torax: the value is a leaf, and is put back when it is rebuilt."""

    @jax.tree_util.register_pytree_node_class
    class Frozen(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(frozen=True, arbitrary_types_allowed=True)
        values: Any

        @cachax.cached_property
        def doubled(self) -> Any:
            computing("frozen")
            return 2 * jnp.asarray(self.values)

        def tree_flatten(self) -> Any:
            return (self.doubled,), self.values

        @classmethod
        def tree_unflatten(cls, values: Any, children: Any) -> Any:
            obj = cls.model_construct(values=values)
            obj.doubled = children[0]
            return obj

    return Frozen(**values)


def test_a_frozen_pydantic_model_may_assign_its_cached_property() -> None:
    model = frozen_model(values=(1.0, 2.0))
    with computations() as counts:
        same(model.doubled, jnp.array([2.0, 4.0]))
        rebuilt = jax.tree.map(lambda leaf: leaf + 1, model)
        same(rebuilt.doubled, jnp.array([3.0, 5.0]))
        same(cachax.jit(lambda m: m.doubled + 1)(model), jnp.array([3.0, 5.0]))
        out = cachax.jit(lambda m: m)(model)
        same(out.doubled, model.doubled)
    assert counts == {"frozen": 1}


def test_a_frozen_pydantic_model_stays_frozen() -> None:
    model = frozen_model(values=(1.0, 2.0))
    with pytest.raises(pydantic.ValidationError, match="frozen"):
        model.values = (3.0, 4.0)


def attrs_class(**options: Any) -> Any:
    @attrs.define(**options)
    class Model:
        x: Any

        @cachax.cached_property
        def doubled(self) -> Any:
            """Twice x."""
            computing("attrs")
            return 2 * self.x

    return Model


@pytest.mark.parametrize("slots", [False, True])
@pytest.mark.parametrize("frozen", [False, True])
def test_an_attrs_class(slots: bool, frozen: bool) -> None:
    cls = attrs_class(slots=slots, frozen=frozen)
    obj = cls(x3())
    with computations() as counts:
        same(obj.doubled, 2 * x3())
        same(obj.doubled, 2 * x3())
        same(jax.jit(lambda y: y + obj.doubled)(x3()), 3 * x3())
    assert counts == {"attrs": 1}
    new = attrs.evolve(obj, x=x3() + 1)
    same(new.doubled, 2 * (x3() + 1))
    if not frozen:
        obj.x = x3() + 2
        same(obj.doubled, 2 * (x3() + 2))
    assert cachax.is_cached(obj, "doubled")


def test_an_attrs_class_with_slots_leaks_no_tracer() -> None:
    cls = attrs_class(slots=True)

    @jax.jit
    def fun(x: Any) -> Any:
        made.append(cls(x))
        return made[-1].doubled

    made: list[Any] = []
    obj = cls(x3())
    same(jax.vmap(lambda y: y * obj.doubled)(jnp.ones(2))[0], 2 * x3())
    same(obj.doubled, 2 * x3())
    same(fun(x3()), 2 * x3())


# Kept too long


def test_a_cached_function_that_returns_its_argument_keeps_nothing() -> None:
    @cachax.cache
    def same_array(x: Any) -> Any:
        return x

    @cachax.cache
    def packed(x: Any, n: int) -> Any:
        return {"x": x, "n": n, "twice": 2 * x}

    @cachax.cache
    def of_object(box: Any) -> Any:
        return box, box.x

    watched = []
    for n in range(20):
        x, box = x3() + n, Box(x3() + n)
        same(same_array(x), x)
        same(packed(x, n)["x"], x)
        same(of_object(box)[1], box.x)
        watched += [weakref.ref(x), weakref.ref(box), weakref.ref(box.x)]
    del x, box
    gc.collect()
    assert [ref() for ref in watched] == [None] * len(watched)


class Token:
    def __init__(self, n: int) -> None:
        self.n = n


@pytree
class Tokens:
    x: Any

    @cachax.cached_property
    def token(self) -> Any:
        return Token(3)

    @cachax.cached_method
    def with_token(self, token: Any) -> Any:
        return self.x * token.n


def test_static_objects_in_values_go_with_their_objects() -> None:
    use = cachax.jit(lambda o: o.x * o.token.n)
    watched = []
    for n in range(12):
        obj = Tokens(x3() + n)
        same(use(obj), 3 * (x3() + n))
        watched.append(weakref.ref(obj.token))
    del obj
    gc.collect()
    assert [ref() for ref in watched] == [None] * 12


def test_arguments_of_a_method_go_with_their_object() -> None:
    watched = []
    for n in range(20):
        obj, token = Tokens(x3()), Token(n)
        same(obj.with_token(token), x3() * n)
        watched += [weakref.ref(token), weakref.ref(obj), weakref.ref(obj.x)]
    del obj, token
    gc.collect()
    assert [ref() for ref in watched] == [None] * len(watched)


def test_arguments_of_a_method_go_when_its_values_are_cleared() -> None:
    obj, token = Tokens(x3()), Token(2)
    same(obj.with_token(token), 2 * x3())
    watched = weakref.ref(token)
    del token
    cachax.clear(obj, "with_token")
    gc.collect()
    assert watched() is None


# Computed too often


def test_replace_is_known_after_many_new_objects() -> None:
    use = cachax.jit(lambda o: jnp.sum(o.doubled) + o.n)
    for n in range(12):
        use(Box(x3() + n, jnp.zeros(())))
    one = Box(x3(), jnp.zeros(()))
    with computations() as counts:
        use(one)
        for n in range(12):
            same(use(replace(one, n=jnp.zeros(()) + n)), np.float32(14 + n))
    assert counts == {"doubled": 1}


def made(x: Any) -> Any:
    """Of arrays only; it reads a property for long arrays alone."""
    box = Box(x, jnp.zeros(()))
    return (box.doubled[0], box) if len(x) > 3 else (x[0], box)


def test_a_function_of_arrays_returns_values_when_a_later_shape_reads_them() -> None:
    fun = cachax.jit(made)
    fun(jnp.ones(2))
    with computations() as counts:
        for _ in range(3):
            _, box = fun(jnp.arange(5.0))
            same(box.doubled, 2 * jnp.arange(5.0))
    assert counts == {"doubled": 3}


def test_a_second_jit_of_a_function_of_arrays_returns_values_too() -> None:
    for _ in range(2):
        fun = cachax.jit(made)
        with computations() as counts:
            _, box = fun(jnp.arange(5.0))
            same(box.doubled, 2 * jnp.arange(5.0))
        assert counts == {"doubled": 1}


def test_static_values_do_not_need_a_program_for_each_object() -> None:
    """The value is the same number, on objects that come and go."""
    use = cachax.jit(lambda o: jnp.zeros(o.n) + o.x[0])
    use(Counted(jnp.ones(2)))
    with compilations() as compiled:
        for n in range(30):
            use(Counted(jnp.ones(2) * n))
    assert len(compiled) <= 2  # of the multiplication, and one to compute inside


def test_an_argument_that_the_function_makes_unusable() -> None:
    """The state of equinox raises when it is flattened after it was updated."""

    class Net(eqx.Module):
        count: eqx.nn.StateIndex
        w: jax.Array

        def __init__(self) -> None:
            self.count = eqx.nn.StateIndex(jnp.array(0))
            self.w = jnp.ones(2)

        @cachax.cached_property
        def total(self) -> Any:
            return jnp.sum(self.w)

        def __call__(self, x: Any, state: Any) -> Any:
            state = state.set(self.count, state.get(self.count) + 1)
            return x * self.total, state

    for jit in (cachax.jit, cachax.lift(eqx.filter_jit)):
        net, state = eqx.nn.make_with_state(Net)()
        step = jit(lambda net, state, x: net(x, state))
        for _ in range(3):
            y, state = step(net, state, 2.0)
        assert y == 4
        assert state.get(net.count) == 3


@pytest.mark.skipif(not NNX_IS_PYTREE, reason="nnx modules are not pytrees")
def test_an_operation_on_a_parameter_before_a_value_is_read() -> None:
    """The note of a trace that an nnx object has leads to all that was traced."""

    class Regression(nnx.Module):
        def __init__(self) -> None:
            self.inputs = nnx.Variable(jnp.linspace(0.0, 1.0, 5))
            self.weights = nnx.Param(jnp.zeros(5))

        @cachax.cached_property
        def features(self) -> Any:
            computing("features")
            return jnp.sin(self.inputs[...])

    def loss(model: Any) -> Any:
        penalty = jnp.sum(model.weights[...] ** 2)
        return penalty + jnp.sum(model.features * model.weights[...])

    @cachax.jit
    def step(model: Any) -> Any:
        grads = nnx.grad(loss)(model)
        model.weights[...] -= 0.1 * grads.weights[...]
        return model

    model = Regression()
    with computations() as counts:
        for _ in range(4):
            model = step(model)
    assert counts == {"features": 1}


def test_a_jitted_body_of_an_object_with_a_static_table() -> None:
    class Table:
        def __init__(self, k: Any) -> None:
            self.k = k

    @functools.partial(
        jax.tree_util.register_dataclass, data_fields=["x"], meta_fields=["table"]
    )
    @dataclass(frozen=True, eq=False)
    class Part:
        x: jax.Array
        table: Table

        @cachax.cached_property
        def total(self) -> Any:
            return jnp.sum(self.x) + jnp.sum(self.table.k)

    @jax.tree_util.register_dataclass
    @dataclass(frozen=True, eq=False)
    class Wrap:
        part: Part

        @cachax.cached_property
        def total(self) -> Any:
            return self.part.total

    @jax.tree_util.register_dataclass
    @dataclass(frozen=True, eq=False)
    class Model:
        part: Part

        @cachax.cached_property
        @jax.jit
        def total(self) -> Any:
            return Wrap(self.part).total

    table = Table(jnp.ones(2))
    for jit in (jax.jit, cachax.jit):
        assert jit(lambda x: Model(Part(x, table)).total)(jnp.ones(2)) == 4
