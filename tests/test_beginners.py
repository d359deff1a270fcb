"""Mistakes of the first hour: each is answered with what to write instead."""

import functools
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cachax


def words_of(use: Callable[[], Any], kind: type[Exception]) -> str:
    """The message of the error that `use` raises, with its notes."""
    with pytest.raises(kind) as caught:
        use()
    error = caught.value
    return "\n".join([str(error), *getattr(error, "__notes__", ())])


# Decorators


def test_cached_property_on_a_method_with_arguments() -> None:
    def make() -> None:
        class Mesh:
            @cachax.cached_property
            def refined(self, factor: int) -> int:
                return factor

    words = words_of(make, cachax.UsageError)
    assert words.startswith("Mesh.refined takes an argument 'factor'")
    assert "use `@cachax.cached_method`" in words


def test_cached_property_on_a_method_with_a_keyword() -> None:
    def make() -> None:
        class Mesh:
            @cachax.cached_property
            def refined(self, *, factor: int) -> int:
                return factor

    assert "takes an argument 'factor'" in words_of(make, cachax.UsageError)


def test_cached_property_on_a_jitted_method_with_arguments() -> None:
    def make() -> None:
        class Mesh:
            @cachax.cached_property
            @functools.partial(jax.jit, static_argnums=(0, 1))
            def refined(self, factor: int) -> int:
                return factor

    assert "`@cachax.cached_method`" in words_of(make, cachax.UsageError)


def test_defaults_and_star_arguments_are_allowed_as_with_functools() -> None:
    class Mesh:
        @cachax.cached_property
        def one(self, factor: int = 2) -> int:
            return factor

        @cachax.cached_property
        def two(self, *args: int, **kwargs: int) -> int:
            return len(args) + len(kwargs)

    assert (Mesh().one, Mesh().two) == (2, 0)


def test_cached_property_without_self() -> None:
    def make() -> None:
        class Mesh:
            @cachax.cached_property
            def size() -> int:  # type: ignore[misc]
                return 1

    assert "takes no argument" in words_of(make, cachax.UsageError)


def test_cached_property_with_parentheses() -> None:
    words = words_of(lambda: cachax.cached_property(), cachax.UsageError)
    assert "without parentheses" in words


@pytest.mark.parametrize("kind", [property, functools.cached_property])
def test_cached_property_over_property(kind: Any) -> None:
    words = words_of(lambda: cachax.cached_property(kind(_size)), cachax.UsageError)
    assert words.startswith("_size is already a `property`" if kind is property else "")
    assert "Remove" in words


@pytest.mark.parametrize("kind", [staticmethod, classmethod])
def test_cached_property_over_staticmethod(kind: Any) -> None:
    words = words_of(lambda: cachax.cached_property(kind(_size)), cachax.UsageError)
    assert f"_size is a `{kind.__name__}`" in words
    assert "`@cachax.cache`" in words


def test_cached_property_of_something_else() -> None:
    words = words_of(lambda: cachax.cached_property(3), cachax.UsageError)  # type: ignore[arg-type]
    assert "decorates a method, not an object of type 'int'" in words


def _size(self: Any) -> int:
    return 1


@pytest.mark.parametrize("fun", [_size, jax.jit(_size), len, jnp.sum])
def test_cached_for_cache(fun: Any) -> None:
    words = words_of(lambda: cachax.cached(fun), cachax.UsageError)
    assert "`@cachax.cache`" in words
    assert "`@cachax.cached_property`" in words


# Functions that take an object


class Line(eqx.Module):
    x: jax.Array

    @cachax.cached_property
    def doubled(self) -> jax.Array:
        return 2 * self.x

    @cachax.cached_property
    def pair(self) -> tuple[jax.Array, str]:
        return self.x, "x"

    @cachax.cached_property
    def on_the_host(self) -> Any:
        return np.unique(self.x)


def line() -> Line:
    return Line(jnp.ones(3))


def test_cached_of_a_class() -> None:
    assert "an object, not a class" in words_of(
        lambda: cachax.cached(Line), cachax.UsageError
    )


