"""`cachax.jit`: its options, and what it does with the objects it meets."""

import abc
import copy
import functools
import inspect
import pickle
import weakref
from dataclasses import dataclass, field, replace
from typing import Any

import cloudpickle
import equinox as eqx
import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

import cachax

from devices import first_devices
from measure import compilations, computations, computing, state_of

if hasattr(jax, "enable_x64"):
    enable_x64 = jax.enable_x64
else:  # before JAX 0.8
    from jax.experimental import enable_x64


class Vector(eqx.Module):
    x: Any

    @cachax.cached_property
    def norm(self) -> jax.Array:
        computing("norm")
        return jnp.sqrt(jnp.sum(self.x**2))

    @cachax.cached_property
    def itself(self) -> Any:
        """A value that is one of the object's own buffers."""
        return self.x

    @cachax.cached_property
    def size(self) -> int:
        """Static: inside jit it is the number it is outside."""
        computing("size")
        return int(np.asarray(self.x).size)

    @cachax.jit
    def scaled(self, factor: Any, *, shift: Any = 0.0) -> Any:
        return self.x * factor / self.norm + shift

    @cachax.jit
    def normed(self) -> "Vector":
        new = Vector(self.x / self.norm)
        return new if new.norm is not None else self


def vector(*numbers: float) -> Vector:
    return Vector(jnp.array(numbers or (3.0, 4.0)))


class Line(eqx.Module):
    """Without a callback, which cannot be exported."""

    x: Any

    @cachax.cached_property
    def mean(self) -> jax.Array:
        return jnp.mean(self.x)


# Ways to call it


def test_as_a_decorator_with_and_without_options() -> None:
    @cachax.jit
    def bare(v: Vector) -> Any:
        return v.norm

    @cachax.jit(static_argnames="k")
    def called(v: Vector, k: int) -> Any:
        return jnp.full(k, v.norm)

    @functools.partial(cachax.jit, static_argnums=1)
    def partial(v: Vector, k: int) -> Any:
        return jnp.full(k, v.norm)

    v = vector()
    with computations() as counts:
        assert bare(v) == 5
        assert called(v, 2).tolist() == partial(v, 2).tolist() == [5, 5]
    assert counts == {"norm": 1}


def test_it_looks_like_the_function() -> None:
    def scale(v: Vector, *, factor: float = 2.0) -> Any:
        """Scale it."""
        return v.norm * factor

    jitted = cachax.jit(scale)
    assert jitted.__wrapped__ is scale
    assert jitted.__name__ == "scale"
    assert jitted.__doc__ == "Scale it."
    assert inspect.signature(jitted) == inspect.signature(scale)
    assert "scale" in repr(jitted)
    assert isinstance(jitted, jax.stages.Wrapped)


def test_the_program_has_the_name_of_the_function() -> None:
    def with_a_name(v: Vector) -> Any:
        return v.norm

    v = vector()
    jaxpr = jax.make_jaxpr(cachax.jit(with_a_name))(v)
    assert "with_a_name" in str(jaxpr)


def test_a_tracer_error_names_the_users_argument() -> None:
    @cachax.jit
    def branches(v: Vector) -> Any:
        return v.norm if v.x[0] > 0 else 0

    with pytest.raises(jax.errors.TracerBoolConversionError, match=r"v\.x"):
        branches(vector())


def test_a_method() -> None:
    v = vector()
    with computations() as counts:
        assert v.scaled(10.0).tolist() == [6, 8]
        assert v.scaled(factor=10.0, shift=1.0).tolist() == [7, 9]
        assert Vector.scaled(v, 10.0).tolist() == [6, 8]
    assert counts == {"norm": 1}


def test_a_bound_method_closes_over_its_object() -> None:
    v = vector()
    with computations() as counts:
        assert cachax.jit(lambda k: v.norm * k)(2.0) == 10
        assert v.norm == 5
    assert counts == {"norm": 1}


