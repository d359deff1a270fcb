"""Methods are wrapped while a report is made, and not longer."""

from collections.abc import Callable
from typing import Any

import pytest

from cachax._watch import watching


class Greeter:
    def greet(self) -> str:
        return "hello"


ORIGINAL = Greeter.greet
METHOD = (Greeter, "greet")


def adding(word: str) -> Callable[[Any], Any]:
    return lambda fun: lambda self: f"{fun(self)} {word}"


def test_contexts_may_overlap() -> None:
    greeter = Greeter()
    first, second = watching({METHOD: adding("a")}), watching({METHOD: adding("b")})
    first.__enter__()
    assert greeter.greet() == "hello a"
    second.__enter__()
    assert greeter.greet() == "hello a b"
    first.__exit__(None, None, None)
    assert greeter.greet() == "hello b"
    second.__exit__(None, None, None)
    assert Greeter.greet is ORIGINAL


def test_an_error_leaves_nothing_behind() -> None:
    with pytest.raises(ZeroDivisionError), watching({METHOD: adding("a")}):
        _ = 1 / 0
    assert Greeter.greet is ORIGINAL
    with pytest.raises(KeyError):
        with watching({METHOD: adding("a"), (Greeter, "no such"): adding("b")}):
            pass
    assert Greeter.greet is ORIGINAL
