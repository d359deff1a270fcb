"""CX2: caches made by hand."""

import textwrap

import pytest

from linted import codes, severities

FILLED = {
    "is None": """
        if self._b is None:
            self._b = jnp.sum(self.a)
        return self._b""",
    "returned before": """
        if self._b is not None:
            return self._b
        self._b = jnp.sum(self.a)
        return self._b""",
    "around frozen": """
        if self._b is None:
            object.__setattr__(self, "_b", jnp.sum(self.a))
        return self._b""",
    "through a local": """
        b = self._b
        if b is None:
            b = jnp.sum(self.a)
            self._b = b
        return b""",
}


@pytest.mark.parametrize("body", FILLED.values(), ids=FILLED)
@pytest.mark.parametrize(
    "head",
    ["class Foo(flax.struct.PyTreeNode, frozen=False):", "@chex.dataclass\nclass Foo:"],
)
def test_a_field_filled_on_first_use(head: str, body: str) -> None:
    text = f"""
{head}
    a: Array
    _b: Array | None = None

    @property
    def b(self):{body}
"""
    assert severities(text) == [("CX201", "error")]


def test_a_field_that_tree_flatten_names() -> None:
    text = """
    @jax.tree_util.register_pytree_node_class
    class Foo:
        def __init__(self, a, b=None):
            self.a, self.b = a, b

        def tree_flatten(self):
            return (self.a, self.b), None

        def get(self):
            if self.b is None:
                self.b = jnp.sum(self.a)
            return self.b
    """
    assert codes(text) == ["CX201"]


@pytest.mark.parametrize(
    "body",
    [
        # state that is not returned is not a cache
        "        if self._b is None:\n            self._b = jnp.zeros(3)\n",
        # no arrays
        "        if self._b is None:\n            self._b = 3\n"
        "        return self._b\n",
        # returned, but not kept
        "        if self._b is None:\n            return jnp.sum(self.a)\n"
        "        return self._b",
    ],
)
def test_a_field_that_is_not_a_cache(body: str) -> None:
    text = f"""
@chex.dataclass
class Foo:
    a: Array
    _b: Array | None = None

    def b(self):
{body}
"""
    assert codes(text) == []


def test_a_default_in_post_init_is_fine() -> None:
    text = """
    @chex.dataclass
    class Foo:
        a: Array
        b: Array | None = None

        def __post_init__(self):
            self.fill()

        def fill(self):
            if self.b is None:
                self.b = jnp.zeros(3)
            return self.b
    """
    assert codes(text) == []


WORKSPACE = """
@jax.tree_util.register_pytree_node_class
class Foo:
    def __init__(self, a):
        self.a = a
        self._kept = {{}}

    def tree_flatten(self):
        return (self.a,), None

    def get(self, n):
        {}
"""


@pytest.mark.parametrize(
    "body",
    [
        "if n not in self._kept: self._kept[n] = jnp.ones(n)",
        "x = self._kept.get(n)\n        if x is None: self._kept[n] = jnp.ones(n)",
        "if n not in self._kept.keys(): self._kept[n] = jnp.ones(n)",
        "if n in self._kept: return 0\n"
        "        return self._kept.setdefault(n, jnp.ones(n))",
        "try:\n            return self._kept[n]\n        except KeyError:\n"
        "            self._kept[n] = jnp.ones(n)",
    ],
)
def test_a_workspace_on_a_pytree(body: str) -> None:
    assert severities(WORKSPACE.format(body)) == [("CX202", "warning")]


@pytest.mark.parametrize(
    "body",
    [
        "if n not in self._kept: self._kept[n] = np.ones(n)",
        "self._kept[n] = jnp.ones(n)",
        "if n not in self._kept: self._kept[n] = 'name'",
    ],
)
def test_a_workspace_that_is_not_a_cache_of_arrays(body: str) -> None:
    assert codes(WORKSPACE.format(body)) == []


def test_a_workspace_of_a_plain_class_matters_if_traced_code_reaches_it() -> None:
    plain = """
class Foo:
    def __init__(self):
        self._kept = {}

    def get(self, n):
        if n not in self._kept:
            self._kept[n] = jnp.ones(n)
        return self._kept[n]
"""
    traced = """
    def use(self, x):
        return jax.jit(lambda x: x + self.get(3))(x)
"""
    assert codes(plain) == []
    assert codes(plain + traced) == ["CX202"]


