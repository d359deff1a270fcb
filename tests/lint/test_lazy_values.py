"""Values that methods of plain classes compute on first use, as in real packages."""

import textwrap

import pytest

from linted import codes, severities

NOISE = """
def expanded(radial, n):
    if radial.size == 1:
        return jnp.ones(n) * radial
    return unknown(radial, n)

class Noise:
    def __init__(self, radial, n):
        self.radial, self.n = radial, n
        self.forget()

    def forget(self):
        self._full = None

    def full(self):
        if self._full is None:
            self._full = expanded(self.radial, self.n).reshape(1, -1)
        return self._full
"""


def test_an_attribute_of_a_plain_class_is_information() -> None:
    """recovar: RadialNoiseModel._ensure_full"""
    assert severities(NOISE) == [("CX201", "information")]
    early = NOISE.replace(
        "        if self._full is None:\n            self._full",
        "        if self._full is not None:\n            return self._full\n"
        "        self._full",
    )
    assert codes(early) == ["cx201"]
    by_name = NOISE.replace("self._full is None", "not hasattr(self, '_full')")
    assert codes(by_name) == ["cx201"]
    tried = NOISE.replace(
        "if self._full is None:", "try:\n            self._full.T"
    ).replace(
        "            self._full = expanded",
        "        except AttributeError:\n            self._full = expanded",
    )
    assert codes(tried) == ["cx201"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # numpy, or not known
        ("return jnp.ones(n) * radial", "return np.ones(n) * radial"),
        # not computed from the object
        ("expanded(self.radial, self.n).reshape(1, -1)", "jnp.arange(3.0) + 1"),
        # where something starts, or random
        ("expanded(self.radial, self.n).reshape(1, -1)", "jnp.zeros(self.n)"),
        ("expanded(self.radial, self.n)", "jax.random.normal(self.radial, (self.n,))"),
        # trax: InfinitePositionalEncoding._get_noise
        ("expanded(self.radial, self.n)", "expanded(bits(self._rng), self.n)"),
        # the constructor is given it (geojax: Minimize.x0)
        ("self.forget()", "self._full = jnp.ones(n)"),
        # it looks whether it is traced
        ("is None:", "is None and not isinstance(self.radial, jax.core.Tracer):"),
        # outside of any trace
        (
            "if self._full",
            "with jax.ensure_compile_time_eval():\n          if self._full",
        ),
        # read from a file (PowerZooJax, jax-frc)
        ("expanded(self.radial, self.n)", "jnp.asarray(np.load(self.radial))"),
        # other methods change it: state (jaxQFT: refresh)
        (
            "def forget(self):",
            "def step(self):\n        self._full = self._full + 1\n\n"
            "    def forget(self):",
        ),
    ],
)
def test_what_is_not_a_cache(old: str, new: str) -> None:
    text = NOISE.replace(old, new)
    assert text != NOISE
    assert codes(text) == []


def test_one_that_the_caller_may_set() -> None:
    """jax_verify: LinearBound.concretize"""
    setter = """
    def set_full(self, full):
        self._full = full
"""
    assert codes(NOISE + setter) == ["cx201"]


def test_traced_code_that_reads_it_is_reported_as_before() -> None:
    reader = """
    def use(self, x):
        return jax.jit(lambda x: x + self.full())(x)
"""
    assert "CX104" in codes(NOISE + reader)
    assert "cx201" not in codes(NOISE + reader)


def test_one_that_is_used_and_not_returned() -> None:
    """scico: XRayTransform2D.fbp"""
    text = """
    class Transform:
        def __init__(self, shape, angles):
            self.shape, self.angles = shape, jnp.asarray(angles)
            self.window = None

        def back(self, x):
            if self.window is None:
                self.window = jnp.hanning(self.shape[0]) * self.angles
            return project(x * self.window)
    """
    assert codes(text) == ["cx201"]
    # An average that starts with the first value (JAX-ENT: ConvergenceTracker.update).
    average = text.replace(
        "            return project",
        "            else:\n                self.window = 0.9 * self.window\n"
        "            return project",
    )
    assert codes(average) == []
    # Weights, where there are some (BrainPy: Dense.online_fit).
    weights = text.replace("self.window is None", "self.window is not None")
    assert codes(weights) == []


def test_a_function_is_not_an_array() -> None:
    """jax-vulcan: OuterLoop._ensure_runner"""
    text = """
    def make(table):
        def run(x):
            return x + table
        return run

    class Loop:
        def __init__(self, table):
            self.table = jnp.asarray(table)
            self._run = None

        def run(self):
            if self._run is None:
                self._run = make(self.table)
            return self._run
    """
    assert codes(text) == []
    # An object of another kind (kfac_jax: GraphPattern.graph), and what may be numpy's
    # (desilike: GeoFPTAXTracerBispectrumMultipoles.calculate).
    for made in ("package.Graph(self.table)", "package.kernel(self.table)"):
        other = text.replace("make(self.table)", made)
        assert codes("import package\n" + textwrap.dedent(other)) == []
    called = text.replace(
        "        return run\n\n    class", "        return run(table)\n\n    class"
    )
    assert codes(called) == ["cx201"]


