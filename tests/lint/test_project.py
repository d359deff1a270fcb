"""Names and classes followed through the files of a project."""

from pathlib import Path

import pytest

from cachax.lint import Settings
from cachax.lint._run import check_file

FOO = """
class Foo({base}):
    @cached_property
    def b(self):
        return jnp.ones(3)
"""
IMPORTS = "from functools import cached_property\nimport jax.numpy as jnp\n"


def codes(root: Path, files: dict[str, str], checked: str) -> list[str]:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    found = check_file(root / checked, Settings())
    assert found.crash is None
    return [f.code if f.severity.fails else f.code.lower() for f in found.findings]


BASE = "import equinox as eqx\n\nclass Base(eqx.Module):\n    pass\n"
LAYOUTS = {
    "a relative import": (
        "from .base import Base\n",
        {"pkg/__init__.py": "", "pkg/base.py": BASE},
    ),
    "an absolute import": (
        "from pkg.base import Base\n",
        {"pkg/__init__.py": "", "pkg/base.py": BASE},
    ),
    "a module": (
        "from . import base\nBase = base.Base\n",
        {"pkg/__init__.py": "", "pkg/base.py": BASE},
    ),
    "an alias": (
        "from pkg.base import Thing as Base\n",
        {"pkg/__init__.py": "", "pkg/base.py": BASE + "Thing = Base\n"},
    ),
    "a re-export": (
        "from pkg import Base\n",
        {"pkg/__init__.py": "from .base import Base", "pkg/base.py": BASE},
    ),
    "two steps": (
        "from .middle import Base\n",
        {
            "pkg/__init__.py": "",
            "pkg/middle.py": "from .base import Base as B\n\n"
            "class Base(B):\n    pass\n",
            "pkg/base.py": BASE,
        },
    ),
    "a parent package": (
        "from ..base import Base\n",
        {
            "pkg/__init__.py": "",
            "pkg/sub/__init__.py": "",
            "pkg/base.py": BASE,
        },
    ),
    "a folder without an __init__": (
        "from pkg.sub.base import Base\n",
        {"pkg/__init__.py": "", "pkg/sub/base.py": BASE},
    ),
    "src beside pyproject.toml": (
        "from other.base import Base\n",
        {"pyproject.toml": "", "src/other/__init__.py": "", "src/other/base.py": BASE},
    ),
    "a base with a metaclass that registers": (
        "from .base import Base\n",
        {
            "pkg/__init__.py": "",
            "pkg/base.py": "import jax\n\nclass Meta(type):\n"
            "    def __init__(cls, *args):\n"
            "        jax.tree_util.register_pytree_node_class(cls)\n\n"
            "class Base(metaclass=Meta):\n    pass\n",
        },
    ),
    "a base that registers its subclasses": (
        "from .base import Base\n",
        {
            "pkg/__init__.py": "",
            "pkg/base.py": "from jax.tree_util import register_pytree_node\n\n"
            "class Base:\n    def __init_subclass__(cls):\n"
            "        register_pytree_node(cls, None, None)\n",
        },
    ),
}


@pytest.mark.parametrize(("head", "files"), LAYOUTS.values(), ids=LAYOUTS)
def test_a_base_class_in_a_different_file(
    tmp_path: Path, head: str, files: dict[str, str]
) -> None:
    name = "pkg/sub/a.py" if "pkg/sub/__init__.py" in files else "pkg/a.py"
    text = IMPORTS + head + FOO.format(base="Base")
    assert codes(tmp_path, {**files, name: text}, name) == ["CX101"]


def test_a_decorator_of_the_project_that_registers(tmp_path: Path) -> None:
    decorators = (
        "import dataclasses, jax\n\ndef pytree(cls):\n"
        "    cls = dataclasses.dataclass(cls)\n"
        "    return jax.tree_util.register_dataclass(cls, ['a'], [])\n"
    )
    text = (
        IMPORTS
        + "from .decorators import pytree\n\n@pytree"
        + FOO.format(base="object")
    )
    files = {"p/__init__.py": "", "p/decorators.py": decorators, "p/a.py": text}
    assert codes(tmp_path, files, "p/a.py") == ["CX101"]


MORE = """
import functools
import equinox as eqx
from .types import Array
from .maths import norm

class Foo(eqx.Module):
    a: Array

    @functools.cached_property
    def b(self):
        return self.a * 2

    @functools.cached_property
    def c(self):
        return norm(self.d)
"""


def test_an_annotation_and_a_function_of_a_different_file(tmp_path: Path) -> None:
    files = {
        "p/__init__.py": "",
        "p/types.py": "import jax\nArray = jax.Array\n",
        "p/maths.py": "import jax.numpy as jnp\ndef norm(x):\n    return jnp.sum(x)\n",
        "p/a.py": MORE,
    }
    assert codes(tmp_path, files, "p/a.py") == ["CX101", "CX101"]


def test_cycles_end(tmp_path: Path) -> None:
    files = {
        "p/__init__.py": "from .a import Base",
        "p/a.py": IMPORTS + "from .b import Base, Array\n" + FOO.format(base="Base"),
        "p/b.py": "from .a import Base, Array\n",
        "p/c.py": IMPORTS
        + "x = y\ny = x\nclass A(B): pass\nclass B(A): pass\n"
        + FOO.format(base="B, x, Foo"),
    }
    assert codes(tmp_path, files, "p/a.py") == []
    assert codes(tmp_path, files, "p/c.py") == []


def test_a_neighbour_that_does_not_parse_does_not_matter(tmp_path: Path) -> None:
    text = IMPORTS + "from .base import Base\n" + FOO.format(base="Base")
    files = {"p/__init__.py": "", "p/base.py": "class (", "p/a.py": text}
    assert codes(tmp_path, files, "p/a.py") == []


