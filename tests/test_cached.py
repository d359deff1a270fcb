"""The descriptor: what it shares with functools, and where it stands on classes."""

import ast
import copy
import functools
import inspect
import subprocess
import sys
import types
import unittest
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import attrs
import equinox as eqx
import jax
import jax.numpy as jnp
import pydantic
import pytest

import cachax

DECIDED = {
    # Never stale (law 2): a field has been assigned to, so the body runs again.
    "test_cached_attribute_name_differs_from_func_name",
    # The same; in CPython since 3.12. See `test_a_subclass_may_refuse_assignment`.
    "test_subclass_with___set__",
    # Works: values are not kept in the `__dict__`, which a class does not let us
    # write to. See `test_it_works_on_a_metaclass`.
    "test_immutable_dict",
    # Refused when the class is made, not at first use. See `test_errors.py`.
    "test_object_with_slots",
}
"""CPython's tests of functools.cached_property that do not hold here, and why."""

ITEMS = {"CachedCostItem", "OptionallyCachedCostItem", "CachedCostItemWait"}


def run_cpythons_tests(*, decided: bool) -> tuple[set[str], set[str]]:
    """Of CPython's own tests, pointed at our property: which were run, which failed."""
    theirs = pytest.importorskip(
        "test.test_functools", reason="this Python comes without its own tests"
    )
    source = ast.parse(inspect.getsource(theirs))
    wanted = ITEMS | {"TestCachedProperty"}
    source.body = [x for x in source.body if getattr(x, "name", None) in wanted]
    ours = types.SimpleNamespace(
        cached_property=cachax.cached_property, RLock=functools.RLock
    )
    namespace = vars(theirs) | {"py_functools": ours}
    exec(compile(source, "test_functools.py", "exec"), namespace)
    case = namespace["TestCachedProperty"]
    names = unittest.defaultTestLoader.getTestCaseNames(case)
    result = unittest.TestResult()
    chosen = {n for n in names if (n in DECIDED) is decided}
    unittest.TestSuite(case(n) for n in sorted(chosen)).run(result)
    failed = {test.id().split(".")[-1] for test, _ in result.failures + result.errors}
    return chosen, failed


def test_cpythons_own_tests_pass() -> None:
    run, failed = run_cpythons_tests(decided=False)
    assert len(run) >= 6
    assert failed == set()


def test_where_we_differ_from_cpython_is_decided() -> None:
    """Their class with slots cannot even be made with ours, so is still theirs."""
    run, failed = run_cpythons_tests(decided=True)
    assert failed | {"test_object_with_slots"} == run
    new = {"test_subclass_with___set__"} if sys.version_info < (3, 12) else set()
    assert run == DECIDED - new


def test_it_works_on_a_metaclass() -> None:
    class Meta(type):
        @cachax.cached_property
        def made(cls) -> object:
            return object()

    class Made(metaclass=Meta):
        pass

    assert Made.made is Made.made


def test_a_subclass_may_refuse_assignment() -> None:
    """As in CPython's `test_subclass_with___set__`, but the value is never stale."""

    class ReadOnly(cachax.cached_property):  # type: ignore[type-arg]
        def __set__(self, obj: Any, value: Any) -> None:
            raise AttributeError("read only property")

    class Sized:
        def __init__(self, size: int) -> None:
            self.size = size

        @ReadOnly
        def sizes(self) -> list[int]:
            return [self.size]

    sized = Sized(1)
    assert sized.sizes is sized.sizes
    with pytest.raises(AttributeError, match="read only property"):
        sized.sizes = [2]
    assert sized.sizes == [1]
    sized.size = 999
    assert sized.sizes == [999]


