"""Programs that a cache keyed by arrays can get wrong: values, and how often computed.

Every value is compared with the same property without a cache, read eagerly and
inside jit; the body counts its own executions with callbacks that really run.
"""

import gc
import re
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cachax
from cachax.lab import compilations, computations, computing

from devices import first_devices

if hasattr(jax, "enable_x64"):
    enable_x64 = jax.enable_x64
else:  # JAX before 0.8
    from jax.experimental import enable_x64


def static(**kwargs: Any) -> Any:
    return field(metadata={"static": True}, **kwargs)


def pytree(cls: type) -> Any:
    return jax.tree_util.register_dataclass(dataclass(frozen=True)(cls))


class Plain:
    """`p` is `plain()`, cached, and counts its executions as "p"."""

    def plain(self) -> Any:
        raise NotImplementedError

    @cachax.cached_property
    def p(self) -> Any:
        computing("p")
        return self.plain()


def same(got: Any, expected: Any) -> None:
    """The same tree, dtypes and bits; up to rounding for floats."""
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    for x, y in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        assert jnp.result_type(x) == jnp.result_type(y)
        np.testing.assert_allclose(x, y, rtol=2e-6)
        if not jnp.iscomplexobj(y):
            np.testing.assert_array_equal(np.signbit(x), np.signbit(y))


def read_eagerly(obj: Any) -> Any:
    return obj.p


def reader() -> Callable[[Any], Any]:
    """A separate jitted function for each test."""
    return cachax.jit(lambda obj: obj.p)


@pytest.fixture(params=["eager", "jit"])
def read(request: pytest.FixtureRequest) -> Callable[[Any], Any]:
    return read_eagerly if request.param == "eager" else reader()


def x3() -> jax.Array:
    return jnp.array([1.0, 2.0, 4.0])


# What a value depends on.


@pytree
class Sizes(Plain):
    x: Any
    y: Any

    def plain(self) -> Any:
        return jnp.sum(self.x) + 100 * len(self.y)


def test_the_shape_of_an_array_that_is_not_used_counts(read: Any) -> None:
    x = x3()
    objects = [Sizes(x, jnp.ones(3)), Sizes(x, jnp.ones(5)), Sizes(x, jnp.zeros(3))]
    with computations() as counts:
        for obj in objects * 2:
            same(read(obj), obj.plain())
    assert counts == {"p": 2}  # the third has the first one's x and shapes


@pytree
class Kinds(Plain):
    x: Any
    y: Any

    def plain(self) -> Any:
        kinds = {jnp.dtype("float32"): 1.0, jnp.dtype("int32"): 2.0}
        return jnp.sum(self.x) * kinds[jnp.dtype(self.y.dtype)]


def test_the_dtype_of_an_array_that_is_not_used_counts(read: Any) -> None:
    x = x3()
    objects = [Kinds(x, jnp.ones(3)), Kinds(x, jnp.ones(3, dtype=jnp.int32))]
    with computations() as counts:
        for obj in objects * 2:
            same(read(obj), obj.plain())
    assert counts == {"p": 2}


@pytree
class Promoted(Plain):
    x: Any
    y: Any

    def plain(self) -> Any:
        return jnp.sum(self.x) * jnp.zeros_like(self.y)


def test_the_weak_type_of_an_array_that_is_not_used_counts(read: Any) -> None:
    x = x3()
    weak, strong = jnp.asarray(1.0), jnp.ones((), dtype=jnp.float32)
    assert weak.weak_type
    assert not strong.weak_type
    half = jnp.ones((), dtype=jnp.bfloat16)
    for y in [weak, strong, weak]:
        obj = Promoted(jnp.asarray(x, dtype=jnp.bfloat16), y)
        same(read(obj) * half, obj.plain() * half)
        assert read(obj).weak_type == obj.plain().weak_type


@pytree
class Two(Plain):
    a: Any
    b: Any

    def plain(self) -> Any:
        return jnp.sum(self.a) + 10 * jnp.sum(self.b)


@pytree
class First(Plain):
    a: Any
    b: Any

    def plain(self) -> Any:
        return 2 * self.a


def test_one_array_in_two_fields_gives_the_value_of_both(read: Any) -> None:
    x, y = x3(), x3() + 1
    objects = [Two(x, x), Two(x, y), Two(y, x), Two(y, y)]
    with computations() as counts:
        for obj in objects * 2:
            same(read(obj), obj.plain())
    assert counts == {"p": 4}


def test_one_array_in_two_fields_is_used_where_the_body_used_it(read: Any) -> None:
    x, y = x3(), x3() + 1
    first = First(x, x)
    with computations() as counts:
        same(read(first), first.plain())
        other_b = replace(first, b=y)
        same(read(other_b), other_b.plain())
    assert counts == {"p": 1}
    with computations() as counts:
        other_a = replace(first, a=y)
        same(read(other_a), other_a.plain())
    assert counts == {"p": 1}


def test_two_arrays_after_one_array_in_two_fields(read: Any) -> None:
    x, y = x3(), x3() + 1
    read(First(x, x))
    with computations() as counts:
        for obj in [First(y, x), First(y, y), First(x, y)]:
            same(read(obj), obj.plain())
    assert counts == {"p": 1}


@pytree
class ByNumber(Plain):
    n: Any
    x: Any
    y: Any

    def plain(self) -> Any:
        return jnp.sum(self.x) if self.n else -jnp.sum(self.y)


def test_what_is_used_depends_on_a_python_number(read: Any) -> None:
    x, y, x2, y2 = x3(), x3() + 1, x3() + 2, x3() + 3
    with computations() as counts:
        for n in [1, 0, 1, 0]:
            obj = ByNumber(n, x, y)
            same(read(obj), obj.plain())
    assert counts == {"p": 2}
    with computations() as counts:
        for obj in [ByNumber(1, x, y2), ByNumber(0, x2, y)]:
            same(read(obj), obj.plain())
    assert not counts
    with computations() as counts:
        for obj in [ByNumber(1, x2, y), ByNumber(0, x, y2)]:
            same(read(obj), obj.plain())
    assert counts == {"p": 2}


