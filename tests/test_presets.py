"""Values that the user supplied belong to their object, wherever that goes."""

import dataclasses
import gc
import weakref
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cachax

from measure import computations, computing

ONES = jnp.ones(2)


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Part:
    x: Any

    @cachax.cached_property
    def wave(self) -> Any:
        return jnp.sin(self.x)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Whole:
    x: Any
    part: Any

    @cachax.cached_property
    def product(self) -> Any:
        return self.x * self.part.wave


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Maker:
    x: Any

    @cachax.cached_property
    def part(self) -> Any:
        return cachax.preset(Part(self.x * 2), wave=self.x * 100)

    @cachax.cached_property
    def more(self) -> Any:
        return self.part.wave + 1


def supplied() -> Part:
    return cachax.preset(Part(ONES), wave=jnp.full(2, 100.0))


def test_an_object_that_is_returned_beside_a_new_one() -> None:
    part, use = supplied(), cachax.jit(lambda part, other: (part, other.wave))
    for i in range(12):
        assert use(part, Part(ONES * i))[0].wave.tolist() == [100, 100]


def test_through_a_nested_function() -> None:
    inner = cachax.jit(lambda part: part)
    assert inner(inner(supplied())).wave.tolist() == [100, 100]
    assert cachax.jit(lambda part: inner(part))(supplied()).wave.tolist() == [100, 100]
    assert cachax.jit(lambda part: inner(part))(Part(ONES)).wave[0] == jnp.sin(1)


def test_an_object_in_a_value() -> None:
    maker = Maker(ONES)
    assert cachax.jit(lambda m: m.part)(maker).wave.tolist() == [100, 100]

    def make(m: Any) -> Any:
        new = Maker(m.x * 3)
        return new, new.more

    assert cachax.jit(make)(maker)[0].part.wave.tolist() == [300, 300]
    use = cachax.jit(lambda m: m.more)
    for _ in range(12):  # from the ninth call on, values are computed inside
        maker = Maker(jnp.ones(2))
        assert use(maker).tolist() == [101, 101]
        assert maker.part.wave.tolist() == [100, 100]


def test_two_objects_of_which_one_has_it() -> None:
    def both(whole: Any) -> Any:
        known, other = Whole(whole.x, whole.part), Whole(whole.x, Part(whole.part.x))
        return known.product, other.product

    whole = Whole(ONES, supplied())
    for _ in range(3):
        known, other = cachax.jit(both)(whole)
        assert known.tolist() == [100, 100]
        assert other[0] == jnp.sin(1)
        assert cachax.jit(both)(Whole(ONES, Part(ONES)))[0][0] == jnp.sin(1)


def test_an_object_that_the_function_changes() -> None:
    def change(part: Any) -> Any:
        part.x = part.x * 2
        return part

    assert change(supplied()).wave[0] == jnp.sin(2)
    assert cachax.jit(change)(supplied()).wave[0] == jnp.sin(2)


def test_a_value_of_the_same_arrays_inside_a_nested_function() -> None:
    inner = cachax.jit(lambda part: (Part(part.x).wave, part))
    for part in (supplied(), Part(ONES), supplied()):
        expected = part.wave.tolist()
        assert inner(part)[1].wave.tolist() == expected
        assert cachax.jit(lambda p: inner(p)[1])(part).wave.tolist() == expected
        assert cachax.jit(lambda p: inner(p)[1].wave)(part).tolist() == expected


def test_which_object_is_returned_depends_on_the_shape() -> None:
    choose = cachax.jit(lambda a, b: a if len(a.x) > 2 else b)
    for n in (2, 3, 2, 3):
        a = cachax.preset(Part(jnp.ones(n)), wave=jnp.full(n, 100.0))
        b = cachax.preset(Part(jnp.ones(n)), wave=jnp.full(n, 200.0))
        assert choose(a, b).wave[0] == (100 if n > 2 else 200)