def test_it_is_pickled_by_name_and_copied_as_a_function_is() -> None:
    assert copy.deepcopy(module_level) is module_level
    assert pickle.loads(pickle.dumps(module_level)).__wrapped__.__name__ == (
        "module_level"
    )


def test_it_is_pickled_by_value_where_functions_are() -> None:
    """`joblib`, `dask` and `ray` send what is defined in a notebook in this way."""
    factor = jnp.float32(2.0)
    fun, v = cachax.jit(lambda v: factor * v.norm, inline=True), vector()
    for _ in range(3):
        fun(v)
    sent = pickle.loads(cloudpickle.dumps(fun))
    with computations() as counts:
        for _ in range(3):
            assert sent(v) == 10
            assert sent(Vector(jnp.array([6.0, 8.0]))) == 20
    assert counts == {"norm": 3}
    assert state_of(sent) is not state_of(fun)
    assert state_of(sent)._options == {"inline": True}
    assert sent.lower(v).as_text()


def test_a_wrapper_does_not_get_its_attributes() -> None:
    inner = cachax.jit(lambda v, n: v.norm * n)
    outer = jax.jit(inner, static_argnums=1)
    seen = []

    @functools.wraps(inner)
    def other(*args: Any) -> Any:
        seen.append(args)
        return inner(*args)

    assert "2." in outer.lower(vector(), 2.0).as_text()
    assert jax.jit(other).eval_shape(vector(), 2.0).shape == ()
    assert seen
    assert not hasattr(other, "clear_cache")


def test_attributes_and_names_are_those_of_the_function() -> None:
    def scale(v: Vector) -> Any:
        return v.norm

    scale.tag = "mine"  # type: ignore[attr-defined]
    jitted: Any = cachax.jit(scale)
    jitted.other = "yours"
    assert jitted.tag == jax.jit(jitted).tag == "mine"
    assert functools.wraps(jitted)(lambda: None).other == "yours"  # type: ignore[attr-defined]
    partial = functools.partial(scale)
    assert cachax.jit(partial).__name__ == "scale"
    assert "name=scale" in str(jax.make_jaxpr(cachax.jit(partial))(vector()))

    class Abstract(abc.ABC):
        @cachax.jit
        @abc.abstractmethod
        def size(self) -> Any: ...

    with pytest.raises(TypeError, match="abstract"):
        Abstract()


def test_a_jitted_function_counts_as_unchanged() -> None:
    """As an argument of a cached function, and as a static field."""
    twice = cachax.jit(lambda x: 2 * x)

    @cachax.cache
    def integral(fun: Any, x: Any) -> Any:
        computing("integral")
        return jnp.sum(fun(x))

    @jax.tree_util.register_dataclass
    @dataclass(frozen=True)
    class Model:
        x: Any
        y: Any
        fun: Any = field(metadata={"static": True})

        @cachax.cached_property
        def total(self) -> Any:
            computing("total")
            return jnp.sum(self.fun(self.x))

    x = jnp.ones(3)
    with computations() as counts:
        model = Model(x, x, twice)
        for i in range(3):
            assert integral(twice, x) == replace(model, y=i * x).total == 6
    assert counts == {"integral": 1, "total": 1}


def test_nothing_in_place_of_an_object_that_just_went() -> None:
    fun = cachax.jit(lambda v: 0.0 if v is None else v.norm)
    v = vector()
    for _ in range(3):
        fun(v)
    seen = []
    watch = weakref.ref(v, lambda _: seen.append(float(fun(None))))
    del v
    assert seen == [0]
    assert watch() is None


def made(x: Any, n: Any = 1, *, k: Any = 1) -> Vector:
    new = Vector(n * k * x)
    new.norm  # noqa: B018
    return new