ANNOTATED = """
class Parameters:
    def __init__(self, structure):
        self.structure = structure
        self._free = None

    @property
    def free(self) -> Float[Array, "n"]:
        if self._free is None:
            (free, _), _ = split(self.structure)
            self._free = free
        return self._free
"""


def test_what_is_returned_is_as_annotated() -> None:
    """jax_fdm: ParameterManager.parameters_opt, and fealpy: Integrator.__call__"""
    assert codes(ANNOTATED) == ["cx201"]
    assert codes(ANNOTATED.replace(' -> Float[Array, "n"]', "")) == []
    assert codes(ANNOTATED.replace("Float[Array,", "Float[np.ndarray,")) == []
    part = ANNOTATED.replace("return self._free", "return jnp.sum(self._free)")
    assert codes(part) == []


def test_a_method_that_a_property_calls_to_fill_it() -> None:
    text = """
    class Spectrum:
        def __init__(self, signal):
            self.signal = signal
            self._power = None

        @property
        def power(self):
            if self._power is None:
                self._compute()
            return self._power

        def _compute(self):
            self._power = jnp.abs(jnp.fft.fft(self.signal)) ** 2
    """
    assert codes(text) == ["cx201"]
    # A default (jaxsim's Renderer.camera_params): it has a method to set it, and no
    # underscore in its name.
    assert codes(text.replace("_power", "power_")) == []
    assert codes(text.replace("jnp.", "np.")) == []


BLOCKS = """
class Elements:
    def __init__(self, kernel):
        self.kernel = kernel
        self._blocks = dict()

    def _make(self, row, col):
        if row == col:
            block = self.kernel(row)
        else:
            block = jnp.zeros((row, col))
        return block

    def block(self, row, col):
        if (row, col) not in self._blocks:
            block = self._make(row, col)
            self._blocks[row, col] = block
        return self._blocks[row, col]
"""


def test_a_private_dictionary_of_a_plain_class() -> None:
    """lsqfitgp: GPElements._covblock"""
    assert severities(BLOCKS) == [("CX202", "information")]
    copied = """
    def copy(self):
        new = Elements(self.kernel)
        new._blocks = self._blocks.copy()
        return new
"""
    assert codes(BLOCKS + copied) == ["cx202"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("_blocks", "blocks"),
        ("self._blocks = dict()", "self._blocks = kernel.blocks"),
        ("jnp.zeros", "np.zeros"),
        ("        return self._blocks[row, col]", "        return None"),
        (
            "def _make",
            "def add(self, key, block):\n        self._blocks[key] = block + 1\n\n"
            "    def _make",
        ),
    ],
)
def test_a_dictionary_that_is_something_else(old: str, new: str) -> None:
    assert codes(BLOCKS.replace(old, new)) == []


def test_a_dictionary_of_what_is_loaded() -> None:
    """jax-frc: ReferenceManager.load_file"""
    text = """
    class References:
        def __init__(self, folder):
            self.folder, self.cache = folder, {}

        def get(self, name):
            if name not in self.cache:
                self.cache[name] = jnp.asarray(read_table(self.folder, name))
            return self.cache[name]
    """
    assert codes(text) == []
    assert codes(text.replace("read_table", "table")) == ["cx202"]


def test_a_decorator_that_keeps_what_a_method_returns() -> None:
    """fealpy: enable_cache"""
    text = """
    def enable_cache(method):
        def wrapper(self, space) -> Array:
            if getattr(self, "_cache", None) is None:
                self._cache = {}
            _cache = self._cache
            key = method.__name__ + str(id(space))
            if key not in _cache:
                _cache[key] = method(self, space)
            return _cache[key]
        return wrapper
    """
    assert codes(text) == ["CX202"]
    assert codes(text.replace(" -> Array", "")) == []


TABLE = """
_grids = {}

def grids(x, y):
    key = key_of(x, y)
    if key in _grids:
        a, b = _grids[key]
    else:
        a = jnp.asarray(x)
        b = jnp.asarray(y)
        _grids[key] = (a, b)
    return a + b
"""


def test_a_table_of_several_arrays() -> None:
    """xpcsjax: model_func, by the id of its argument"""
    assert severities(TABLE) == [("CX204", "information")]
    assert codes(TABLE.replace("jnp.", "np.")) == []


def test_what_has_no_key_is_not_kept() -> None:
    """xpcsjax: get_cached_meshgrid. Tracers have no key."""
    guarded = TABLE.replace(
        "    if key in _grids",
        "    if key is None:\n        return jnp.asarray(x) + jnp.asarray(y)\n"
        "    if key in _grids",
    )
    assert codes(guarded) == []
