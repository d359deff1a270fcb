"""Where a value is computed, and whether it may be kept."""

import dataclasses
import functools
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import pytest

import cachax
from cachax._compat import CONCRETE, Tracer, current_trace, trace_of
from cachax._core.levels import is_alive, level_of, may_be_kept, traces_in


def at_level_of(obj: Any, body: Any) -> Any:
    with level_of(obj, body):
        return body(obj)


def level(_: Any) -> Any:
    return current_trace()


def test_without_a_trace_everything_is_concrete() -> None:
    assert traces_in([1, jnp.ones(2)], "a") == set()
    assert at_level_of([jnp.ones(2)], level) is CONCRETE


def test_a_concrete_object_is_concrete_inside_a_trace() -> None:
    concrete = [jnp.ones(2)]

    @jax.jit
    def fun(x: jax.Array) -> jax.Array:
        assert at_level_of(concrete, level) is CONCRETE
        doubled = at_level_of(concrete, lambda c: c[0] * 2)
        assert not isinstance(doubled, Tracer)
        assert may_be_kept(doubled, concrete)
        return x

    fun(1.0)


def test_an_object_of_the_outer_trace_is_of_that_level_in_the_inner() -> None:
    @jax.jit
    def fun(x: jax.Array) -> jax.Array:
        outer = trace_of(x)

        def body(carry: jax.Array, _: None) -> tuple[jax.Array, None]:
            assert at_level_of({"x": x}, level) is outer
            assert at_level_of((x, carry), level) is current_trace()
            assert not may_be_kept(carry, [x])
            assert may_be_kept(x, [x, carry])
            return carry, None

        return jax.lax.scan(body, x, None, length=1)[0]

    fun(1.0)


def test_leaves_of_two_levels_belong_to_the_inner_one() -> None:
    def outer(x: jax.Array) -> jax.Array:
        def inner(y: jax.Array) -> jax.Array:
            def innermost(z: jax.Array) -> jax.Array:
                assert at_level_of([x, y], level) is trace_of(y)
                assert traces_in([x, y]) == {trace_of(x), trace_of(y)}
                return z

            return jax.vmap(innermost)(jnp.ones(2)).sum() * y

        return jax.grad(inner)(x * 2)

    jax.grad(outer)(1.0)


def test_what_the_body_closes_over_counts() -> None:
    concrete = [jnp.ones(2)]

    @jax.jit
    def fun(x: jax.Array) -> jax.Array:
        value = at_level_of(concrete, lambda _: x * 2)
        assert not may_be_kept(value, concrete)
        assert is_alive(value)
        return value

    assert fun(1.0) == 2


def test_a_tracer_of_a_trace_that_is_over_is_dead() -> None:
    saved: list[Any] = []
    jax.jit(lambda x: saved.append(x) or x)(1.0)
    assert not is_alive(saved)
    assert is_alive([1.0])


@pytest.mark.parametrize("name", ["by_property", "by_method"])
@pytest.mark.parametrize("outer", [jax.grad, jax.jit])
def test_a_class_whose_methods_close_over_a_tracer(name: str, outer: Any) -> None:
    def f(z: Any) -> Any:
        @jax.tree_util.register_dataclass
        @dataclasses.dataclass(frozen=True)
        class Scaled:
            x: Any

            @cachax.cached_property
            def scaled(self) -> Any:
                return self.x * z

            def method(self) -> Any:
                return self.x * z

            @cachax.cached_property
            def by_property(self) -> Any:
                return jnp.sum(self.scaled)

            @cachax.cached_property
            def by_method(self) -> Any:
                return jnp.sum(self.method())

        obj = Scaled(jnp.ones(3))
        return jnp.sum(jax.vmap(lambda i: getattr(obj, name) * i)(jnp.ones(2)))

    assert outer(f)(2.0) == (12 if outer is jax.jit else 6)


class Refuses:
    """A class attribute that answers to no name."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


def test_a_class_whose_attributes_run_code() -> None:
    def f(z: Any) -> Any:
        @jax.tree_util.register_dataclass
        @dataclasses.dataclass(frozen=True)
        class Scaled:
            refuses: ClassVar = Refuses()

            x: Any

            @functools.cached_property  # noqa: CX101
            def functools_value(self) -> Any:
                return self.x * z

            @cachax.cached_property
            def value(self) -> Any:
                return jnp.sum(self.functools_value)

        obj = Scaled(jnp.ones(3))
        return jnp.sum(jax.vmap(lambda i: obj.value * i)(jnp.ones(2)))

    assert jax.grad(f)(2.0) == 6


@pytest.mark.parametrize("outer", [jax.grad, jax.jit, cachax.jit])
@pytest.mark.parametrize("is_attribute", [True, False])
def test_a_tracer_in_a_class(is_attribute: bool, outer: Any) -> None:
    """As an attribute, or in a second class that a method uses."""

    def f(z: Any) -> Any:
        class Helper:
            @staticmethod
            def scaled(x: Any) -> Any:
                return x * z

        @jax.tree_util.register_dataclass
        @dataclasses.dataclass(frozen=True)
        class Scaled:
            x: Any

            @cachax.cached_property
            def value(self) -> Any:
                if is_attribute:
                    return self.x * self.scale  # type: ignore[attr-defined]
                return Helper.scaled(self.x)

        if is_attribute:
            Scaled.scale = z  # type: ignore[attr-defined]
        return jnp.sum(Scaled(jnp.ones(3)).value)

    assert outer(f)(2.0) == (3 if outer is jax.grad else 6)