def test_warm_of_something_without_cached_properties() -> None:
    words = words_of(lambda: cachax.warm(3), cachax.UsageError)
    assert words == "cachax.warm: int has no cached properties."


def test_warm_of_a_value() -> None:
    words = words_of(lambda: cachax.warm(line().doubled), cachax.UsageError)
    assert words.endswith("the name as a string: `cachax.warm(obj, 'name')`.")


def test_warm_with_a_property_in_place_of_its_name() -> None:
    words = words_of(
        lambda: cachax.warm(line(), Line.doubled),  # type: ignore[arg-type]
        cachax.UnknownPropertyError,
    )
    assert words.startswith("The name of a cached property must be a string. Line has:")


class Sample(eqx.Module):
    x: jax.Array

    @cachax.cached_method
    def moment(self, n: Any) -> jax.Array:
        return jnp.mean(self.x**n)


@pytest.mark.parametrize("name", ["moment", "moment(2)"])
def test_warm_of_a_cached_method(name: str) -> None:
    sample = Sample(jnp.ones(3))
    words = words_of(lambda: cachax.warm(sample, name), cachax.UnknownPropertyError)
    assert words.startswith("Sample.moment is a cached method, not a cached property.")


def test_a_traced_argument_of_a_cached_method() -> None:
    use = cachax.jit(lambda sample, n: sample.moment(n))
    words = words_of(
        lambda: use(Sample(jnp.ones(3)), 2), cachax.UnhashableArgumentError
    )
    assert words.startswith("Sample.moment: the argument 'n' is traced")
    assert "`static_argnames`" in words


def test_an_array_as_argument_of_a_cached_method() -> None:
    words = words_of(
        lambda: Sample(jnp.ones(3)).moment(jnp.ones(2)), cachax.UnhashableArgumentError
    )
    assert "Arrays are not. Pass a Python number" in words


def test_warm_of_a_class() -> None:
    words = words_of(lambda: cachax.warm(Line), cachax.UsageError)
    assert "an object, not a class" in words


def test_warm_of_a_list_of_objects() -> None:
    words = words_of(lambda: cachax.warm([line()]), cachax.UsageError)
    assert "list has no cached properties" in words
    assert "It contains an object of Line: call `cachax.warm` on each of those" in words


def test_a_wrong_shape_in_preset() -> None:
    words = words_of(
        lambda: cachax.preset(line(), doubled=jnp.ones((3, 1))), cachax.PresetError
    )
    assert words == (
        "Line.doubled: the body returns an array of shape (3,), and the given one has "
        "the shape (3, 1)."
    )


def test_a_wrong_shape_inside_a_value() -> None:
    given = (jnp.ones(2), "x")
    words = words_of(lambda: cachax.preset(line(), pair=given), cachax.PresetError)
    assert words.startswith("Line.pair[0]: the body returns an array of shape (3,)")


def test_a_wrong_shape_of_a_traced_object() -> None:
    @jax.jit
    def use(line: Line) -> Any:
        return cachax.preset(line, doubled=jnp.ones(2)).doubled

    assert "shape (3,)" in words_of(lambda: use(line()), cachax.PresetError)


def test_other_values_in_preset_are_taken_as_they_are() -> None:
    assert cachax.preset(line(), doubled=np.ones(3)).doubled.shape == (3,)
    assert cachax.preset(line(), doubled="unknown").doubled == "unknown"
    assert cachax.preset(line(), on_the_host=jnp.ones(5)).on_the_host.shape == (5,)


def test_preset_computes_nothing() -> None:
    class Counted(eqx.Module):
        x: jax.Array

        @cachax.cached_property
        def norm(self) -> jax.Array:
            jax.debug.callback(lambda: runs.append(1))
            return jnp.linalg.norm(self.x)

    runs: list[int] = []
    counted = cachax.preset(Counted(jnp.ones(3)), norm=jnp.float32(1))
    assert counted.norm == 1
    jax.effects_barrier()
    assert runs == []


# Arguments that JAX does not take


class Unregistered:
    def __init__(self) -> None:
        self.x = jnp.ones(3)

    @cachax.cached_property
    def total(self) -> jax.Array:
        return self.x.sum()