def test_a_workspace_on_a_parameter() -> None:
    """As in jax_cosmo. What is not computed from the object is information."""
    text = """
    def distance(cosmo, a):
        if "distance" not in cosmo._workspace:
            cosmo._workspace["distance"] = jnp.ones(3) * cosmo.omega
        return cosmo._workspace["distance"]
    """
    assert codes(text) == ["CX202"]
    passed_on = text.replace("jnp.ones(3) * cosmo.omega", "jnp.sin(expansion(cosmo))")
    assert codes(passed_on) == ["CX202"]
    assert codes(text.replace(" * cosmo.omega", "")) == ["cx202"]
    assert codes(text.replace("_workspace", "info")) == []
    assert codes(text.replace("jnp.ones", "np.ones").replace("cosmo.omega", "2")) == []
    plain = "class Cosmology:\n    pass\n" + textwrap.dedent(text)
    assert codes(plain.replace("cosmo, a", "cosmo: Cosmology, a")) == ["cx202"]


def test_a_workspace_on_a_plain_class_is_information() -> None:
    text = """
    class Grid:
        def __init__(self, n):
            self.n, self._cache = n, {}

        def points(self, k):
            if k not in self._cache:
                self._cache[k] = jnp.linspace(0, 1, k * self.n)
            return self._cache[k]
    """
    assert codes(text) == ["cx202"]
    assert codes(text.replace("jnp.", "np.")) == []
    assert codes(text.replace("_cache", "table")) == []


def test_a_jitted_method_writes_to_self() -> None:
    text = """
    class Foo:
        @partial(jax.jit, static_argnums=0)
        def use(self, x):
            self.last = jnp.sum(x)
            return x
    """
    assert severities(text) == [("CX203", "error")]
    assert codes(text.replace("jnp.sum(x)", "'traced'")) == ["cx203"]
    assert codes(text.replace("self.last = ", "last = ")) == []


@pytest.mark.parametrize(
    "write",
    [
        "self.n = x + 1",
        "self.n += x",
        "self.m, self.n = x, x + 1",
        "object.__setattr__(self, 'n', x)",
        "setattr(self, 'n', x)",
        "self.__dict__['n'] = x",
        "self.kept['n'] = x",
    ],
)
def test_every_spelling_of_a_write(write: str) -> None:
    text = f"""
class Foo:
    @jax.jit
    def use(self, x):
        {write}
        return x
"""
    assert "CX203" in codes(text)


def test_a_loop_body_writes_to_self() -> None:
    text = """
    class Foo:
        def use(self, xs):
            def step(carry, x):
                self.last = x
                return carry + x, None
            return lax.scan(step, 0.0, xs)
    """
    assert codes(text) == ["CX203"]
    assert codes(text.replace("lax.scan", "some.scan")) == []


def test_a_method_called_by_a_jitted_one_writes_to_self() -> None:
    text = """
    class Foo:
        @partial(jax.jit, static_argnums=0)
        def use(self, x):
            self.note(x)
            return x

        def note(self, x):
            self.last = x + 1
    """
    assert severities(text) == [("CX203", "warning")]


def test_a_property_of_a_pytree_writes_to_self() -> None:
    text = """
    @chex.dataclass
    class Foo:
        a: Array

        @property
        def b(self):
            self.last = jnp.sum(self.a)
            return self.last
    """
    assert severities(text) == [("CX203", "warning")]
    assert codes(text.replace("jnp.sum(self.a)", "unknown()")) == ["cx203"]
    method = text.replace("        @property\n", "").replace("def b(", "def update(")
    assert codes(method) == ["cx203"]
    assert codes(method.replace("jnp.sum(self.a)", "unknown()")) == []


FROZEN = {
    "equinox": "class Foo(eqx.Module):",
    "PyTreeNode": "class Foo(struct.PyTreeNode):",
    "flax.struct": "@struct.dataclass\nclass Foo:",
}
THAWED = {
    "PyTreeNode": "class Foo(struct.PyTreeNode, frozen=False):",
    "a base": (
        "class Base(struct.PyTreeNode, frozen=False):\n    pass\n\nclass Foo(Base):"
    ),
    "flax.struct": "@struct.dataclass(frozen=False)\nclass Foo:",
    "netket": "class Foo(nk_struct.Pytree, mutable=True):",
    "chex": "@chex.dataclass\nclass Foo:",
}
METHOD = """
    a: Array

    def update(self):
        self.a = unknown()
"""


