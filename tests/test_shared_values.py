"""A rebuilt object keeps what still holds: what was computed from the same arrays."""

import collections
import copy
import datetime
import decimal
import gc
import operator
import os
import pickle
import subprocess
import sys
import weakref
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import equinox as eqx
import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cachax
from cachax._core import index

from cases import MUTABLE, PYTREES, A, B, close, fresh, over, truth
from devices import first_devices
from families import FAMILIES, Family, array
from measure import compilations, computations, computing
from models import Mesh


def mesh(**changes: Any) -> Mesh:
    return Mesh(**{"points": jnp.arange(3.0), "density": jnp.ones(3)} | changes)


def scaled(obj: Any) -> Any:
    return replace(obj, density=2 * obj.density)


# Every family


@over(FAMILIES)
def test_what_does_not_depend_on_a_replaced_field_is_kept(family: Family) -> None:
    obj = fresh(family)
    with computations() as counts:
        close(obj.energy, truth("energy"))
        new = family.replace(obj, b=jnp.asarray(B + 1))
        close(new.scaled, truth("scaled", b=B + 1))
        close(new.energy, truth("energy"))
        close(new.power(2), A**2)
        close(family.replace(new, b=array(obj.b)).power(2), A**2)
    assert counts["scaled"] == 1
    if family.pytree:  # else what a body uses cannot be found out
        assert counts == {"energy": 1, "scaled": 1, "power": 1}


@over(FAMILIES)
def test_what_depends_on_it_is_computed_again(family: Family) -> None:
    obj = fresh(family, warm=True)
    for name in family.warmable:
        got = getattr(family.replace(obj, a=jnp.asarray(A + 1)), name)
        close(got, truth(name, a=A + 1))


@over(PYTREES)
def test_an_object_put_together_again_has_all_its_values(family: Family) -> None:
    obj = fresh(family, warm=True)
    leaves, structure = jax.tree.flatten(obj)
    rebuilt = [
        jax.tree.map(lambda x: x, obj),
        jax.tree.unflatten(structure, leaves),
        copy.copy(obj),
        eqx.combine(*eqx.partition(obj, eqx.is_array)),
    ]
    with computations() as counts:
        for new in rebuilt:
            for name in family.warmable:
                close(getattr(new, name), truth(name))
    assert not counts


@over(PYTREES)
def test_inside_a_trace_values_of_arguments_come_from_outside(
    family: Family, no_leaks: None
) -> None:
    @cachax.jit
    def use(obj: Any, b: Any) -> Any:
        new = family.replace(obj, b=b)
        return new.energy, new.jit_energy, new.scaled

    obj = fresh(family)
    with computations() as counts:
        for i in range(3):
            energy, jit_energy, product = use(obj, jnp.asarray(B + i))
            close(energy, truth("energy"))
            close(jit_energy, truth("jit_energy"))
            close(product, truth("scaled", b=B + i))
    assert counts == {"energy": 1, "jit_energy": 1, "scaled": 3}
    assert {"energy", "jit_energy"} <= cachax.cached(obj).keys()


@over(MUTABLE)
def test_an_assigned_field_is_never_overlooked(family: Family) -> None:
    obj = fresh(family, warm=True)
    twin = family.replace(obj, b=array(obj.b))
    close(twin.scaled, truth("scaled"))
    family.assign(obj, jnp.asarray(A + 1))
    close(obj.scaled, truth("scaled", a=A + 1))
    close(family.replace(obj, b=array(obj.b)).scaled, truth("scaled", a=A + 1))


# What a value depends on


def test_a_mesh_keeps_its_factor_when_the_density_changes() -> None:
    first = mesh()
    with computations() as counts:
        first.factor, first.mass  # noqa: B018
        second = scaled(first)
        close(second.factor, first.factor)
        close(second.mass, 2 * first.mass)
    assert counts == {"stiffness": 1, "factor": 1, "mass": 2}