class Layer(eqx.Module):
    x: jax.Array
    activation: Any

    @cachax.cached_property
    def total(self) -> jax.Array:
        return self.activation(self.x).sum()


@cachax.jit
def total(obj: Any) -> Any:
    return obj.total


def test_an_unregistered_class_under_jit() -> None:
    words = words_of(lambda: total(Unregistered()), TypeError)
    assert "abstract array" in words or "valid JAX type" in words  # JAX's own words
    assert "cachax: the argument obj is an object of Unregistered" in words
    assert "`jax.tree_util.register_dataclass`" in words


def test_an_unregistered_class_inside_an_argument() -> None:
    words = words_of(lambda: total({"a": [Unregistered()]}), TypeError)
    assert "the argument obj['a'][0] is an object of Unregistered" in words


def test_an_unregistered_class_as_a_keyword() -> None:
    words = words_of(lambda: total(obj=Unregistered()), TypeError)
    assert "the argument obj is an object of Unregistered" in words


@pytest.mark.parametrize("activation", [jax.nn.relu, jnp.abs, lambda x: x])
def test_a_function_in_a_module_under_jit(activation: Any) -> None:
    layer = Layer(jnp.ones(3), activation)
    words = words_of(lambda: total(layer), TypeError)
    assert "cachax: the argument obj.activation is a function" in words
    assert "`cachax.lift(equinox.filter_jit)`" in words
    assert "`equinox.field(static=True)`" in words
    assert cachax.lift(eqx.filter_jit)(lambda layer: layer.total)(layer) == 3


@pytest.mark.parametrize("is_warm", [False, True])
def test_a_string_under_jit(is_warm: bool) -> None:
    use = cachax.jit(lambda x, how: x)
    for _ in range(3 * is_warm):
        use(1.0, 2.0)
    words = words_of(lambda: use(1.0, "fast"), TypeError)
    assert words.count("the argument how is of type 'str'") == 1
    assert "static_argnames" in words


def test_a_static_argument_gets_no_note() -> None:
    def fail(x: Any, how: str) -> Any:
        raise TypeError("its own words")

    use = cachax.jit(fail, static_argnames="how")
    assert "cachax:" not in words_of(lambda: use(1.0, how="fast"), TypeError)


def test_an_error_of_the_function_gets_no_note() -> None:
    def fail(x: Any) -> Any:
        raise TypeError("its own words")

    words = words_of(lambda: cachax.jit(fail)(1.0), TypeError)
    assert words.startswith("its own words")
    assert "cachax:" not in words


# Names and warnings


