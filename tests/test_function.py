"""A free function of pytrees is kept for what it is called on: the laws hold for it."""

import functools
import gc
import operator
import threading
import weakref
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cachax

from cases import PYTREES, A, B, arrays_of, close, fresh, over
from families import FAMILIES, Family, array
from measure import compilations, computations, computing


@cachax.cache
def product(obj: Any, order: int = 1) -> Any:
    computing("product")
    return order * array(obj.a) * array(obj.b)


@cachax.cache
@jax.jit
def jit_square(obj: Any) -> Any:
    computing("jit_square")
    return array(obj.a) ** 2


@cachax.cache
def gram(x: Any) -> Any:
    computing("gram")
    return jnp.outer(x, x)


@cachax.cache
def distance(x: Any, y: Any, *, power: int = 2) -> Any:
    computing("distance")
    return jnp.sum(jnp.abs(x - y) ** power)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Mesh:
    """It knows nothing of cachax."""

    points: Any
    density: Any


@cachax.cache
def lengths(mesh: Mesh) -> Any:
    computing("lengths")
    return jnp.diff(mesh.points)


def new_class() -> Any:
    """A class on which no cached function has ever been called."""

    @jax.tree_util.register_dataclass
    @dataclass(frozen=True)
    class New:
        points: Any
        density: Any

    return New(jnp.array([1.0, 2.0, 4.0]), jnp.ones(3))


def mesh() -> Mesh:
    return Mesh(jnp.array([1.0, 2.0, 4.0]), jnp.ones(3))


# Over the families


@over(PYTREES)
def test_once_in_whatever_order(family: Family) -> None:
    use = cachax.jit(lambda o: (product(o), jit_square(o)))
    orders = [
        lambda o: [(product(o), jit_square(o)), use(o)],
        lambda o: [use(o), use(o), (product(o), jit_square(o))],
        lambda o: [use(o), cachax.jit(lambda o: (product(o, 1), jit_square(obj=o)))(o)],
    ]
    for order in orders:
        obj = fresh(family)
        with computations() as counts:
            for got in order(obj):
                close(got, (A * B, A**2))
        assert counts == {"product": 1, "jit_square": 1}


@over(FAMILIES)
def test_never_stale(family: Family) -> None:
    obj = fresh(family)
    close(product(obj), A * B)
    close(product(family.replace(obj, a=jnp.asarray(A + 1))), (A + 1) * B)
    close(product(obj, order=3), 3 * A * B)
    if family.mutable:
        family.assign(obj, jnp.asarray(A + 2))
        close(product(obj), (A + 2) * B)


@over(PYTREES)
def test_correct_derivatives_and_batches(family: Family, no_leaks: None) -> None:
    obj = fresh(family)
    product(obj)
    for fun in (product, cachax.jit(product), jax.jit(product)):
        got = jax.grad(lambda o, fun=fun: jnp.sum(fun(o) ** 2))(obj)
        close(arrays_of(got), (2 * A * B**2, 2 * B * A**2))
    batch = jax.tree.map(lambda x: jnp.stack([x, x + 1]), obj)
    expected = np.stack([A * B, (A + 1) * (B + 1)])
    close(jax.vmap(product)(batch), expected)
    close(jax.vmap(cachax.jit(product))(batch), expected)
    close(jax.lax.map(product, batch), expected)


@over(PYTREES)
def test_a_rebuilt_object_keeps_it(family: Family) -> None:
    obj = fresh(family)
    with computations() as counts:
        close(jit_square(obj), A**2)
        close(jit_square(family.replace(obj, b=jnp.asarray(B + 1))), A**2)
    assert counts == {"jit_square": 1}


@over(PYTREES)
def test_nothing_is_retained(family: Family) -> None:
    obj = fresh(family)
    watched = [
        weakref.ref(obj),
        weakref.ref(product(obj)),
        weakref.ref(jit_square(obj)),
    ]
    cachax.jit(product)(obj)
    del obj
    gc.collect()
    assert [ref() for ref in watched] == [None] * 3


# Of classes that know nothing of cachax


def test_a_class_that_is_first_used_inside_a_trace() -> None:
    obj = new_class()

    @cachax.jit
    def use(o: Any) -> Any:
        return lengths(o) * 2

    with computations() as counts:
        close(use(obj), np.array([2.0, 4.0]))
        with compilations() as compiled:
            close(use(obj), np.array([2.0, 4.0]))
            close(lengths(obj), np.array([1.0, 2.0]))
    assert counts == {"lengths": 1}
    assert not compiled