@pytree
class ByShape(Plain):
    x: Any
    y: Any

    def plain(self) -> Any:
        return jnp.sum(self.x) if len(self.x) < 5 else -jnp.sum(self.y)


def test_what_is_used_depends_on_a_shape(read: Any) -> None:
    short, long, y, y2 = x3(), jnp.arange(6.0), x3() + 1, x3() + 2
    with computations() as counts:
        for obj in [ByShape(short, y), ByShape(long, y), ByShape(short, y2)]:
            same(read(obj), obj.plain())
    assert counts == {"p": 2}
    with computations() as counts:
        obj = ByShape(long, y2)
        same(read(obj), obj.plain())
        obj = ByShape(long + 1, y)  # x is not used, and has the same aval
        same(read(obj), obj.plain())
    assert counts == {"p": 1}


@pytree
class Chain(Plain):
    x: Any
    y: Any
    z: Any

    @cachax.cached_property
    def inner(self) -> Any:
        computing("inner")
        return jnp.sum(self.x)

    def plain(self) -> Any:
        return self.inner + jnp.sum(self.y)


def test_a_property_uses_the_fields_of_the_properties_it_reads(read: Any) -> None:
    one = Chain(x3(), x3() + 1, x3() + 2)
    cases = [
        (one, {"p": 1, "inner": 1}),
        (replace(one, z=one.z + 1), {}),
        (replace(one, y=one.y + 1), {"p": 1}),
        (replace(one, x=one.x + 1), {"p": 1, "inner": 1}),
    ]
    for obj, expected in cases:
        with computations() as counts:
            same(read(obj), jnp.sum(obj.x) + jnp.sum(obj.y))
        assert counts == expected


# Values that contain what they came from.


@pytree
class Own(Plain):
    x: Any
    y: Any

    def plain(self) -> Any:
        return {"own": self.x, "twice": 2 * self.x}


@pytree
class Itself(Plain):
    x: Any

    def plain(self) -> Any:
        return self.x


@pytree
class Around(Plain):
    x: Any

    def plain(self) -> Any:
        return (self, 2 * self.x)


@pytree
class OwnButUnused(Plain):
    x: Any
    y: Any

    def plain(self) -> Any:
        return (2 * self.x, self.y)


@pytest.mark.parametrize("cls", [Own, Itself, Around, OwnButUnused])
def test_a_value_with_an_own_array_goes_with_its_object(cls: Any, read: Any) -> None:
    obj = cls(x3()) if cls in (Itself, Around) else cls(x3(), x3())
    read(obj)
    watched = [weakref.ref(leaf) for leaf in jax.tree.leaves(obj)]
    watched += [weakref.ref(leaf) for leaf in jax.tree.leaves(obj.p)]
    watched.append(weakref.ref(obj))
    del obj
    gc.collect()
    assert [ref() for ref in watched] == [None] * len(watched)


def test_a_value_with_an_own_array_is_that_of_its_object(
    read: Any,
) -> None:
    one = Own(x3(), x3() + 1)
    read(one)
    for obj in [one, replace(one, y=one.y + 1), replace(one, x=one.x + 5)]:
        same(read(obj), obj.plain())
        assert obj.p["own"] is obj.x
    unused = OwnButUnused(x3(), x3() + 1)
    read(unused)
    for obj in [unused, replace(unused, y=unused.y + 1)]:
        same(read(obj), obj.plain())
        assert obj.p[1] is obj.y


def test_a_value_with_an_own_array_does_not_keep_the_first_object_s_array() -> None:
    """Rebuilt from the same x, which the value is a function of; y may go."""
    obj = OwnButUnused(x3(), x3() + 1)
    assert obj.p[1] is obj.y
    watched = weakref.ref(obj.y)
    obj = replace(obj, y=obj.y + 1)
    gc.collect()
    assert watched() is None
    same(obj.p, obj.plain())


def test_a_loop_over_a_value_with_an_own_array_keeps_one_set_of_arrays() -> None:
    step = cachax.jit(lambda s: replace(s, y=s.y + s.p["own"] + s.p["twice"]))
    obj = step(Own(x3(), jnp.zeros(3)))
    with computations() as counts:
        obj = step(step(obj))
    assert not counts
    gc.collect()
    before = len(jax.live_arrays())
    for _ in range(20):
        obj = step(obj)
    gc.collect()
    assert len(jax.live_arrays()) <= before
    same(obj.y, 23 * 3 * x3())


@jax.tree_util.register_pytree_node_class
class Hidden:
    """A pytree with an array where jit looks for static data."""

    def __init__(self, shown: Any, hidden: Any) -> None:
        self.shown, self.hidden = shown, hidden

    def tree_flatten(self) -> Any:
        return (self.shown,), self.hidden

    @classmethod
    def tree_unflatten(cls, hidden: Any, children: Any) -> Any:
        return cls(*children, hidden)


class Opaque:
    """Not a pytree, with arrays in it."""

    def __init__(self, shown: Any, hidden: Any) -> None:
        self.shown, self.hidden = shown, hidden


@pytree
class WithAux(Plain):
    x: Any
    y: Any
    z: Any

    def plain(self) -> Any:
        return Hidden(2 * self.x, 3 * self.y)


@pytree
class WithOpaque(Plain):
    x: Any
    y: Any
    z: Any

    def plain(self) -> Any:
        return Opaque(2 * self.x, 3 * self.y)