@pytest.mark.parametrize("head", FROZEN.values(), ids=FROZEN)
def test_a_write_to_a_frozen_pytree_raises(head: str) -> None:
    assert severities(head + METHOD) == [("CX203", "error")]
    assert codes(head + METHOD.replace("def update", "def __init__")) == []


@pytest.mark.parametrize("head", THAWED.values(), ids=THAWED)
def test_a_pytree_that_is_not_frozen_may_be_changed(head: str) -> None:
    assert codes(head + METHOD) == []


def test_a_write_around_a_frozen_pytree() -> None:
    text = """
    class Foo(eqx.Module):
        a: Array

        def update(self):
            object.__setattr__(self, "a", jnp.sum(self.a))
    """
    assert severities(text) == [("CX203", "warning")]
    made = text.replace("def update(self)", "def __init__(self)")
    assert codes(made) == []


def test_a_ref_is_made_to_be_written_to() -> None:
    text = """
    class Foo:
        @jax.jit
        def use(self, x):
            self.ref[...] = x
            return x
    """
    assert codes(text) == []


def test_nnx_has_its_own_rules() -> None:
    text = """
    class Foo(nnx.Module):
        @nnx.jit
        def use(self, x):
            self.last = x + 1
            return x
    """
    assert codes(text) == []


def test_lru_cache_that_returns_arrays() -> None:
    text = """
    @functools.lru_cache(maxsize=None)
    def table(n):
        return jnp.arange(n)
    """
    assert severities(text) == [("CX204", "warning")]
    assert codes(text.replace("lru_cache(maxsize=None)", "cache")) == ["CX204"]
    assert codes(text.replace("jnp.arange", "np.arange")) == []
    assert codes(text.replace("jnp.arange(n)", "jax.jit(jnp.arange)")) == []
    concrete = text.replace(
        "return", "with jax.ensure_compile_time_eval():\n            return"
    )
    assert codes(concrete) == []


def test_lru_cache_on_a_method() -> None:
    text = """
    class Foo:
        @functools.lru_cache
        def table(self, n):
            return jnp.arange(n)
    """
    assert severities(text) == [("CX204", "warning")]


def test_lru_cache_that_takes_arrays() -> None:
    text = """
    @functools.lru_cache
    def norm(x: jax.Array):
        return something(x)
    """
    assert severities(text) == [("CX204", "error")]
    assert codes(text.replace("jax.Array", "tuple")) == []


def test_lru_cache_called_with_a_tracer() -> None:
    text = """
    @functools.lru_cache
    def norm(x):
        return something(x)

    @jax.jit
    def use(x):
        return norm(x)
    """
    assert severities(text) == [("CX204", "error")]
    assert codes(text.replace("norm(x)\n", "norm(x.shape)\n")) == []
    static = text.replace("@jax.jit", "@partial(jax.jit, static_argnums=0)")
    assert codes(static) == []


def test_static_self_with_an_array() -> None:
    text = """
    class Foo:
        def __init__(self, n):
            self.table = jnp.arange(n)
            self.n = n

        @partial(jax.jit, static_argnums=0)
        def use(self, x):
            return x + self.table
    """
    assert severities(text) == [("CX205", "warning")]
    assert codes(text.replace("x + self.table", "x + self.n")) == []
    assert codes(text.replace("jnp.arange", "np.arange")) == []
    assert codes(text.replace("static_argnums=0", "static_argnums=1")) == []
    assert codes(text.replace("static_argnums=0", "static_argnames=('self',)")) == [
        "CX205"
    ]


def test_static_self_with_an_attribute_that_changes() -> None:
    text = """
    class Foo:
        def __init__(self, w):
            self.w = w

        def set(self, w):
            self.w = w

        @partial(jax.jit, static_argnums=0)
        def use(self, x):
            return self.helper(x)

        def helper(self, x):
            return x + self.w
    """
    assert severities(text) == [("CX205", "error")]
    assert (
        codes(text.replace("        def set(self, w):\n            self.w = w\n", ""))
        == []
    )


def test_a_bound_method_that_reads_an_attribute_that_changes() -> None:
    text = """
    class Foo:
        def __init__(self):
            self.w = jnp.zeros(3)
            self.fast = jax.jit(self.use)

        def use(self, x):
            return x + self.w

        def set(self, w):
            self.w = w
    """
    assert severities(text) == [("CX205", "error")]
    other = text.replace("self.w = w\n", "self.v = w\n")
    assert severities(other) == [("CX205", "warning")]
    assert codes(other.replace("jnp.zeros(3)", "3")) == []


