"""Texts linted: what is found in them, said briefly."""

import re
import textwrap

from cachax.lint import Finding, Rule, Source, check, known_rules

IMPORTS = """\
import dataclasses
import functools
from functools import cached_property, partial
from typing import NamedTuple, Optional

import cachax
import chex
import distrax
import equinox as eqx
import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import penzai.pz as pz
import simple_pytree
import tjax.dataclasses
import zodiax as zdx
from flax import nnx, struct
from jax import Array, lax
from jaxtyping import Float, Int
from netket.utils import struct as nk_struct

"""


def linted(text: str, filename: str = "a.py") -> list[Finding]:
    """What all rules find in a text."""
    return check(Source(filename, textwrap.dedent(text)), set(known_rules()))


def codes(body: str) -> list[str]:
    """The codes found in a text that has everything imported; in lower case those that
    are information."""
    found = linted(IMPORTS + textwrap.dedent(body))
    return [f.code if f.severity.fails else f.code.lower() for f in found]


def severities(body: str) -> list[tuple[str, str]]:
    found = linted(IMPORTS + textwrap.dedent(body))
    return [(finding.code, finding.severity.value) for finding in found]


def code_in(rule: Rule, section: str) -> str:
    """The code that a section of a rule's page shows."""
    found = re.findall(r"```python\n(.*?)```", rule.section(section), flags=re.DOTALL)
    assert len(found) == 1
    return str(found[0])
