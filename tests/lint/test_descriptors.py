"""Caching properties other than functools': found by what they do."""

import pytest

from linted import codes, severities

# In the words of numpyro's `lazy_property`, chainer's, bottle's and other people's.
CLASSES = {
    "setattr": """
class lazy:
    def __init__(self, wrapped):
        self.wrapped = wrapped

    def __get__(self, instance, owner=None):
        if instance is None:
            return self
        value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value
""",
    "the __dict__": """
class lazy:
    def __init__(self, f):
        self.f = f

    def __get__(self, obj, _=None):
        found = obj.__dict__[self.f.__name__] = self.f(obj)
        return found
""",
    "a variable for the __dict__": """
class lazy:
    def __init__(self, f):
        self.f = f

    def __get__(self, obj, _=None):
        kept = vars(obj)
        if self.f.__name__ not in kept:
            kept[self.f.__name__] = self.f(obj)
        return kept[self.f.__name__]
""",
    "a dictionary on the object": """
class lazy:
    def __init__(self, f):
        self.f = f

    def __get__(self, obj, _=None):
        kept = obj.__dict__.setdefault("_kept", {})
        if self.f not in kept:
            kept[self.f] = self.f(obj)
        return kept[self.f]
""",
    "around a frozen class": """
class lazy:
    def __init__(self, f):
        self.f = f

    def __get__(self, obj, _=None):
        value = self.f(obj)
        object.__setattr__(obj, "_lazy_" + self.f.__name__, value)
        return value
""",
    "a table of the descriptor": """
class lazy:
    def __init__(self, f):
        self.f, self.kept = f, weakref.WeakKeyDictionary()

    def __get__(self, obj, _=None):
        if obj not in self.kept:
            self.kept[obj] = self.f(obj)
        return self.kept[obj]
""",
    "a property with more to it": """
class lazy(property):
    def __get__(self, obj, owner=None):
        name = "_" + self.fget.__name__
        if not hasattr(obj, name):
            setattr(obj, name, self.fget(obj))
        return getattr(obj, name)
""",
    "inherited": """
class Base:
    def __init__(self, f):
        self.f = f

    def __get__(self, obj, _=None):
        value = self.f(obj)
        setattr(obj, self.f.__name__, value)
        return value

class lazy(Base):
    pass
""",
}
FUNCTIONS = {
    "a property of an inner function": """
def lazy(f):
    name = "_" + f.__name__

    @property
    @functools.wraps(f)
    def getter(self):
        if not hasattr(self, name):
            setattr(self, name, f(self))
        return getattr(self, name)

    return getter
""",
    "property(...)": """
def lazy(f):
    def getter(self):
        try:
            return getattr(self, "_" + f.__name__)
        except AttributeError:
            setattr(self, "_" + f.__name__, f(self))
            return getattr(self, "_" + f.__name__)

    return property(getter)
""",
    "one that returns functools'": """
def lazy(f):
    return functools.cached_property(jax.named_call(f))
""",
    "a class of the file": CLASSES["setattr"].replace("lazy", "Lazy")
    + """
def lazy(f, option=None):
    return Lazy(f)
""",
    "an alias": "lazy = functools.cached_property\n",
    "a lambda": "lazy = lambda f: functools.cached_property(f)\n",
}
TABLES = {
    "property of a table": """
def lazy(f):
    return property(functools.lru_cache(None)(f))
""",
    "a table above": """
def lazy(f):
    @property
    @functools.lru_cache(maxsize=None)
    def getter(self):
        return f(self)

    return getter
""",
}
USE = """
class Foo(eqx.Module):
    a: Array

    @lazy
    def b(self):
        return jnp.sum(self.a)
"""
NOT_CACHING = {
    "computes every time": """
class lazy:
    def __init__(self, f):
        self.f = f

    def __get__(self, obj, _=None):
        return self.f(obj)
""",
    "binds a method": """
class lazy:
    def __init__(self, f):
        self.f = f

    def __get__(self, obj, _=None):
        return functools.partial(self.f, obj)
""",
    "computes nothing": """
class lazy:
    def __init__(self, f):
        self.f = f

    def __get__(self, obj, _=None):
        setattr(obj, "used", True)
        return getattr(obj, "x", None)
""",
    "a function that returns a property": "def lazy(f):\n    return property(f)\n",
    "something else": "lazy = unknown\n",
}


@pytest.mark.parametrize("lazy", [*CLASSES.values(), *FUNCTIONS.values()])
def test_a_property_that_keeps_its_value_on_the_object(lazy: str) -> None:
    assert codes(lazy + USE) == ["CX101"]
    assert codes(lazy + USE.replace("jnp.sum(self.a)", "self.a.shape")) == []


@pytest.mark.parametrize("lazy", TABLES.values(), ids=TABLES)
def test_a_property_that_keeps_its_value_in_a_table(lazy: str) -> None:
    assert codes(lazy + USE) == ["CX204"]
    assert codes(lazy + USE.replace("eqx.Module", "object")) == ["CX204"]


@pytest.mark.parametrize("lazy", NOT_CACHING.values(), ids=NOT_CACHING)
def test_a_property_that_keeps_nothing(lazy: str) -> None:
    assert codes(lazy + USE) == []