class Counting:
    """A plain class that counts in Python: nothing is traced here."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    @cachax.cached_property
    def value(self) -> int:
        """How often it was computed."""
        self.calls += ["value"]
        return len(self.calls)


@pytest.fixture
def counting() -> Counting:
    return Counting()


def test_a_body_may_change_its_own_object(counting: Counting) -> None:
    assert [counting.value, counting.value] == [1, 1]


def test_del_forgets_as_with_functools(counting: Counting) -> None:
    with pytest.raises(AttributeError, match="value"):
        del counting.value
    assert counting.value == 1
    del counting.value
    assert counting.value == 2


def test_an_assigned_value_wins_and_del_takes_it_away(counting: Counting) -> None:
    counting.value = 7
    assert counting.value == 7
    assert cachax.cached(counting) == {"value": 7}
    del counting.value
    assert counting.value == 1


def test_a_value_laid_into_the_dict_wins(counting: Counting) -> None:
    assert counting.value == 1
    counting.__dict__["value"] = 9
    assert counting.value == 9
    counting.__dict__.pop("value")
    assert counting.value == 1


def test_other_properties_see_an_assigned_value() -> None:
    class Chain:
        @cachax.cached_property
        def first(self) -> int:
            return 1

        @cachax.cached_property
        def second(self) -> int:
            return self.first + 1

    chain = Chain()
    assert chain.second == 2
    chain.first = 10
    assert chain.second == 11


def test_attributes_of_the_descriptor() -> None:
    descriptor = Counting.value
    assert isinstance(descriptor, cachax.cached_property)
    assert descriptor.attrname == "value"
    assert descriptor.func.__name__ == "value"
    assert descriptor.__doc__ == "How often it was computed."
    assert descriptor.__module__ == __name__
    assert cachax.cached_property[int] is not None  # generic, as functools' is


def test_a_property_that_reads_itself_recurses() -> None:
    class Loop:
        @cachax.cached_property
        def value(self) -> Any:
            return self.value

    with pytest.raises(RecursionError):
        Loop().value  # noqa: B018


def test_a_functools_value_beside_is_not_a_change() -> None:
    class Both:
        def __init__(self) -> None:
            self.runs = [0]

        @functools.cached_property
        def theirs(self) -> int:
            return 1

        @cachax.cached_property
        def ours(self) -> int:
            self.runs[0] += 1
            return self.runs[0]

    both = Both()
    assert (both.ours, both.theirs, both.ours) == (1, 1, 1)


class Base(ABC):
    def __init__(self, x: Any) -> None:
        self.x = x

    @cachax.cached_property
    def size(self) -> Any:
        return self.x

    @cachax.cached_property
    @abstractmethod
    def shape(self) -> Any: ...


class Child(Base):
    @cachax.cached_property
    def size(self) -> Any:
        return super().size * 10

    @cachax.cached_property
    def shape(self) -> Any:
        return self.size + 1


def test_an_overridden_property_and_its_super_are_two() -> None:
    child = Child(3)
    assert (child.size, child.shape, child.size) == (30, 31, 30)
    assert cachax.cached(child) == {"size": 30, "shape": 31}


@pytest.mark.parametrize("cached", [cachax.cached_property, cachax.cached_method])
def test_abstract_above_cached_as_with_functools(cached: Any) -> None:
    class Environment(ABC):
        @abstractmethod
        @cached
        def specification(self) -> Any: ...

    assert Environment.__abstractmethods__ == {"specification"}
    with pytest.raises(TypeError, match="abstract"):
        Environment()  # type: ignore[abstract]


def test_an_abstract_property_must_be_defined() -> None:
    with pytest.raises(TypeError, match="abstract"):
        Base(1)  # type: ignore[abstract]


def test_a_plain_attribute_in_a_subclass_hides_the_property() -> None:
    class Fixed(Child):
        size = 5

    assert Fixed(3).shape == 6
    with pytest.raises(cachax.UnknownPropertyError):
        cachax.is_cached(Fixed(3), "size")


T = TypeVar("T")


def test_a_generic_class() -> None:
    @dataclass
    class Box(Generic[T]):
        content: T

        @cachax.cached_property
        def pair(self) -> tuple[T, T]:
            return (self.content, self.content)

    box = Box[int](3)
    assert box.pair == (3, 3)
    box.content = 4
    assert box.pair == (4, 4)


def test_lists_and_dicts_and_objects_inside_are_looked_into() -> None:
    @dataclass
    class Inner:
        n: int

    @dataclass(frozen=True)
    class Outer:
        inner: Inner
        numbers: list[int] = field(default_factory=list)
        table: dict[str, tuple[list[int], ...]] = field(default_factory=dict)

        @cachax.cached_property
        def total(self) -> int:
            runs.append(1)
            nested = sum(sum(x) for lists in self.table.values() for x in lists)
            return self.inner.n + sum(self.numbers) + nested

    runs: list[int] = []
    outer = Outer(Inner(1000), [1000], {"a": ([1000],)})
    assert [outer.total, outer.total] == [3000, 3000]
    assert len(runs) == 1
    outer.inner.n = 2000
    assert outer.total == 4000
    outer.numbers.append(5)
    assert outer.total == 4005
    outer.numbers[0] = 2000
    assert outer.total == 5005
    outer.table["a"][0][0] = 2000
    assert outer.total == 6005
    assert [outer.total, len(runs)] == [6005, 5]


def test_a_property_read_while_the_object_is_built() -> None:
    class Built(eqx.Module):
        a: jax.Array
        b: jax.Array

        def __init__(self, a: jax.Array) -> None:
            self.a = a
            self.b = self.doubled + 1
            self.a = 10 * a

        @cachax.cached_property
        def doubled(self) -> jax.Array:
            return 2 * self.a

    built = Built(jnp.ones(()))
    assert (built.b, built.doubled) == (3, 20)


def test_a_class_whose_flatten_reads_its_own_property() -> None:
    @jax.tree_util.register_pytree_node_class
    class Series:
        def __init__(self, x: Any) -> None:
            self.x = x

        @cachax.cached_property
        def mean(self) -> Any:
            return jnp.mean(self.x)

        def tree_flatten(self) -> Any:
            return (self.x, self.mean), None

        @classmethod
        def tree_unflatten(cls, _: None, children: Any) -> "Series":
            new = cls(children[0])
            new.__dict__["mean"] = children[1]
            return new

    series = Series(jnp.array([1.0, 3.0]))
    assert series.mean == 2
    assert cachax.jit(lambda s: s.mean + jax.jit(lambda t: t.mean)(s))(series) == 4


def test_attrs_with_slots() -> None:
    @attrs.define
    class Point:
        x: float

        @cachax.cached_property
        def doubled(self) -> float:
            return 2 * self.x

    point = Point(2.0)
    assert point.doubled == 4
    point.x = 3.0
    assert point.doubled == 6
    with pytest.raises(AttributeError, match="read-only"):
        point.doubled = 1


def test_pydantic_needs_one_line() -> None:
    class Model(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(ignored_types=(cachax.cached_property,))
        x: float

        @cachax.cached_property
        def doubled(self) -> float:
            return 2 * self.x

    model = Model(x=2.0)
    assert model.doubled == 4
    model.x = 3.0
    assert model.doubled == 6
    assert model.model_dump() == {"x": 3.0}


def test_import_takes_jax_and_nothing_else() -> None:
    program = (
        "import jax, jax.numpy, sys; before = set(sys.modules); import cachax;"
        "print(*{m.partition('.')[0] for m in set(sys.modules) - before})"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    new = set(done.stdout.split()) - set(sys.stdlib_module_names)
    assert new <= {"cachax", "jax"}


def test_a_copy_of_a_property_has_its_class_and_its_attributes() -> None:
    class Noted(cachax.cached_property):
        def __init__(self, note: str, func: Any) -> None:
            super().__init__(func)
            self.note = note

    prop = Noted("mine", lambda self: 4)
    prop.__doc__ = "Four."
    for other in (copy.copy(prop), copy.deepcopy(prop)):
        assert (type(other), other.note, other.__doc__) == (Noted, "mine", "Four.")
        assert other.func is prop.func
        other.__set_name__(type("Any", (), {}), "four")
        assert prop.attrname is None