def test_in_the_value_of_a_preset() -> None:
    def make(x: Any) -> Any:
        return cachax.preset(Maker(x), part=cachax.preset(Part(x), wave=9 * x))

    for fun in (make, cachax.jit(make)):
        assert fun(ONES).part.wave.tolist() == [9, 9]
        slope = jax.grad(lambda x, fun=fun: jnp.sum(fun(x).part.wave))
        assert slope(ONES).tolist() == [9, 9]


def test_of_an_object_inside_one_that_a_body_makes() -> None:
    @jax.tree_util.register_dataclass
    @dataclasses.dataclass(frozen=True)
    class Moved:
        part: Any
        y: Any

        @cachax.cached_property
        def direct(self) -> Any:
            return self.part.wave + self.y

        @cachax.cached_property
        def moved(self) -> Any:
            return dataclasses.replace(self, y=self.y * 1.0).direct

    assert Moved(supplied(), ONES).moved.tolist() == [101, 101]
    assert Moved(Part(ONES), ONES).moved[0] == jnp.sin(1) + 1


def test_through_a_nested_function_under_grad() -> None:
    inner = cachax.jit(lambda part: (Part(part.x).wave, part))

    def loss(x: Any) -> Any:
        return jnp.sum(inner(cachax.preset(Part(x), wave=100 * x))[1].wave)

    assert loss(ONES) == jax.jit(loss)(ONES) == 200
    assert jax.grad(loss)(ONES).tolist() == [100, 100]


def test_of_an_object_in_a_list_that_is_returned_again_and_again() -> None:
    @jax.tree_util.register_dataclass
    @dataclasses.dataclass
    class Parts:
        x: Any
        parts: Any

        @cachax.cached_property
        def total(self) -> Any:
            return sum(jnp.sum(part.host) for part in self.parts)

    @jax.tree_util.register_dataclass
    @dataclasses.dataclass
    class Part:
        x: Any
        scale: Any

        @cachax.cached_property
        def host(self) -> Any:
            return np.asarray(self.x)

    part = Part(jnp.ones(2), 2.0)  # a number, which comes back as an array
    obj = Parts(jnp.ones(2), [cachax.preset(part, host=np.full(2, 7, np.float32))])
    back = cachax.jit(lambda obj: obj)
    for _ in range(4):
        obj = back(obj)
        assert obj.total == 14


def test_with_a_different_configuration_inside() -> None:
    @cachax.jit
    def use(whole: Any) -> Any:
        with jax.default_matmul_precision("float32"):
            inside = whole.part.wave + 0, whole.product + 0
        return *inside, whole.part.wave + 0

    for _ in range(2):
        assert [float(x[0]) for x in use(Whole(2 * ONES, supplied()))] == [
            100,
            200,
            100,
        ]


def test_of_a_part_that_is_in_a_value() -> None:
    @jax.tree_util.register_dataclass
    @dataclasses.dataclass
    class Both:
        x: Any
        part: Any

        @cachax.cached_property
        def both(self) -> Any:
            return self.part, self.x * 2

        @cachax.cached_property
        def wave(self) -> Any:
            return self.both[0].wave + 1

    use = cachax.jit(lambda obj: (obj.both[0].wave + 0, obj.wave))
    obj = Both(ONES, Part(ONES))
    assert use(obj)[1][0] == jnp.sin(1) + 1  # before a value is supplied
    obj.part.wave = jnp.full(2, 100.0)
    for each in (obj, Both(2 * ONES, obj.part), dataclasses.replace(obj)):
        assert (each.both[0].wave[0], each.wave[0]) == (100, 101)
        assert [float(x[0]) for x in use(each)] == [100, 101]


