"""`cachax.agree` in one process, where it does nothing, and how it says a difference.
(What it does in several: tests/processes.)"""

from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import pytest

import cachax
from cachax._check.agree import FromEnvironment, options_in
from cachax._check.decisions import Decision
from cachax._check.differing import differing, stalled
from cachax._jit.call import Function


class Line(flax.struct.PyTreeNode):
    x: jax.Array

    @cachax.cached_property
    def total(self) -> Any:
        return jnp.sum(self.x)


def test_with_one_process_nothing_is_watched() -> None:
    for options in ({}, {"every": 1.0}, {"timeout": 1.0}):
        with cachax.agree(**options):
            assert Function.call_watchers == []


def test_the_variable_looks_once_whether_there_are_processes() -> None:
    before = Function.call
    FromEnvironment("1")
    assert Line(jnp.ones(3)).total == 3  # may be before `jax.distributed.initialize`
    assert Function.call_watchers != []
    assert cachax.jit(lambda line: line.total)(Line(jnp.ones(4))) == 4
    assert Function.call_watchers == []
    assert Function.call is before


@pytest.mark.parametrize(
    ("variable", "options"),
    [
        ("1", (60.0, None)),
        ("timeout=5", (5.0, None)),
        ("every=10", (60.0, 10.0)),
        ("every=2.5, timeout=300", (300.0, 2.5)),
    ],
)
def test_the_variable_has_the_options_of_the_function(
    variable: str, options: Any
) -> None:
    assert options_in(variable) == options


@pytest.mark.parametrize("variable", ["yes", "timeout=soon", "often=1", "1=2"])
def test_a_variable_that_is_not_understood_is_an_error(variable: str) -> None:
    with pytest.raises(cachax.CachaxError, match=r"CACHAX_AGREE='.*timeout=30, every"):
        options_in(variable)


def test_the_message_names_processes_that_do_the_same_together() -> None:
    found = {
        0: Decision("compute A.p(#1)", "x", "train.py:3"),
        1: Decision("run f(#1)", "y", "train.py:5"),
        2: Decision("run f(#1)", "y", "train.py:5"),
    }
    message = differing(7, found, 4, "compute A.q(#1), at train.py:2", 60.0)
    assert message.splitlines()[:5] == [
        "The processes are about to do different things (decision 7):",
        "  process 0: compute A.p(#1), at train.py:3",
        "  processes 1, 2: run f(#1), at train.py:5",
        "  process 3: nothing within 60 s",
        "Before, all of them did: compute A.q(#1), at train.py:2.",
    ]
    assert "cachax.warm(obj)" in message


def test_the_message_says_that_a_difference_is_not_shown() -> None:
    found = {0: Decision("run f(#1)", "x"), 1: Decision("run f(#1)", "y")}
    assert "further arrays, are different" in differing(0, found, 2, "", 1.0)
    found[1] = Decision("run g(#1)", "y")
    assert "further arrays, are different" not in differing(0, found, 2, "", 1.0)


def test_many_processes_are_counted() -> None:
    found = {0: Decision("a")} | {rank: Decision("b") for rank in range(1, 100)}
    message = differing(0, found, 100, "", 1.0)
    assert "processes 1, 2, 3, 4, 5, 6, 7, 8 and 91 more: b" in message


def test_a_stall_says_how_far_each_has_come() -> None:
    message = stalled({0: (3, "compute A.p"), 1: (2, "run f")}, 60.0)
    assert "process 0: 3 decisions, the last was to compute A.p" in message
    assert "process 1: 2 decisions, the last was to run f" in message