@pytest.mark.usefixtures("no_leaks")
@pytest.mark.parametrize("cls", [WithAux, WithOpaque])
def test_an_array_that_jax_cannot_see_in_a_value_is_correct(cls: Any) -> None:
    """And concrete: the first computation is traced, and leaves no tracer in it."""
    one = cls(x3(), x3() + 1, x3() + 2)
    for obj in [one, replace(one, y=one.y + 1), replace(one, x=one.x + 1), one]:
        expected = obj.plain()
        same(obj.p.shown, expected.shown)
        same(obj.p.hidden, expected.hidden)
        assert not isinstance(obj.p.hidden, jax.core.Tracer)


@pytest.mark.parametrize("cls", [WithAux, WithOpaque])
def test_a_value_that_jax_cannot_see_into_goes_with_its_object(cls: Any) -> None:
    obj = cls(x3(), x3() + 1, x3() + 2)
    watched = [weakref.ref(obj.x), weakref.ref(obj.p.shown), weakref.ref(obj.p.hidden)]
    del obj
    gc.collect()
    assert [ref() for ref in watched] == [None] * 3


# Static parts.


@pytree
class Scaled(Plain):
    x: Any
    by: Any = static()

    def plain(self) -> Any:
        return jnp.asarray(self.by) * jnp.ones_like(self.x, shape=(), dtype=jnp.int8)


@pytest.mark.parametrize(
    "numbers",
    [(2, 2.0), (2.0, 2), (1, True), (True, 1), (2, 2 + 0j), (np.float32(2), 2.0)],
    ids=repr,
)
def test_equal_numbers_of_different_types_have_their_own_values(
    numbers: Any, read: Any
) -> None:
    x = x3()
    for by in numbers * 2:
        obj = Scaled(x, by)
        same(read(obj), obj.plain())


@pytree
class Signed(Plain):
    x: Any
    by: Any = static()

    def plain(self) -> Any:
        signs = [np.copysign(1.0, by) for by in jax.tree.leaves(self.by)]
        return jnp.sum(self.x) * float(signs[0])


@pytest.mark.parametrize("pack", [lambda z: z, lambda z: (z,)], ids=["number", "tuple"])
@pytest.mark.parametrize("zeros", [(0.0, -0.0), (-0.0, 0.0)], ids=repr)
def test_zero_and_minus_zero_have_their_own_values(
    zeros: Any, pack: Any, read: Any
) -> None:
    x = x3()
    for zero in zeros * 2:
        obj = Signed(x, pack(zero))
        same(read(obj), obj.plain())


@pytree
class SignedLeaf(Plain):
    x: Any
    by: Any

    def plain(self) -> Any:
        return jnp.sum(self.x) * float(np.copysign(1.0, self.by))


def test_zero_and_minus_zero_differ_as_leaves(read: Any) -> None:
    x = x3()
    for zero in [0.0, -0.0, 0.0, -0.0]:
        obj = SignedLeaf(x, zero)
        same(read(obj), obj.plain())


@pytree
class LeafScaled(Plain):
    x: Any
    by: Any

    def plain(self) -> Any:
        return jnp.asarray(self.by) * jnp.ones_like(self.x, shape=(), dtype=jnp.int8)


def test_equal_numbers_of_different_types_differ_as_leaves(read: Any) -> None:
    x = x3()
    for by in [2, 2.0, True, 1, 2, 2.0]:
        obj = LeafScaled(x, by)
        same(read(obj), obj.plain())


@pytree
class Powers(Plain):
    x: Any
    n: int = static()

    def plain(self) -> Any:
        return self.x * self.n


def test_few_of_many_static_variants_are_kept_for_the_same_arrays() -> None:
    x = x3()
    kept = []
    for n in range(100):
        obj = Powers(x, n)
        same(obj.p, obj.plain())
        kept.append(weakref.ref(obj.p))
    del obj
    gc.collect()
    assert sum(ref() is not None for ref in kept) <= 4


def test_few_of_many_static_variants_are_kept_by_a_jitted_function() -> None:
    x, use = x3(), cachax.jit(lambda o: jnp.sum(o.p))
    for n in range(4):
        use(Powers(x, 1000 + n))
    gc.collect()
    before = len(jax.live_arrays())
    for n in range(25):
        same(use(Powers(x, n)), jnp.sum(x * n))
    gc.collect()
    assert len(jax.live_arrays()) <= before


def test_two_static_variants_of_the_same_arrays_are_both_kept(read: Any) -> None:
    x = x3()
    with computations() as counts:
        for _ in range(3):
            for n in [2, 3]:
                same(read(Powers(x, n)), x * n)
    assert counts == {"p": 2}


class Token:
    """A static part that is compared by identity and can be watched."""


@pytree
class Tokened(Plain):
    x: Any
    token: Any = static()

    def plain(self) -> Any:
        return self.x * 2


def test_an_eager_read_keeps_no_static_part_alive() -> None:
    x = x3()
    watched = []
    for _ in range(10):
        obj = Tokened(x, Token())
        watched.append(weakref.ref(obj.token))
        same(obj.p, 2 * x)
    del obj
    gc.collect()
    assert sum(ref() is not None for ref in watched) <= 2  # as many as are variants
    del x
    gc.collect()
    assert [ref() for ref in watched] == [None] * 10


class Unlike:
    """Compared by identity, as objects are."""

    def __init__(self, n: int) -> None:
        self.n = n


@pytree
class OfPart(Plain):
    x: Any
    part: Any = static()

    def plain(self) -> Any:
        return self.x * self.part.n


def test_static_parts_that_are_not_equal_are_distinguished_when_ids_are_reused() -> (
    None
):
    """Each one dies before the next is made, often at the same address."""
    x, read = x3(), reader()
    for n in range(30):
        obj = OfPart(x, Unlike(n))
        same(obj.p, x * n)
        if n < 5:
            same(read(obj), x * n)