STATIC = {
    "equinox": (
        "class Foo(eqx.Module):\n    a: Array\n    b: Array = eqx.field(static=True)"
    ),
    "static_field": (
        "class Foo(eqx.Module):\n    a: Array\n    b: Array = eqx.static_field()"
    ),
    "flax": (
        "@struct.dataclass\nclass Foo:\n    a: Array\n"
        "    b: Array = struct.field(pytree_node=False)"
    ),
    "metadata": (
        "@jax.tree_util.register_dataclass\n@dataclasses.dataclass\nclass Foo:\n"
        "    a: Array\n    b: Array = dataclasses.field(metadata=dict(static=True))"
    ),
    "meta_fields": (
        "@partial(jax.tree_util.register_dataclass, data_fields=['a'], "
        "meta_fields=['b'])\n@dataclasses.dataclass\nclass Foo:\n    a: Array\n"
        "    b: Array"
    ),
}


@pytest.mark.parametrize("head", STATIC.values(), ids=STATIC)
@pytest.mark.parametrize("maker", ["__init__", "__post_init__"])
def test_an_array_in_a_static_field(head: str, maker: str) -> None:
    text = f"""
{head}

    def {maker}(self):
        object.__setattr__(self, "b", jnp.ones(3))
"""
    assert severities(text) == [("CX206", "error")]
    assert codes(text.replace("jnp.ones", "np.ones")) == []


def test_a_derived_leaf_that_init_does_not_take() -> None:
    text = """
    class Foo(eqx.Module):
        a: Array
        b: Array = eqx.field(init=False)

        def __post_init__(self):
            self.b = jnp.sum(self.a)
    """
    assert severities(text) == [("CX206", "warning")]
    assert codes(text.replace("jnp.sum(self.a)", "jnp.ones(3)")) == []
    parameter = text.replace("__post_init__(self)", "__init__(self, x)")
    parameter = parameter.replace(
        "self.b = jnp.sum(self.a)", "self.a = x; self.b = x + 0"
    )
    assert codes(parameter.replace("(self, x)", "(self, x: Array)")) == ["CX206"]
    # flax runs __post_init__ again whenever it rebuilds the object.
    assert codes(text.replace("eqx.Module", "struct.PyTreeNode")) == []


FLATTENED = """
@jax.tree_util.register_pytree_node_class
class Foo:
    def __init__(self, a):
        self.a = a

    @{}
    def n(self):
        return len(self.a)

    def tree_flatten(self):
        return (self.a,), self.n
"""


@pytest.mark.parametrize("decorator", ["cached_property", "cachax.cached_property"])
def test_a_cached_property_read_in_tree_flatten(decorator: str) -> None:
    assert severities(FLATTENED.format(decorator)) == [("CX207", "warning")]


def test_an_uncached_property_in_tree_flatten_is_fine() -> None:
    assert codes(FLATTENED.format("property")) == []


def test_a_cached_property_read_in_a_registered_function() -> None:
    text = """
    class Foo:
        @cached_property
        def n(self):
            return len(self.a)

    def flatten(foo):
        return (foo.a,), foo.n

    jax.tree_util.register_pytree_node(Foo, flatten, Foo)
    """
    assert codes(text) == ["CX207"]
    assert codes(text.replace(", foo.n", ", None")) == []


HELD = {
    "assigned": "self.w = jnp.asarray(w)",
    "two at once": "self.n, self.w = 3, jnp.asarray(w)",
    "unpacked": "self.w, self.v = jnp.meshgrid(w, w)",
    "in a list": "self.w = [jnp.asarray(w)]",
    "appended": "self.w = []\n        self.w.append(jnp.asarray(w))",
    "a pytree": "self.w = Weights(w)",
    "a plain object": "self.w = Table(w)",
}
NOT_HELD = {
    "numpy": "self.w = np.asarray(w)",
    "a number": "self.w = 3",
    "a parameter": "self.w = w",
    "a function": "self.w = jax.vmap(w)",
    "a shape": "self.w = jnp.asarray(w).shape",
    "a list of numbers": "self.w = []\n        self.w.append(3)",
    "an object without arrays": "self.w = Settings(w)",
    "a module of flax.linen": "self.w = Dense(w)",
}
CLASSES = """
import flax.linen as nn

class Weights(eqx.Module):
    w: Array

class Table:
    def __init__(self, w):
        self.values = jnp.asarray(w)
        self.n = len(w)

    def times(self, x):
        return self.values * x

    def size(self):
        return self.n

class Settings:
    def __init__(self, n):
        self.n = n

    def times(self, x):
        return self.n * x

class Dense(nn.Module):
    def setup(self):
        self.kernel = jnp.zeros(3)

    def times(self, x):
        return self.kernel * x
"""
STATIC = """
class Model:
    def __init__(self, w):
        {held}

    @partial(jax.jit, static_argnums=0)
    def predict(self, x):
        return self.w.times(x)
"""