def test_a_value_is_kept_if_the_old_object_is_freed_first() -> None:
    gc.collect()
    one = mesh()
    with computations() as counts:
        for _ in range(5):
            one.factor  # noqa: B018
            one = scaled(one)
    assert counts == {"stiffness": 1, "factor": 1}


def test_what_the_body_looks_at_counts_if_it_cannot_be_traced() -> None:
    first = mesh()
    with computations() as counts:
        first.count, scaled(first).count, copy.copy(first).count
        replace(first, points=2 * first.points).count  # noqa: B018
    assert counts == {"count": 2}


def test_static_fields_count() -> None:
    first = mesh()
    close(first.stiffness, mesh().stiffness)
    close(replace(first, order=2).stiffness, 2 * first.stiffness)
    close(replace(first, order=True).stiffness, first.stiffness)


def test_the_shape_of_an_array_counts_though_its_numbers_do_not() -> None:
    first = mesh()
    with computations() as counts:
        close(first.size, 9.0)
        close(scaled(first).size, 9.0)
        close(replace(first, density=jnp.ones(2)).size, 6.0)
    assert counts == {"size": 2}


def test_equal_arrays_are_not_the_same_arrays() -> None:
    first = mesh()
    with computations() as counts:
        first.stiffness  # noqa: B018
        replace(first, points=jnp.array(first.points, copy=True)).stiffness  # noqa: B018
        pickle.loads(pickle.dumps(first)).stiffness  # noqa: B018
    assert counts == {"stiffness": 3}


def test_two_fields_that_were_exchanged() -> None:
    first = mesh(points=jnp.arange(3.0), density=jnp.ones(3))
    other = replace(first, points=first.density, density=first.points)
    close(first.stiffness, np.outer(np.arange(3), np.arange(3)))
    close(other.stiffness, np.ones((3, 3)))
    same = replace(first, points=first.density)
    close(same.stiffness, np.ones((3, 3)))
    close(replace(same, points=first.points).stiffness, first.stiffness)


def test_numpy_arrays_never_share() -> None:
    points = np.arange(3.0, dtype=np.float32)
    first = mesh(points=points)
    with computations() as counts:
        first.stiffness  # noqa: B018
        points[:] = 7
        close(copy.copy(first).stiffness, np.full((3, 3), 49))
    assert counts == {"stiffness": 2}


def test_a_numpy_array_that_the_body_reads_is_not_shared() -> None:
    """Whether it uses the contents, or its type, can't be detected."""
    first = mesh(density=np.ones(3))
    with computations() as counts:
        cachax.warm(first), cachax.warm(first)
        cachax.warm(replace(first, density=np.zeros(3)))
        cachax.warm(copy.copy(first))
    assert counts["mass"] == 3
    assert counts["stiffness"] == 1  # it doesn't read the density


class Loose(eqx.Module):
    x: Any
    kind: str = eqx.field(static=True)

    @cachax.cached_property
    def table(self) -> Any:
        return [float(self.x.sum())]

    @cachax.cached_property
    def host(self) -> Any:
        return np.array(self.x)

    @cachax.cached_property
    def itself(self) -> Any:
        return self.x


def test_a_value_that_can_be_changed_is_not_shared() -> None:
    first = Loose(jnp.ones(2), "a")
    second = copy.copy(first)
    first.table.append("mine")
    assert second.table == [2.0]
    assert second.host is not first.host


@pytest.fixture
def no_collector() -> Any:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


# Law 8


@pytest.mark.usefixtures("no_collector")
def test_the_values_go_with_the_arrays() -> None:
    first = mesh()
    second = scaled(first)
    watched = [weakref.ref(first.factor), weakref.ref(first.mass)]
    assert second.factor is first.factor
    second.mass  # noqa: B018
    del first  # and its density, which the factor has nothing to do with
    assert watched[0]() is second.factor
    assert watched[1]() is None
    del second
    assert watched[0]() is None