def test_static_parts_compared_by_identity_are_equal_to_themselves(read: Any) -> None:
    x, part = x3(), Unlike(3)
    with computations() as counts:
        for obj in [OfPart(x, part), OfPart(x, part)]:
            same(read(obj), x * 3)
    assert counts == {"p": 1}


# Settings of JAX that change what a body returns.


@pytree
class Wide(Plain):
    x: Any

    def plain(self) -> Any:
        return jnp.sum(self.x) * jnp.linspace(0.0, 1.0, 3)


def test_x64_is_part_of_the_key(read: Any) -> None:
    obj = Wide(x3())
    with computations() as counts:
        for _ in range(2):
            same(read(obj), obj.plain())
            with enable_x64(True):
                same(read(obj), obj.plain())
                assert read(obj).dtype == jnp.float64
    assert counts == {"p": 2}


@pytree
class Product(Plain):
    x: Any

    def plain(self) -> Any:
        return jnp.outer(self.x, self.x) @ self.x


def test_matmul_precision_is_part_of_the_key(read: Any) -> None:
    obj = Product(x3())
    with computations() as counts:
        for _ in range(2):
            same(read(obj), obj.plain())
            with jax.default_matmul_precision("highest"):
                same(read(obj), obj.plain())
    assert counts == {"p": 2}


@pytree
class Mixed(Plain):
    x: Any
    n: Any

    def plain(self) -> Any:
        return self.x + self.n


def test_dtype_promotion_is_part_of_the_key(read: Any) -> None:
    obj = Mixed(x3(), jnp.arange(3))
    same(read(obj), obj.plain())
    with jax.numpy_dtype_promotion("strict"):
        with pytest.raises(Exception, match=r"[Pp]romotion"):
            obj.plain()
        with pytest.raises(Exception, match=r"[Pp]romotion"):
            read(obj)
    with computations() as counts:
        same(read(obj), obj.plain())
    assert not counts


@pytree
class Random(Plain):
    x: Any
    seed: int = static()

    def plain(self) -> Any:
        return jnp.sum(self.x) * jax.random.PRNGKey(self.seed)


def test_the_prng_implementation_is_part_of_the_key() -> None:
    """Not inside `jit`: `jax.jit` doesn't trace again for it either."""
    obj, read = Random(x3(), 7), lambda o: o.p
    with computations() as counts:
        for _ in range(2):
            same(read(obj), obj.plain())
            with jax.default_prng_impl("rbg"):
                assert obj.plain().shape == (4,)
                same(read(obj), obj.plain())
    assert counts == {"p": 2}


# Named axes.


@pytree
class Counted(Plain):
    x: Any

    def plain(self) -> Any:
        return jnp.sum(self.x) * jax.lax.psum(1, "i")


@pytree
class Summed(Plain):
    x: Any

    def plain(self) -> Any:
        return jax.lax.psum(self.x, "i")


def over_axis(transform: Any, n: int, in_axes: Any = None) -> Any:
    """Reads `p` inside `vmap` over an axis "i" of size n."""
    return transform(
        lambda o, _: o.p, in_axes=(in_axes, 0), axis_name="i", out_axes=0
    ), jnp.zeros(n)


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit, cachax.jit])
@pytest.mark.parametrize("vmap", [jax.vmap, cachax.vmap])
@pytest.mark.parametrize("cls", [Counted, Summed])
def test_a_value_over_a_named_axis_is_that_of_this_axis(
    cls: Any, vmap: Any, wrap: Any
) -> None:
    obj = cls(x3())
    for n in [2, 5, 2]:
        fun, over = over_axis(vmap, n)
        expected = jax.vmap(
            lambda o, _: o.plain(), in_axes=(None, 0), axis_name="i", axis_size=n
        )(obj, over)
        same(wrap(fun)(obj, over), expected)
        same(wrap(fun)(obj, over), expected)


@pytest.mark.parametrize("cls", [Counted, Summed])
def test_a_value_over_a_named_axis_is_not_kept_beyond_it(cls: Any) -> None:
    obj = cls(x3())
    fun, over = over_axis(jax.vmap, 3)
    fun(obj, over)
    assert not cachax.is_cached(obj, "p")
    with pytest.raises(NameError, match="unbound axis name"):
        _ = obj.p


def test_a_mapped_object_sums_over_its_own_axis() -> None:
    batch = jnp.arange(6.0).reshape(3, 2)
    for xs in [batch, batch + 1, batch[:2]]:
        fun, over = over_axis(jax.vmap, len(xs), in_axes=0)
        summed = np.broadcast_to(np.sum(xs, 0), xs.shape)
        same(fun(Summed(xs), over), summed)
        same(cachax.jit(fun)(Summed(xs), over), summed)


@pytree
class CountedInside(Plain):
    x: Any
    n: int = static()

    def plain(self) -> Any:
        def of_one(z: Any) -> Any:
            return z * jax.lax.psum(1, "i") + jax.lax.psum(z, "i")

        return jax.vmap(of_one, axis_name="i")(self.x * self.n)


def test_a_body_that_binds_its_axis_itself_is_kept(read: Any) -> None:
    obj = CountedInside(x3(), 2)
    with computations() as counts:
        same(read(obj), obj.plain())
        same(read(obj), obj.plain())
    assert counts == {"p": 1}


# Bodies that cannot be traced, and bodies that fail.


STARTS: list[str] = []


@pytree
class Hides(Plain):
    """Like much of SciPy: whatever goes wrong with the input is a ValueError."""

    x: Any
    y: Any

    def plain(self) -> Any:
        STARTS.append("p")
        try:
            host = np.asarray(self.x)
        except Exception:
            raise ValueError("x must be an array of numbers") from None
        return jnp.asarray(np.sort(host)[::-1].copy())