@pytest.mark.parametrize("options", [{}, {"static_argnums": 1}, {"donate_argnums": 0}])
def test_a_function_that_makes_an_object_of_arrays(options: dict[str, Any]) -> None:
    jax.clear_caches()
    make = cachax.jit(made, **options)
    for args, kwargs in (((), {}), ((2,), {}), ((), {"k": 2})):
        for _ in range(3):
            with computations() as counts:
                out = make(jnp.array([3.0, 4.0]), *args, **kwargs)
                assert out.norm == (10 if args or kwargs else 5)
            assert counts == {"norm": 1}


@pytest.mark.parametrize("is_known", [False, True])
def test_such_a_function_under_other_transforms(is_known: bool) -> None:
    make, x = cachax.jit(lambda x: made(x)), jnp.array([3.0, 4.0])
    if is_known:
        make(x)
    assert jax.vmap(lambda x: make(x).norm)(jnp.ones((2, 4))).tolist() == [2, 2]
    gradient = jax.grad(lambda x: make(x).norm)(x)
    np.testing.assert_allclose(gradient, [0.6, 0.8], rtol=1e-6)
    assert jax.jit(lambda x: make(x).norm)(x) == 5
    assert isinstance(make.eval_shape(x), Vector)
    assert isinstance(make.lower(x).compile()(x), Vector)
    with jax.disable_jit():
        assert make(x).norm == 5
    assert make(x).norm == 5
    make.clear_cache()
    assert make(x).norm == 5


def test_such_a_function_with_given_values_and_odd_classes() -> None:
    class Odd:
        """Its fields are computed from its leaves; and one of them is left behind."""

        def __init__(self, x: Any, scale: Any = None) -> None:
            self.x = jnp.asarray(x) + 0
            self.scale = np.ones(1) if scale is None else scale

        @cachax.cached_property
        def scaled(self) -> Any:
            return self.scale * self.x

    jax.tree_util.register_pytree_node(
        Odd, lambda obj: ((obj.x,), None), lambda _, leaves: Odd(*leaves)
    )

    @cachax.jit
    def odd(x: Any) -> Any:
        new = Odd(x, np.full(1, 2.0))
        return new, new.scaled

    given = cachax.jit(lambda self: cachax.preset(Vector(self), norm=7.0))
    x = jnp.ones(2)
    for _ in range(3):
        out, scaled = odd(x)
        assert (out.scaled.tolist(), scaled.tolist()) == ([1, 1], [2, 2])
        assert given(x).norm == given(self=x).norm == 7


def test_any_other_call_with_arrays_alone_is_one_of_jax_jit() -> None:
    traces = []

    def fun(x: Any) -> Any:
        traces.append(x)
        return x + 1

    for _ in range(3):
        assert cachax.jit(fun)(jnp.ones(3)).tolist() == [2, 2, 2]
    assert len(traces) == 1
    jitted = cachax.jit(fun)
    jitted(jnp.ones(4))
    assert len(traces) == 2
    gone = weakref.ref(state_of(jitted))
    del jitted
    assert gone() is None


class Odd(eqx.Module):
    """With values that are other things outside, or shared by all results."""

    x: Any

    @cachax.cached_property
    def array(self) -> Any:
        return np.array([2**40 + 5, 7])

    @cachax.cached_property
    def scalar(self) -> Any:
        return np.float64(0.1)

    @cachax.cached_property
    def masked(self) -> Any:
        return np.ma.masked_array([1.0, 2.0], [True, False])

    @cachax.cached_property
    def changing(self) -> Any:
        return iter([1, 2, 3])

    @cachax.cached_property
    def listed(self) -> Any:
        computing("listed")
        return [jnp.sum(self.x), "a string"]


@pytest.mark.parametrize("name", ["array", "scalar", "masked", "changing", "listed"])
def test_a_value_comes_out_unchanged(name: str) -> None:
    @cachax.jit
    def made(arrays: list[Any]) -> Odd:
        new = Odd(arrays[0] + 1)
        getattr(new, name)
        return new

    outs = [made([jnp.ones(2) * i]) for i in range(3)]
    values = [getattr(out, name) for out in outs]
    expected = [getattr(Odd(jnp.ones(2) * i + 1), name) for i in range(3)]
    assert [*map(type, values)] == [*map(type, expected)]
    assert [*map(str, map(list_of, values))] == [*map(str, map(list_of, expected))]
    if name != "scalar":  # what can't be changed may be the same one
        assert len({*map(id, values)}) == 3


