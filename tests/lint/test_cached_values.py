"""CX1: cached properties on objects that JAX takes apart, or reads in a trace."""

import pytest

from linted import codes, severities

PYTREES = {
    "equinox": "class Foo(eqx.Module):",
    "PyTreeNode": "class Foo(flax.struct.PyTreeNode):",
    "PyTreeNode of struct": "class Foo(struct.PyTreeNode):",
    "flax.struct.dataclass": "@flax.struct.dataclass\nclass Foo:",
    "struct.dataclass with options": "@struct.dataclass(kw_only=True)\nclass Foo:",
    "register_dataclass": (
        "@jax.tree_util.register_dataclass\n@dataclasses.dataclass\nclass Foo:"
    ),
    "register_dataclass by partial": (
        "@partial(jax.tree_util.register_dataclass, data_fields=['a'], meta_fields=[])"
        "\n@dataclasses.dataclass\nclass Foo:"
    ),
    "register_pytree_node_class": (
        "@jax.tree_util.register_pytree_node_class\nclass Foo:"
    ),
    "register_pytree_with_keys_class": (
        "@jax.tree_util.register_pytree_with_keys_class\nclass Foo:"
    ),
    "penzai": "@pz.pytree_dataclass\nclass Foo(pz.Struct):",
    "tjax": "@tjax.dataclasses.dataclass\nclass Foo:",
    "zodiax": "class Foo(zdx.Base):",
    "netket's dataclass": "@nk_struct.dataclass\nclass Foo:",
    "numpyro": "class Foo(dist.Distribution):",
    "a base in the same file": "class Base(eqx.Module):\n    pass\n\nclass Foo(Base):",
    "a generic base": "class Foo(eqx.Module[int]):",
    "an alias": "Node = flax.struct.PyTreeNode\n\nclass Foo(Node):",
}
FLATTENED = {
    "distrax": "class Foo(distrax.Bijector):",
    "simple_pytree": "class Foo(simple_pytree.Pytree):",
    "netket": "class Foo(nk_struct.Pytree):",
}
CHEX = {
    "bare": "@chex.dataclass\nclass Foo:",
    "with options": "@chex.dataclass(frozen=True)\nclass Foo:",
}
BODY = """
    a: jax.Array

    @cached_property
    def b(self):
        return jnp.sum(self.a)
"""


@pytest.mark.parametrize("head", PYTREES.values(), ids=PYTREES)
def test_an_array_on_a_pytree(head: str) -> None:
    assert severities(head + BODY) == [("CX101", "warning")]


@pytest.mark.parametrize("head", FLATTENED.values(), ids=FLATTENED)
def test_an_array_on_a_class_that_flattens_its_dict(head: str) -> None:
    assert severities(head + BODY) == [("CX103", "error")]


@pytest.mark.parametrize("head", CHEX.values(), ids=CHEX)
def test_an_array_on_a_class_that_only_flattens_its_dict(head: str) -> None:
    assert severities(head + BODY) == [("CX103", "warning")]


def test_an_array_on_an_nnx_module() -> None:
    assert severities("class Foo(nnx.Module):" + BODY) == [("CX102", "error")]


def test_registered_by_a_call() -> None:
    call = "\njax.tree_util.register_pytree_node(Foo, lambda f: ((f.a,), None), Foo)\n"
    assert codes("class Foo:" + BODY + call) == ["CX101"]


@pytest.mark.parametrize(
    "head",
    [
        "class Foo:",
        "@dataclasses.dataclass\nclass Foo:",
        "class Foo(Unknown):",
        "@jax.tree_util.register_static\nclass Foo:",
        # Not registered itself: to JAX it is not a pytree.
        "@flax.struct.dataclass\nclass Base:\n    pass\n\nclass Foo(Base):",
    ],
)
def test_no_pytree(head: str) -> None:
    assert codes(head + BODY) == []