def test_of_a_body_that_was_not_looked_at_yet_when_the_collector_comes() -> None:
    first = mesh()
    points = first.points
    watched = weakref.ref(first.mass)
    del first
    gc.collect()
    assert watched() is None
    assert points is not None


@pytest.mark.usefixtures("no_collector")
def test_a_value_that_is_a_field_keeps_nothing_alive() -> None:
    first = Loose(jnp.ones(2), "a")
    watched = weakref.ref(first.itself)
    del first
    assert watched() is None


def buffers() -> int:
    """How many there are. (With JAX 0.4, reading the address of an array makes it
    two arrays.)"""
    gc.collect()
    arrays = [getattr(x, "_base_array", x) for x in jax.live_arrays()]
    shards = [shard.data for x in arrays for shard in x.addressable_shards]
    return len({x.unsafe_buffer_pointer() for x in shards if x.size})


def test_of_many_objects_with_one_array_few_values_are_kept() -> None:
    points = jnp.arange(3.0)
    first = mesh(points=points)
    scaled(first).stiffness, first.stiffness
    before = buffers()
    for i in range(100):
        mesh(points=points, order=i + 2).stiffness  # noqa: B018
    assert buffers() <= before + index._VARIANTS + 1


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Power:
    x: jax.Array
    n: int = field(metadata={"static": True})

    @cachax.cached_property
    def value(self) -> Any:
        computing("value")
        return self.x**self.n


def test_of_values_that_are_used_again_some_are_kept_too() -> None:
    points = jnp.arange(3.0)
    before = buffers()
    for i in [*range(100)] * 3:
        mesh(points=points, order=i + 2).stiffness  # noqa: B018
    assert buffers() <= before + index._VARIANTS + index._VARIANTS_AGAIN


@pytest.mark.parametrize("is_inside", [False, True])
def test_objects_with_one_array_that_are_made_in_turn(is_inside: bool) -> None:
    """Values that turn out to be used again stay, though there are many."""
    x, read = jnp.arange(3.0), operator.attrgetter("value")
    fun = cachax.jit(lambda power: 1 * power.value) if is_inside else read
    with computations() as counts:
        for _ in range(5):
            for n in range(10):
                close(fun(Power(x, n)), x**n)
    assert counts["value"] <= 20


# Traces


def test_a_traced_field_that_is_not_used_leaves_the_value_outside() -> None:
    first = mesh()
    first.stiffness  # noqa: B018
    with computations() as counts:

        def loss(density: Any) -> Any:
            new = replace(first, density=density)
            return jnp.sum(new.stiffness) * new.mass

        for fun in (loss, jax.jit(loss)):
            close(jax.grad(fun)(first.density), 9 * first.points)
            close(jax.vmap(fun)(jnp.ones((2, 3))), np.array([27.0, 27.0]))
    assert counts["stiffness"] == 0


def test_a_value_of_an_inner_trace_never_gets_out(no_leaks: None) -> None:
    first = mesh()

    @jax.jit
    def inside(density: Any) -> Any:
        return replace(first, density=density).stiffness

    close(inside(jnp.ones(3)), np.outer(np.arange(3), np.arange(3)))
    for other in (first, scaled(first)):
        assert not isinstance(other.stiffness, jax.core.Tracer)


def test_correct_derivatives_of_kept_values() -> None:
    def energy(points: Any) -> Any:
        first = mesh(points=points)
        total = jnp.sum(first.stiffness)
        return total + jnp.sum(scaled(first).stiffness)

    close(jax.grad(energy)(jnp.arange(3.0)), np.full(3, 12.0))