def test_in_functions_within_functions() -> None:
    obj = new_class()
    inner = cachax.jit(lambda o: lengths(o) * 2)
    outer = cachax.jit(lambda objects: inner(objects[0]) + lengths(objects[0]))
    with computations() as counts:
        close(outer([obj]), np.array([3.0, 6.0]))
        close(outer([obj]), np.array([3.0, 6.0]))
    assert counts == {"lengths": 1}


def test_a_function_compiled_before_its_class_was_used() -> None:
    obj = new_class()
    total = cachax.jit(lambda o: jnp.sum(o.points) + (lengths(o)[0] if flag else 0))
    flag = False
    close(total(obj), 7.0)
    lengths(obj)
    flag = True
    bigger = replace(obj, points=jnp.array([1.0, 2.0, 4.0, 5.0]))
    with computations() as counts:
        close(total(bigger), 13.0)
        close(lengths(bigger), np.array([1.0, 2.0, 1.0]))
    assert counts == {"lengths": 1}


def test_verbs() -> None:
    one = mesh()
    assert cachax.cached(one) == {}
    value = lengths(one)
    assert cachax.cached(one) == {"lengths": value}
    cachax.clear(one)
    assert cachax.cached(one) == {}
    assert "lengths" in repr(lengths)


# Arrays, lists, several arguments


def test_on_arrays() -> None:
    x, y = jnp.arange(3.0), jnp.ones(3)
    with computations() as counts:
        assert gram(x) is gram(x)
        close(gram(y), np.ones((3, 3)))
        close(cachax.jit(gram)(x), np.outer(np.arange(3), np.arange(3)))
        close(jax.grad(lambda x: gram(x).sum())(x), np.full(3, 6.0))
    assert counts["gram"] == 4  # outside: one for each array
    gc.collect()
    watched = weakref.ref(gram(x))
    del x
    assert watched() is None


def test_on_several() -> None:
    x, y = jnp.arange(3.0), jnp.ones(3)
    with computations() as counts:
        for _ in range(2):
            close(distance(x, y), 2.0)
            close(distance(x, y=y, power=2), 2.0)
            close(distance(y, x), 2.0)
            close(distance(x, y, power=1), 2.0)
    assert counts == {"distance": 3}
    watched = weakref.ref(distance(x, y))
    del y
    assert watched() is None


def test_on_lists_and_dictionaries() -> None:
    @cachax.cache
    def total(arrays: Any) -> Any:
        computing("total")
        return sum(jax.tree.leaves(arrays))

    x, y = jnp.float32(1), jnp.float32(2)
    with computations() as counts:
        listed = [x, y]
        assert float(total(listed)) == float(total([x, y])) == 3
        listed.append(y)
        assert float(total(listed)) == 5
        assert float(total({"x": x, "y": y})) == float(total({"x": x, "y": y})) == 3
    assert counts == {"total": 3}


def test_numpy_is_not_kept_and_a_warning_says_so() -> None:
    @cachax.cache
    def squared(x: Any) -> Any:
        return x**2

    x = np.ones(2)
    words = r"^squared was called on a NumPy array.*jnp\.asarray"
    with pytest.warns(cachax.NotKeptWarning, match=words):
        close(squared(x), np.ones(2))
    x[:] = 2
    close(squared(x), np.full(2, 4))  # it warns once


def test_static_arguments_alone() -> None:
    @cachax.cache
    def grid(n: int) -> Any:
        computing("grid")
        return jnp.linspace(0, 1, n)

    with computations() as counts:
        close(jax.jit(lambda: grid(3) + grid(3))(), np.array([0.0, 1.0, 2.0]))
        close(grid(3), np.array([0.0, 0.5, 1.0]))
    assert counts == {"grid": 1}


def test_as_a_method() -> None:
    class Sampler:
        def __init__(self, x: Any) -> None:
            self.x = x

        @cachax.cache
        def scaled(self, by: Any) -> Any:
            computing("scaled")
            return by * self.x

    sampler, by = Sampler(jnp.ones(2)), jnp.float32(3)
    with computations() as counts:
        close(sampler.scaled(by), np.full(2, 3.0))
        close(sampler.scaled(by), np.full(2, 3.0))
        close(sampler.scaled(2), np.full(2, 2.0))
    assert counts == {"scaled": 2}


def test_an_error_is_its_own_and_nothing_is_kept() -> None:
    @cachax.cache
    def fails(obj: Mesh) -> Any:
        raise ValueError("mine")

    one = mesh()
    for _ in range(2):
        with pytest.raises(ValueError, match="mine"):
            fails(one)
    with pytest.raises(TypeError, match=r"lengths\(\) missing 1 required"):
        lengths()