def test_a_value_that_the_function_assigns_again() -> None:
    @cachax.jit
    def use(part: Any) -> Any:
        part.wave = part.x * 200
        return part, part.wave + 0

    @cachax.jit
    def outer(part: Any) -> Any:
        returned, wave = use(part)
        return returned.wave, wave

    part = Part(ONES)
    part.wave = jnp.full(2, 100.0)
    for _ in range(2):
        returned, wave = use(part)
        assert wave[0] == 200
        assert returned.wave[0] == jnp.sin(1)  # as with `jax.jit`: it was not returned
        assert [float(x[0]) for x in outer(part)] == [jnp.sin(1), 200]
    assert part.wave[0] == 100


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Chain:
    x: Any

    @cachax.cached_property
    def first(self) -> Any:
        return jnp.sum(self.x)

    @cachax.cached_property
    def second(self) -> Any:
        return 2 * self.first


def increased(chain: Any) -> Any:
    return cachax.preset(chain, first=chain.first + 1)


def test_one_that_is_supplied_and_one_that_depends_on_it() -> None:
    one = jnp.ones(())
    both = cachax.preset(Chain(ONES), first=50 * one, second=-one)
    first = cachax.preset(Chain(ONES), first=50 * one)
    jitted = cachax.jit(increased)
    for chain in (both, first, both, first):
        new = jitted(chain)
        assert (new.first, new.second) == (51, -1 if chain is both else 102)


def assigned() -> Chain:
    chain = Chain(ONES)
    chain.first = 7 * jnp.ones(())
    return chain


def test_an_assigned_value_stays_when_a_field_is_assigned_inside() -> None:
    @cachax.jit
    def use(chain: Any) -> Any:
        chain.x = chain.x + 1
        return chain.first, chain.second, chain

    @cachax.jit
    def outer(chain: Any) -> Any:
        first, _, new = use(chain)
        new.x = new.x + 1
        return first, new.second, new

    for _ in range(2):
        first, second, new = outer(assigned())
        assert (first, second, new.first, new.second) == (7, 14, 7, 14)
        first, second, new = use(assigned())
        assert (first, second, new.first, new.second) == (7, 14, 7, 14)
        new.x = 3 * ONES
        assert (new.first, new.second) == (7, 14)


def test_a_chain_whose_first_value_is_assigned_again() -> None:
    class Longer(Chain):
        @cachax.cached_property
        def third(self) -> Any:
            return self.second + 1

    jax.tree_util.register_dataclass(Longer, ["x"], [])

    def use(chain: Any) -> Any:
        chain.first = 10 * chain.x[0]
        return chain.first, chain.second, chain.third

    chain = Longer(ONES)
    chain.first = 7 * jnp.ones(())
    assert cachax.jit(use)(chain) == use(chain) == (10, 20, 21)


def test_what_depends_on_it_is_computed_once_in_a_loop() -> None:
    @jax.tree_util.register_dataclass
    @dataclasses.dataclass(frozen=True)
    class State:
        x: Any

        @cachax.cached_property
        def kernel(self) -> Any:
            return self.x * 2

        @cachax.cached_property
        def factor(self) -> Any:
            computing("factor")
            return self.kernel + 1

    step = cachax.jit(lambda state: (state, state.factor[0]))
    with computations() as counts:
        for value in (9.0, 19.0):
            state = cachax.preset(State(ONES), kernel=jnp.full(2, value))
            for _ in range(5):
                state, factor = step(state)
                assert factor == state.factor[0] == value + 1
    assert counts == {"factor": 2}


def test_of_a_part_of_an_object_with_arrays_of_several_levels() -> None:
    whole = Whole(ONES, supplied())

    @jax.tree_util.register_dataclass
    class Outer(Whole):
        @cachax.cached_property
        def wave(self) -> Any:
            return jnp.sum(self.part.wave)

    def read(x: Any) -> Any:
        return Outer(x, whole.part).wave + jnp.sum(x)

    for fun in (read, cachax.jit(read)):
        assert jax.jvp(fun, [ONES], [ONES]) == (202, 2)


def forget_by_del(chain: Any) -> None:
    object.__delattr__(chain, "first")  # of a frozen object


def forget_by_clear(chain: Any) -> None:
    cachax.clear(chain, "first")