ARRAYS = {
    "jnp": "return jnp.linalg.cholesky(self.a)",
    "arithmetic": "return 2 * self.a + 1",
    "a method": "return self.a.sum().reshape(1)",
    "an update": "return self.a.at[0].set(1.0)",
    "a transpose": "return self.a.T @ self.a",
    "an index": "return self.a[0]",
    "a comparison": "return self.a > 0",
    "a local": "x = jnp.sin(self.a)\n        y = x + 1\n        return y",
    "a tuple": "return jnp.sin(self.a), 3",
    "a dict": "return {'x': jnp.sin(self.a)}",
    "a list": "return [jnp.sin(x) for x in range(3)]",
    "unpacked": "q, r = jnp.linalg.qr(self.a)\n        return q",
    "random": "return jax.random.normal(jax.random.key(0), (3,))",
    "lax": "return lax.cumsum(self.a)",
    "scan": "return lax.scan(lambda c, x: (c, x), 0.0, self.a)",
    "scipy": "return jax.scipy.linalg.cho_factor(self.a)",
    "vmap": "return jax.vmap(lambda x: x)(self.a)",
    "grad": "return jax.grad(lambda x: x)(1.0)",
    "nn": "return jax.nn.softmax(self.a)",
    "one branch": "return jnp.ones(3) if self.n else None",
    "an early return": (
        "if self.n:\n            return 0.0\n        return jnp.ones(3)"
    ),
    "a different property": "return self.helper",
    "a method of its own": "return self.method()",
    "stop_gradient": "return lax.stop_gradient(self.a)",
    "a field by jaxtyping": "return self.f * 2",
    "an optional field": "return self.o + 1",
}
NO_ARRAYS = {
    "an int": "return 3",
    "a shape": "return self.a.shape",
    "a part of a shape": "return self.a.shape[0] // 2",
    "ndim": "return self.a.ndim + 1",
    "a dtype": "return self.a.dtype",
    "len": "return len(self.a)",
    "a string": "return f'{self.a}'",
    "a format": "return 'a %s' % self.a",
    "a slice": "return slice(0, self.n)",
    "a range": "return range(self.n)",
    "numpy": "return np.linspace(0, 1, self.n)",
    "numpy of jnp": "return np.asarray(jnp.arange(3))",
    "dtype-only jnp": "return np.zeros(3, dtype=jnp.float32)",
    "a dtype itself": "return jnp.float32",
    "jnp.dtype": "return jnp.dtype('float32')",
    "finfo": "return jnp.finfo(jnp.float32).eps",
    "issubdtype": "return jnp.issubdtype(self.a.dtype, jnp.floating)",
    "jnp.shape": "return jnp.shape(self.a)",
    "jnp.ndim": "return jnp.ndim(self.a)",
    "a constant": "return jnp.pi * self.n",
    "a float": "return float(jnp.sum(self.a))",
    "an item": "return self.a.sum().item()",
    "tolist": "return self.a.tolist()",
    "None test": "return self.a is None",
    "a jitted function": "return jax.jit(lambda x: x)",
    "a vmapped function": "return jax.vmap(self.method)",
    "a lambda": "return lambda: jnp.ones(3)",
    "a partial": "return partial(jnp.sum, self.a)",
    "an initializer": "return jax.nn.initializers.normal()",
    "a shape struct": "return jax.eval_shape(lambda: jnp.ones(3))",
    "a tuple of ints": "return (1, len(self.a))",
    "device_get": "return jax.device_get(self.a)",
    "nothing": "pass",
    "not": "return not self.n",
    "compile-time": (
        "with jax.ensure_compile_time_eval():\n            return jnp.arange(3)"
    ),
}
CLASS = """
class Foo(eqx.Module):
    a: jax.Array
    f: Float[Array, "n"]
    o: Optional[Array]
    n: int

    @property
    def helper(self):
        return jnp.sum(self.a)

    def method(self) -> jax.Array:
        return something(self.a)

    @cached_property
    def b(self):
        {}
"""