def test_a_loop_over_rebuilt_objects_compiles_once() -> None:
    use = cachax.jit(lambda m: jnp.sum(m.factor) * m.mass)
    one = mesh()
    use(one), use(scaled(one))
    with computations() as counts, compilations() as compiled:
        for _ in range(30):  # more than it takes to compile for new objects
            one = scaled(one)
            use(one)
    assert counts == {"mass": 30}
    assert len(compiled) <= 1  # with `mass` inside, unless it is in JAX's cache


# What is on trust, or cleared


def test_a_preset_value_stays_with_its_object() -> None:
    first = mesh()
    known = cachax.preset(first, stiffness=jnp.eye(3))
    close(known.factor, np.sqrt(10) * np.eye(3))
    close(first.factor @ first.factor.T, first.stiffness + 9 * np.eye(3))
    close(scaled(known).stiffness, first.stiffness)
    close(
        cachax.preset(first, stiffness=2 * jnp.eye(3)).factor, np.sqrt(11) * np.eye(3)
    )


def test_what_was_cleared_is_computed_again() -> None:
    first = mesh()
    with computations() as counts:
        first.stiffness  # noqa: B018
        cachax.clear(first)
        first.stiffness  # noqa: B018
    assert counts == {"stiffness": 2}


def test_an_object_returned_from_jit_has_them_too() -> None:
    grown = cachax.jit(lambda m: cachax.warm(replace(m, points=m.points + 1), "factor"))
    with computations() as counts:
        new = grown(mesh())
        close(scaled(new).factor, new.factor)
    assert counts == {"stiffness": 1, "factor": 1}


# What a body may depend on without its being an array


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class With:
    """An array that is used, one that may be, and something else."""

    a: Any
    b: Any
    s: Any = field(default=None, metadata={"static": True})

    @cachax.cached_property
    def value(self) -> Any:
        return jnp.sum(self.s(self.a, self.b) if callable(self.s) else self.a) + 0

    @cachax.cached_property
    def size(self) -> Any:
        return jnp.sum(self.a) * (len(self.s) if hasattr(self.s, "__len__") else 0)

    @cachax.cached_property
    def shown(self) -> tuple[str, Any]:
        return repr(self.s), jnp.sum(self.a)


def first_of(a: Any, b: Any) -> Any:
    return a


def second_of(a: Any, b: Any) -> Any:
    return b


def test_a_different_static_function_uses_other_fields() -> None:
    a, b = jnp.ones(3), jnp.ones(3)
    one = With(a, b, first_of)
    close(one.value, 3.0)
    close(replace(one, b=2 * b).value, 3.0)
    two = With(a, b, second_of)
    close(two.value, 3.0)
    close(replace(two, b=7 * b).value, 21.0)


def test_a_function_whose_closure_changes() -> None:
    factors = [1.0]
    one = With(jnp.ones(3), jnp.ones(3), lambda a, b: factors[0] * a)
    close(one.value, 3.0)
    factors[0] = 2.0
    close(replace(one).value, 6.0)


@pytest.mark.parametrize(
    ("mine", "others"),
    [
        (range(3), range(5)),
        (datetime.date(2020, 1, 1), datetime.date(2021, 1, 1)),
        (decimal.Decimal("1.0"), decimal.Decimal("2.0")),
        (np.float32(0.0), np.float32(-0.0)),
        (np.timedelta64(60, "s"), np.timedelta64(1, "m")),
        (frozenset({1}), frozenset({1.0})),
        (1, True),
        (slice(1), slice(2)),
    ],
    ids=repr,
)
def test_static_parts_are_distinguished(mine: Any, others: Any) -> None:
    one = With(jnp.ones(3), jnp.ones(3), mine)
    assert one.shown[0] == repr(mine)
    assert replace(one, s=others).shown[0] == repr(others)
    assert replace(one, s=mine).shown[0] == repr(mine)


def test_containers_with_more_than_their_items() -> None:
    one = With(jnp.ones(3), jnp.ones(3), collections.deque([1], maxlen=1))
    assert "maxlen=1" in one.shown[0]
    other = replace(one, s=collections.deque([1], maxlen=2))
    assert "maxlen=2" in other.shown[0]


