"""Code of real packages that was missed, told again."""

from pathlib import Path

import pytest

from cachax.lint import Settings
from cachax.lint._run import check_file

from linted import codes, severities


@pytest.mark.parametrize("maker", ["r_", "c_", "mgrid", "ogrid"])
def test_arrays_made_with_brackets(maker: str) -> None:
    """nova: Plasma.external"""
    text = """
    @jax.tree_util.register_pytree_node_class
    @dataclasses.dataclass
    class Plasma:
        grid: Target
        wall: Target

        @cached_property
        def outer(self):
            return jnp.MAKER[self.grid.flux(), self.wall.flux()]

        def tree_flatten(self):
            return (self.grid, self.wall), None
    """
    assert codes(text.replace("MAKER", maker)) == ["CX101"]
    assert codes(text.replace("MAKER", "s_")) == []
    assert codes(text.replace("jnp.MAKER", f"np.{maker}")) == []


def test_an_object_made_of_arrays() -> None:
    """linox: PositiveDiagonalPlusSymmetricLowRank._id_plus_low_rank"""
    text = """
    class LowRank:
        def __init__(self, u, s):
            self.u = u
            self.s = s

        def tree_flatten(self):
            return (self.u, self.s), None

    class Sum:
        def __init__(self, diagonal, low_rank):
            self.diagonal = diagonal
            self.low_rank = low_rank

        @cached_property
        def scaled(self) -> LowRank:
            u, s, _ = jnp.linalg.svd(self.low_rank.u / self.diagonal)
            return LowRank(u, s**2)

        def tree_flatten(self):
            return (self.diagonal, self.low_rank), None

    jax.tree_util.register_pytree_node_class(LowRank)
    jax.tree_util.register_pytree_node_class(Sum)
    """
    assert severities(text) == [("CX101", "warning")]
    plain = text.replace("jax.tree_util.register_pytree_node_class(LowRank)", "")
    assert severities(plain) == [("CX101", "information")]
    numbers = text.replace("LowRank(u, s**2)", "LowRank(1.0, 2.0)")
    assert severities(numbers) == [("CX101", "information")]
    # optimism: DofManager(functions, dim) holds numpy tables.
    table = text.replace("self.u = u", "self.u = np.zeros(u.shape)")
    table = table.replace("self.s = s", "self.s = np.zeros(s.shape)")
    assert severities(table) == [("CX101", "information")]
    by_name = text.replace("LowRank(u, s**2)", "LowRank(s=s, u=1.0)")
    assert severities(by_name) == [("CX101", "warning")]


STATIC_INDEX = """
class Species:
    def __init__(self, mass):
        self.mass = mass

    @partial(jax.jit, static_argnames=["self"])
    def speed(self, index, x):
        return x / self.mass[index]
"""


def test_what_a_traced_index_is_used_on_is_an_array() -> None:
    """ESSOS: BackgroundSpecies.get_density"""
    assert severities(STATIC_INDEX) == [("CX205", "warning")]
    two = STATIC_INDEX.replace("self.mass[index]", "self.mass[0, index]")
    assert severities(two) == [("CX205", "warning")]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('["self"]', '["self", "index"]'),  # then it is a number
        ("index, x", "x, index=0"),  # and if it isn't given, too
        ("        return x", "        index = 0\n        return x"),
        ("self.mass[index]", "self.mass[0]"),
        ("self.mass = mass", "self.mass = np.asarray(mass)"),
    ],
)
def test_any_other_index_says_nothing(old: str, new: str) -> None:
    assert codes(STATIC_INDEX.replace(old, new)) == []


def test_a_helper_of_the_constructor_that_is_jitted() -> None:
    """ESSOS: Tracing.trace"""
    text = """
    class Tracing:
        def __init__(self, x):
            self.x = x
            self.path = self.trace()

        @partial(jax.jit, static_argnums=0)
        def trace(self):
            def step(x, _):
                self.term = x + 1
                return self.term, x

            return jax.lax.scan(step, jnp.zeros(3), None, 5)
    """
    assert codes(text) == ["CX203"]
    # Without a trace, it is what a constructor does.
    text = text.replace("@partial(jax.jit, static_argnums=0)", "")
    assert codes(text.replace("jax.lax.scan", "run")) == []


OVERRIDDEN = """
class Filter:
    def __init__(self):
        self.order = 2

    @partial(jax.jit, static_argnums=0)
    def step(self, x):
        return self.unit_step(x)

    def unit_step(self, x):
        return x

class Recording(Filter):
    def __init__(self):
        super().__init__()
        self.seen = []

    def unit_step(self, x):
        self.seen.append(jnp.sum(x))
        return x
"""


def test_a_method_that_the_jitted_method_of_a_base_class_calls() -> None:
    """tornadox: ReferenceEK1ConstantDiffusion.attempt_unit_step"""
    assert severities(OVERRIDDEN) == [("CX203", "warning")]
    written = OVERRIDDEN.replace(
        "self.seen.append(jnp.sum(x))", "self.seen = jnp.sum(x)"
    )
    assert ("CX203", "warning") in severities(written)
    assert codes(OVERRIDDEN.replace("(Filter)", "")) == []
    own = OVERRIDDEN.replace("self.seen.append", "self.seen.count")
    assert codes(own) == []
    # What overrides the jitted method is not jitted.
    assert codes(OVERRIDDEN + "\n    def step(self, x):\n        return x\n") == []


def test_a_method_that_a_base_class_jits() -> None:
    """tornadox: ODEFilter.solution_generator, ReferenceEK1.initialize"""
    text = """
    class Filter:
        def solve(self, x, compiled):
            initialize = jax.jit(self.initialize) if compiled else self.initialize
            return initialize(x)

        def initialize(self, x):
            raise NotImplementedError

    class Projecting(Filter):
        def initialize(self, x):
            self.projection = jnp.eye(len(x))
            return x
    """
    assert severities(text) == [("CX203", "warning")]
    assert codes(text.replace("jax.jit(self.initialize)", "self.initialize")) == []
    assert (
        codes(
            text.replace(
                "def initialize(self, x):\n            self",
                "def g(self, x):\n            self",
            )
        )
        == []
    )


def test_the_base_class_is_in_a_different_file(tmp_path: Path) -> None:
    imports = "from functools import partial\nimport jax\nimport jax.numpy as jnp\n"
    base, recording = OVERRIDDEN.split("\nclass Recording")
    (tmp_path / "base.py").write_text(imports + base)
    path = tmp_path / "recording.py"
    path.write_text(f"{imports}from base import Filter\nclass Recording{recording}")
    assert [f.code for f in check_file(path, Settings()).findings] == ["CX203"]


def test_an_array_from_one_branch_is_kept() -> None:
    """equivariant-MLP: Rep.equivariant_basis"""
    text = """
    class Rep:
        solutions_cache = {}

        def basis(self, key):
            if key not in self.solutions_cache:
                if key.is_big:
                    result = iterate(key)
                else:
                    result = jnp.linalg.inv(key.matrix)
                self.solutions_cache[key] = result
            return self.solutions_cache[key]
    """
    assert severities(text) == [("CX202", "information")]
    assert severities(text.replace("jnp.linalg.inv", "np.linalg.inv")) == []