@pytest.mark.parametrize("body", ARRAYS.values(), ids=ARRAYS)
def test_a_value_with_arrays(body: str) -> None:
    assert codes(CLASS.format(body)) == ["CX101"]


@pytest.mark.parametrize("body", NO_ARRAYS.values(), ids=NO_ARRAYS)
def test_a_value_without_arrays(body: str) -> None:
    assert codes(CLASS.format(body)) == []


@pytest.mark.parametrize(
    "body",
    [
        "return something(self.a)",
        "return self.unknown * 2",
        "return [x for x in self.things]",
    ],
)
def test_a_value_that_is_unknown_is_information(body: str) -> None:
    assert codes(CLASS.format(body)) == ["cx101"]


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        ("jax.Array", ["CX101"]),
        ("'jax.Array'", ["CX101"]),
        ("Float[Array, 'n m']", ["CX101"]),
        ("tuple[Array, int]", ["CX101"]),
        ("Array | None", ["CX101"]),
        ("Float[np.ndarray, 'n']", []),
        ("np.ndarray", []),
        ("int", []),
        ("tuple[int, ...]", []),
        ("dict[str, float]", []),
        ("Array | np.ndarray", ["cx101"]),
        ("Something", ["cx101"]),
    ],
)
def test_the_annotation_adds_to_the_body(annotation: str, expected: list[str]) -> None:
    body = f"""
    class Foo(eqx.Module):
        @cached_property
        def b(self) -> {annotation}:
            return something()
    """
    assert codes(body) == expected


def test_the_body_tells_better_than_the_annotation() -> None:
    wrong = CLASS.format("return np.ones(3)").replace(
        "def b(self)", "def b(self) -> Array"
    )
    assert codes(wrong) == []


def test_a_value_from_a_call_of_an_object() -> None:
    body = """
    class Kernel(eqx.Module):
        def __call__(self, x):
            return jnp.exp(x)

    class Foo(eqx.Module):
        kernel: Kernel
        a: Array

        @cached_property
        def b(self):
            return self.kernel(self.a)
    """
    assert codes(body) == ["CX101"]


def test_a_value_that_is_itself_a_pytree_of_arrays() -> None:
    body = """
    class Pair(eqx.Module):
        x: Array

    class Foo(eqx.Module):
        a: Array

        @cached_property
        def b(self):
            return Pair(self.a)
    """
    assert codes(body) == ["CX101"]


HOME_MADE = {
    "is None": """
        if self._b is None:
            object.__setattr__(self, "_b", jnp.sum(self.a))
        return self._b""",
    "hasattr": """
        if not hasattr(self, "_b"):
            self._b = jnp.sum(self.a)
        return self._b""",
    "the dict": """
        if "_b" not in self.__dict__:
            self.__dict__["_b"] = jnp.sum(self.a)
        return self._b""",
    "an exception": """
        try:
            return self._b
        except AttributeError:
            self._b = jnp.sum(self.a)
        return self._b""",
    "a local": """
        b = getattr(self, "_b", None)
        if b is None:
            b = jnp.sum(self.a)
            setattr(self, "_b", b)
        return b""",
}


@pytest.mark.parametrize("body", HOME_MADE.values(), ids=HOME_MADE)
def test_a_home_made_lazy_property(body: str) -> None:
    text = f"""
class Foo(eqx.Module):
    a: Array

    @property
    def b(self):{body}
"""
    assert codes(text) == ["CX101"]


def test_lazy_state_without_arrays_is_fine() -> None:
    text = """
    class Foo(eqx.Module):
        a: Array

        @property
        def b(self):
            if not hasattr(self, "_b"):
                object.__setattr__(self, "_b", self.a.shape)
            return self._b
    """
    assert codes(text) == []


def test_a_subclass_of_functools_cached_property_is_one() -> None:
    text = """
    class lazy(functools.cached_property):
        pass

    class Foo(eqx.Module):
        a: Array

        @lazy
        def b(self):
            return jnp.sum(self.a)
    """
    assert codes(text) == ["CX101"]


