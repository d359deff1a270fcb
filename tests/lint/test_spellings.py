"""The same traps, spelled as people spell them; beside each what only looks like it."""

import textwrap
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from linted import codes, linted

NODE = """
@jax.tree_util.register_pytree_node_class
class Foo:
    def __init__(self, a):
        self.a = a
        self._cache = {}

    def tree_flatten(self):
        return (self.a,), None
"""


def with_method(head: str, body: str) -> str:
    return head + textwrap.indent(textwrap.dedent(body), "    ") + "\n"


def with_body(head: str, body: str) -> str:
    return head + textwrap.indent(textwrap.dedent(body), "    ")


LAZY = {
    "walrus": """
        if (b := getattr(self, "_b", None)) is None:
            b = jnp.sum(self.a)
            object.__setattr__(self, "_b", b)
        return b""",
    "dict": """
        if "_b" not in self.__dict__:
            self.__dict__["_b"] = jnp.sum(self.a)
        return self.__dict__["_b"]""",
    "vars": """
        if vars(self).get("_b") is None:
            vars(self)["_b"] = jnp.sum(self.a)
        return vars(self)["_b"]""",
    "suppress": """
        with contextlib.suppress(AttributeError):
            return self._b
        self._b = jnp.sum(self.a)
        return self._b""",
    "try": """
        try:
            return self._b
        except AttributeError:
            self._b = jnp.sum(self.a)
            return self._b""",
    "match": """
        match self._b:
            case None:
                self._b = jnp.sum(self.a)
        return self._b""",
    "equal": """
        if self._b == None:
            self._b = jnp.sum(self.a)
        return self._b""",
}


@pytest.mark.parametrize("body", LAZY.values(), ids=LAZY)
def test_lazy_properties(body: str) -> None:
    text = with_method(NODE, with_body("@property\ndef b(self):", body))
    assert codes(text) == ["CX101"]
    assert codes(text.replace("jnp.sum(self.a)", "len(self.a)")) == []


WORKSPACES = {
    "a different name": """
        cache = self._cache
        if n not in cache:
            cache[n] = jnp.sum(self.a * n)
        return cache[n]""",
    "walrus": """
        if (b := self._cache.get(n)) is None:
            b = self._cache[n] = jnp.sum(self.a * n)
        return b""",
    "try": """
        try:
            return self._cache[n]
        except KeyError:
            b = self._cache[n] = jnp.sum(self.a * n)
            return b""",
}


@pytest.mark.parametrize("body", WORKSPACES.values(), ids=WORKSPACES)
def test_workspaces(body: str) -> None:
    text = with_method(NODE, with_body("def b(self, n):", body))
    assert codes(text) == ["CX202"]
    assert codes(text.replace("jnp.sum(self.a * n)", "len(self.a) * n")) == []


def test_a_copy_of_a_workspace_is_not_a_workspace() -> None:
    text = """
    def b(self, n):
        cache = self._cache
        cache = dict(cache)
        if n not in cache:
            cache[n] = jnp.sum(self.a * n)
        return cache[n]
    """
    assert codes(with_method(NODE, text)) == []


VALUES = {
    "added to numpy": """
        table = np.zeros(3)
        table += jnp.sum(self.a)
        return table""",
    "summed up": """
        total = 0.0
        for i in range(3):
            total += jnp.sum(self.a[i])
        return total""",
    "a list": """
        parts = []
        for i in range(3):
            parts.append(jnp.sum(self.a[i]))
        return parts""",
    "a list with more": """
        parts = []
        parts += [jnp.sum(self.a)]
        return parts""",
    "a dictionary": """
        parts = {}
        for i in range(3):
            parts[i] = jnp.sum(self.a)
        return parts""",
    "a tree": "\n        return jax.tree.map(jnp.exp, self.a)",
    "a tree by lambda": "\n        return jax.tree.map(lambda a: jnp.exp(a), self.a)",
}
NO_VALUES = {
    "counted": """
        total = 0
        for part in self.parts:
            total += self.a.shape[0]
        return total""",
    "names": """
        names = []
        for i in range(3):
            names.append(str(i))
        return names""",
    "a table of numpy": """
        table = np.zeros(3)
        for i in range(3):
            table[i] = jnp.sum(self.a)
        return table""",
}
CACHED = (
    "class Foo(eqx.Module):\n    a: Array\n\n    @cached_property\n    def b(self):"
)


@pytest.mark.parametrize("body", VALUES.values(), ids=VALUES)
def test_values_put_together(body: str) -> None:
    assert codes(CACHED + body) == ["CX101"]


@pytest.mark.parametrize("body", NO_VALUES.values(), ids=NO_VALUES)
def test_values_without_arrays_put_together(body: str) -> None:
    assert codes(CACHED + body) == []