class Open:
    def __init__(self) -> None:
        self.r: Any = None

    @cachax.cached_property
    def shown(self) -> str:
        return repr(self.r)


def test_an_id_that_is_used_again_for_a_range() -> None:
    one = Open()
    for n in range(50):
        one.r = None
        one.r = range(n)
        assert one.shown == f"range(0, {n})"


def test_random_keys() -> None:
    @jax.tree_util.register_dataclass
    @dataclass(frozen=True)
    class Keyed:
        key: Any
        x: Any

        @cachax.cached_property
        def draw(self) -> Any:
            computing("draw")
            return jax.random.normal(self.key, (2,))

    one = Keyed(jax.random.key(0), jnp.ones(2))
    with computations() as counts:
        close(one.draw, jax.random.normal(jax.random.key(0), (2,)))
        close(replace(one, x=2 * one.x).draw, one.draw)
        close(cachax.jit(lambda k: k.draw)(one), one.draw)
    assert counts == {"draw": 1}


def test_the_device_of_an_array_that_is_not_used() -> None:
    @jax.tree_util.register_dataclass
    @dataclass(frozen=True)
    class Zeros:
        x: Any
        other: Any

        @cachax.cached_property
        def zeros(self) -> Any:
            return jnp.zeros_like(self.x) + self.other

    first, second = first_devices(2)
    other = jnp.float32(0)
    one = Zeros(jax.device_put(jnp.ones(2), first), other)
    one.zeros  # noqa: B018
    moved = replace(one, x=jax.device_put(jnp.ones(2), second))
    assert (moved.zeros + moved.x).devices() == {second}


def test_a_class_that_loses_a_field_when_it_is_flattened() -> None:
    @jax.tree_util.register_pytree_node_class
    class Losing:
        def __init__(self, a: Any, b: Any, mode: str = "") -> None:
            self.a, self.b, self.mode = a, b, mode

        def tree_flatten(self) -> Any:
            return (self.a, self.b), None

        @classmethod
        def tree_unflatten(cls, _: None, children: Any) -> Any:
            return cls(*children)

        @cachax.cached_property
        def value(self) -> Any:
            return jnp.sum(self.b if self.mode == "b" else self.a)

    a, b = jnp.ones(2), jnp.ones(2)
    close(Losing(a, b, "b").value, 2.0)
    close(Losing(a, 5 * b, "b").value, 10.0)


def test_a_field_with_an_odd_name() -> None:
    class Odd:
        def __init__(self, x: Any, scale: float) -> None:
            self.x = x
            self.__dict__["__scale__"] = scale

        @cachax.cached_property
        def value(self) -> Any:
            return jnp.sum(self.x) * self.__dict__["__scale__"]

    x = jnp.ones(2)
    close(Odd(x, 1.0).value, 2.0)
    close(Odd(x, 2.0).value, 4.0)


def test_what_cannot_be_hashed_is_not_compared() -> None:
    class Unhashable(str):
        __hash__ = None  # type: ignore[assignment]

    class Named:
        def __init__(self, x: Any) -> None:
            self.x, self.name = x, Unhashable("n")

        @cachax.cached_property
        def value(self) -> Any:
            return jnp.sum(self.x)

    x = jnp.ones(2)
    close(Named(x).value, 2.0)
    close(Named(x).value, 2.0)


def test_an_interrupt_while_looking_is_forgotten() -> None:
    interrupts = [True]

    @jax.tree_util.register_dataclass
    @dataclass(frozen=True)
    class Interrupted:
        x: Any
        y: Any

        @cachax.cached_property
        def value(self) -> Any:
            if isinstance(self.x, jax.core.Tracer) and interrupts.pop():
                raise KeyboardInterrupt
            computing("value")
            return jnp.sum(self.x)

    one = Interrupted(jnp.ones(2), jnp.ones(2))
    with pytest.raises(KeyboardInterrupt):
        one.value  # noqa: B018
    interrupts.append(False)
    with computations() as counts:
        close(one.value, 2.0)
        close(replace(one, y=3 * one.y).value, 2.0)
    assert counts == {"value": 1}


