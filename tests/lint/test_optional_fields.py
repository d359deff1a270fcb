"""CX208: derived arrays in optional fields."""

import pytest

from linted import codes, severities

# Modelled on the transforms that jaxsim keeps in its model data.
CLASS = """
@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Arm:
    angles: Array
    n: int = 0
    _tips: {annotation} = {default}
    key: Optional[Array] = None

    {method}
"""
BUILD = """
    @classmethod
    def build(cls, angles, key):
        tips = jnp.cumsum(jnp.cos(angles))
        return cls(angles=angles, _tips=tips, key=key)
"""


def arm(method: str, annotation: str = "Array | None", default: str = "None") -> str:
    return CLASS.format(method=method.strip(), annotation=annotation, default=default)


FILLED = {
    "in a class method": BUILD,
    "by the name of the class": BUILD.replace("cls(angles=", "Arm(angles="),
    "with other inputs": BUILD.replace("jnp.cos(angles)", "model(angles)"),
    "replace": """
    def ready(self):
        return dataclasses.replace(self, _tips=jnp.cumsum(self.angles))
""",
    "a method called replace": """
    def ready(self):
        return self.replace(_tips=jnp.cumsum(self.angles))
""",
    "equinox.tree_at": """
    def ready(self):
        return eqx.tree_at(lambda a: a._tips, self, jnp.cumsum(self.angles))
""",
    "__post_init__": """
    def __post_init__(self):
        if self._tips is None:
            object.__setattr__(self, "_tips", jnp.cumsum(self.angles))
""",
    "through a property": """
    @property
    def cosines(self):
        return jnp.cos(self.angles)

    def ready(self):
        return self.replace(_tips=self.cosines + 1)
""",
}
NOT_FILLED = {
    "passed on": BUILD.replace("jnp.cumsum(jnp.cos(angles))", "None"),
    "given": """
    @classmethod
    def build(cls, angles, tips):
        return cls(angles=angles, _tips=tips)
""",
    "from something else": BUILD.replace("jnp.cos(angles)", "other").replace(
        "angles, key):", "angles, key, other):"
    ),
    "a starting value": BUILD.replace(
        "jnp.cumsum(jnp.cos(angles))", "jnp.zeros_like(angles)"
    ),
    "from a number": """
    def ready(self):
        return self.replace(_tips=jnp.arange(self.n))
""",
    "from itself": """
    def step(self):
        return self.replace(_tips=self._tips + self.angles)
""",
    "also from itself": BUILD
    + """
    def step(self):
        return self.replace(_tips=self._tips + self.angles)
""",
    "of a different class": """
    def ready(self, leg):
        return leg.replace(_tips=jnp.cumsum(self.angles))
""",
}


@pytest.mark.parametrize("method", FILLED.values(), ids=FILLED)
def test_filled_from_other_fields(method: str) -> None:
    assert severities(arm(method)) == [("CX208", "warning")]


@pytest.mark.parametrize("method", NOT_FILLED.values(), ids=NOT_FILLED)
def test_filled_with_something_else(method: str) -> None:
    assert codes(arm(method)) == []


@pytest.mark.parametrize(
    "annotation", ["Array", "Optional[Array]", "Float[Array, 'n']"]
)
def test_annotations(annotation: str) -> None:
    assert codes(arm(BUILD, annotation)) == ["CX208"]
    default = "dataclasses.field(default=None, repr=False)"
    assert codes(arm(BUILD, annotation, default)) == ["CX208"]


@pytest.mark.parametrize("annotation", ["str | None", "Optional[int]", "np.ndarray"])
def test_fields_that_hold_no_arrays(annotation: str) -> None:
    assert codes(arm(BUILD, annotation)) == []


def test_a_field_that_is_required() -> None:
    """What the constructor is given is state, whatever it was computed from."""
    text = arm(BUILD).replace("    n: int = 0\n", "")
    assert codes(text.replace("_tips: Array | None = None", "_tips: Array")) == []


def test_a_class_that_is_not_a_pytree() -> None:
    assert codes(arm(BUILD).replace("@jax.tree_util.register_dataclass\n", "")) == []


def test_a_public_field_is_reported_if_it_depends_on_its_object_alone() -> None:
    ready = FILLED["replace"]
    assert codes(arm(ready).replace("_tips", "tips")) == ["CX208"]
    scaled = ready.replace("(self)", "(self, scale)").replace(
        "self.angles)", "scale * self.angles)"
    )
    assert codes(arm(scaled)) == ["CX208"]
    assert codes(arm(scaled).replace("_tips", "tips")) == []
    assert codes(arm(BUILD).replace("_tips", "tips")) == []


def test_state_that_a_method_assigns() -> None:
    """In the words of a driver of netket, whose buffer starts as a function of the
    parameters."""
    text = """
    class Driver(nk_struct.Pytree, mutable=True):
        parameters: Array
        _old: Array = None

        def __init__(self, parameters):
            self.parameters = parameters
            self._old = 0 * parameters

        def step(self):
            self.info, self._old = unknown(self.parameters)
    """
    assert "CX208" not in codes(text)
    assert "CX208" in codes(text.partition("        def step")[0])