@pytest.mark.parametrize("name", ["array", "scalar"])
def test_a_value_does_not_come_out_in_its_packed_form(name: str) -> None:
    @cachax.jit
    def same(odd: Odd, y: Any) -> Any:
        other = Odd(odd.x)
        return y * getattr(odd, name)[..., None], odd, other, getattr(other, name)

    odd = Odd(jnp.ones(2))
    for _ in range(3):
        _, *outs, _ = same(odd, jnp.ones(1))
        for out in outs:
            value, expected = getattr(out, name), getattr(odd, name)
            assert type(value) is type(expected)
            np.testing.assert_array_equal(value, expected)


def list_of(value: Any) -> Any:
    return value if isinstance(value, float) else list(value)


def test_a_value_comes_out_only_with_the_arrays_it_was_computed_from() -> None:
    class Loses:
        def __init__(self, x: Any, scale: Any = 1) -> None:
            self.x, self.scale = x, scale

        @cachax.cached_property
        def scaled(self) -> Any:
            return self.scale * self.x

    jax.tree_util.register_pytree_node(
        Loses, lambda obj: ((obj.x,), None), lambda _, leaves: Loses(*leaves)
    )

    @cachax.jit
    def made(arrays: list[Any], scale: Any) -> Any:
        lost, number = Loses(arrays[0], 3), Vector(0.1)
        return (lost, number, lost.scaled, number.norm)

    lost, number, scaled, _ = made([jnp.ones(2)], 3)
    assert (scaled.tolist(), lost.scaled.tolist()) == ([3, 3], [1, 1])
    assert isinstance(number.norm, jax.Array)
    assert number.norm.dtype == jnp.float32


def test_a_preset_value_of_a_different_trace() -> None:
    @cachax.jit
    def made(arrays: list[Any]) -> Any:
        return cachax.preset(Vector(arrays[0]), norm=jnp.sum(arrays[1]))

    x = jnp.ones(2)
    assert made([x, x]).norm == 2
    assert jax.jit(lambda x, y: made([x, y]).norm)(x, x) == 2
    assert jax.grad(lambda y: made([x, y]).norm)(x).tolist() == [1, 1]


def test_an_error_after_a_cached_function_got_a_new_class() -> None:
    @jax.tree_util.register_dataclass
    @dataclass(frozen=True)
    class New:
        x: Any

    total = cachax.cache(lambda new: jnp.sum(new.x))

    @cachax.jit
    def fails(new: New) -> Any:
        total(new)
        raise KeyError("mine")

    with pytest.raises(KeyError) as raised:
        fails(New(jnp.ones(2)))
    assert raised.value.__context__ is None


def test_a_result_may_bring_values_for_some_arguments_only() -> None:
    @cachax.jit
    def fun(v: Vector, x: Any) -> Any:
        return v.normed() if x.ndim else v.norm * x

    v, one, many = vector(), jnp.float32(1.0), jnp.ones(1)
    for x in (one, one, one, many, one, many, one, many):
        with computations() as counts:
            out = fun(v, x)
            norm = out.norm if x.ndim else out / 5
        assert norm == 1
    assert counts == {"norm": 1}  # of the new vector, inside


def test_any_name_of_an_argument_while_it_is_watched() -> None:
    fun = cachax.jit(lambda programs, self: programs.norm * self)
    with cachax.record(), cachax.verify():
        for _ in range(3):
            assert fun(programs=vector(), self=2.0) == 10