def test_a_table_of_numpy_to_which_an_array_is_added_becomes_one() -> None:
    table: Any = np.zeros(3)
    table += jnp.ones(())
    assert isinstance(table, jax.Array)


MIXIN = """
class Mixin:
    @cached_property
    def b(self):
        return jnp.linalg.cholesky(self.a)

class Foo(Mixin{base}):
    a: Array
"""


def test_a_mixin_of_a_pytree() -> None:
    assert codes(MIXIN.format(base=", eqx.Module")) == ["CX101"]
    assert codes(MIXIN.format(base=", nnx.Module")) == ["CX102"]
    assert codes(MIXIN.format(base="")) == []


def test_a_lazy_method_of_the_base_of_pytrees() -> None:
    """jax_cosmo: redshift_distribution.__call__"""
    text = """
    class Base:
        def __call__(self, z):
            if self._norm is None:
                self._norm = jnp.sum(self.params)
            return z / self._norm

    @jax.tree_util.register_pytree_node_class
    class Foo(Base):
        def tree_flatten(self):
            return (self.params,), None
    """
    assert codes(text) == ["CX101"]


@pytest.mark.parametrize("value", ["(jnp.sum(a), jnp.max(a))", "[jnp.sum(a)]"])
def test_arrays_together_in_a_static_field(value: str) -> None:
    text = f"""
    class Foo(eqx.Module):
        b: tuple = eqx.field(static=True)

        def __init__(self, a):
            self.b = {value}
    """
    assert codes(text) == ["CX206"]
    assert codes(text.replace("jnp.sum(a)", "len(a)").replace("jnp.max(a)", "3")) == []


@pytest.mark.parametrize(
    "fields", ['data_fields=["a"], meta_fields=["b"]', '["a"], ["b"]']
)
def test_static_fields_named_in_a_call(fields: str) -> None:
    text = f"""
    @dataclasses.dataclass
    class Foo:
        a: Array
        b: Array | None = None

        def __post_init__(self):
            self.b = jnp.sum(self.a)

    jax.tree_util.register_dataclass(Foo, {fields})
    """
    assert codes(text) == ["CX206"]
    assert codes(text.replace('["b"]', "[]")) == []


@pytest.mark.parametrize(
    "wrapped",
    ["functools.lru_cache(_f)", "functools.cache(_f)", "functools.lru_cache(9)(_f)"],
)
def test_a_function_wrapped_in_lru_cache(wrapped: str) -> None:
    text = f"def _f(n):\n    return jnp.ones(n)\n\nf = {wrapped}"
    assert codes(text) == ["CX204"]
    assert codes(text.replace("jnp", "np")) == []


@pytest.mark.parametrize("call", ["g(x)", "g(3, x)", "g(n=x)"])
def test_a_tracer_given_to_a_cached_function(call: str) -> None:
    text = f"""
    @functools.cache
    def g(k=1, n=2):
        return k + n

    @jax.jit
    def f(x):
        return {call}
    """
    assert codes(text) == ["CX204"]
    static = text.replace("@jax.jit", '@partial(jax.jit, static_argnames="x")')
    assert codes(static) == []


def test_an_array_given_by_name_alone() -> None:
    text = "@functools.cache\ndef f(*, x: 'Float[Array, \"n\"]'):\n    return 3"
    assert codes(text) == ["CX204"]
    assert codes(text.replace("Array", "np.ndarray")) == []


def test_tree_flatten_by_lambda() -> None:
    text = """
    class Foo:
        @cached_property
        def b(self):
            return 3

    jax.tree_util.register_pytree_node(
        Foo, lambda foo: ((foo.a, foo.b), None), lambda _, leaves: Foo(leaves[0])
    )
    """
    assert codes(text) == ["CX207"]
    assert codes(text.replace("(foo.a, foo.b)", "(foo.a,)")) == []


APPENDED = """
class Foo:
    def __init__(self):
        self.log = []

    @{decorator}
    def f(self, x):
        self.log.append(x * 2)
        return x
"""


def test_what_is_appended_to_a_list_of_the_object() -> None:
    jit = "partial(jax.jit, static_argnums=0)"
    assert codes(APPENDED.format(decorator=jit)) == ["CX203"]
    assert codes(APPENDED.format(decorator="cachax.cached_method")) == ["CX302"]
    assert codes(APPENDED.format(decorator="staticmethod")) == []
    # It may be anything that has an `append`.
    unknown = APPENDED.format(decorator=jit).replace("self.log = []", "self.log = log")
    assert codes(unknown) == []


CLOSED = """
class Foo:
    def __init__(self, w):
        self.w = w
        self.f = jax.jit({function})

    def {method}(self, w):
        {body}
"""


@pytest.mark.parametrize("function", ["lambda x: self.w * x", "lambda x: self.g(x)"])
def test_a_function_that_closes_over_a_changing_object(function: str) -> None:
    method = "\n    def g(self, x):\n        return self.w * x\n"
    text = CLOSED.format(function=function, method="update", body="self.w = w") + method
    assert codes(text) == ["CX205"]


