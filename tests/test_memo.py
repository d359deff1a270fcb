"""Where values live: keyed by identity, valid as long as the fields are."""

import gc
import inspect
import pickle
import subprocess
import sys
import weakref
from dataclasses import dataclass
from typing import Any

import cloudpickle
import equinox as eqx
import jax
import jax.numpy as jnp
import pytest
from flax import struct

import cachax
from cachax._core.memo import keys_of, memo_of, memos
from cachax._core.sources import names_of

from measure import computations, computing


class Thing:
    """Equal to everything: equality must not play a part."""

    def __init__(self, x: Any) -> None:
        self.x = x

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]

    @cachax.cached_property
    def value(self) -> Any:
        return self.x + 1


def test_equal_objects_have_a_memo_each() -> None:
    one, two = Thing(1), Thing(2)
    assert (one.value, two.value) == (2, 3)
    assert memo_of(one) is not memo_of(two)


def test_a_memo_stays_while_the_fields_do() -> None:
    thing = Thing(1)
    memo = memo_of(thing)
    assert memo_of(thing) is memo
    thing.x = 2
    assert memo_of(thing) is not memo


def test_an_id_that_is_used_again_is_a_different_object() -> None:
    seen: set[int] = set()
    reused = 0
    for i in range(200):
        thing = Thing(i)
        reused += id(thing) in seen
        seen.add(id(thing))
        assert thing.value == i + 1
        del thing
    assert reused > 0


def test_nothing_is_left_of_an_object() -> None:
    before = len(memos)
    thing = Thing(jnp.ones(2))
    value = weakref.ref(thing.value)
    assert len(memos) == before + 1
    del thing
    assert len(memos) == before
    assert value() is None


def test_an_object_in_a_circle_goes_with_the_collector() -> None:
    thing = Thing(jnp.ones(2))
    thing.me = thing  # type: ignore[attr-defined]
    assert thing.value is not None
    watched = weakref.ref(thing)
    del thing
    gc.collect()
    assert watched() is None


def test_keys_are_found_through_bases_and_by_their_latest_definition() -> None:
    class Sub(Thing):
        @cachax.cached_property
        def other(self) -> int:
            return 1

    class Hidden(Sub):
        value = 3

    assert names_of(Sub) == ("value", "other")
    assert keys_of(Sub)["value"] is inspect.getattr_static(Thing, "value")
    assert names_of(Hidden) == ("other",)
    assert names_of(int) == ()


def test_a_property_added_to_a_class_later() -> None:
    class Late:
        pass

    assert names_of(Late) == ()
    Late.value = cachax.cached_property(lambda self: 4)  # type: ignore[attr-defined]
    Late.value.__set_name__(Late, "value")  # type: ignore[attr-defined]
    assert names_of(Late) == ("value",)
    assert cachax.cached(cachax.warm(Late())) == {"value": 4}


def test_a_property_added_after_a_call() -> None:
    @jax.tree_util.register_dataclass
    @dataclass(frozen=True)
    class Late:
        x: Any

    class Sub(Late):
        pass

    jax.tree_util.register_dataclass(Sub, ["x"], [])
    fun = cachax.jit(lambda o: o.x[0] + getattr(o, "total", 0.0))
    for cls in (Late, Sub):
        for _ in range(3):
            assert fun(cls(jnp.ones(2))) == 1
    Late.total = cachax.cached_property(lambda o: o.x.sum())  # type: ignore[attr-defined]
    Late.total.__set_name__(Late, "total")  # type: ignore[attr-defined]
    for cls in (Late, Sub):
        late = cls(jnp.ones(3))
        for _ in range(3):
            assert fun(late) == 4
        assert cachax.is_cached(late, "total")


def test_a_property_that_is_replaced_after_a_call() -> None:
    @jax.tree_util.register_dataclass
    @dataclass(frozen=True)
    class Late:
        x: Any

        @property
        def total(self) -> Any:
            computing("total")
            return jnp.sum(self.x)

    fun, late = cachax.jit(lambda o: o.total), Late(jnp.ones(3))
    for _ in range(3):
        assert fun(late) == 3
    Late.total = cachax.cached_property(Late.total.fget)  # type: ignore[assignment]
    Late.total.__set_name__(Late, "total")  # type: ignore[attr-defined]
    with computations() as counts:
        for _ in range(3):
            assert fun(late) == 3
    assert counts == {"total": 1}
    assert fun(cachax.preset(late, total=jnp.float32(7.0))) == 7


def test_what_is_read_while_an_object_is_built() -> None:
    class Normed(eqx.Module):
        x: jax.Array

        def __init__(self, x: jax.Array) -> None:
            self.x = x
            first = self.norm
            self.x = x / first

        @cachax.cached_property
        def norm(self) -> Any:
            computing("norm")
            return jnp.sqrt(jnp.sum(self.x**2))

    class Read(eqx.Module):
        x: jax.Array
        kept: jax.Array

        def __init__(self, x: jax.Array) -> None:
            self.x = x
            self.kept = x + self.norm
            self.norm  # noqa: B018

        norm = cachax.cached_property(Normed.norm.func)

    x = jnp.array([3.0, 4.0])
    gone = weakref.ref(x)
    with computations() as counts:
        normed = Normed(x)
        del x
        assert gone() is None
        assert normed.norm == pytest.approx(1)
    assert counts == {"norm": 2}
    with computations() as counts:
        assert Read(jnp.array([3.0, 4.0])).norm == 5
    assert counts["norm"] == 2  # before and after the second field is there