def test_without_arguments() -> None:
    v = vector()
    fun = cachax.jit(lambda: v.norm)
    both = cachax.jit(lambda *args, **kwargs: (len(args), len(kwargs)))
    for _ in range(3):
        assert fun() == 5
        assert both() == (0, 0)
        assert both(v, k=v) == (1, 1)
        assert both(v, v, v) == (3, 0)
        assert both(None) == (1, 0)


@cachax.jit
def module_level(v: Vector) -> Any:
    return v.norm


# Options: argument numbers mean the user's own arguments


@pytest.mark.parametrize(
    "options",
    [
        {"static_argnums": 1},
        {"static_argnums": (-1,)},
        {"static_argnames": "power"},
        {"static_argnums": (1,), "static_argnames": ("power",)},
    ],
    ids=str,
)
def test_static_arguments(options: dict[str, Any]) -> None:
    @functools.partial(cachax.jit, **options)
    def fun(v: Vector, power: int) -> Any:
        assert isinstance(power, int)
        return v.norm**power

    v = vector()
    with computations() as counts:
        assert [fun(v, 1), fun(v, 2), fun(v, 1)] == [5, 25, 5]
        if options.get("static_argnames"):
            assert fun(v, power=2) == 25
    assert counts == {"norm": 1}


def test_which_values_are_used_may_depend_on_a_static_argument() -> None:
    @functools.partial(cachax.jit, static_argnums=1)
    def fun(v: Vector, which: str) -> Any:
        return getattr(v, which)

    v = vector()
    cachax.warm(v, "norm")
    with compilations() as compiled:
        for _ in range(2):
            assert fun(v, "norm").tolist() == 5
            assert fun(v, "itself").tolist() == [3, 4]
    assert len(compiled) == 2


def test_an_object_as_a_static_argument() -> None:
    @dataclass(frozen=True)
    class Grid:
        n: int

        @cachax.cached_property
        def points(self) -> jax.Array:
            computing("points")
            return jnp.arange(self.n)

    fun = cachax.jit(lambda g, v: v.norm * g.points, static_argnums=0)
    grid, v = Grid(3), vector()
    with computations() as counts:
        for _ in range(2):
            assert fun(grid, v).tolist() == [0, 5, 10]
        assert grid.points.tolist() == [0, 1, 2]
    assert counts == {"points": 1, "norm": 1}


def test_donation_of_an_object_with_a_value_that_is_its_buffer() -> None:
    fun = cachax.jit(lambda k, v: (v.x * k * v.norm, v.itself + 0), donate_argnums=1)
    for _ in range(2):
        v = vector()
        kept = (v.norm, v.itself)[0]
        product, same = fun(2.0, v)
        assert product.tolist() == [30, 40]
        assert same.tolist() == [3, 4]
        assert kept == 5
        assert v.x.is_deleted()
    by_name = cachax.jit(lambda v: v.itself * v.x, donate_argnames="v")
    assert by_name(cachax.warm(vector(), "itself")).tolist() == [9, 16]


def mesh_of_two() -> jax.sharding.Mesh:
    return jax.sharding.Mesh(np.array(first_devices(2)), ("d",))


@pytest.mark.parametrize("form", ["one", "each", "list"])
def test_in_and_out_shardings(form: str) -> None:
    split = NamedSharding(mesh_of_two(), PartitionSpec("d"))
    given: Any = {"one": split, "each": (split, None), "list": [split, split]}[form]
    fun = cachax.jit(
        lambda v, y: Vector(v.x * y / v.norm), in_shardings=given, out_shardings=split
    )
    v = vector()
    for _ in range(2):
        out = fun(v, jnp.array([5.0, 10.0]))
        assert out.x.tolist() == [3, 8]
        assert out.x.sharding == split


