"""check_laws: correct classes pass, mistakes are found, with a program."""

import itertools
import warnings
from dataclasses import dataclass
from typing import Any, Final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cachax
from cachax import testing

from cases import over
from families import FAMILIES, Family

X = jnp.array([1.0, 2.0])


@over(FAMILIES)
def test_right_classes_pass(family: Family) -> None:
    obj = family.make(jnp.array([1.0, 2.0, 3.0]), jnp.array([0.5, -1.0, 2.0]))
    cachax.warm(obj, *family.warmable)
    report = testing.check_laws(obj)
    assert report.ok
    tried = {"energy", "scaled", "distinct"}
    skipped = {each.property for each in report.not_tried if "all" in each.title}
    assert not tried & skipped
    assert report.held >= (90 if family.pytree else 25)


numbers = itertools.count()
SCALE = 2.0
RATE: Final = 3.0
LIMIT: "Final[float]" = 4.0
verbose = True
settings = {"power": 2.0}


def helper(x: Any) -> Any:
    return x ** settings["power"]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Bad:
    x: Any

    @cachax.cached_property
    def impure(self) -> Any:
        return self.x * next(numbers)

    @cachax.cached_property
    def mutating(self) -> Any:
        object.__setattr__(self, "count", 1)  # noqa: CX203 (this is Bad)
        return jnp.sum(self.x)

    @cachax.cached_property
    def scaled(self) -> Any:
        return SCALE * self.x

    @cachax.cached_property
    @jax.jit
    def powered(self) -> Any:
        return helper(self.x)

    @cachax.cached_property
    @jax.jit
    def quiet(self) -> Any:
        if verbose:
            str(self.x)
        return self.x + 1

    @cachax.cached_property
    def constant(self) -> Any:
        if verbose:  # has no influence on the value
            str(self.x)
        return RATE * self.x + LIMIT

    @cachax.cached_property
    def hoarding(self) -> Any:
        hoard.append(self.x)
        return jnp.sum(self.x)


hoard: list[Any] = []


@jax.tree_util.register_pytree_node_class
class Losing:
    def __init__(self, x: Any, scale: float = 1.0) -> None:
        self.x, self.scale = x, scale

    def tree_flatten(self) -> Any:
        return (self.x,), None

    @classmethod
    def tree_unflatten(cls, _: None, children: Any) -> Any:
        return cls(*children)

    @cachax.cached_property
    def scaled(self) -> Any:
        return self.scale * self.x

    @cachax.cached_property
    def total(self) -> Any:
        return jnp.sum(self.x)


@jax.tree_util.register_pytree_node_class
class Forgetting(Losing):
    @classmethod
    def tree_unflatten(cls, _: None, children: Any) -> Any:
        new = object.__new__(cls)
        (new.x,) = children
        return new


def found(obj: Any, name: str) -> testing.Finding:
    """The one finding; its program must show it."""
    report = testing.check_laws(obj, name, raises=False)
    (finding,) = report.findings
    assert finding.property == name
    scope = dict(globals())
    before = {name: globals()[name] for name in ("SCALE", "settings")}
    try:
        with pytest.raises(Exception) as caught:  # noqa: PT011 (see below)
            exec(finding.program, scope)
    finally:
        globals().update(before)
    text = str(caught.value).split("(")[0].split("\n")[0]
    assert text in finding.why or isinstance(caught.value, cachax.StaleValueError)
    return finding


def test_an_impure_body_is_found() -> None:
    finding = found(Bad(X), "impure")
    assert finding.title == "2. Never stale, read twice"
    assert "returns a different value each time" in finding.why
    assert "obj = Bad(x=jnp.array([1.0, 2.0], 'float32'))" in finding.program


def test_a_body_that_mutates_its_object_is_found() -> None:
    finding = found(Bad(X), "mutating")
    assert finding.law == 6
    assert "The body changes its object" in finding.why
    assert "'count'" in finding.why


def test_a_body_that_writes_into_a_numpy_field_is_found() -> None:
    class Writing:
        def __init__(self, x: Any) -> None:
            self.x = x

        @cachax.cached_property
        def first(self) -> Any:
            self.x[0] = 7.0
            return self.x[0]

    report = testing.check_laws(Writing(np.ones(2)), raises=False)
    assert [finding.law for finding in report.findings] == [6]
    assert "difference is 6 at ['x']" in report.findings[0].why


def test_a_body_that_depends_on_a_global_is_found() -> None:
    finding = found(Bad(X), "scaled")
    assert finding.title == "2. Never stale, a global changes"
    assert "uses the global 'SCALE'" in finding.why
    assert "constants=['SCALE']" in finding.why
    assert SCALE == 2.0
    assert testing.check_laws(Bad(X), "scaled", constants=["SCALE"]).ok


def test_a_body_that_uses_a_global_through_a_function_is_found() -> None:
    finding = found(Bad(X), "powered")
    assert "uses the global 'settings'" in finding.why
    assert settings == {"power": 2.0}


def test_constants_and_globals_without_influence_pass() -> None:
    report = testing.check_laws(Bad(X), "constant", "quiet")
    assert not any("global" in each.title for each in report.not_tried)