def test_a_body_that_hides_jax_s_error_runs_eagerly(read: Any) -> None:
    one = Hides(x3(), x3())
    with computations() as counts:
        same(read(one), jnp.array([4.0, 2.0, 1.0]))
        same(read(one), jnp.array([4.0, 2.0, 1.0]))
    assert counts == {"p": 1}
    assert cachax.is_cached(one, "p")


def test_a_body_that_cannot_be_traced_starts_twice_at_most_for_the_first() -> None:
    @pytree
    class Local(Hides):
        pass

    STARTS.clear()
    _ = Local(x3(), x3()).p
    assert len(STARTS) <= 2
    STARTS.clear()
    for i in range(5):
        _ = Local(x3() + i, x3()).p
    assert len(STARTS) == 5


def test_a_body_that_cannot_be_traced_uses_every_array(read: Any) -> None:
    one = Hides(x3(), x3())
    read(one)
    for obj in [replace(one, x=one.x + 1), replace(one, y=one.y + 1)]:
        same(read(obj), jnp.sort(obj.x)[::-1])


@pytree
class Refuses(Plain):
    x: Any

    def plain(self) -> Any:
        computing("refuses")
        if float(self.x[0]) > 0:
            raise ArithmeticError(f"x[0] is {float(self.x[0])}")
        return self.x


def test_the_error_of_a_body_is_that_of_its_eager_run(read: Any) -> None:
    obj = Refuses(x3())
    for _ in range(2):
        with pytest.raises(ArithmeticError, match=re.escape("x[0] is 1.0")):
            read(obj)
    assert not cachax.is_cached(obj, "p")
    good = Refuses(-x3())
    same(read(good), -x3())


class Condition:
    good = False


@pytree
class Fails(Plain):
    x: Any

    def plain(self) -> Any:
        if not Condition.good:
            raise KeyError("not yet")
        return 2 * self.x


