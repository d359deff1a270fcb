"""A method with arguments is a property with a key: the laws hold for it too."""

import copy
import gc
import pickle
import threading
import weakref
from abc import ABC, abstractmethod
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cachax

from families import FAMILIES, Family, array
from measure import compilations, computations, computing

PYTREES = [family for family in FAMILIES if family.pytree]
all_families = pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.name)
pytrees = pytest.mark.parametrize("family", PYTREES, ids=lambda f: f.name)


def make(family: Family, a: Any = 2.0) -> Any:
    return family.make(jnp.asarray(a), jnp.float32(3))


@pytrees
def test_once_in_whatever_order(family: Family) -> None:
    use = cachax.jit(lambda o: o.power(3))
    again = cachax.jit(lambda o: o.power(n=3) + o.power(3))
    orders = [
        lambda o: (o.power(3), o.power(3)),
        lambda o: (o.power(3), use(o)),
        lambda o: (use(o), use(o)),
        lambda o: (use(o), again(o) / 2, o.power(n=3)),
    ]
    for order in orders:
        obj = make(family)
        with computations() as counts:
            assert {float(x) for x in order(obj)} == {8.0}
        assert counts == {"power": 1}


@all_families
def test_a_value_for_each_set_of_arguments(family: Family) -> None:
    obj = make(family)
    with computations() as counts:
        assert [float(obj.power(n)) for n in (1, 2, 3, 2, 1)] == [2, 4, 8, 4, 2]
        assert float(obj.power()) == 4
    assert counts == {"power": 3}


@all_families
def test_never_stale(family: Family) -> None:
    obj = make(family)
    obj.power(2)
    assert float(family.replace(obj, a=jnp.float32(5)).power(2)) == 25
    if family.mutable:
        family.assign(obj, jnp.float32(6))
        assert float(obj.power(2)) == 36


@pytrees
def test_correct_derivatives(family: Family, warm: bool) -> None:
    obj = make(family)
    if warm:
        obj.power(3)
    for fun in (lambda o: o.power(3), cachax.jit(lambda o: o.power(3))):
        assert float(array(jax.grad(fun)(obj).a)) == 12
    assert float(jax.grad(lambda a: make(family, a).power(3))(2.0)) == 12


@pytrees
def test_correct_batches_and_loops(family: Family, warm: bool, no_leaks: None) -> None:
    obj = make(family, [1.0, 2.0, 3.0])
    if warm:
        obj.power(2)
    axes = jax.tree.unflatten(jax.tree.structure(obj), [0, None])
    each = jax.vmap(lambda o: o.power(2), in_axes=(axes,))(obj)
    assert each.tolist() == [1, 4, 9]
    one = make(family)

    @cachax.jit
    def total(o: Any) -> Any:
        return jax.lax.fori_loop(0, 10, lambda _, x: x + o.power(3), 0.0)

    with computations() as counts:
        assert float(total(one)) == 80
        assert float(total(one)) == 80
        assert float(one.power(3)) == 8
    assert counts == {"power": 1}


@pytrees
def test_invisible_and_compiled_once(family: Family) -> None:
    cold, warm = make(family), make(family)
    warm.power(2), warm.power(3)
    assert jax.tree.structure(cold) == jax.tree.structure(warm)
    assert len(jax.tree.leaves(cold)) == len(jax.tree.leaves(warm))
    use = cachax.jit(lambda o: o.power(2) + o.power(3))
    use(cold)
    with compilations() as compiled:
        use(warm)
        use(warm)
    assert compiled == []


@all_families
def test_nothing_is_retained(family: Family) -> None:
    obj = make(family)
    value = weakref.ref(obj.power(2))
    if family.pytree:
        cachax.jit(lambda o: o.power(2))(obj)
    del obj
    gc.collect()
    assert value() is None


class Point(flax.struct.PyTreeNode):
    x: jax.Array

    @cachax.cached_method
    def scaled(self, by: Any = 1, *more: Any, shift: Any = 0, **others: Any) -> Any:
        computing("scaled")
        return self.x * by + shift + sum(more) + sum(others.values())

    @cachax.cached_method(maxsize=2)
    def plus(self, n: int) -> Any:
        computing("plus")
        return self.x + n

    @cachax.cached_method
    def host(self, n: int) -> int:
        computing("host")
        return int(np.asarray(self.x)) + n

    @cachax.cached_method
    @jax.jit
    def jitted(self) -> Any:
        return 2 * self.scaled(3)


def point(x: float = 2.0) -> Point:
    return Point(jnp.float32(x))


def test_arguments_are_the_same_however_they_are_given() -> None:
    p = point()
    with computations() as counts:
        p.scaled(), p.scaled(1), p.scaled(by=1), p.scaled(1, shift=0)
    assert counts == {"scaled": 1}
    with computations() as counts:
        p.scaled(1, shift=2, y=1, z=2), p.scaled(by=1, y=1, shift=2, z=2)
    assert counts == {"scaled": 1}


def test_what_is_equal_need_not_be_the_same() -> None:
    p = point()
    assert p.scaled(1).dtype == p.scaled(1.0).dtype
    with computations() as counts:
        p.scaled(2), p.scaled(2.0), p.scaled(np.float32(2))
        p.scaled(0.0), p.scaled(-0.0)
    assert counts == {"scaled": 5}