def test_testing_needs_no_import() -> None:
    program = (
        "import cachax; cachax.testing.check_laws; assert 'testing' in dir(cachax)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_misspelt_name_is_corrected() -> None:
    program = "import cachax; cachax.cached_propery"
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert "Did you mean: 'cached_property'?" in ended.stderr


def test_messages_name_a_local_class_by_its_name_alone() -> None:
    class Local(eqx.Module):
        x: jax.Array

        @cachax.cached_property
        def names(self) -> set[str]:
            return {"a"}

        @cachax.cached_method
        def scaled(self, by: Any) -> Any:
            return by

    local = Local(jnp.ones(2))
    uses: list[Callable[[], Any]] = [
        lambda: cachax.warm(local, "wrong"),
        lambda: cachax.jit(lambda x: x.names and x.x)(local),
        lambda: local.scaled([1]),
        lambda: cachax.preset(local, wrong=1),
    ]
    for use in uses:
        words = words_of(use, cachax.CachaxError)
        assert words.startswith("Local")
        assert "<locals>" not in words
    with cachax.record() as report:
        local.names  # noqa: B018
    assert [value.name for value in report.values] == ["Local.names"]


def test_reports_name_a_local_function_by_its_name_alone() -> None:
    @cachax.jit
    def double(line: Line) -> Any:
        return line.doubled

    explanation = cachax.explain(double, line())
    assert explanation.function == "double"
    assert "<locals>" not in str(explanation.report)
    assert double.__qualname__.endswith("<locals>.double")  # type: ignore[attr-defined]


def test_a_value_that_is_not_kept_warns_once() -> None:
    class Table:
        @cachax.cached_property
        def look_up(self) -> Any:
            return lambda: self

    def read() -> None:
        for table in (Table(), Table()):
            for _ in range(3):
                table.look_up()

    with pytest.warns(cachax.NotKeptWarning) as caught:
        read()
    assert len(caught) == 1


def test_a_warning_that_is_an_error_is_one_at_every_read() -> None:
    class Table:
        @cachax.cached_property
        def look_up(self) -> Any:
            return lambda: self

    table = Table()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            with pytest.raises(cachax.NotKeptWarning):
                table.look_up()


def test_a_function_of_a_numpy_array_warns_once() -> None:
    @cachax.cache
    def doubled(x: Any) -> Any:
        return 2 * x

    def call() -> None:
        for _ in range(3):
            doubled(np.ones(2))

    with pytest.warns(cachax.NotKeptWarning, match="doubled was called on") as caught:
        call()
    assert len(caught) == 1


# Values that a plain `jax.jit` drops


def drops() -> list[str]:
    """The warnings of a plain `jax.jit` function that reads a cached property."""
    use = jax.jit(lambda line: line.doubled.sum())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        use(line())
    return [str(warning.message) for warning in caught]


def test_a_plain_jit_that_drops_a_value_warns_on_request() -> None:
    assert drops() == []
    with cachax.warn_dropped():
        (words,) = drops()
    assert words == (
        "Line.doubled is computed inside `jax.jit` and dropped when the program ends. "
        "Use `cachax.jit` to compute it once, outside."
    )
    assert drops() == []


def test_the_warning_points_at_the_line_that_reads() -> None:
    with cachax.warn_dropped(), pytest.warns(cachax.DroppedValueWarning) as caught:
        jax.jit(lambda line: line.doubled.sum())(line())
    (warning,) = caught
    assert warning.filename == __file__


@pytest.mark.parametrize(
    "use",
    [
        lambda line: cachax.jit(lambda x: x.doubled)(line),
        lambda line: jax.vmap(lambda x: x.doubled)(line),
        lambda line: jax.grad(lambda x: x.doubled.sum())(line),
        lambda line: cachax.jit(lambda x: Line(x.x + 1).doubled)(line),
        lambda line: line.doubled,
    ],
    ids=["cachax.jit", "vmap", "grad", "made inside", "no transformation"],
)
def test_nothing_else_warns(use: Callable[[Line], Any]) -> None:
    with cachax.warn_dropped(), warnings.catch_warnings():
        warnings.simplefilter("error")
        use(line())


def test_a_dataclass_is_not_a_pytree_until_registered() -> None:
    @dataclass
    class Plain:
        x: Any

    words = words_of(lambda: cachax.jit(lambda p: p.x)(Plain(1.0)), TypeError)
    assert "the argument p is an object of Plain" in words


def test_clear_of_a_class() -> None:
    class Square:
        @cachax.cached_property
        def area(self) -> int:
            return 9

    with pytest.raises(cachax.UsageError, match=r"cachax\.clear"):
        cachax.clear(Square)


def test_cached_method_with_a_size_by_position() -> None:
    with pytest.raises(cachax.UsageError, match="Write `maxsize=8`"):
        cachax.cached_method(8)  # type: ignore[call-overload]


def test_an_argument_is_missing() -> None:
    """The message names the method, as Python's does."""

    class Point:
        @cachax.cached_method
        def power(self, n: int) -> int:
            return n

    @cachax.cache
    def distance(x: Any, y: Any) -> Any:
        return x - y

    with pytest.raises(TypeError, match=r"power\(\) missing 1 required .* 'n'"):
        Point().power()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"power\(\) got an unexpected .* 'm'"):
        Point().power(m=2)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"distance\(\) missing 1 required .* 'y'"):
        distance(jnp.ones(2))  # type: ignore[call-arg]


def test_lift_of_a_function() -> None:
    def loss(x: Any) -> Any:
        return x

    with pytest.raises(cachax.UsageError, match=r"write `cachax.jit\(loss\)`"):
        cachax.lift(loss)(jnp.ones(2))  # type: ignore[call-overload]
