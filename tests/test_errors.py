"""What cachax cannot do it says at once, and its words lead on."""

import collections
import sys
import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cachax

from families import SlottedDerived


def made(make: Any) -> BaseException:
    """The error of making a class. Before Python 3.12 it comes wrapped."""
    with pytest.raises((RuntimeError, TypeError)) as caught:
        make()
    error = caught.value
    return error if sys.version_info >= (3, 12) else error.__cause__ or error


def check(error: BaseException | None, kind: type, *words: str) -> None:
    assert isinstance(error, kind)
    assert isinstance(error, cachax.CachaxError)
    for word in words:
        assert word in str(error)


# A class with nowhere to store


def test_slots_without_weakref() -> None:
    def make() -> None:
        class Slotted:
            __slots__ = ("x",)

            @cachax.cached_property
            def value(self) -> Any:
                return 1

    words = ("Slotted.value", "nowhere to keep", "add '__weakref__'")
    check(made(make), cachax.NowhereToStoreError, *words)


def test_a_dataclass_with_slots() -> None:
    def make(**options: Any) -> Any:
        @dataclass(slots=True, **options)
        class Slotted:
            x: int

            @cachax.cached_property
            def value(self) -> int:
                return self.x + 1

        return Slotted

    check(made(make), TypeError, "Slotted.value", "weakref_slot=True")
    assert make(weakref_slot=True)(1).value == 2


def test_a_tuple() -> None:
    def make() -> None:
        class Point(collections.namedtuple("Point", "x y")):
            @cachax.cached_property
            def norm(self) -> Any:
                return self.x + self.y

    check(made(make), TypeError, "Point.norm", "NamedTuple", "frozen dataclass")


def test_a_named_tuple_is_refused_when_used() -> None:
    """Before Python 3.13 a NamedTuple does not tell its attributes their names."""

    def make() -> None:
        class Point(NamedTuple):
            x: int

            @cachax.cached_property
            def doubled(self) -> int:
                return 2 * self.x

        Point(1).doubled  # noqa: B018

    check(made(make), TypeError, "Point.doubled", "NamedTuple")


def test_slots_in_a_subclass_of_a_mixin() -> None:
    class Slotted(SlottedDerived):
        __slots__ = ("x",)

    with pytest.raises(cachax.NowhereToStoreError, match=r"Slotted\.energy"):
        Slotted().energy  # noqa: B018


def test_one_property_under_two_names() -> None:
    def make() -> None:
        class Twice:
            @cachax.cached_property
            def a(self) -> int:
                return 1

            b = a

    error = made(make)
    assert isinstance(error, TypeError)
    assert "two different names ('a' and 'b')" in str(error)


# Names


class Point(eqx.Module):
    x: jax.Array

    @cachax.cached_property
    def norm(self) -> jax.Array:
        return jnp.linalg.norm(self.x)

    @cachax.cached_property
    def angle(self) -> jax.Array:
        return jnp.arctan2(self.x[1], self.x[0])


def point() -> Point:
    return Point(jnp.array([3.0, 4.0]))


@pytest.mark.parametrize(
    "use",
    [
        lambda p: cachax.preset(p, nrom=1),
        lambda p: cachax.warm(p, "norm", "nrom"),
        lambda p: cachax.clear(p, "nrom"),
        lambda p: cachax.is_cached(p, "nrom"),
    ],
    ids=["preset", "warm", "clear", "is_cached"],
)
def test_an_unknown_name_loses_nothing(use: Any) -> None:
    p = point()
    with pytest.raises(cachax.UnknownPropertyError) as caught:
        use(p)
    check(caught.value, AttributeError, "Point", "'nrom'", "angle, norm")
    assert cachax.cached(p) == {}


def test_an_object_without_cached_properties() -> None:
    with pytest.raises(cachax.UnknownPropertyError, match=r"int has no cached.*none"):
        cachax.warm(3, "norm")
    assert cachax.cached(3) == {}


# Values


def test_an_unhashable_static_result_inside_jit() -> None:
    class Mesh(eqx.Module):
        x: jax.Array

        @cachax.cached_property
        def names(self) -> Any:
            return {"a", "b"}

        @cachax.cached_property
        def objects(self) -> Any:
            return np.array([object()])

    mesh = Mesh(jnp.ones(2))
    for name, kind in (("names", "'set'"), ("objects", "'ndarray'")):
        with pytest.raises(cachax.UnhashableValueError) as caught:
            cachax.jit(lambda m, name=name: getattr(m, name) and m.x)(mesh)
        words = (f"Mesh.{name}", kind, "frozenset")
        check(caught.value, TypeError, *words)
        assert cachax.is_cached(mesh, name)  # and outside it is fine


