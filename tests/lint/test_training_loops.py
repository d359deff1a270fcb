"""CX305: loops that lose a cached value in every step."""

import pytest

from linted import IMPORTS, codes, linted, severities

PROGRAM = """
@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class State:
    x: Array
    w: Array

    @cachax.cached_property
    def factor(self):
        return jnp.linalg.cholesky(self.x)

    def gradient(self):
        return self.factor @ self.w

@jax.jit
def step(state):
    return dataclasses.replace(state, w=state.w - state.factor @ state.w)

def train(x, w):
    state = State(x, w)
    for _ in range(100):
        state = step(state)
    return state
"""


def program(*edits: tuple[str, str]) -> str:
    text = PROGRAM
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    return text


LOOPS = {
    "as it is": (),
    "while": (("for _ in range(100)", "while w.any()"),),
    "with a result": (
        ("state = step(state)", "state, loss = step(state)"),
        ("    return dataclasses.replace", "    return 0, dataclasses.replace"),
    ),
    "by keyword": (("step(state)\n    return", "step(state=state)\n    return"),),
    "replace of flax": (("dataclasses.replace(state, w", "state.replace(w"),),
    "apply_gradients": (
        ("dataclasses.replace(state, w=state.w - ", "state.apply_gradients(grads="),
    ),
    "in a method of the state": (("state.factor @ state.w", "state.gradient()"),),
    "in an inner function": (
        (
            "state.factor @ state.w)",
            "jax.grad(lambda w: jnp.sum(state.factor @ w))(state.w))",
        ),
    ),
    "jitted by a call": (
        ("@jax.jit\ndef step(state)", "def one(state)"),
        ("    for _", "    step = jax.jit(one, donate_argnums=0)\n    for _"),
    ),
    "made by a class method": (("State(x, w)", "State.create(x, w)"),),
    "made by a function": (
        ("State(x, w)", "make(x, w)"),
        ("@jax.jit\n", "def make(x, w) -> State: ...\n\n@jax.jit\n"),
    ),
    "a parameter": (
        ("def train(x, w)", "def train(w, state: State)"),
        ("    state = State(x, w)\n", ""),
    ),
    "equinox.filter_jit": (("@jax.jit", "@eqx.filter_jit"),),
}
NO_LOSS = {
    "cachax.jit": (("@jax.jit", "@cachax.jit"),),
    "no jit": (("@jax.jit\n", ""),),
    "no loop": (("for _ in range(100)", "if True"),),
    "a different variable": (("state = step(state)\n", "other = step(state)\n"),),
    "the step changes what it is computed from": (
        ("state, w=state.w -", "state, x=state.x -"),
    ),
    "what changes is unknown": (
        ("dataclasses.replace(state, w=state.w - ", "update(state, "),
    ),
    "the property is not read": (("state.factor @ state.w)", "state.w)"),),
    "no property": (("    @cachax.cached_property\n", ""),),
    "no array": (("jnp.linalg.cholesky(self.x)", "self.x.shape"),),
    "an unknown object": (("State(x, w)", "make(x, w)"),),
}


@pytest.mark.parametrize("edits", LOOPS.values(), ids=LOOPS)
def test_a_value_that_is_lost_in_every_step(edits: tuple[tuple[str, str], ...]) -> None:
    assert severities(program(*edits)) == [("CX305", "warning")]
    functools = program(*edits).replace("cachax.cached", "functools.cached")
    assert codes(functools) == ["CX101", "CX305"]


@pytest.mark.parametrize("edits", NO_LOSS.values(), ids=NO_LOSS)
def test_nothing_is_lost(edits: tuple[tuple[str, str], ...]) -> None:
    assert codes(program(*edits)) == []


def test_with_an_annotation_the_jitted_function_is_reported() -> None:
    text = program(("def step(state)", "def step(state: State)"))
    assert codes(text) == ["CX304"]
    assert codes(text.replace("cachax.cached", "functools.cached")) == [
        "CX101",
        "CX305",
    ]


def test_a_value_of_an_object_in_the_state() -> None:
    inner = """
@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Train:
    data: State
    w: Array
"""
    text = program(
        ("@jax.jit", inner + "\n@jax.jit"),
        ("state = State(x, w)", "state = Train(State(x, w), w)"),
        ("state.factor", "state.data.factor"),
    )
    assert codes(text) == ["CX305"]
    assert codes(text.replace("(state, w=", "(state, data=")) == []


def test_a_jitted_method() -> None:
    head = PROGRAM.partition("@jax.jit")[0]
    method = """
class Trainer:
    @partial(jax.jit, static_argnums=0)
    def step(self, state):
        return dataclasses.replace(state, w=state.factor @ state.w)

    def train(self, x, w):
        state = State(x, w)
        for _ in range(100):
            state = self.step(state)
        return state
"""
    assert codes(head + method) == ["CX305"]
    assert codes(head + method.replace("jax.jit", "cachax.jit")) == []


def test_the_message_names_the_value_and_the_unchanged_argument() -> None:
    (found,) = linted(IMPORTS + PROGRAM)
    assert found.message == (
        "jax.jit loses `State.factor` in every step of the loop in line "
        f"{found.start.line - 1}, and it is computed again although `x` did not "
        "change. Use cachax.jit."
    )