@pytest.mark.parametrize("held", HELD.values(), ids=HELD)
def test_a_static_self_that_holds_arrays(held: str) -> None:
    """As in gigalens, jaxtronomy, evosax and candl."""
    text = CLASSES + STATIC.format(held=held)
    assert severities(text) == [("CX205", "warning")]
    assert codes(text.replace("self.w.times(x)", "x")) == []
    assert codes(text.replace("(jax.jit, static_argnums=0)", "(f, n=0)")) == []


@pytest.mark.parametrize("held", NOT_HELD.values(), ids=NOT_HELD)
def test_a_static_self_that_holds_none(held: str) -> None:
    assert codes(CLASSES + STATIC.format(held=held)) == []


def test_a_static_self_and_the_part_of_an_object_that_is_read() -> None:
    text = CLASSES + STATIC.format(held="self.w = Table(w)")
    assert codes(text.replace("self.w.times(x)", "self.w.values * x")) == ["CX205"]
    assert codes(text.replace("self.w.times(x)", "self.w.size() * x")) == []
    assert codes(text.replace("self.w.times(x)", "self.w.n * x")) == []


def test_a_static_self_and_the_shape_of_an_array() -> None:
    text = STATIC.format(held="self.w = jnp.asarray(w)")
    assert codes(text.replace("self.w.times(x)", "x * self.w.shape[0]")) == []
    assert codes(text.replace("self.w.times(x)", "x * len(self.w)")) == []


USED = {
    "a product": "self.w @ x",
    "transposed": "self.w.T",
    "jnp.interp": "jnp.interp(x, self.w, self.w)",
    "a solution": "jnp.linalg.solve(self.w, x)",
    "a column": "self.w[:, 0]",
    "mapped over": "jax.vmap(f, (None, 0))(x, self.w)",
    "mapped over by default": "jax.vmap(f)(self.w)",
    "mapped over by name": "jax.vmap(f, in_axes=(0, None))(self.w, x)",
    "mapped over inside": "jax.vmap(jax.vmap(f, (None, 0)), (0, None))(x, self.w)",
    "in a different method": "self.helper(x)\n\n    def helper(self, x):\n"
    "        return jnp.dot(self.w, x)",
}


@pytest.mark.parametrize("value", USED.values(), ids=USED)
def test_a_static_self_whose_attribute_is_used_as_an_array(value: str) -> None:
    text = STATIC.format(held="self.w = w").replace("self.w.times(x)", value)
    assert severities(text) == [("CX205", "warning")]
    assert codes(text.replace("self.w = w", "self.w = np.asarray(w)")) == []
    assert codes(text.replace("(self, w)", "(self, w: int)")) == []


def test_a_static_self_with_a_function_that_maps_over_an_attribute() -> None:
    """As in jaxpi."""
    held = "self.w = w\n        self.over = jax.vmap(self.net, (None, 0))"
    text = STATIC.format(held=held).replace("self.w.times(x)", "self.over(x, self.w)")
    assert codes(text) == ["CX205"]
    assert codes(text.replace("(None, 0)", "(0, None)")) == []


def test_a_static_self_whose_attribute_may_be_a_number() -> None:
    for value in (
        *("self.w * x", "jnp.exp(self.w)", "self.w[0]", "jnp.ones(self.w)"),
        *("jax.vmap(f, (0, None))(x, self.w)", "jax.vmap(f, axes)(x, self.w)"),
        "jax.vmap(self.w)(x)",
    ):
        text = STATIC.format(held="self.w = w").replace("self.w.times(x)", value)
        assert codes(text) == []


def test_a_jit_with_a_name_for_methods() -> None:
    alias = "jit_method = partial(jax.jit, static_argnums=0)\n"
    text = STATIC.format(held="self.w = jnp.asarray(w)")
    text = text.replace("@partial(jax.jit, static_argnums=0)", "@jit_method")
    assert codes(alias + text) == ["CX205"]
    assert codes(alias.replace(", static_argnums=0", "") + text) == []


