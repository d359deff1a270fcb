"""What an object consists of: none of its code runs, and nothing is overlooked."""

import functools
import logging
import types
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import attrs
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx, struct

from cachax._core.fields import _items, is_frozen, walk, walk_fields


class Needle:
    """What is looked for."""


NEEDLE = Needle()


def closure(x: Any) -> Any:
    return lambda: x


class WithSlots:
    __slots__ = ("x", "y")

    def __init__(self, x: Any) -> None:
        self.x = x  # and `y` stays unset


class Nnx(nnx.Module):
    def __init__(self) -> None:
        self.x = nnx.Variable(NEEDLE)


HAYSTACKS = {
    "list": [[NEEDLE]],
    "tuple": ((1, (NEEDLE,)),),
    "dict": {"a": {1: NEEDLE}},
    "key": {NEEDLE: 1},
    "set": {NEEDLE},
    "field": types.SimpleNamespace(x=NEEDLE),
    "slot": WithSlots(NEEDLE),
    "variable": Nnx(),
    "partial": functools.partial(print, NEEDLE),
    "method": types.MethodType(print, NEEDLE),
    "object_array": np.array([NEEDLE], dtype=object),
    "proxy": types.MappingProxyType({"x": NEEDLE}),
    "slice": slice(NEEDLE, None),
}
ONLY_REACHED = {
    "closure": closure(NEEDLE),
    "error": ValueError(NEEDLE),
    "iterator": iter([NEEDLE]),
}


@pytest.mark.parametrize("container", HAYSTACKS | ONLY_REACHED)
def test_it_is_reached(container: str) -> None:
    haystack = (HAYSTACKS | ONLY_REACHED)[container]
    assert any(part is NEEDLE for part in walk(haystack))


@pytest.mark.parametrize("container", HAYSTACKS)
def test_it_counts_as_a_field(container: str) -> None:
    assert any(part is NEEDLE for part in walk_fields(HAYSTACKS[container]))


def test_the_parts_of_each_thing_come_once_also_in_a_circle() -> None:
    circle: list[Any] = [1]
    circle += [circle, [circle]]
    assert [*walk(circle)].count(1) == 1


def test_globals_and_classes_are_left_alone() -> None:
    reached = list(walk(test_globals_and_classes_are_left_alone))
    assert NEEDLE not in reached
    assert len(list(walk(Needle))) == 1
    assert len(list(walk_fields(logging.getLogger("cachax")))) == 1


def test_code_of_the_class_is_not_run() -> None:
    class Shy:
        def __init__(self) -> None:
            self.x = 12345

        def __getattribute__(self, name: str) -> Any:
            assert name == "__class__"  # isinstance reads it
            return super().__getattribute__(name)

        @property
        def secret(self) -> Any:
            raise AssertionError("must not run")

        def __iter__(self) -> Any:
            raise AssertionError("must not run")

    assert 12345 in list(walk_fields(Shy()))


@dataclass(frozen=True)
class FrozenDataclass:
    x: int


class SubOfFrozen(FrozenDataclass):
    pass


@dataclass
class OpenDataclass:
    x: int


@attrs.frozen
class FrozenAttrs:
    x: int


class Module(eqx.Module):
    x: int


class Node(struct.PyTreeNode):
    x: int


@pytest.mark.parametrize(
    "cls", [tuple, frozenset, FrozenDataclass, FrozenAttrs, Module, Node]
)
def test_frozen(cls: type) -> None:
    assert is_frozen(cls)


@pytest.mark.parametrize(
    "cls",
    [list, dict, set, OpenDataclass, SubOfFrozen, Needle, Nnx, attrs.define(Needle)],
)
def test_not_frozen(cls: type) -> None:
    assert not is_frozen(cls)


def test_nothing_is_inside_an_array_or_a_tracer() -> None:
    assert len(list(walk(jnp.ones(3)))) == 1

    def fun(x: Any) -> Any:
        assert len(list(walk(x))) == 1
        return x * x

    jax.grad(jax.jit(jax.grad(fun)))(3.0)


def test_a_container_that_a_different_thread_changes_is_read_again() -> None:
    changing, seen = deque([1]), []

    def iterate(x: Any) -> Iterator[Any]:
        iterator = iter(x)
        if not seen:
            x.append(2)  # as if it happened between one step and the next
        seen.append(len(x))
        return iterator

    assert _items(iterate, changing) == [1, 2]
    assert seen == [2, 2]