@pytest.mark.parametrize("cls", [Losing, Forgetting])
def test_a_flatten_function_that_loses_a_field_is_found(cls: Any) -> None:
    finding = found(cls(X, 3.0), "scaled")
    assert finding.title == "2. Never stale, rebuilt by JAX"
    assert "The field 'scale' is lost" in finding.why
    assert testing.check_laws(cls(X, 3.0), "total").ok  # which does not need it


def test_a_body_that_keeps_a_tracer_is_found() -> None:
    finding = found(Bad(X), "hoarding")
    assert finding.title == "5. No tracer escapes, first read in jit"
    hoard.clear()


def test_all_findings_are_in_one_error() -> None:
    with pytest.raises(testing.LawsError) as caught:
        testing.check_laws(Bad(X), "impure", "mutating", "constant")
    error = caught.value
    assert isinstance(error, AssertionError)
    assert not error.report.ok
    assert [x.property for x in error.report.findings] == ["impure", "mutating"]
    assert str(error).startswith("The laws on Bad (impure, mutating, constant): ")
    for finding in error.report.findings:
        assert finding.why in str(error)
        assert finding.program.splitlines()[-1] in str(error)


@dataclass(frozen=True)
class Good:
    """What is easily taken for wrong."""

    x: Any
    n: Any
    key: Any
    name: str = "good"

    @cachax.cached_property
    def integers(self) -> Any:
        return self.n + 1

    @cachax.cached_property
    def drawn(self) -> Any:
        return jax.random.normal(self.key, (2,)) * self.x

    @cachax.cached_property
    def new_key(self) -> Any:
        return jax.random.split(self.key)

    @cachax.cached_property
    def host(self) -> Any:
        return np.unique(np.asarray(self.n)).astype(np.float64)

    @cachax.cached_property
    def size(self) -> tuple[str, int]:
        return (self.name, len(self.x))

    @cachax.cached_property
    def smaller(self) -> Any:
        return Good(self.x[:1], self.n, self.key)

    @cachax.cached_property
    def closure(self) -> Any:
        x = self.x
        return lambda q: q + x

    @cachax.cached_property
    def itself(self) -> Any:
        return lambda: self

    @cachax.cached_property
    def unhashable(self) -> Any:
        return {1, 2}


jax.tree_util.register_dataclass(Good, ["x", "n", "key"], ["name"])
GOOD = [
    name for name in vars(Good) if isinstance(vars(Good)[name], cachax.cached_property)
]


@pytest.mark.parametrize("name", GOOD)
def test_no_false_alarm(name: str) -> None:
    obj = Good(X, np.array([3, 3, 4]), jax.random.key(0))
    report = testing.check_laws(obj, name)
    assert report.held >= (5 if name != "itself" else 1)
    reasons = {each.title[:1]: each.why for each in report.not_tried}
    if name == "integers":
        assert "no floating-point numbers" in reasons["3"]
    if name == "host":
        assert "without a cache it fails too, TracerArray" in reasons["4"]
    if name == "itself":
        assert "NotKeptWarning: Good.itself" in reasons["a"]
    if name == "unhashable":
        assert "UnhashableValueError: Good.unhashable" in reasons["2"]


def test_a_property_that_raises_is_not_tried_and_nothing_is_kept() -> None:
    class Raising:
        @cachax.cached_property
        def value(self) -> int:
            raise ValueError("not for this one")

    report = testing.check_laws(Raising())
    assert report.held == 1  # nothing was kept
    assert "the body raises ValueError: not for this one" in str(report)


def test_an_object_that_is_not_a_pytree_is_tried_without_jit() -> None:
    class Plain:
        def __init__(self) -> None:
            self.x = X

        @cachax.cached_property
        def total(self) -> Any:
            return jnp.sum(self.x)

    report = testing.check_laws(Plain())
    assert "total: JAX does not know the class" in str(report)
    assert "4. Correct batches, vmap" in str(report)
    assert not any(each.title.startswith("6") for each in report.not_tried)


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(cachax.UnknownPropertyError, match="no cached property 'y'"):
        testing.check_laws(Bad(X), "y")


def test_the_object_given_is_left_as_it_is() -> None:
    obj = Good(X, np.array([3, 3, 4]), jax.random.key(0))
    testing.check_laws(obj, "drawn")
    assert cachax.cached(obj) == {}
    assert obj.x is X


def test_a_warning_that_was_given_before_makes_no_difference() -> None:
    class Closing:
        @cachax.cached_property
        def look_up(self) -> Any:
            return lambda: self

    first = testing.check_laws(Closing(), raises=False)
    with pytest.warns(cachax.NotKeptWarning):
        Closing().look_up  # noqa: B018
    assert str(testing.check_laws(Closing(), raises=False)) == str(first)
    assert first.not_tried
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Closing().look_up  # noqa: B018  # it has warned


def test_a_module_that_jit_refuses_is_tried_without_it() -> None:
    class Scaled(eqx.Module):
        x: jax.Array
        scale: Any

        @cachax.cached_property
        def total(self) -> Any:
            return self.scale(self.x).sum()

    result = testing.check_laws(Scaled(jnp.ones(3), jnp.sin))
    assert "without a cache it fails too" in str(result)
    assert str(result).count("and was passed to the function at path o.scale") == 1