def test_a_body_that_raises_keeps_nothing_and_shows_its_own_error() -> None:
    class Moody:
        calm = False

        @cachax.cached_property
        def value(self) -> int:
            if not self.calm:
                raise ZeroDivisionError("its own words")
            return 1

    moody = Moody()
    for _ in range(2):
        with pytest.raises(ZeroDivisionError, match="its own words") as caught:
            moody.value  # noqa: B018
        assert caught.value.__context__ is None
    assert cachax.cached(moody) == {}
    moody.calm = True
    assert moody.value == 1


def test_a_tracer_saved_by_an_earlier_trace_is_refused() -> None:
    saved: list[Any] = []

    class Leaky:
        @cachax.cached_property
        def value(self) -> Any:
            return saved[0]

    jax.jit(lambda x: saved.append(x) or x)(1.0)
    leaky = Leaky()
    with pytest.raises(cachax.LeakedTracerError) as caught:
        leaky.value  # noqa: B018
    check(caught.value, ValueError, "Leaky.value", "Make it a field")
    assert cachax.cached(leaky) == {}
    with pytest.raises(cachax.LeakedTracerError):
        cachax.preset(leaky, value=saved[0])


def test_a_class_that_closes_over_a_tracer_computes_and_keeps_nothing() -> None:
    @jax.jit
    def fun(x: Any) -> Any:
        class Local:
            @cachax.cached_property
            def value(self) -> Any:
                return x * 2

        obj = Local()
        jax.lax.fori_loop(0, 2, lambda _, c: c + obj.value, 0.0)
        value = obj.value
        assert cachax.cached(obj) == {}
        return value

    assert fun(3.0) == 6


def test_a_value_that_closes_over_its_object_is_not_kept_and_says_so() -> None:
    class Table:
        def __init__(self) -> None:
            self.x = jnp.arange(3.0)

        @cachax.cached_property
        def look_up(self) -> Any:
            return lambda i: self.x[i]

        @cachax.cached_property
        def look_up_well(self) -> Any:
            x = self.x
            return lambda i: x[i]

    table = Table()
    with pytest.warns(cachax.NotKeptWarning, match=r"Table\.look_up .*fields instead"):
        assert table.look_up(1) == 1
    assert table.look_up_well is table.look_up_well


def test_the_error_of_a_host_only_body_under_jax_jit_says_what_to_do() -> None:
    class Mesh(eqx.Module):
        x: jax.Array

        @cachax.cached_property
        def distinct(self) -> int:
            return len(np.unique(self.x))

    mesh = Mesh(jnp.ones(3))
    with pytest.raises(jax.errors.TracerArrayConversionError) as caught:
        jax.jit(lambda m: m.x * m.distinct)(mesh)
    assert "Mesh.distinct" in caught.value.__notes__[0]
    assert "cachax.jit" in caught.value.__notes__[0]
    assert cachax.jit(lambda m: m.x * m.distinct)(mesh).tolist() == [1, 1, 1]


def test_a_numpy_leaf_written_to_in_place_is_not_detected() -> None:
    """Documented: sameness is identity, and numpy arrays change under it."""

    class Box:
        def __init__(self) -> None:
            self.x = np.ones(2)

        @cachax.cached_property
        def total(self) -> float:
            return float(self.x.sum())

    box = Box()
    assert box.total == 2
    box.x[0] = 5
    assert box.total == 2
    box.x = box.x.copy()
    assert box.total == 6


def test_a_jax_reference_is_never_trusted() -> None:
    new_ref = getattr(jax, "new_ref", None) or jax._src.core.mutable_array

    class Slot:
        def __init__(self) -> None:
            self.ref = new_ref(jnp.zeros(()))

        @cachax.cached_property
        def doubled(self) -> Any:
            return 2 * self.ref[...]

    slot = Slot()
    assert slot.doubled == 0
    slot.ref[...] = 4.0
    assert slot.doubled == 8


def test_no_warning_in_ordinary_use() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        p = point()
        assert cachax.jit(lambda p: p.norm)(p) == 5


def test_a_traceback_shows_the_lines_of_the_user() -> None:
    """And one of cachax, as far as JAX removes its own."""

    @cachax.jit
    def fails(x: Any) -> Any:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine") as raised:
        fails(jnp.ones(2))
    files = [entry.path.name for entry in raised.traceback]
    assert files == ["test_errors.py", "jit.py", "test_errors.py"]