@pytest.mark.parametrize("forget", [forget_by_del, forget_by_clear])
@pytest.mark.parametrize("is_preset", [True, False])
def test_what_was_computed_from_it_is_forgotten_too(
    forget: Any, is_preset: bool
) -> None:
    @jax.tree_util.register_dataclass
    @dataclasses.dataclass(frozen=True)
    class Frozen:
        x: Any
        first = Chain.first
        second = Chain.second

    @jax.tree_util.register_dataclass
    @dataclasses.dataclass(frozen=True)
    class Outer:
        chain: Any

        @cachax.cached_property
        def third(self) -> Any:
            return self.chain.second + 1

    def read(outer: Any) -> Any:
        return outer.third, outer.chain.second

    chain = cachax.preset(Frozen(ONES), first=50 * jnp.ones(()))
    if not is_preset:
        chain = Frozen(ONES)
        vars(chain)["first"] = 50 * jnp.ones(())
    outer, jitted = Outer(chain), cachax.jit(read)
    assert read(outer) == jitted(outer) == (101, 100)
    forget(chain)
    assert read(outer) == jitted(outer) == (5, 4)
    assert cachax.jit(lambda outer: Frozen(outer.chain.x).second)(outer) == 4


def test_a_derivative_with_respect_to_it() -> None:
    chain, make = Chain(ONES), cachax.jit(lambda c, v: cachax.preset(c, first=v))

    def preset(v: Any) -> Any:
        return cachax.preset(chain, first=v).second

    def inside(v: Any) -> Any:
        return cachax.jit(lambda c, v: cachax.preset(c, first=v).second)(chain, v)

    def returned(v: Any) -> Any:
        return make(chain, v).second

    for fun in (preset, inside, returned):
        for apply in (jax.grad, jax.jacfwd, lambda f: lambda v: jax.vmap(f)(v[None])):
            assert apply(fun)(jnp.float32(1)) == 2  # type: ignore[operator]
    assert (chain.first, chain.second) == (2, 4)


@pytest.mark.parametrize("is_preset", [True, False])
def test_nothing_holds_it_when_its_object_is_gone(is_preset: bool) -> None:
    @jax.tree_util.register_dataclass
    @dataclasses.dataclass
    class Parts:
        x: Any

        @cachax.cached_property
        def parts(self) -> Any:
            return {"low": self.x, "high": [self.x * 2]}

        @cachax.cached_property
        def total(self) -> Any:
            return jnp.sum(self.parts["high"][0])

    use, refs = cachax.jit(lambda parts: parts.total), []
    for i in range(10):
        high = jnp.full(2, float(i))
        supplied = {"low": ONES, "high": [high]}
        parts = Parts(ONES)
        if is_preset:
            parts = cachax.preset(parts, parts=supplied)
        else:
            parts.parts = supplied
        assert parts.total == use(parts) == 2 * i
        refs.append(weakref.ref(high))
    del parts, supplied, high
    gc.collect()
    assert [ref() for ref in refs] == [None] * 10


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Loose:
    x: Any

    @cachax.cached_property
    def double(self) -> Any:
        return 2 * self.x

    @cachax.cached_property
    def triple(self) -> Any:
        return 3 * self.x

    @cachax.cached_property
    def sum(self) -> Any:
        return self.double + self.triple


def with_preset(x: Any) -> Loose:
    return cachax.preset(Loose(x), triple=jnp.float32(77))


def with_assigned(x: Any) -> Loose:
    obj = Loose(x)
    obj.triple = jnp.float32(77)
    return obj


SUPPLIED = pytest.mark.parametrize("supplied", [with_preset, with_assigned])


@SUPPLIED
def test_it_stays_when_a_different_value_is_assigned_inside(supplied: Any) -> None:
    def change(obj: Loose) -> Any:
        before = obj.sum
        obj.double = obj.x * 10
        return obj, before, obj.triple + 0, obj.sum + 0

    fun = cachax.jit(change)
    for i in range(1, 4):
        for each in (change, fun):
            obj, *values = each(supplied(jnp.float32(i)))
            assert values == [2 * i + 77, 77, 10 * i + 77]
            assert obj.triple == 77
            assert obj.sum == obj.double + 77