@pytest.mark.parametrize(
    ("function", "body"),
    [
        ("lambda x: self.w * x", "return self.w"),
        ("lambda x: 2 * x", "self.w = w"),
        ("lambda self, x: self.w * x", "self.w = w"),
        # made again when it changes
        ("lambda x: self.w * x", "self.w = w; self.f = jax.jit(lambda x: w * x)"),
    ],
)
def test_a_function_that_closes_over_constants(function: str, body: str) -> None:
    assert codes(CLOSED.format(function=function, method="update", body=body)) == []


def test_what_is_only_made_in_two_steps_does_not_change() -> None:
    """scico: LineSearchStepSize.internal_init"""
    text = CLOSED.format(
        function="lambda x: self.v * x", method="finish", body="self.v = w"
    )
    assert codes(text) == []


def test_a_stand_in_for_an_import_that_fails() -> None:
    text = """
    from functools import cached_property
    import equinox as eqx

    try:
        import jax.numpy as jnp
    except ImportError:
        jnp = None

    class Foo(eqx.Module):
        @cached_property
        def b(self):
            return jnp.ones(3)
    """
    assert [finding.code for finding in linted(text)] == ["CX101"]
    replaced = text.replace("        jnp = None\n", "        pass\n\n    jnp = None\n")
    assert linted(replaced) == []


WRAPPED = """
class Foo:
    @cached_property
    def table(self):
        return jnp.arange(3)

    def g(self, n, x):
        return jnp.sum(self.table * x)

    def run(self, x):
        return {jitted}(x)
"""


@pytest.mark.parametrize(
    "jitted",
    [
        "jax.jit(jax.vmap(self.g))",
        "jax.jit(jax.value_and_grad(jax.vmap(self.g)))",
        "jax.jit(functools.partial(self.g, 3))",
        "jax.jit(jax.grad(lambda x: self.g(3, x)))",
    ],
)
def test_a_function_wrapped_before_it_is_jitted(jitted: str) -> None:
    assert codes(WRAPPED.format(jitted=jitted)) == ["CX104"]


@pytest.mark.parametrize(
    "jitted", ["jax.vmap(self.g)", "jax.jit(self.wrap(self.g))", "jax.grad(self.g)"]
)
def test_a_function_wrapped_and_not_jitted(jitted: str) -> None:
    """(Or by a method that may do anything.)"""
    assert codes(WRAPPED.format(jitted=jitted)) == []


BOUND = """
class Foo:
    def __init__(self, w):
        self.w = w
        {here}

    def change(self, w):
        self.w = w

    def g(self, x):
        return self.w * x

    def fit(self, x):
        {there}
"""


@pytest.mark.parametrize("wrap", ["self.g", "jax.grad(self.g)", "partial(self.g, 3)"])
def test_a_bound_method_that_is_jitted(wrap: str) -> None:
    kept = BOUND.format(here=f"self.f = jax.jit({wrap})", there="return self.f(x)")
    assert codes(kept) == ["CX205"]
    known = BOUND.format(here="", there=f"f = jax.jit({wrap})\n        return f(x)")
    assert codes(known) == ["cx205"]
    at_once = BOUND.format(here="", there=f"return jax.jit({wrap})(x)")
    assert codes(at_once) == []


def test_a_bound_method_is_compiled_again_unless_it_is_kept() -> None:
    class Foo:
        w = 2.0

        def g(self, x: float) -> float:
            return self.w * x

    foo = Foo()
    kept = jax.jit(foo.g)
    assert kept(1.0) == 2
    foo.w = 3.0
    assert kept(1.0) == 2
    del kept
    assert jax.jit(foo.g)(1.0) == 3
    foo.w = 4.0
    assert jax.jit(foo.g)(1.0) == 4
    assert jax.jit(jax.grad(foo.g))(1.0) == 4
    foo.w = 5.0
    assert jax.jit(jax.grad(foo.g))(1.0) == 5


def test_what_partial_gives_is_not_traced() -> None:
    text = """
    @functools.cache
    def table(n):
        return n + 1

    def g(n, x):
        return table({argument}) * x

    f = jax.jit(functools.partial(g, 3))
    """
    assert codes(text.format(argument="n")) == []
    assert codes(text.format(argument="x")) == ["CX204"]


def test_a_star_of_the_standard_library() -> None:
    text = """
    from functools import *
    from typing import *
    import cachax
    import equinox as eqx
    import jax.numpy as jnp

    class Foo(eqx.Module):
        @cached_property
        def b(self):
            return jnp.ones(3)

    class Point(NamedTuple):
        x: float

        @cachax.cached_property
        def b(self):
            return self.x
    """
    assert [finding.code for finding in linted(text)] == ["CX101", "CX301"]
