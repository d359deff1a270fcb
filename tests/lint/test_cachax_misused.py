"""CX3 and CX4: cachax misused, and an update thrown away."""

import pytest

from linted import codes, severities


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("class Foo(NamedTuple):\n    a: Array", ["CX301"]),
        ("class Foo:\n    __slots__ = ('a',)", ["CX301"]),
        ("class Foo:\n    __slots__ = ['a']", ["CX301"]),
        ("@dataclasses.dataclass(slots=True)\nclass Foo:\n    a: Array", ["CX301"]),
        ("class Foo:\n    __slots__ = ('a', '__weakref__')", []),
        (
            "@dataclasses.dataclass(slots=True, weakref_slot=True)\n"
            "class Foo:\n    a: int",
            [],
        ),
        ("class Foo(Unknown):\n    __slots__ = ('a',)", []),
        ("class Base:\n    pass\n\nclass Foo(Base):\n    __slots__ = ('a',)", []),
        ("class Base(NamedTuple):\n    a: int\n\nclass Foo(Base):\n    pass", []),
        ("class Foo:\n    __slots__ = names()", []),
        ("class Foo:\n    pass", []),
    ],
)
@pytest.mark.parametrize("what", ["cached_property", "cached_method"])
def test_no_place_for_a_value(head: str, expected: list[str], what: str) -> None:
    text = f"""
{head}

    @cachax.{what}
    def b(self):
        return self.a
"""
    assert codes(text) == expected


CACHED = """
class Foo:
    @cachax.cached_property
    def b(self):
        {}
        return x
"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("self.n = x = 1", ["CX302"]),
        ("object.__setattr__(self, 'n', 1)", ["CX302"]),
        ("x = self.n", []),
        ("x = np.random.normal()", ["CX303"]),
        ("import random; x = random.random()", ["CX303"]),
        ("x = np.random.default_rng().normal()", ["CX303"]),
        ("x = self.rngs.params()", ["CX303"]),
        ("x = self.rngs()", ["CX303"]),
        ("x = np.random.default_rng(0).normal()", []),
        ("x = jax.random.normal(self.key)", []),
        ("rng = np.random.RandomState(3); x = rng.normal()", []),
    ],
)
def test_the_body_must_be_pure(body: str, expected: list[str]) -> None:
    assert codes(CACHED.format(body)) == expected
    assert (
        codes(CACHED.format(body).replace("@cachax.cached_property", "@property")) == []
    )


UNDER_JIT = """
class Foo(eqx.Module):
    a: Array

    @cachax.cached_property
    def b(self):
        return jnp.sum(self.a)

@{}
def use(foo: Foo):
    return foo.b
"""


@pytest.mark.parametrize(
    ("transform", "expected"),
    [
        ("jax.jit", [("CX304", "warning")]),
        ("partial(jax.jit, donate_argnums=())", [("CX304", "warning")]),
        ("eqx.filter_jit", [("CX304", "warning")]),
        ("cachax.jit", []),
        ("jax.vmap", []),
        ("nnx.jit", []),  # does more than cachax.jit does
        ("partial(jax.jit, static_argnums=0)", []),
    ],
)
def test_plain_jit_carries_nothing(
    transform: str, expected: list[tuple[str, str]]
) -> None:
    assert severities(UNDER_JIT.format(transform)) == expected


def test_a_jitted_method_that_reads_a_cached_property() -> None:
    text = """
    class Foo(eqx.Module):
        a: Array

        @cachax.cached_property
        def b(self):
            return jnp.sum(self.a)

        @cachax.cached_property
        @jax.jit
        def c(self):
            return self.b

        @jax.jit
        def use(self):
            return self.b
    """
    assert codes(text) == ["CX304"]  # of `use` alone: cachax carries into `c`


@pytest.mark.parametrize(
    "statement",
    [
        "x.at[0].set(1)",
        "x.at[0, 1:].add(y)",
        "self.x.at[i].max(3, mode='drop')",
        "x.at[0].apply(f)",
        "f(x).at[mask].multiply(2)",
    ],
)
def test_an_update_thrown_away(statement: str) -> None:
    assert severities(statement) == [("CX401", "error")]


@pytest.mark.parametrize(
    "statement",
    [
        "x = x.at[0].set(1)",
        "f(x.at[0].set(1))",
        "x.at[0].get()",
        "x.at[0]",
        "x.add(1)",
        "frame.at[0, 'column'] = 1",
        "frame.at['row'].plot()",
        "x.at(0).set(1)",
    ],
)
def test_no_update_or_not_thrown_away(statement: str) -> None:
    assert codes(statement) == []
