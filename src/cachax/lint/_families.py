"""The class families that JAX takes apart: which names make a class one of them."""

import enum
import re
from dataclasses import dataclass


class Keeps(enum.Enum):
    """What happens to an attribute that is not a field when JAX rebuilds the object."""

    NOTHING = "it is dropped"
    STATIC = "it becomes static"
    LEAF = "it becomes a leaf"
    LEAF_ONE_WAY = "it goes in as a leaf, and does not come out"
    FIELD = "it is kept in a field of the tree"
    REFUSED = "the object can't be flattened"


@dataclass(frozen=True)
class Family:
    """A kind of pytree class."""

    name: str
    keeps: Keeps = Keeps.NOTHING
    frozen: bool = False
    runs_init: bool = (
        True  # rebuilt by calling the class, so `__post_init__` runs again
    )
    flattens_fields: bool = True  # False: which attributes are leaves is unknown
    holds_attributes: bool = True  # False: a tuple, with no place for a cached value


PYTREE = Family("a registered pytree", runs_init=False, flattens_fields=False)
DATACLASS = Family("a dataclass registered with JAX")
NAMED_TUPLE = Family("a NamedTuple", frozen=True, holds_attributes=False)
NNX = Family("nnx.Module", Keeps.STATIC, runs_init=False, flattens_fields=False)
EQUINOX = Family("equinox.Module", frozen=True, runs_init=False)

_FLAX = Family("flax.struct", frozen=True)
_CHEX = Family("chex.dataclass", Keeps.LEAF_ONE_WAY)
_PENZAI = Family("penzai.Struct", frozen=True, runs_init=False)
_NETKET = Family("netket's struct.dataclass", frozen=True)
_NETKET_PYTREE = Family("netket's struct.Pytree", Keeps.REFUSED, True, False)
_SIMPLE = Family("simple_pytree.Pytree", Keeps.REFUSED, True, False)
_DISTRAX = Family(
    "distrax.Jittable", Keeps.LEAF, runs_init=False, flattens_fields=False
)
_NUMPYRO = Family("numpyro's Distribution", runs_init=False, flattens_fields=False)
_TFP = Family("tensorflow_probability's AutoCompositeTensor", flattens_fields=False)

# The full name of a base class, wherever in its package it is imported from.
_BASES = {
    r"equinox\.(.+\.)?(Module|StatefulLayer)": EQUINOX,
    r"(zodiax|dLux)\.(.+\.)?Base": EQUINOX,
    r"lineax\.(.+\.)?AbstractLinear(Operator|Solver)": EQUINOX,
    r"(diffrax|optimistix|flowjax)\.(.+\.)?Abstract\w+": EQUINOX,
    r"tinygp\.(.+\.)?(Kernel|Stationary)": EQUINOX,
    r"flax\.(experimental\.)?nnx\.(.+\.)?(Module|Pytree|Object)": NNX,
    r"gpjax\.(.+\.)?(Abstract\w+|Module)": NNX,
    r"(flax|mujoco\.mjx)\.(.+\.)?PyTreeNode": _FLAX,
    r"penzai\.(.+\.)?Struct": _PENZAI,
    r"netket\.(.+\.)?Pytree": _NETKET_PYTREE,
    r"simple_pytree\.(.+\.)?Pytree": _SIMPLE,
    r"distrax\.(.+\.)?(Jittable|Bijector|Distribution|Transformed)": _DISTRAX,
    r"numpyro\.(.+\.)?Distribution": _NUMPYRO,
    # Its plain Distribution is not a pytree.
    r"tensorflow_probability\.substrates\.jax\.(.+\.)?AutoCompositeTensor\w*": _TFP,
    r"(typing|typing_extensions)\.NamedTuple": NAMED_TUPLE,
}

# The full name of a decorator, or of a function that is given the class.
_DECORATORS = {
    r"jax\.(.+\.)?register_dataclass": DATACLASS,
    r"jax\.(.+\.)?register_pytree_(node|with_keys)(_class)?": PYTREE,
    r"flax\.(.+\.)?struct\.dataclass": _FLAX,
    r"chex\.(.+\.)?(mappable_)?dataclass": _CHEX,
    r"penzai\.(.+\.)?pytree_dataclass": _PENZAI,
    r"tjax\.(.+\.)?dataclass": DATACLASS,
    r"netket\.(.+\.)?struct\.(.+\.)?dataclass": _NETKET,
    r"simple_pytree\.(.+\.)?dataclass": _SIMPLE,
    r"jax_dataclasses\.(.+\.)?pytree_dataclass": DATACLASS,
    r"jax_md\.(.+\.)?dataclass": DATACLASS,
    r"tinygp\.(.+\.)?helpers\.dataclass": DATACLASS,
}


class _Table:
    """Families by full name, the first pattern that fits."""

    def __init__(self, patterns: dict[str, Family]) -> None:
        self._patterns = [(re.compile(p), family) for p, family in patterns.items()]

    def __getitem__(self, name: str) -> Family | None:
        for pattern, family in self._patterns:
            if pattern.fullmatch(name):
                return family
        return None


BY_BASE = _Table(_BASES)
BY_DECORATOR = _Table(_DECORATORS)

# What a class may have for a base without becoming a different kind of class.
HARMLESS_BASES = re.compile(
    r"object|(typing|typing_extensions)\.(Generic|Protocol)|abc\.ABC"
    r"|collections\.abc\.\w+"
)
HARMLESS_DECORATORS = re.compile(
    r"dataclasses\.dataclass|(typing|typing_extensions)\.(final|runtime_checkable)"
    r"|functools\.total_ordering|jaxtyping\.jaxtyped|beartype\.beartype"
)