def test_several_threads() -> None:
    one = mesh()
    with computations() as counts:
        threads = [threading.Thread(target=lengths, args=(one,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert counts == {"lengths": 1}


# What is told apart, and what is let go


class Config:
    """It may change."""

    def __init__(self, by: float) -> None:
        self.by = by

    @cachax.cache
    def scaled(self, x: Any) -> Any:
        return self.by * x


@cachax.cache
def applied(x: Any, config: Any) -> Any:
    return config.by * x if isinstance(config, Config) else config(x)


def test_an_argument_that_changes() -> None:
    x, config = jnp.ones(2), Config(2.0)
    close(applied(x, config), np.full(2, 2.0))
    close(config.scaled(x), np.full(2, 2.0))
    config.by = 5.0
    close(applied(x, config), np.full(2, 5.0))
    close(config.scaled(x), np.full(2, 5.0))
    watched = weakref.ref(config)
    del config
    gc.collect()
    assert watched() is None


def test_functions_as_arguments() -> None:
    x, factors = jnp.ones(2), [1.0]
    big = [jnp.ones(1000) for _ in range(5)]
    watched = [weakref.ref(each) for each in big]
    for each in big:
        close(applied(x, lambda q, each=each: q * each[0]), np.ones(2))
    changing = lambda q: q * factors[0]  # noqa: E731
    close(applied(x, changing), np.ones(2))
    factors[0] = 3.0
    close(applied(x, changing), np.full(2, 3.0))
    del big, each
    gc.collect()
    assert [ref() for ref in watched] == [None] * 5


def test_a_traced_array_leaves_no_trace_behind(no_leaks: None) -> None:
    x = jnp.arange(3.0)
    expected = np.outer(np.arange(3), np.arange(3))
    for transform in (jax.jit, cachax.jit, jax.checkpoint):
        close(transform(lambda x: gram(x))(x), expected)
    close(jax.lax.map(gram, x[None])[0], expected)


def test_a_class_that_is_first_used_in_a_jitted_body() -> None:
    outer = cachax.cache(jax.jit(lambda pair: lengths(pair.points)))
    inner = new_class()
    holder = type(inner)(inner, inner.density)
    close(outer(holder), np.array([1.0, 2.0]))


def test_all_pairs_of_several_arrays() -> None:
    arrays = [jnp.full(2, float(i)) for i in range(6)]
    with computations() as counts:
        for _ in range(2):
            for x in arrays:
                for y in arrays:
                    distance(x, y)
    assert counts == {"distance": 36}


def test_what_is_kept_for_no_array_goes_with_the_function() -> None:
    def local(i: int) -> Any:
        big = jnp.full(10, float(i))
        fun = cachax.cache(lambda n: n * big)
        fun(2)
        return weakref.ref(big)

    watched = [local(i) for i in range(5)]
    gc.collect()
    assert [ref() for ref in watched] == [None] * 5


def test_of_a_function_without_a_name() -> None:
    add = cachax.cache(functools.partial(lambda by, x: by + x, 1.0))
    close(add(jnp.ones(2)), np.full(2, 2.0))
    assert "partial" in repr(add)


def test_arguments_that_need_each_other_in_two_threads() -> None:
    """A lock for each set of arguments: the other thread's can be computed."""
    inside, waiting = threading.Event(), threading.Event()

    @cachax.cache
    def table(n: int) -> int:
        if n == 1:
            inside.set()
            assert waiting.wait(10)
        return n

    thread = threading.Thread(target=table, args=(1,))
    thread.start()
    assert inside.wait(10)
    assert table(2) == 2
    waiting.set()
    thread.join()
    assert table(1) == 1


def test_a_function_without_a_signature() -> None:
    first = cachax.cache(operator.itemgetter(0))
    x = jnp.ones(2)
    assert first((x, 1)) is x


def test_the_order_of_keywords_counts() -> None:
    @cachax.cache
    def powers(**parts: Any) -> Any:
        return jnp.stack(
            [jnp.asarray(x) * (i + 1) for i, x in enumerate(parts.values())]
        )

    x, y = jnp.ones(2), jnp.zeros(2)
    for _ in range(2):
        assert powers(a=x, b=y).tolist() == [[1, 1], [0, 0]]
        assert powers(b=y, a=x).tolist() == [[0, 0], [2, 2]]
        assert powers(a=x[0], b=5.0).tolist() == [1, 10]
        assert powers(b=5.0, a=x[0]).tolist() == [5, 2]