def test_a_body_that_failed_is_tried_again(
    read: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    obj = Fails(x3())
    with pytest.raises(KeyError, match="not yet"):
        read(obj)
    monkeypatch.setattr(Condition, "good", True)
    with computations() as counts:
        same(read(obj), 2 * x3())
        same(read(obj), 2 * x3())
    assert counts == {"p": 1}


# Values that belong to one object.


@dataclass
class Open(Plain):
    """Not frozen: a value can be assigned."""

    x: Any
    y: Any

    @cachax.cached_property
    def q(self) -> Any:
        computing("q")
        return 5 * self.y

    def plain(self) -> Any:
        return 2 * self.x


jax.tree_util.register_dataclass(Open, ["x", "y"], [])

GIVEN = np.array([-1.0, -2.0, -3.0], dtype=np.float32)


def by_preset(obj: Any) -> Any:
    return cachax.preset(obj, p=jnp.asarray(GIVEN))


def by_assignment(obj: Any) -> Any:
    new = replace(obj)
    new.p = jnp.asarray(GIVEN)
    return new


def by_dict(obj: Any) -> Any:
    new = replace(obj)
    vars(new)["p"] = jnp.asarray(GIVEN)
    return new


supplied = pytest.mark.parametrize("supply", [by_preset, by_assignment, by_dict])


@supplied
@pytest.mark.parametrize("order", ["plain first", "supplied first"])
def test_a_supplied_value_is_read_on_its_object_only(
    order: str, supply: Any, read: Any
) -> None:
    """Although an object without one has the same arrays and the same program."""
    obj = Open(x3(), x3() + 1)
    given = supply(obj)
    cases = [(obj, 2 * x3()), (given, GIVEN), (replace(obj), 2 * x3())]
    if order == "supplied first":
        cases.reverse()
        cases = [cases[1], cases[0], cases[2]]
    for one, expected in cases * 2:
        same(read(one), expected)
    for one, expected in cases:
        same(one.p, expected)


@supplied
def test_a_supplied_value_is_gone_after_replace(supply: Any, read: Any) -> None:
    given = supply(Open(x3(), x3() + 1))
    same(read(given), GIVEN)
    new = replace(given, x=given.x + 1)
    same(read(new), 2 * x3() + 2)


@supplied
def test_a_supplied_value_can_be_cleared(supply: Any, read: Any) -> None:
    given = supply(Open(x3(), x3() + 1))
    same(read(given), GIVEN)
    cachax.clear(given, "p")
    vars(given).pop("p", None)
    with computations() as counts:
        same(read(given), 2 * x3())
        same(given.p, 2 * x3())
    assert counts == {"p": 1}


@supplied
def test_what_is_computed_beside_a_supplied_value_is_kept(supply: Any) -> None:
    obj = Open(x3(), x3() + 1)
    use = cachax.jit(lambda o: o.p + o.q)
    with computations() as counts:
        same(use(obj), 2 * x3() + 5 * (x3() + 1))
        given = supply(obj)
        same(use(given), GIVEN + 5 * (x3() + 1))
        same(given.q, 5 * (x3() + 1))
    assert counts == {"p": 1, "q": 1}


def test_a_preset_copy_survives_the_donation_of_the_original() -> None:
    obj = Open(x3(), x3() + 1)
    given = by_preset(obj)
    step = cachax.jit(lambda o: Open(o.x + o.p, o.y + 1), donate_argnums=0)
    new = step(obj)
    same(new.x, 3 * x3())
    same(given.p, GIVEN)
    assert any(not leaf.is_deleted() for leaf in jax.tree.leaves(given))


@jax.tree_util.register_pytree_node_class
class FlattenReads(Plain):
    """Its cached value is one of its leaves, as in torax."""

    def __init__(self, x: Any) -> None:
        self.x = x

    def plain(self) -> Any:
        return 2 * self.x

    def tree_flatten(self) -> Any:
        return (self.x, self.p), None

    @classmethod
    def tree_unflatten(cls, _: Any, children: Any) -> Any:
        obj = object.__new__(cls)
        obj.x = children[0]
        vars(obj)["p"] = children[1]
        return obj


def test_a_flatten_that_reads_the_property_does_not_recurse(read: Any) -> None:
    obj = FlattenReads(x3())
    with computations() as counts:
        same(read(obj), 2 * x3())
        same(obj.p, 2 * x3())
        assert len(jax.tree.leaves(obj)) == 2
        same(read(obj), 2 * x3())
    assert counts == {"p": 1}


def test_an_object_whose_flatten_reads_the_property_comes_out_correct() -> None:
    step = cachax.jit(lambda o: FlattenReads(o.x + o.p))
    obj = FlattenReads(x3())
    for _ in range(3):
        obj = step(obj)
    same(obj.x, 27 * x3())
    same(obj.p, 54 * x3())


@jax.tree_util.register_pytree_node_class
class FlattenSizes(Plain):
    """A cached property in its static data."""

    def __init__(self, x: Any) -> None:
        self.x = x

    @cachax.cached_property
    def size(self) -> int:
        return len(self.x)

    def plain(self) -> Any:
        return self.x * self.size

    def tree_flatten(self) -> Any:
        return (self.x,), self.size

    @classmethod
    def tree_unflatten(cls, size: int, children: Any) -> Any:
        return cls(*children)


def test_a_flatten_with_the_property_in_static_data_does_not_recurse(read: Any) -> None:
    for x in [x3(), jnp.ones(5), x3()]:
        obj = FlattenSizes(x)
        with computations() as counts:
            same(read(obj), x * len(x))
            same(read(obj), x * len(x))
        assert counts == {"p": 1}


@jax.tree_util.register_pytree_node_class
class Drops(Plain):
    """Flattened to x alone; y is gone when it is rebuilt."""

    def __init__(self, x: Any, y: Any = None) -> None:
        self.x, self.y = x, y

    def plain(self) -> Any:
        return self.x if self.y is None else self.x + self.y

    def tree_flatten(self) -> Any:
        return (self.x,), None

    @classmethod
    def tree_unflatten(cls, _: Any, children: Any) -> Any:
        return cls(*children)


def test_a_field_that_flatten_drops_counts() -> None:
    x = x3()
    objects = [Drops(x, 1.0), Drops(x, 2.0), Drops(x), Drops(x, x3() + 3)]
    with computations() as counts:
        for obj in objects * 2:
            same(obj.p, obj.plain())
    assert counts == {"p": 4}


def test_a_rebuilt_object_without_the_dropped_field_has_its_own_value() -> None:
    obj = Drops(x3(), 1.0)
    same(obj.p, x3() + 1)
    rebuilt = jax.tree.map(lambda leaf: leaf, obj)
    same(rebuilt.p, x3())
    same(obj.p, x3() + 1)


def test_objects_that_differ_in_a_dropped_field_share_no_value_in_jit() -> None:
    x, read = x3(), reader()
    objects = [Drops(x, 1.0), Drops(x, 2.0), Drops(x)]
    with computations() as counts:
        got = [read(obj) for obj in objects * 2]
        for obj, value in zip(objects * 2, got, strict=True):
            same(value, obj.p)
    assert counts == {"p": 3}


@jax.tree_util.register_pytree_node_class
class Creates(Plain):
    """Every flatten makes new arrays."""

    def __init__(self, items: Any) -> None:
        self.items = items

    def plain(self) -> Any:
        return jnp.sum(jnp.asarray(self.items))

    def tree_flatten(self) -> Any:
        return (jnp.asarray(self.items) * 1.0,), None

    @classmethod
    def tree_unflatten(cls, _: Any, children: Any) -> Any:
        return cls(*children)


def test_an_object_whose_flatten_creates_arrays_computes_once(read: Any) -> None:
    for items in [(1.0, 2.0), (3.0, 4.0), (1.0, 2.0)]:
        obj = Creates(items)
        with computations() as counts:
            for _ in range(3):
                same(read(obj), jnp.sum(jnp.asarray(items)))
            same(obj.p, jnp.sum(jnp.asarray(items)))
        assert counts == {"p": 1}


def test_an_object_whose_flatten_creates_arrays_sees_its_fields_change() -> None:
    obj, read = Creates((1.0, 2.0)), reader()
    for items in [(1.0, 2.0), (5.0, 6.0), (1.0, 2.0, 3.0)]:
        obj.items = items
        same(read(obj), jnp.sum(jnp.asarray(items)))
        same(obj.p, jnp.sum(jnp.asarray(items)))


def test_numpy_leaves_count_by_identity_and_their_values_go_with_them(
    read: Any,
) -> None:
    one, two = np.ones(3, dtype=np.float32), np.ones(3, dtype=np.float32)
    obj = First(one, x3())
    with computations() as counts:
        same(read(obj), 2 * jnp.asarray(one))
        same(read(obj), 2 * jnp.asarray(one))
    assert counts == {"p": 1}
    two[:] = 7
    same(read(replace(obj, a=two)), 2 * jnp.asarray(two))
    same(read(obj), 2 * jnp.asarray(one))
    watched = [weakref.ref(one), weakref.ref(obj)]
    del one, obj
    gc.collect()
    assert [ref() for ref in watched] == [None, None]


class NoTree(Plain):
    def __init__(self, x: Any) -> None:
        self.x = x

    def plain(self) -> Any:
        return 2 * self.x


@pytest.mark.parametrize("jit", [jax.jit, cachax.jit])
def test_a_class_that_is_not_a_pytree_computes_once_in_a_closure(jit: Any) -> None:
    obj = NoTree(x3())
    with computations() as counts:
        same(jit(lambda q: q * obj.p)(3.0), 6 * x3())
        same(jax.vmap(lambda q: q * obj.p)(jnp.ones(2)), jnp.stack([2 * x3()] * 2))
        same(obj.p, 2 * x3())
    assert counts == {"p": 1}


def test_a_class_that_is_not_a_pytree_is_freed_with_its_values() -> None:
    obj = NoTree(x3())
    same(obj.p, 2 * x3())
    old = weakref.ref(obj.p)
    obj.x = x3() + 1
    same(obj.p, 2 * x3() + 2)
    watched = [old, weakref.ref(obj), weakref.ref(obj.x), weakref.ref(obj.p)]
    del obj
    gc.collect()
    assert [ref() for ref in watched] == [None] * 4


def test_a_class_that_is_not_a_pytree_may_hold_a_tracer() -> None:
    @jax.jit
    def fun(x: Any) -> Any:
        holder = NoTree(x)
        return holder.p + holder.p

    same(fun(x3()), 4 * x3())
    same(jax.grad(lambda x: jnp.sum(NoTree(x).p))(x3()), 2 * jnp.ones(3))


# What a call of cachax.jit preserves of jax.jit.


@pytree
class Linear(Plain):
    """Its body has no callback, so that programs can be compared as text."""

    x: Any
    b: Any

    def plain(self) -> Any:
        return 2 * self.x

    @cachax.cached_property
    def quiet(self) -> Any:
        return 2 * self.x


def branches(model: Any, q: Any) -> Any:
    return model.quiet if q > 0 else model.x


def returns_text(model: Any, q: Any) -> Any:
    return model.quiet, "text"


def mismatched(model: Any, q: Any) -> Any:
    return model.quiet @ jnp.ones((5, 5)) + q


def adds(model: Any, q: Any) -> Any:
    return model.quiet + q


def on_device(n: int) -> jax.Array:
    return jax.device_put(jnp.ones(3), first_devices(n + 1)[n])


def deleted() -> jax.Array:
    x = jnp.ones(3) + 1
    x.delete()
    return x


def linear() -> Any:
    return Linear(x3(), jnp.ones(3))


ERRORS: dict[str, Any] = {
    "an if on a traced argument": (branches, {}, lambda: (linear(), 1.0)),
    "an if on a keyword argument": (branches, {}, lambda: ((linear(),), {"q": 1.0})),
    "a string as argument": (adds, {}, lambda: (linear(), "text")),
    "a string in a dict": (adds, {}, lambda: (linear(), {"k": ["text"]})),
    "a string in the object": (adds, {}, lambda: (Linear(x3(), "text"), 1.0)),
    "a missing argument": (adds, {}, lambda: (linear(),)),
    "too many arguments": (adds, {}, lambda: (linear(), 1.0, 2.0)),
    "an unknown keyword": (adds, {}, lambda: ((linear(), 1.0), {"r": 1.0})),
    "an integer that overflows": (adds, {}, lambda: (linear(), 2**70)),
    "a result that is not an array": (returns_text, {}, lambda: (linear(), 1.0)),
    "shapes that do not fit": (mismatched, {}, lambda: (linear(), 1.0)),
    "a static argument that is a list": (
        adds,
        {"static_argnums": 1},
        lambda: (linear(), [1]),
    ),
    "arguments on two devices": (
        adds,
        {},
        lambda: (Linear(on_device(0), jnp.ones(3)), on_device(1)),
    ),
    "an argument that was deleted": (adds, {}, lambda: (linear(), deleted())),
}


def message(jit: Any, case: str, *, warm: bool = False) -> tuple[type, str]:
    fun, options, make = ERRORS[case]
    made = make()
    args, kwargs = made if isinstance(made[-1], dict) and len(made) == 2 else (made, {})
    if case == "a string in a dict":
        args, kwargs = made, {}
    if warm:
        cachax.warm(args[0], "quiet")
    with pytest.raises(Exception) as caught:  # noqa: PT011 the words are compared
        jit(fun, **options)(*args, **kwargs)
    return type(caught.value), re.sub(r"0x[0-9a-f]+", "0x", str(caught.value))


@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
@pytest.mark.parametrize("case", ERRORS)
def test_an_error_is_that_of_jax_jit_word_for_word(case: str, warm: bool) -> None:
    expected = message(jax.jit, case)
    assert message(cachax.jit, case, warm=warm) == expected


def test_an_error_names_the_function_and_the_argument() -> None:
    assert "argument q" in message(cachax.jit, "an if on a traced argument")[1]
    assert "branches" in message(cachax.jit, "an if on a keyword argument")[1]
    assert "adds" in message(cachax.jit, "arguments on two devices")[1]


def test_a_lowered_program_is_that_of_the_plain_function() -> None:
    ours, theirs = cachax.jit(adds), jax.jit(adds)
    for _ in range(2):
        text = ours.lower(linear(), 1.0).as_text()
        assert text == theirs.lower(linear(), 1.0).as_text()
        assert str(ours.trace(linear(), 1.0).jaxpr) == str(
            theirs.trace(linear(), 1.0).jaxpr
        )
        shape = ours.eval_shape(linear(), 1.0)
        assert shape == theirs.eval_shape(linear(), 1.0)
        ours(linear(), 1.0)


def test_jit_again_in_a_loop_traces_no_more() -> None:
    traced = []

    def fun(model: Any) -> Any:
        traced.append("fun")
        return model.p + 1

    obj = First(x3(), x3())
    same(cachax.jit(fun)(obj), 2 * x3() + 1)
    first = len(traced)
    with compilations() as compiled:
        for _ in range(5):
            same(cachax.jit(fun)(obj), 2 * x3() + 1)
    assert len(traced) == first
    assert not compiled


def sharding(*spec: Any) -> Any:
    mesh = jax.sharding.Mesh(np.array(first_devices(2)), ("d",))
    return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*spec))