def test_a_preset_value_that_comes_out_of_jit_stays_with_its_object() -> None:
    given = cachax.jit(lambda m: cachax.preset(m, stiffness=jnp.zeros((3, 3))))(mesh())
    close(given.stiffness, np.zeros((3, 3)))
    close(scaled(given).stiffness, np.outer(np.arange(3), np.arange(3)))
    close(given.factor, 3 * np.eye(3))
    close(
        scaled(given).factor @ scaled(given).factor.T,
        scaled(given).stiffness + 9 * np.eye(3),
    )


def test_of_a_method_few_values_are_kept_for_one_array() -> None:
    points = jnp.arange(3.0)
    before = buffers()
    for n in range(150):
        mesh(points=points).power(n)
    assert buffers() <= before + index._MANY_VARIANTS + 1


def test_nothing_is_printed_at_the_end_of_a_program(tmp_path: Any) -> None:
    """The last objects go when modules have no globals any more."""
    script = tmp_path / "script.py"
    script.write_text(
        """
import dataclasses, jax, jax.numpy as jnp, cachax, cachax._core.index

@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Mesh:
    points: jax.Array
    density: jax.Array

    @cachax.cached_property
    def total(self):
        return jnp.sum(self.points)

points = jnp.ones(3)
meshes = [Mesh(points, jnp.ones(3)) for _ in range(3)]
print([float(mesh.total) for mesh in meshes])
cachax.hold = [Mesh(points, jnp.zeros(3)), points]
cachax.hold[0].total
"""
    )
    ended = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": str(Path(cachax.__file__).parent.parent)},
    )
    assert (ended.stdout, ended.stderr) == ("[3.0, 3.0, 3.0]\n", "")


def test_a_leaf_elsewhere_in_an_equinox_model() -> None:
    class Layer(eqx.Module):
        weight: jax.Array
        scale: jax.Array

        @cachax.cached_property
        def norm(self) -> Any:
            computing("norm")
            return jnp.linalg.norm(self.weight)

    class Model(eqx.Module):
        layers: list[Layer]

        @cachax.cached_property
        def total(self) -> Any:
            computing("total")
            return sum(layer.norm for layer in self.layers)

    layers = [Layer(jnp.full((2, 2), float(i)), jnp.ones(2)) for i in (1, 2)]
    model = Model(layers)
    with computations() as counts:
        close(model.total, 6.0)
        other = eqx.tree_at(lambda m: m.layers[1].scale, model, 2 * jnp.ones(2))
        close(other.total, 6.0)
        third = eqx.tree_at(lambda m: m.layers[1].weight, other, jnp.zeros((2, 2)))
        close(third.total, 2.0)
    assert counts == {"norm": 3, "total": 2}


@jax.tree_util.register_dataclass
@dataclass
class Twice:
    x: Any
    z: Any

    @cachax.cached_property
    def p(self) -> Any:
        return self.x.sum()

    @cachax.cached_property
    def q(self) -> Any:
        return self.p * 2


def twice() -> tuple[Any, Any]:
    """A class that nothing was learned of, and its arrays."""
    p, q = Twice.p.func, Twice.q.func
    body = {"p": cachax.cached_property(p), "q": cachax.cached_property(q)}
    cls: Any = type("Twice", (Twice,), body)
    jax.tree_util.register_dataclass(cls, ["x", "z"], [])
    return cls, (jnp.arange(4.0), jnp.zeros(3))