def test_a_bounded_number_of_values() -> None:
    p = point()
    with computations() as counts:
        p.plus(1), p.plus(2), p.plus(1), p.plus(3), p.plus(1)
    assert counts == {"plus": 3}
    assert cachax.cached(p).keys() == {"plus(3)", "plus(1)"}
    with computations() as counts:
        p.plus(2)
    assert counts == {"plus": 1}
    use = cachax.jit(lambda p: [p.plus(n) for n in range(5)])
    assert [int(x) for x in use(p)] == [2, 3, 4, 5, 6]
    assert [int(x) for x in use(p)] == [2, 3, 4, 5, 6]


def test_a_bound_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        cachax.cached_method(maxsize=0)(lambda self: None)


def test_host_only_bodies_and_static_values() -> None:
    p = point()
    use = cachax.jit(lambda p: jnp.zeros(p.host(1)))
    with computations() as counts:
        assert use(p).shape == use(p).shape == (3,)
    assert counts == {"host": 1}


def test_a_jitted_method_gets_values_from_outside() -> None:
    p = point()
    with computations() as counts:
        assert int(p.jitted()) == 12
        assert int(cachax.jit(lambda p: p.jitted() + p.scaled(3))(p)) == 18
    assert counts == {"scaled": 1}


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ([1, 2], "'list'.*Pass a tuple for a list"),
        (jnp.ones(2), "make it a field of the object"),
        (np.ones(2), "make it a field of the object"),
        ((1, jnp.ones(2)), "make it a field of the object"),
    ],
)
def test_an_argument_that_cannot_be_a_key(argument: Any, words: str) -> None:
    with pytest.raises(cachax.UnhashableArgumentError, match=words) as raised:
        point().scaled(argument)
    assert "Point.scaled: the argument 'by'" in str(raised.value)


def test_a_traced_argument_is_refused() -> None:
    fun = cachax.jit(lambda p, n: p.scaled(n))
    with pytest.raises(
        cachax.UnhashableArgumentError, match="its value is not known yet"
    ):
        fun(point(), 2)


def test_wrong_arguments_give_the_error_of_a_function() -> None:
    with pytest.raises(TypeError, match=r"plus\(\) missing 1 required .* 'n'"):
        point().plus()


def test_the_verbs() -> None:
    p = point()
    assert not cachax.is_cached(p, "scaled")
    p.scaled(3)
    assert cachax.is_cached(p, "scaled")
    assert {name: int(v) for name, v in cachax.cached(p).items()} == {
        "scaled(3, shift=0)": 6
    }
    cachax.warm(p)  # there is no property
    cachax.clear(p, "scaled")
    assert cachax.cached(p) == {}
    p.scaled(3)
    cachax.clear(p)
    assert cachax.cached(p) == {}
    with pytest.raises(cachax.UnknownPropertyError, match="scaled"):
        cachax.warm(p, "scaled")


def test_inheritance() -> None:
    class Base(ABC):
        @cachax.cached_method
        @abstractmethod
        def f(self, n: int) -> int: ...

    class Child(Base):
        @cachax.cached_method
        def f(self, n: int) -> int:
            return n + 1

    class Grandchild(Child):
        @cachax.cached_method
        def f(self, n: int) -> int:
            return super().f(n) * 10

    with pytest.raises(TypeError, match="abstract"):
        Base()  # type: ignore[abstract]
    child = Grandchild()
    assert (child.f(1), child.f(1), Child().f(1)) == (20, 20, 2)
    assert Child.f(child, 1) == 2


def test_it_looks_like_the_method() -> None:
    assert Point.plus.__name__ == "plus"
    assert "plus" in repr(point().plus)
    assert pickle.loads(pickle.dumps(point())).plus(1) == 3
    assert copy.deepcopy(point()).plus(1) == 3


def test_several_threads_compute_it_once() -> None:
    p = point()
    threads = [threading.Thread(target=lambda: p.scaled(7)) for _ in range(8)]
    with computations() as counts:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert counts == {"scaled": 1}


def test_slots_are_refused_when_the_class_is_made() -> None:
    with pytest.raises((TypeError, RuntimeError)) as raised:

        class Slotted:
            __slots__ = ("x",)

            @cachax.cached_method
            def f(self) -> None: ...

    error = raised.value.__cause__ or raised.value
    assert "Slotted.f" in str(error)


def test_the_order_of_keywords_counts() -> None:
    class Powers:
        x = jnp.arange(1.0, 3.0)

        @cachax.cached_method
        def of(self, *, scale: float = 1.0, **powers: int) -> Any:
            computing("of")
            return jnp.stack([scale * self.x**n for n in powers.values()])

    powers = Powers()
    with computations() as counts:
        assert powers.of(a=1, b=2).tolist() == [[1, 2], [1, 4]]
        assert powers.of(b=2, a=1).tolist() == [[1, 4], [1, 2]]
        assert powers.of(b=2, scale=1.0, a=1).tolist() == [[1, 4], [1, 2]]
    assert counts == {"of": 2}