@pytest.mark.parametrize(
    "options",
    [
        {"keep_unused": True},
        {"inline": True},
        {"backend": "cpu"},
        {"device": "first"},
        {"compiler_options": {"xla_embed_ir_in_executable": True}},
    ],
    ids=lambda o: next(iter(o)),
)
@pytest.mark.filterwarnings("ignore:backend and device argument on jit is deprecated")
def test_other_options_are_handed_on(options: dict[str, Any]) -> None:
    if "device" in options:
        options = {"device": jax.devices()[0]}
    if not set(options) <= set(inspect.signature(jax.jit).parameters):
        pytest.skip(f"this JAX has no option {options}")
    fun = functools.partial(cachax.jit, **options)(lambda v, unused: v.norm)
    v = vector()
    with computations() as counts:
        assert [fun(v, 1.0), fun(v, 2.0)] == [5, 5]
    assert counts == {"norm": 1}


def test_an_unknown_option_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match="no_such_option"):
        cachax.jit(lambda v: v.norm, no_such_option=1)


def test_an_unhashable_static_argument_gets_jax_own_error() -> None:
    fun = cachax.jit(lambda v, k: v.norm, static_argnums=1)
    with pytest.raises(ValueError, match=r"[Nn]on-hashable static"):
        fun(vector(), [1])


# Ahead of time


def test_lower_trace_and_eval_shape_take_the_users_arguments() -> None:
    fun = cachax.jit(lambda v, k: v.norm * k)
    v = vector()
    compiled = fun.lower(v, 2.0).compile()
    assert compiled(v, 3.0) == 15
    assert compiled(vector(6.0, 8.0), 2.0) == 20
    assert fun.trace(v, 2.0).jaxpr is not None
    assert fun.eval_shape(v, 2.0).shape == ()
    abstract = jax.eval_shape(lambda: vector())
    assert fun.lower(abstract, 2.0).compile()(v, 2.0) == 10
    assert not cachax.cached(v)


def test_export() -> None:
    fun = cachax.jit(lambda line, k: line.mean * k)
    line = Line(jnp.array([1.0, 3.0]))
    assert fun(line, 1.0) == 2
    exported = jax.export.export(fun)(line, 2.0)
    assert exported.call(Line(jnp.array([5.0, 7.0])), 2.0) == 12


def test_make_jaxpr_shows_the_value_computed_once() -> None:
    fun = cachax.jit(lambda v: v.norm + v.norm)
    jaxpr = jax.make_jaxpr(lambda v: fun(v) + fun(v) * v.norm)(vector())
    assert str(jaxpr).count("sqrt") == 1


def test_clear_cache() -> None:
    traced = []
    fun = cachax.jit(lambda v: traced.append(1) or v.norm)
    v = vector()
    fun(v)
    before = len(traced)
    fun(v)
    assert len(traced) == before
    fun.clear_cache()
    assert fun(v) == 5
    assert len(traced) > before


# Objects


def test_one_object_in_several_places() -> None:
    fun = cachax.jit(lambda v, w, rest: v.norm + w.norm + rest["u"][0].norm)
    v = vector()
    with computations() as counts:
        assert fun(v, v, {"u": [v]}) == 15
        assert fun(v, vector(6.0, 8.0), rest={"u": [v]}) == 20
    assert counts == {"norm": 2}


class Pair(eqx.Module):
    left: Vector
    right: Vector

    @cachax.cached_property
    def total(self) -> jax.Array:
        computing("total")
        return self.left.norm + self.right.norm

    @cachax.cached_property
    def sum(self) -> Vector:
        """A value that has cached values itself."""
        computing("sum")
        return Vector(self.left.x + self.right.x)

    @cachax.cached_property
    def around(self) -> Any:
        """A value that holds the object itself."""
        computing("around")
        return {"pair": self, "total": self.total}


def pair() -> Pair:
    return Pair(vector(), vector(6.0, 8.0))


def test_objects_inside_objects() -> None:
    fun = cachax.jit(lambda p: p.total + p.left.norm)
    p = pair()
    with computations() as counts:
        assert [fun(p), fun(p)] == [20, 20]
        assert p.left.norm == 5
    assert counts == {"total": 1, "norm": 2}
    assert fun(Pair(p.left, vector(0.0, 1.0))) == 11