def test_a_named_tuple_has_no_dict() -> None:
    text = "class Foo(NamedTuple):" + BODY
    assert codes(text) == ["CX101"]


PLAIN = """
class Foo:
    def __init__(self, a):
        self.a = a

    @cached_property
    def b(self):
        return jnp.sum(self.a)
"""
READ_IN_A_TRACE = {
    "static self": """
    @partial(jax.jit, static_argnums=0)
    def use(self, x):
        return x * self.b
""",
    "static self by name": """
    @partial(jax.jit, static_argnames="self")
    def use(self, x):
        return x * self.b
""",
    "through a method": """
    @partial(jax.jit, static_argnums=(0,))
    def use(self, x):
        return x * self.helper()

    def helper(self):
        return self.b
""",
    "a closure": """
    def use(self, x):
        @jax.jit
        def inner(x):
            return x * self.b
        return inner(x)
""",
    "a loop body": """
    def use(self, xs):
        def step(carry, x):
            return carry + self.b * x, None
        return lax.scan(step, 0.0, xs)
""",
    "a bound method": """
    def use(self, x):
        return jax.jit(self.inner)(x)

    def inner(self, x):
        return x * self.b
""",
    "an object of the module": """
foo = Foo(jnp.ones(3))

@jax.jit
def use(x):
    return x * foo.b
""",
    "equinox": """
    def use(self, x):
        return eqx.filter_jit(lambda x: x * self.b)(x)
""",
}
NOT_READ_IN_A_TRACE = {
    "nothing traced": """
    def use(self, x):
        return x * self.b
""",
    "read before": """
    def use(self, x):
        b = self.b
        return jax.jit(lambda x: x * b)(x)
""",
    "a different attribute": """
    def use(self, x):
        return jax.jit(lambda x: x * self.a)(x)
""",
    "vmap keeps it concrete": """
    def use(self, x):
        return jax.vmap(lambda x: x * self.b)(x)
""",
}


@pytest.mark.parametrize("rest", READ_IN_A_TRACE.values(), ids=READ_IN_A_TRACE)
def test_a_plain_object_read_in_a_trace(rest: str) -> None:
    static = "static_arg" in rest  # then its array becomes a constant, too
    assert codes(PLAIN + rest) == (["CX104", "CX205"] if static else ["CX104"])


@pytest.mark.parametrize("rest", NOT_READ_IN_A_TRACE.values(), ids=NOT_READ_IN_A_TRACE)
def test_a_plain_object_not_read_in_a_trace(rest: str) -> None:
    assert codes(PLAIN + rest) == []


def test_jit_under_a_cached_property_that_reads_a_second_one() -> None:
    text = """
class Foo(eqx.Module):
    a: Array

    @cached_property
    def b(self):
        return jnp.sum(self.a)

    @functools.cached_property
    @jax.jit
    def c(self):
        return self.b + 1
"""
    assert codes(text) == ["CX101", "CX101", "CX105"]
    assert codes(text.replace("self.b + 1", "self.a + 1")) == [
        "CX101",
        "CX101",
        "cx105",
    ]
    assert codes(text.replace("    @jax.jit\n", "")) == ["CX101", "CX101"]
    fixed = text.replace("@cached_property", "@cachax.cached_property")
    fixed = fixed.replace("@functools.cached_property", "@cachax.cached_property")
    assert codes(fixed) == []


@pytest.mark.parametrize(
    "value",
    [
        "jax.tree.map(unknown, self.a)",
        "jax.experimental.sparse.BCOO.fromdense(self.a)",
        "jax.tree.map(lambda x: unknown(x), self.a)[0]",
    ],
)
def test_a_function_of_jax_that_is_in_no_table(value: str) -> None:
    """What it makes of an array is not known to be something else."""
    text = f"class Foo(eqx.Module):{BODY}".replace("jnp.sum(self.a)", value)
    assert codes(text) == ["CX101"]
    assert codes(text.replace("self.a", "3")) == ["cx101"]