def test_a_jit_of_the_function_in_the_class() -> None:
    text = STATIC.format(held="self.w = jnp.asarray(w)")
    text = text.replace("    @partial(jax.jit, static_argnums=0)\n", "")
    call = "\npredict = jax.jit(Model.predict, static_argnums=0)\n"
    assert codes(text) == []
    assert codes(text + call) == ["CX205"]


ON_METHODS = {
    "lru_cache": "@functools.lru_cache",
    "with a size": "@functools.lru_cache(maxsize=8)",
    "cache": "@functools.cache",
    "methodtools": "@methodtools.lru_cache()",
    "cachetools": "@cachetools.cached({})",
}


@pytest.mark.parametrize("decorator", ON_METHODS.values(), ids=ON_METHODS)
def test_a_table_on_a_method_of_an_object_with_arrays(decorator: str) -> None:
    text = f"""
import cachetools, methodtools

class Foo(eqx.Module):
    a: Array

    {decorator}
    def b(self, n):
        return unknown(self, n)
"""
    assert severities(text) == [("CX204", "warning")]
    assert codes(text.replace("a: Array", "a: int")) == []
    assert codes(text.replace("a: Array", "a: Array = eqx.field(static=True)")) == []
    assert codes(text.replace(decorator, "@staticmethod")) == []
    assert codes(text.replace("    def b", "    @classmethod\n    def b")) == []
    plain = text.replace("eqx.Module", "object")
    assert codes(plain) == []
    assert codes(plain.replace("unknown(self", "unknown(self.a")) == ["CX204"]
    assert codes(plain.replace("unknown(self, n)", "self.a.shape")) == []


def test_a_table_on_an_object_with_its_own_hash() -> None:
    text = """
    class Foo(eqx.Module):
        a: Array

        def __hash__(self):
            return 3

        @functools.lru_cache
        def b(self, n):
            return unknown(self, n)
    """
    assert codes(text) == []


TABLE = """
_grids: dict[tuple, jax.Array] = {}

def grid(z, n):
    key = (z, n)
    if key not in _grids:
        begin = age(30)
        _grids[key] = jnp.linspace(begin, age(z), n)
    return _grids[key]
"""


def test_a_dictionary_of_the_file() -> None:
    assert severities(TABLE) == [("CX204", "information")]
    assert codes(TABLE.replace("jnp.linspace", "np.linspace")) == []
    assert codes(TABLE.replace("jnp.linspace(", "jax.jit(lambda: ")) == []
    assert codes(TABLE.replace("= {}", "= load()")) == []
    assert codes(TABLE.replace("if key not in _grids:", "if n > 3:")) == []
    assert codes(TABLE.replace("return _grids[key]", "return n")) == []
    assert codes(TABLE.replace("def grid(z, n):", "def grid(z, n, _grids):")) == []
    outside = "with jax.ensure_compile_time_eval():\n            _grids[key]"
    assert codes(TABLE.replace("_grids[key] = ", f"{outside} = ")) == []
    knows = "if isinstance(z, jax.core.Tracer):\n        return None\n    if key not"
    assert codes(TABLE.replace("if key not", knows)) == []


@pytest.mark.parametrize(
    "body",
    [
        "found = _grids.get(n)\n    if found is None:\n"
        "        found = _grids[n] = jnp.arange(n)\n    return found",
        "try:\n        return _grids[n]\n    except KeyError:\n"
        "        found = jnp.arange(n)\n    _grids[n] = found\n    return found",
        "if n in _grids:\n        return _grids[n]\n"
        "    found = jnp.arange(n)\n    _grids[n] = found\n    return found",
    ],
)
def test_other_spellings_of_the_question(body: str) -> None:
    text = f"_grids = dict()\n\ndef grid(n):\n    {body}\n"
    assert severities(text) == [("CX204", "information")]


def test_a_dictionary_of_a_function_around() -> None:
    inner = TABLE.replace("\n", "\n    ").replace(
        "_grids: dict[tuple, jax.Array]", "_g"
    )
    text = "def make():" + inner.replace("_grids", "_g") + "\n    return grid\n"
    assert severities(text) == [("CX204", "information")]


def test_a_global_variable_that_is_filled_on_first_use() -> None:
    text = """
    _table = None

    def table():
        global _table
        if _table is None:
            _table = jnp.arange(3)
        return _table
    """
    assert severities(text) == [("CX204", "information")]
    assert codes(text.replace("jnp.arange", "np.arange")) == []
    assert codes(text.replace("        global _table\n", "")) == []