def same_arrays(got: Any, expected: Any) -> None:
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    for x, y in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(x, y)
        assert x.aval == y.aval
        assert x.weak_type == y.weak_type
        assert x.sharding == y.sharding
        assert x.devices() == y.devices()
        assert x.committed == y.committed


OPTIONS: dict[str, Any] = {
    "out_shardings for one leaf": lambda: {"out_shardings": (sharding("d"), None)},
    "out_shardings as a prefix": lambda: {"out_shardings": sharding()},
    "out_shardings as a prefix of an object": lambda: {
        "out_shardings": (sharding(), sharding("d"))
    },
    "in_shardings": lambda: {"in_shardings": (sharding("d"),)},
    "in and out": lambda: {
        "in_shardings": (sharding("d"),),
        "out_shardings": sharding(),
    },
    "donation": lambda: {"donate_argnums": (0,)},
    "no option": dict,
}


@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
@pytest.mark.parametrize("options", OPTIONS)
def test_results_are_where_jax_jit_puts_them(options: str, warm: bool) -> None:
    def fun(model: Any) -> Any:
        return model.p + model.x, replace(model, b=model.b + model.p + model.x)

    def plain(model: Any) -> Any:
        p = model.plain()
        return p + model.x, replace(model, b=model.b + p + model.x)

    ours = cachax.jit(fun, **OPTIONS[options]())
    theirs = jax.jit(plain, **OPTIONS[options]())
    for _ in range(3):
        got, expected = (Linear(jnp.arange(4.0), jnp.ones(4)) for _ in range(2))
        if warm:
            cachax.warm(got, "p")
        same_arrays(ours(got), theirs(expected))
        for x, y in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
            assert x.is_deleted() == y.is_deleted()