def test_what_depends_on_a_preset_value_is_not_shared_inside_jit() -> None:
    cls, arrays = twice()
    given = cachax.preset(cls(*arrays), p=jnp.float32(100))

    @cachax.jit
    def rebuilt(given: Any) -> Any:
        new = replace(given, z=given.z + 1)
        return given.q, new.p, new.q

    assert rebuilt(given) == (200, 6, 12)


def test_what_depends_on_an_assigned_value_is_not_shared_inside_jit() -> None:
    cls, arrays = twice()

    @cachax.jit
    def both(x: Any, z: Any) -> Any:
        assigned = cls(x, z)
        assigned.p = jnp.float32(100)
        other = cls(x, z)
        return assigned.q, other.q, other

    first, second, returned = both(*arrays)
    assert (first, second, returned.q) == (200, 12, 12)


def test_an_object_that_is_in_a_different_one_twice() -> None:
    """JAX makes two of it, and that makes no difference."""

    @jax.tree_util.register_dataclass
    @dataclass
    class Pair:
        items: Any

        @cachax.cached_property
        def total(self) -> Any:
            computing("total")
            return sum(item.q for item in self.items)

    cls, arrays = twice()
    item = cls(*arrays)
    pair = Pair([item, item])
    with computations() as counts:
        assert pair.total == 24
        assert jax.tree.map(lambda x: x, pair).total == 24
        assert cachax.jit(lambda pair: pair.total)(pair) == 24
        assert Pair([item, cls(*arrays)]).total == 24
    assert counts == {"total": 1}
    assert Pair([item, cls(arrays[0] + 1, arrays[1])]).total == 32


class Either(flax.struct.PyTreeNode):
    x: Any
    y: Any
    number: float = 0.0

    @cachax.cached_property
    def chosen(self) -> Any:
        return jnp.sum(self.x) if len(self.x) > 2 else jnp.sum(self.y)


def test_an_array_in_a_different_place_of_an_object_like_it() -> None:
    short, long = jnp.ones(2), jnp.ones(3)
    assert Either(short, long).chosen == Either(long, short).chosen == 3
    assert Either(short, 2 * short).chosen == 4
    assert Either(2 * short, short).chosen == 2
    x, y = jnp.ones(2), 5 * jnp.ones(2)
    assert [Either(x, y).chosen, Either(y, x).chosen] == [10, 2]
    assert [Either(x, y, 1.0).chosen, Either(y, x, 1.0).chosen] == [10, 2]


def test_a_program_for_values_that_depend_on_a_preset_one() -> None:
    """Inside, an object with the same arrays has its own value. The program for an
    object without a preset value takes both for the same."""

    @jax.tree_util.register_dataclass
    @dataclass(frozen=True)
    class Mixed:
        x: Any
        y: Any
        table: Any  # of numpy, so that values belong to their object

        @cachax.cached_property
        def wave(self) -> Any:
            return jnp.sin(self.x)

        @cachax.cached_property
        def value(self) -> Any:
            return self.wave * 2 + jnp.sum(self.table)

    @jax.tree_util.register_dataclass
    @dataclass(frozen=True)
    class Around:
        inside: Any

        @cachax.cached_property
        def value(self) -> Any:
            return self.inside.wave * 2

    x = jnp.ones(2)
    plain = Mixed(x, x, np.zeros(2, np.float32))
    preset = cachax.preset(plain, wave=x * 10)
    use = cachax.jit(lambda obj: (obj.value, replace(obj, y=obj.y * 2).value))
    for obj in (plain, preset, plain, preset):
        close(use(obj), (obj.value, plain.value))

    def fresh_one(obj: Any) -> Any:
        return Around(Mixed(obj.inside.x, x, None)).value

    use = cachax.jit(lambda obj: (obj.value, fresh_one(obj)))
    arrays_only = Mixed(x, x, None)
    around = Around(arrays_only), Around(cachax.preset(arrays_only, wave=x * 10))
    for obj in (*around, *around):
        close(use(obj), (obj.value, around[0].value))