COMPOSED = {
    "functools": "b = functools.cached_property(_b)",
    "by its name": "b = cached_property(_b)",
    "a lambda": "b = cached_property(lambda self: jnp.sum(self.a))",
    "one of the file": "b = lazy(_b)",
}


@pytest.mark.parametrize("line", COMPOSED.values(), ids=COMPOSED)
def test_made_by_a_call_in_the_class(line: str) -> None:
    text = f"""
class Foo(eqx.Module):
    a: Array

    def _b(self):
        return jnp.sum(self.a)

    {line}
"""
    text = CLASSES["setattr"] + text
    assert codes(text) == ["CX101"]
    assert codes(text.replace("jnp.sum(self.a)", "self.a.shape")) == []
    assert (
        codes(text.replace("cached_property(", "property(").replace("lazy(", "f("))
        == []
    )


def test_made_by_a_call_with_a_table() -> None:
    text = """
    class Foo(eqx.Module):
        a: Array

        def _b(self):
            return jnp.sum(self.a)

        b = property(functools.lru_cache(maxsize=None)(_b))
    """
    assert codes(text) == ["CX204"]
    assert codes(text.replace("functools.lru_cache(maxsize=None)(_b)", "_b")) == []


def test_numpyros_checks_for_tracers() -> None:
    """Dropped, but not leaked: no finding on a class that is not a pytree."""
    text = """
    from numpyro.distributions.util import lazy_property

    class Normal(dist.Distribution):
        def __init__(self, scale):
            self.scale = scale

        @lazy_property
        def variance(self):
            return jnp.square(self.scale)

        def use(self, x):
            return jax.jit(lambda x: x + self.variance)(x)
    """
    assert severities(text) == [("CX101", "warning")]
    assert codes(text.replace("dist.Distribution", "object")) == []
    functools = text.replace("@lazy_property", "@cached_property")
    assert codes(functools.replace("dist.Distribution", "object")) == ["CX104"]


def test_netkets_is_a_field_of_the_tree() -> None:
    text = """
    @nk_struct.dataclass
    class Foo:
        a: Array

        @nk_struct.property_cached(pytree_node=True)
        def b(self) -> Array:
            return jnp.sum(self.a)
    """
    assert severities(text) == [("CX103", "warning")]
    assert codes(text.replace("jnp.sum(self.a)", "self.a.shape")) == []
    ignored = text.replace("pytree_node=True", "pytree_ignore=True")
    assert codes(ignored) == ["CX101"]


# Fields without annotations that say "array".
OPEN = {
    "Any": "    a: typing.Any\n    c: typing.Any\n",
    "ArrayLike": "    a: jax.typing.ArrayLike\n    c: jax.typing.ArrayLike\n",
    "a union": "    a: float | Array\n    c: float | Array\n",
    "an optional": "    a: Optional[float | Array]\n    c: Optional[Array]\n",
}
COMPUTED = {
    "a product": "self.a @ self.c",
    "a sum": "self.a + self.c",
    "a power": "self.a**2",
    "a sign": "-self.a",
    "transposed": "self.a.T",
    "a method": "self.a.reshape(-1)",
    "a slice": "self.a[:, 0]",
}


@pytest.mark.parametrize("value", COMPUTED.values(), ids=COMPUTED)
@pytest.mark.parametrize("fields", OPEN.values(), ids=OPEN)
def test_leaves_that_may_be_arrays(fields: str, value: str) -> None:
    text = f"""
import typing

class Foo(eqx.Module):
{fields}
    @cached_property
    def b(self):
        return {value}
"""
    assert codes(text) == ["CX101"]
    assert codes(text.replace(value, "self.a")) in (["cx101"], ["CX101"])


@pytest.mark.parametrize("annotation", ["int", "str", "bool", "float", "np.ndarray"])
def test_leaves_that_are_not_arrays(annotation: str) -> None:
    text = f"""
class Foo(eqx.Module):
    a: {annotation}

    @cached_property
    def b(self):
        return self.a + self.a
"""
    assert codes(text) == []


def test_leaves_of_a_class_without_annotations() -> None:
    """Those that `tree_flatten` makes children, not those in its static part."""
    text = """
    @jax.tree_util.register_pytree_node_class
    class Foo:
        def __init__(self, a, n):
            self.a, self.n = a, n

        def tree_flatten(self):
            children = (self.a,)
            return children, (self.n,)

        @classmethod
        def tree_unflatten(cls, aux, children):
            return cls(*children, *aux)

        @cached_property
        def b(self):
            return self.a @ self.a.T
    """
    assert codes(text) == ["CX101"]
    assert codes(text.replace("self.a @ self.a.T", "self.n + self.n")) == ["cx101"]


def test_leaves_that_are_declared_to_numpyro() -> None:
    text = """
    class Normal(dist.Distribution):
        arg_constraints = {"scale": None}

        def __init__(self, scale, name):
            self.scale, self.name = scale, name

        @cached_property
        def variance(self):
            return self.scale**2
    """
    assert codes(text) == ["CX101"]
    assert codes(text.replace("self.scale**2", "self.name + '2'")) == ["cx101"]