@pytest.mark.parametrize(
    "place", [lambda x: x, lambda x: jax.device_put(x, sharding("d"))]
)
def test_results_are_where_the_arguments_were(place: Any) -> None:
    ours = cachax.jit(lambda m: (m.p, m.x, m))
    theirs = jax.jit(lambda m: (m.plain(), m.x, m))
    obj = Linear(place(jnp.arange(4.0)), jnp.ones(4))
    for _ in range(3):
        same_arrays(ours(obj), theirs(obj))


@pytree
class Divides(Plain):
    x: Any

    def plain(self) -> Any:
        return 1.0 / self.x


@pytest.mark.parametrize("setting", [jax.debug_nans, jax.debug_infs])
def test_debug_nans_finds_the_same_as_with_jax_jit(setting: Any) -> None:
    use = cachax.jit(lambda o: jnp.sum(o.p))
    with setting(True):
        same(use(Divides(x3())), jnp.sum(1 / x3()))
        same(use(Divides(x3())), jnp.sum(1 / x3()))
    bad = cachax.jit(lambda o: 0 * jnp.log(o.p * 0))
    with jax.debug_nans(True), pytest.raises(FloatingPointError, match="nan"):
        bad(Divides(x3()))


def test_a_nan_in_a_body_is_found() -> None:
    use = cachax.jit(lambda o: o.p + 1)
    with jax.debug_infs(True), pytest.raises(FloatingPointError, match="inf"):
        use(Divides(jnp.zeros(3)))


def test_a_warm_call_traces_nothing() -> None:
    use, one = cachax.jit(lambda o: o.p + 1), First(x3(), x3())
    expected = 2 * x3() + 1
    use(one)
    with jax.no_tracing():
        found = [use(one), use(First(one.a, one.b))]
    same(found, [expected, expected])


def test_without_jit_a_value_is_computed_once_too() -> None:
    use, one = cachax.jit(lambda o: o.p + 1), First(x3(), x3())
    with jax.disable_jit(), computations() as counts:
        same(use(one), 2 * x3() + 1)
        same(use(one), 2 * x3() + 1)
        same(one.p, 2 * x3())
    assert counts == {"p": 1}


def test_values_outlast_the_caches_of_jax() -> None:
    use, one = cachax.jit(lambda o: o.p + 1), First(x3(), x3())
    with computations() as counts:
        same(use(one), 2 * x3() + 1)
        jax.clear_caches()
        same(use(one), 2 * x3() + 1)
        same(use(replace(one, b=one.b + 1)), 2 * x3() + 1)
    assert counts == {"p": 1}


def test_a_call_works_while_jax_explains_its_misses() -> None:
    use, one = cachax.jit(lambda o: o.p + 1), First(x3(), x3())
    with jax.explain_cache_misses(True):
        same(use(one), 2 * x3() + 1)
        same(use(First(jnp.ones(5), x3())), 2 * jnp.ones(5) + 1)


def test_a_new_shape_that_uses_a_different_property_computes_only_that() -> None:
    use = cachax.jit(lambda o: o.p if len(o.x) < 5 else o.q)
    with computations() as counts:
        same(use(Open(x3(), x3())), 2 * x3())
    assert counts == {"p": 1}
    long = jnp.arange(6.0)
    with computations() as counts:
        same(use(Open(long, long)), 5 * long)
        same(use(Open(long, long + 1)), 5 * long + 5)
    assert counts == {"q": 2}


def test_a_value_over_a_named_axis_of_a_property_that_was_once_assigned() -> None:
    class Assigned(Counted):
        p = cachax.cached_property(Counted.plain)

    jax.tree_util.register_dataclass(Assigned, ["x"], [])
    object.__setattr__(Assigned(x3()), "p", 5.0)
    fun, over = over_axis(jax.vmap, 2)
    jitted = cachax.jit(fun)
    for _ in range(3):
        same(jitted(Assigned(x3()), over), jnp.full(2, 2 * jnp.sum(x3())))