def test_a_value_that_has_cached_values_itself() -> None:
    fun = cachax.jit(lambda p: p.sum.norm * 2)
    p = pair()
    with computations() as counts:
        assert [fun(p), fun(p)] == [30, 30]
        assert p.sum.norm == 15
    assert counts == {"sum": 1, "norm": 1}
    assert fun(Pair(vector(), vector())) == 20


def test_a_value_that_holds_its_object() -> None:
    fun = cachax.jit(lambda p: p.around["pair"].left.x * p.around["total"])
    p = pair()
    with computations() as counts:
        assert [fun(p).tolist(), fun(p).tolist()] == [[45, 60], [45, 60]]
        assert p.around["pair"] is p
    assert counts == {"around": 1, "total": 1, "norm": 2}


def test_a_static_result_retraces_when_it_changes() -> None:
    fun = cachax.jit(lambda v: jnp.arange(v.size))
    assert fun(vector()).tolist() == [0, 1]
    assert fun(vector(1.0, 2.0, 3.0)).tolist() == [0, 1, 2]


def test_equal_statics_of_different_types_are_distinguished() -> None:
    class Number(eqx.Module):
        x: jax.Array
        n: Any = eqx.field(static=True)

        @cachax.cached_property
        def value(self) -> Any:
            return self.n

    seen: list[Any] = []
    fun = cachax.jit(lambda o: seen.append(o.value) or o.x)
    one = jnp.ones(())
    for n in (1, 1.0, True, 0.0, -0.0, -1, -2):
        seen.clear()
        fun(Number(one, n))
        assert [(type(s), repr(s)) for s in seen[-1:]] == [(type(n), repr(n))]


def test_a_function_that_asks_according_to_shapes() -> None:
    @cachax.jit
    def fun(v: Vector) -> Any:
        return v.norm if len(v.x) == 2 else v.x[0]

    small, large = vector(), vector(1.0, 2.0, 3.0)
    with computations() as counts:
        assert [fun(small), fun(large), fun(small), fun(large)] == [5, 1, 5, 1]
    assert counts == {"norm": 1}  # of the small one: never computed for the large
    cachax.warm(large, "norm")
    with compilations() as compiled:
        assert [fun(small), fun(large)] == [5, 1]
    assert compiled == []


def test_a_function_that_uses_something_else_at_every_trace() -> None:
    class Many(eqx.Module):
        x: jax.Array
        first = cachax.cached_property(lambda self: self.x + 1)
        second = cachax.cached_property(lambda self: self.x + 2)

    names = ["first", "second"]

    @cachax.jit
    def fickle(o: Many) -> Any:
        names.reverse()
        return getattr(o, names[0])

    assert fickle(Many(jnp.zeros(()))) in (1, 2)


def test_a_function_that_raises_after_it_asked() -> None:
    @cachax.jit
    def fun(v: Vector) -> Any:
        raise ValueError(f"the norm has shape {v.norm.shape}")

    with pytest.raises(ValueError, match=r"shape \(\)"):
        fun(vector())


def test_a_body_that_raises_inside_jit_shows_its_own_error() -> None:
    class Broken(eqx.Module):
        x: jax.Array

        @cachax.cached_property
        def value(self) -> Any:
            raise ZeroDivisionError("own words")

    obj = Broken(jnp.ones(()))
    fun = cachax.jit(lambda o: o.value)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError, match="own words") as caught:
            fun(obj)
        assert caught.value.__context__ is None
    assert not cachax.is_cached(obj, "value")