def test_a_class_that_is_pickled_whole() -> None:
    """As one of a notebook is, by joblib, dask and ray."""

    class Local:
        def __init__(self) -> None:
            self.x = jnp.ones(3)

        @cachax.cached_property
        def total(self) -> Any:
            return jnp.sum(self.x)

        @cachax.cached_method
        def power(self, n: int) -> Any:
            return jnp.sum(self.x**n)

    Local.__module__ = "__main__"
    local = Local()
    assert local.total == local.power(2) == 3
    sent = pickle.loads(cloudpickle.dumps(local))
    assert cachax.cached(sent) == {}
    assert sent.total == sent.power(2) == 3
    assert set(cachax.cached(sent)) == {"total", "power(2)"}


def test_the_class_of_an_object_may_change() -> None:
    # (Not dataclasses: JAX 0.10 sometimes takes one for another with the same fields,
    # because their tree structures are equal.)
    @jax.tree_util.register_pytree_node_class
    class Once:
        factor = 1

        def __init__(self, x: Any) -> None:
            self.x = x

        def tree_flatten(self) -> Any:
            return [self.x], None

        @classmethod
        def tree_unflatten(cls, _: Any, children: Any) -> Any:
            return cls(*children)

        @cachax.cached_property
        def total(self) -> Any:
            return self.factor * jnp.sum(self.x)

    @jax.tree_util.register_pytree_node_class
    class Twice(Once):
        factor = 2

    fun = cachax.jit(lambda o: o.total)
    among = cachax.jit(lambda some: sum(o.total for o in some))
    obj, more = Once(jnp.ones(3)), [Once(jnp.ones(3)) for _ in range(2)]
    for _ in range(3):
        assert fun(Twice(jnp.ones(3))) == 6
        assert among([Twice(jnp.ones(3)), more[1]]) == 9
        assert fun(obj) == obj.total == 3
        assert among(more) == 6
    obj.__class__ = more[0].__class__ = Twice
    for _ in range(3):
        assert fun(obj) == obj.total == 6
        assert among(more) == 9


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_each_of_some_fields_is_watched(count: int) -> None:
    class Fields:
        def __init__(self, *values: Any) -> None:
            self.__dict__.update({f"f{i}": value for i, value in enumerate(values)})

        @cachax.cached_property
        def all(self) -> list[Any]:
            return [None if x is None else int(x) for x in vars(self).values()]

    obj = Fields(*map(jnp.float32, range(count)))
    expected: list[Any] = [*range(count)]
    assert obj.all == expected
    for i in range(count):
        for new in (jnp.float32(10 + i), None, 7, None, jnp.float32(20 + i)):
            setattr(obj, f"f{i}", new)  # and the one before is gone
            expected[i] = None if new is None else int(new)
            assert obj.all == expected
            assert obj.all is obj.all
    name, kept = f"f{count - 1}", getattr(obj, f"f{count - 1}")
    delattr(obj, name)
    assert obj.all == expected[:-1]
    obj.other = kept  # as many, and the same ones
    assert obj.all == expected
    vars(obj).clear()
    assert obj.all == []


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_body_that_sets_its_field_to_nothing(count: int) -> None:
    class Once:
        def __init__(self) -> None:
            for i in range(count):
                setattr(self, f"f{i}", jnp.ones(3))

        @cachax.cached_property
        def total(self) -> Any:
            taken, self.f0 = self.f0, None
            return 0 if taken is None else int(taken.sum())

    once = Once()
    assert once.total == 3
    assert once.total == 0


def test_nothing_is_printed_when_a_program_ends() -> None:
    """Arrays of the main module are freed when globals are gone already."""
    program = """
import dataclasses, jax, jax.numpy as jnp, cachax

@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Pair:
    x: jax.Array
    y: jax.Array

    @cachax.cached_property
    def total(self):
        return self.x + self.y

pair = Pair(jnp.ones(2), jnp.ones(2))
use = cachax.jit(lambda p: (p, p.total))
for _ in range(4):
    other, total = use(pair)
print(total)
"""
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (ended.stdout, ended.stderr) == ("[2. 2.]\n", "")


def test_a_random_key_can_be_pickled() -> None:
    """With nothing of cachax in it."""

    class Source(struct.PyTreeNode):
        key: Any

        @cachax.cached_property
        def numbers(self) -> Any:
            return jax.random.normal(self.key, (2,))

    key = jax.random.key(1)
    before = pickle.dumps(key)
    source = cachax.warm(Source(key))
    assert cachax.jit(lambda s: (s, s.numbers + 1))(source)[0].numbers.shape == (2,)
    assert pickle.dumps(key) == before
    again = Source(pickle.loads(before))
    assert again.numbers.tolist() == source.numbers.tolist()