def test_a_file_beside_pyproject_sees_src(tmp_path: Path) -> None:
    files = {
        "pyproject.toml": "",
        "src/pkg/__init__.py": BASE,
        "script.py": IMPORTS + "from pkg import Base\n" + FOO.format(base="Base"),
    }
    assert codes(tmp_path, files, "script.py") == ["CX101"]


def test_a_base_that_is_replaced_where_it_cannot_be_imported(tmp_path: Path) -> None:
    base = (
        "try:\n    from pkg.base import Base\nexcept ImportError:\n    Base = object\n"
    )
    files = {
        "pkg/__init__.py": "",
        "pkg/base.py": BASE,
        "pkg/a.py": base,
        "pkg/b.py": IMPORTS + "from .a import Base\n" + FOO.format(base="Base"),
        "pkg/c.py": IMPORTS + base + FOO.format(base="Base"),
    }
    assert codes(tmp_path, files, "pkg/b.py") == ["CX101"]
    assert codes(tmp_path, files, "pkg/c.py") == ["CX101"]


LAZY = """
class lazy:
    def __init__(self, f):
        self.f = f

    def __get__(self, obj, _=None):
        value = self.f(obj)
        setattr(obj, self.f.__name__, value)
        return value
"""


def test_a_caching_property_from_a_different_file(tmp_path: Path) -> None:
    text = "import equinox as eqx\nimport jax.numpy as jnp\nfrom .lazy import lazy\n"
    text += FOO.format(base="eqx.Module").replace("cached_property", "lazy")
    files = {"pkg/__init__.py": "", "pkg/lazy.py": LAZY, "pkg/a.py": text}
    assert codes(tmp_path, files, "pkg/a.py") == ["CX101"]
    made = "import functools\n\ndef lazy(f):\n    return functools.cached_property(f)\n"
    files["pkg/lazy.py"] = made
    assert codes(tmp_path / "made", files, "pkg/a.py") == ["CX101"]


def test_a_property_in_a_different_file_that_does_not_cache(tmp_path: Path) -> None:
    text = "import equinox as eqx\nimport jax.numpy as jnp\nfrom .lazy import lazy\n"
    text += FOO.format(base="eqx.Module").replace("cached_property", "lazy")
    plain = "def lazy(f):\n    return property(f)\n"
    files = {"pkg/__init__.py": "", "pkg/lazy.py": plain, "pkg/a.py": text}
    assert codes(tmp_path, files, "pkg/a.py") == []


def test_names_that_a_star_brings(tmp_path: Path) -> None:
    """As in candl, whose modules take jax and numpy from one file."""
    lib = """
try:
    import jax.numpy as jnp
    from functools import cached_property
    import equinox as eqx
except ImportError:
    import numpy as jnp

    def cached_property(f):
        return property(f)
"""
    text = "from pkg.lib import *\n" + FOO.format(base="eqx.Module")
    files = {"pkg/__init__.py": "", "pkg/lib.py": lib, "pkg/a.py": text}
    assert codes(tmp_path, files, "pkg/a.py") == ["CX101"]
    numpy = lib.replace("import jax.numpy as jnp", "import numpy as jnp")
    files["pkg/lib.py"] = numpy
    assert codes(tmp_path / "numpy", files, "pkg/a.py") == []


def test_a_value_that_a_function_of_a_different_package_makes(tmp_path: Path) -> None:
    text = """
import equinox as eqx
import jax
from functools import cached_property
from solvers import solve, is_symmetric

class Foo(eqx.Module):
    a: jax.Array
    n: int

    @cached_property
    def b(self):
        return solve(self.a).value
"""
    assert codes(tmp_path, {"a.py": text}, "a.py") == ["CX101"]
    for value in ("solve(self.n)", "is_symmetric(self.a)", "unknown(self.a)"):
        changed = text.replace("solve(self.a).value", value)
        assert codes(tmp_path, {"a.py": changed}, "a.py") == ["cx101"]


def test_a_value_of_a_class_of_the_project(tmp_path: Path) -> None:
    """In the words of jaxite: what comes back is annotated as a pytree with arrays."""
    text = """
import functools
import equinox as eqx
import jax
import jax.numpy as jnp

class Ciphertext(eqx.Module):
    values: {field}

class Table:
    @functools.lru_cache
    def encrypted(self, n) -> Ciphertext:
        bits = jnp.arange(n)
        return [unknown(bit) for bit in bits][0]
"""
    arrays = text.format(field="jax.Array")
    assert codes(tmp_path, {"a.py": arrays}, "a.py") == ["CX204"]
    numpy = arrays.replace("jnp.arange", "range")
    assert codes(tmp_path, {"a.py": numpy}, "a.py") == []
    assert codes(tmp_path, {"a.py": text.format(field="int")}, "a.py") == []


@pytest.mark.parametrize("name", ["pyproject.toml", "setup.py", "setup.cfg"])
def test_an_example_beside_the_package(tmp_path: Path, name: str) -> None:
    text = IMPORTS + "from pkg.base import Base\n" + FOO.format(base="Base")
    files = {"pkg/__init__.py": "", "pkg/base.py": BASE, "examples/gp/a.py": text}
    assert codes(tmp_path / "without", files, "examples/gp/a.py") == []
    assert codes(tmp_path / "with", {**files, name: ""}, "examples/gp/a.py") == [
        "CX101"
    ]


def test_an_import_with_more_dots_than_there_are_folders(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text("import jax\nfrom .. import other\nf = jax.jit(other.f)\n")
    checked = check_file(path, Settings())
    assert checked.crash is None
    assert checked.findings == ()