@SUPPLIED
def test_it_goes_with_a_field_that_is_assigned_inside(supplied: Any) -> None:
    def change(obj: Loose) -> Any:
        obj.double = obj.x * 10
        obj.x = obj.x + 1
        return obj, obj.triple + 0

    for i in range(1, 4):
        there, expected = change(supplied(jnp.float32(i)))
        obj, value = cachax.jit(change)(supplied(jnp.float32(i)))
        assert value == expected
        assert obj.triple == there.triple


@SUPPLIED
def test_it_is_the_same_kind_after_a_nested_function(supplied: Any) -> None:
    """One that was assigned stays when a field is changed."""
    inner = cachax.jit(lambda obj: obj)
    outer = cachax.jit(lambda obj: inner(obj))
    expected = supplied(jnp.float32(1))
    expected.x = jnp.float32(2)
    for fun in (inner, outer):
        obj = fun(supplied(jnp.float32(1)))
        assert obj.triple == 77
        obj.x = jnp.float32(2)
        assert obj.triple == expected.triple


@SUPPLIED
def test_it_can_be_cleared_inside(supplied: Any) -> None:
    def clear(obj: Loose) -> Any:
        before = obj.triple + 0
        cachax.clear(obj, "triple")
        return obj, before, obj.triple + 0, obj.sum + 0

    fun = cachax.jit(clear)
    for i in range(1, 4):
        for each in (clear, fun):
            obj, *values = each(supplied(jnp.float32(i)))
            assert values == [77, 3 * i, 5 * i]
            assert [obj.triple, obj.sum] == [3 * i, 5 * i]


@SUPPLIED
def test_it_comes_out_of_functions_inside_functions(supplied: Any) -> None:
    fun = cachax.jit(lambda obj: obj)
    for _ in range(4):
        obj = supplied(jnp.float32(1))
        expected = supplied(jnp.float32(1))
        assert fun(obj).triple == 77
        returned = fun(obj)
        returned.x = expected.x = jnp.float32(2)
        assert returned.triple == expected.triple
        fun = cachax.jit(lambda obj, inner=fun: inner(obj))


def test_it_comes_out_in_a_value_of_functions_inside_functions() -> None:
    fun = cachax.jit(lambda x: cachax.preset(Maker(x), part=supplied()))
    for _ in range(3):
        maker = fun(ONES)
        assert (maker.part.wave[0], maker.more[0]) == (100, 101)
        fun = cachax.jit(lambda x, inner=fun: inner(x))


def test_what_is_assigned_inside_does_not_come_out() -> None:
    """As with `jax.jit`, whatever functions the object passes through."""
    inner = cachax.jit(lambda obj: obj)

    def assign(obj: Loose) -> Loose:
        obj.triple = jnp.float32(9)
        return obj

    for fun in (assign, lambda obj: inner(assign(obj))):
        assert cachax.jit(fun)(Loose(jnp.float32(1))).triple == 3
        assert cachax.jit(fun)(with_assigned(jnp.float32(1))).triple != 9


@SUPPLIED
def test_preset_inside_keeps_the_others_as_they_are(supplied: Any) -> None:
    def change(obj: Loose) -> Any:
        new = cachax.preset(obj, double=jnp.float32(5))
        before = new.triple + 0
        again = cachax.preset(new, triple=jnp.float32(6))
        values = [before, new.sum, again.triple + 0, again.sum]
        new.x, again.x = new.x + 1, again.x + 1
        return new, again, [*values, new.triple + 0, again.triple + 0]

    fun = cachax.jit(change)
    for i in range(1, 4):
        one, two, expected = change(supplied(jnp.float32(i)))
        new, again, values = fun(supplied(jnp.float32(i)))
        assert values == expected
        assert (new.triple, again.triple) == (one.triple, two.triple)