def test_leaves_of_two_trace_levels() -> None:
    class Two(eqx.Module):
        a: Any
        b: Any

        @cachax.cached_property
        def product(self) -> Any:
            computing("product")
            return jnp.sum(self.a * self.b)

    def outer(a: Any) -> Any:
        def inner(b: Any) -> Any:
            two = Two(a, b)
            jax.lax.fori_loop(0, 2, lambda _, c: c + two.product, 0.0)
            return two.product * two.product

        return jax.grad(inner)(a * 3)

    x = jnp.array([1.0, 2.0])
    with jax.checking_leaks():
        got = jax.jit(jax.jacfwd(outer))(x)
        expected = jax.jacfwd(lambda a: jax.grad(lambda b: jnp.sum(a * b) ** 2)(a * 3))(
            x
        )
    np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_a_returned_argument_keeps_its_values() -> None:
    fun = cachax.jit(lambda v: (v, v.norm))
    v = vector()
    with computations() as counts:
        out, _ = fun(v)
        again, _ = fun(out)
        assert again.norm == 5
    assert counts == {"norm": 1}


def test_a_method_that_returns_a_new_object_warm() -> None:
    new = vector().normed()
    assert cachax.is_cached(new, "norm")
    np.testing.assert_allclose(new.norm, 1, rtol=1e-6)


def test_sharded_objects_keep_the_sharding() -> None:
    class Grid(eqx.Module):
        x: jax.Array

        @cachax.cached_property
        def doubled(self) -> jax.Array:
            return self.x * 2

    split = NamedSharding(mesh_of_two(), PartitionSpec("d"))
    grid = Grid(jax.device_put(jnp.arange(4.0), split))
    out = cachax.jit(lambda g: g.doubled + 1)(grid)
    assert out.tolist() == [1, 3, 5, 7]
    assert grid.doubled.sharding.is_equivalent_to(split, 1)
    assert out.sharding.is_equivalent_to(split, 1)


def test_with_jit_disabled() -> None:
    fun = cachax.jit(lambda v: (v, v.norm))
    v = vector()
    with jax.disable_jit():
        same, norm = fun(v)
    assert same is v
    assert norm == 5
    assert fun(v)[1] == 5


def test_random_keys_weak_types_and_numpy_values() -> None:
    class Mixed(eqx.Module):
        x: jax.Array

        @cachax.cached_property
        def key(self) -> Any:
            return jax.random.key(7)

        @cachax.cached_property
        def weak(self) -> Any:
            return jnp.asarray(2.0) * 1

        @cachax.cached_property
        def table(self) -> Any:
            return np.arange(3), np.float64(2.5), np.int64(4), "name", (1, None)

    obj = Mixed(jnp.ones((), dtype=jnp.bfloat16))

    @cachax.jit
    def fun(o: Mixed) -> Any:
        array, real, integer, name, (one, none) = o.table
        assert isinstance(array, jax.Array)
        assert (int(integer), name, one, none) == (4, "name", 1, None)
        return jax.random.normal(o.key), o.x * o.weak, array * real

    for _ in range(2):
        normal, product, table = fun(obj)
        assert normal == jax.random.normal(jax.random.key(7))
        assert product.dtype == (obj.x * obj.weak).dtype == jnp.bfloat16
        assert table.tolist() == [0, 2.5, 5]
    assert isinstance(obj.table[0], np.ndarray)


def test_double_precision() -> None:
    with enable_x64(True):
        v = Vector(jnp.array([3.0, 4.0]))
        assert cachax.jit(lambda v: v.norm * 1.0)(v).dtype == jnp.float64


def test_vmap_and_grad_around_and_inside() -> None:
    fun = cachax.jit(lambda v, k: v.norm * k)
    batch = Vector(jnp.array([[3.0, 4.0], [6.0, 8.0]]))
    assert jax.vmap(fun, in_axes=(0, None))(batch, 2.0).tolist() == [10, 20]
    assert cachax.jit(jax.vmap(lambda v: v.norm))(batch).tolist() == [5, 10]
    gradient = jax.vmap(jax.grad(fun), in_axes=(0, None))(batch, 1.0)
    np.testing.assert_allclose(gradient.x, [[0.6, 0.8], [0.6, 0.8]], rtol=1e-6)
