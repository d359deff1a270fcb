"""Code of real packages that was missed, told again."""

import textwrap
from pathlib import Path

import pytest

from cachax.lint import Settings
from cachax.lint._run import check_file

from linted import codes, severities


@pytest.mark.parametrize("maker", ["r_", "c_", "mgrid", "ogrid"])
def test_arrays_made_with_brackets(maker: str) -> None:
    """nova: Plasma.external"""
    text = """
    @jax.tree_util.register_pytree_node_class
    @dataclasses.dataclass
    class Plasma:
        grid: Target
        wall: Target

        @cached_property
        def outer(self):
            return jnp.MAKER[self.grid.flux(), self.wall.flux()]

        def tree_flatten(self):
            return (self.grid, self.wall), None
    """
    assert codes(text.replace("MAKER", maker)) == ["CX101"]
    assert codes(text.replace("MAKER", "s_")) == []
    assert codes(text.replace("jnp.MAKER", f"np.{maker}")) == []


def test_an_object_made_of_arrays() -> None:
    """linox: PositiveDiagonalPlusSymmetricLowRank._id_plus_low_rank"""
    text = """
    class LowRank:
        def __init__(self, u, s):
            self.u = u
            self.s = s

        def tree_flatten(self):
            return (self.u, self.s), None

    class Sum:
        def __init__(self, diagonal, low_rank):
            self.diagonal = diagonal
            self.low_rank = low_rank

        @cached_property
        def scaled(self) -> LowRank:
            u, s, _ = jnp.linalg.svd(self.low_rank.u / self.diagonal)
            return LowRank(u, s**2)

        def tree_flatten(self):
            return (self.diagonal, self.low_rank), None

    jax.tree_util.register_pytree_node_class(LowRank)
    jax.tree_util.register_pytree_node_class(Sum)
    """
    assert severities(text) == [("CX101", "warning")]
    # jaxfun: Matrix.lu_factor. A plain object holds what its constructor stores, too.
    plain = text.replace("jax.tree_util.register_pytree_node_class(LowRank)", "")
    assert severities(plain) == [("CX101", "warning")]
    numbers = text.replace("LowRank(u, s**2)", "LowRank(1.0, 2.0)")
    assert severities(numbers) == [("CX101", "information")]
    # optimism: DofManager(functions, dim) holds numpy tables.
    table = text.replace("self.u = u", "self.u = np.zeros(u.shape)")
    table = table.replace("self.s = s", "self.s = np.zeros(s.shape)")
    assert severities(table) == [("CX101", "information")]
    by_name = text.replace("LowRank(u, s**2)", "LowRank(s=s, u=1.0)")
    assert severities(by_name) == [("CX101", "warning")]


STATIC_INDEX = """
class Species:
    def __init__(self, mass):
        self.mass = mass

    @partial(jax.jit, static_argnames=["self"])
    def speed(self, index, x):
        return x / self.mass[index]
"""


def test_what_a_traced_index_is_used_on_is_an_array() -> None:
    """ESSOS: BackgroundSpecies.get_density"""
    assert severities(STATIC_INDEX) == [("CX205", "warning")]
    two = STATIC_INDEX.replace("self.mass[index]", "self.mass[0, index]")
    assert severities(two) == [("CX205", "warning")]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('["self"]', '["self", "index"]'),  # then it is a number
        ("index, x", "x, index=0"),  # and if it isn't given, too
        ("        return x", "        index = 0\n        return x"),
        ("self.mass[index]", "self.mass[0]"),
        ("self.mass = mass", "self.mass = np.asarray(mass)"),
    ],
)
def test_any_other_index_says_nothing(old: str, new: str) -> None:
    assert codes(STATIC_INDEX.replace(old, new)) == []


def test_a_helper_of_the_constructor_that_is_jitted() -> None:
    """ESSOS: Tracing.trace"""
    text = """
    class Tracing:
        def __init__(self, x):
            self.x = x
            self.path = self.trace()

        @partial(jax.jit, static_argnums=0)
        def trace(self):
            def step(x, _):
                self.term = x + 1
                return self.term, x

            return jax.lax.scan(step, jnp.zeros(3), None, 5)
    """
    assert codes(text) == ["CX203"]
    # Without a trace, it is what a constructor does.
    text = text.replace("@partial(jax.jit, static_argnums=0)", "")
    assert codes(text.replace("jax.lax.scan", "run")) == []


OVERRIDDEN = """
class Filter:
    def __init__(self):
        self.order = 2

    @partial(jax.jit, static_argnums=0)
    def step(self, x):
        return self.unit_step(x)

    def unit_step(self, x):
        return x

class Recording(Filter):
    def __init__(self):
        super().__init__()
        self.seen = []

    def unit_step(self, x):
        self.seen.append(jnp.sum(x))
        return x
"""


def test_a_method_that_the_jitted_method_of_a_base_class_calls() -> None:
    """tornadox: ReferenceEK1ConstantDiffusion.attempt_unit_step"""
    assert severities(OVERRIDDEN) == [("CX203", "warning")]
    written = OVERRIDDEN.replace(
        "self.seen.append(jnp.sum(x))", "self.seen = jnp.sum(x)"
    )
    assert ("CX203", "warning") in severities(written)
    assert codes(OVERRIDDEN.replace("(Filter)", "")) == []
    own = OVERRIDDEN.replace("self.seen.append", "self.seen.count")
    assert codes(own) == []
    # What overrides the jitted method is not jitted.
    assert codes(OVERRIDDEN + "\n    def step(self, x):\n        return x\n") == []


def test_a_method_that_a_base_class_jits() -> None:
    """tornadox: ODEFilter.solution_generator, ReferenceEK1.initialize"""
    text = """
    class Filter:
        def solve(self, x, compiled):
            initialize = jax.jit(self.initialize) if compiled else self.initialize
            return initialize(x)

        def initialize(self, x):
            raise NotImplementedError

    class Projecting(Filter):
        def initialize(self, x):
            self.projection = jnp.eye(len(x))
            return x
    """
    assert severities(text) == [("CX203", "warning")]
    assert codes(text.replace("jax.jit(self.initialize)", "self.initialize")) == []
    assert (
        codes(
            text.replace(
                "def initialize(self, x):\n            self",
                "def g(self, x):\n            self",
            )
        )
        == []
    )


def test_the_base_class_is_in_a_different_file(tmp_path: Path) -> None:
    imports = "from functools import partial\nimport jax\nimport jax.numpy as jnp\n"
    base, recording = OVERRIDDEN.split("\nclass Recording")
    (tmp_path / "base.py").write_text(imports + base)
    path = tmp_path / "recording.py"
    path.write_text(f"{imports}from base import Filter\nclass Recording{recording}")
    assert [f.code for f in check_file(path, Settings()).findings] == ["CX203"]


def test_an_array_from_one_branch_is_kept() -> None:
    """equivariant-MLP: Rep.equivariant_basis"""
    text = """
    class Rep:
        solutions_cache = {}

        def basis(self, key):
            if key not in self.solutions_cache:
                if key.is_big:
                    result = iterate(key)
                else:
                    result = jnp.linalg.inv(key.matrix)
                self.solutions_cache[key] = result
            return self.solutions_cache[key]
    """
    assert severities(text) == [("CX202", "information")]
    assert severities(text.replace("jnp.linalg.inv", "np.linalg.inv")) == []


BOXED = """
class Box:
    def __init__(self, value):
        self.value = value

class Matrix(nnx.Pytree):
    data: Array

    def factors(self):
        box: Box | None = getattr(self, "_factors", None)
        if box is not None:
            return box.value
        result = jax.scipy.linalg.lu_factor(self.data)
        object.__setattr__(self, "_factors", Box(result))
        return result
"""


def test_a_lazy_value_in_a_box() -> None:
    """jaxfun: Matrix.lu_factor, DiaMatrix.rcm, TPMatrix.tosparse"""
    assert codes(BOXED) == ["CX102"]
    assert codes(BOXED.replace("nnx.Pytree", "eqx.Module")) == ["CX101"]
    # A box with something else in it, and one that isn't returned.
    assert codes(BOXED.replace("(self.data)", "(self.data)[0].shape")) == []
    other = BOXED.replace("return result", "return self.data")
    assert codes(other.replace("return box.value", "return self.data")) == []


@pytest.mark.parametrize("returns", ["Dense | Sparse", "Optional[Dense]", '"Dense"'])
def test_a_lazy_object_of_a_function_with_an_annotation(returns: str) -> None:
    """jaxfun: TPMatrix.todense, tpmats_to_kron"""
    text = f"""
    class Dense(eqx.Module):
        data: Array

    class Sparse(eqx.Module):
        data: Array

    def kron(product) -> {returns}:
        return product.build(jnp.ones(3))

    @jax.tree_util.register_pytree_node_class
    class Product:
        def dense(self):
            if not hasattr(self, "_dense"):
                self._dense = kron(self)
            return self._dense
    """
    assert codes(text) == ["CX101"]
    numbers = text.replace("-> " + returns, "-> Dense | int")
    assert codes(numbers) == []
    assert codes(text.replace("jnp.ones(3)", "3")) == []  # perhaps numpy's


def test_what_a_method_makes_of_arrays() -> None:
    """jax-power: FKPField.particles"""
    text = """
    @jax.tree_util.register_dataclass
    @dataclasses.dataclass(frozen=True)
    class Field:
        x: Particles

        @property
        def centred(self):
            centred = getattr(self, "_centred", None)
            if centred is None:
                self.__dict__["_centred"] = centred = (self.x - 1).clone(copy=True)
            return centred
    """
    assert codes(text) == []  # the annotation says: no array
    arrays = text.replace("x: Particles", "x: Array")
    assert codes(arrays) == ["CX101"]
    assert codes(arrays.replace("clone(copy=True)", "is_sorted()")) == []


def test_a_tree_of_slices() -> None:
    """feedbax: AbstractTaskTrialSpec.goal"""
    text = """
    class State(eqx.Module):
        position: Array

    class Trial(eqx.Module):
        target: eqx.AbstractVar[State]

        @cached_property
        def goal(self):
            return jax.tree.map(lambda x: x[:, -1], self.target)
    """
    assert severities(text) == [("CX101", "warning")]
    assert codes(text.replace("x[:, -1]", "x.shape")) == []
    assert codes(text.replace("position: Array", "position: int")) == ["cx101"]


CLOSED_OVER = """
class Design:
    def __init__(self, n):
        self.grid = jnp.arange(n)
        self.n = n
        self._table = None

    def value(self, x):
        return x + self.grid

    def table(self, x):
        def inside(x):
            return jax.vmap(self.value)(x)

        if self._table is None:
            self._table = jax.jit(inside)
        return self._table(x)
"""


def test_a_jitted_function_that_is_kept_reads_an_array_of_the_object() -> None:
    """confirmasaurus: Lewis45._posterior_difference_table"""
    assert severities(CLOSED_OVER) == [("CX205", "warning")]
    assert codes(CLOSED_OVER.replace("x + self.grid", "x + self.n")) == []
    # It isn't kept, or it is made again in each call.
    assert codes(CLOSED_OVER.replace("self._table = jax", "table = jax")) == []
    assert codes(CLOSED_OVER.replace("if self._table is None:", "if True:")) == []


def test_a_jitted_function_in_a_constructor_reads_an_array_of_the_object() -> None:
    """optimism: ConstrainedObjective.jit_ncp_func; confirmasaurus: Lewis45Model"""
    text = """
    class Objective:
        def __init__(self, constraint, kappa):
            self.kappa = jnp.array(kappa)

            def residual(x):
                return constraint(x) * self.kappa

            self.residual = jax.jit(residual)
    """
    assert severities(text) == [("CX205", "warning")]
    assert codes(text.replace("jnp.array(kappa)", "float(kappa)")) == []
    assert codes(text.replace("self.kappa\n", "self.kappa.shape\n")) == []


def test_a_function_with_a_static_object_that_is_kept() -> None:
    """jaxeffort: MLP.get_component"""
    text = """
    class Emulator:
        def __init__(self, grid):
            self.grid = jnp.asarray(grid)

        def component(self, x):
            if not hasattr(self, "_component"):
                @partial(jax.jit, static_argnums=(0,))
                def component(self, x):
                    return x * self.grid

                self._component = component
            return self._component(self, x)
    """
    assert severities(text) == [("CX205", "warning")]
    assert codes(text.replace("jnp.asarray(grid)", "len(grid)")) == []
    assert codes(text.replace("self._component = component", "pass")) == []


REFRESHED = """
class Rod(eqx.Module):
    basis: Array
    stiffness: Array

    def __init__(self, basis):
        self.basis = basis
        self.precompute()

    def precompute(self):
        object.__setattr__(self, "stiffness", self.basis.T @ self.basis)
"""


def test_arrays_that_a_helper_of_the_constructor_derives() -> None:
    """soromox: PlanarPCS.precompute"""
    assert severities(REFRESHED) == [("CX206", "warning")]
    start = REFRESHED.replace("self.basis.T @ self.basis", "jnp.ones(3)")
    assert codes(start) == []


def test_a_file_that_has_jax_from_a_module_with_jax_in_its_name(
    tmp_path: Path,
) -> None:
    """optimism: JaxConfig"""
    (tmp_path / "JaxConfig.py").write_text(
        "import jax.numpy as np\nfrom jax import jit"
    )
    path = tmp_path / "objective.py"
    path.write_text(
        "from JaxConfig import *\n"
        "class Objective:\n"
        "    def __init__(self, k):\n"
        "        self.k = np.array(k)\n"
        "        self.f = jit(lambda x: self.k * x)\n"
    )
    assert [f.code for f in check_file(path, Settings()).findings] == ["CX205"]


OWN_JIT = """
def jit(*args, **kwargs):
    def wrap(function):
        return jax.jit(function, **kwargs)

    return wrap if kwargs else wrap(args[0])

class Window:
    def set_edges(self, edges):
        self.matrix = edges

    @jit(static_argnums=[0])
    def apply(self, theory):
        return self.matrix * theory
"""


def test_a_function_of_the_project_that_jits() -> None:
    """desilike: WindowedPowerSpectrumMultipoles._apply"""
    assert severities(OWN_JIT) == [("CX205", "error")]
    assert codes(OWN_JIT.replace("jax.jit(function", "dict(function")) == []
    # It jits something else.
    other = OWN_JIT.replace("jax.jit(function", "jax.jit(helper")
    assert codes(other) == []


def test_a_derived_leaf_through_local_variables() -> None:
    """jaxace: CubicSplinePlan"""
    text = """
    @jax.tree_util.register_pytree_node_class
    @dataclasses.dataclass(frozen=True)
    class Plan:
        old: Array
        new: Array
        weights: Array = dataclasses.field(init=False)

        def __post_init__(self):
            old = jnp.asarray(self.old)
            step = self.new - old
            object.__setattr__(self, "weights", step / 2)

        def tree_flatten(self):
            return (self.old, self.new, self.weights), None
    """
    assert severities(text) == [("CX206", "warning")]
    assert codes(text.replace("self.new - old", "jnp.ones_like(old)")) == []


def test_a_kept_value_of_a_different_package() -> None:
    """tatva: GlobalDataView._gather"""
    text = """
    import mpi4jax

    class View:
        def __init__(self, x):
            self.x = x
            self._cache = {}

        def gathered(self):
            if "all" not in self._cache:
                local = jnp.where(self.x > 0, self.x, 0.0)
                self._cache["all"] = mpi4jax.allreduce(local)
            return self._cache["all"]
    """
    assert severities(text) == [("CX202", "information")]
    assert codes(text.replace("jnp.where", "np.where")) == []


STATIC_INSIDE = """
def method_jit(function):
    return jax.jit(function, static_argnums=(0,))

def settings_jit(**kwargs):
    return partial(jax.jit, static_argnums=(0,), **kwargs)

class Window:
    def __init__(self, edges):
        self.matrix = jnp.asarray(edges)

    @method_jit
    def apply(self, theory):
        return self.matrix * theory
"""


def test_a_function_of_the_project_that_jits_methods() -> None:
    """foundry: stanza.jit; galdynamix: jit_method"""
    assert severities(STATIC_INSIDE) == [("CX205", "warning")]
    made = STATIC_INSIDE.replace("@method_jit", "@settings_jit(inline=True)")
    assert severities(made) == [("CX205", "warning")]
    assert codes(STATIC_INSIDE.replace("static_argnums=(0,)", "inline=True")) == []
    # It jits a different function.
    own = STATIC_INSIDE.replace("jax.jit(function,", "jax.jit(helper,")
    assert codes(own) == []


def test_a_bound_method_that_is_jitted_and_kept() -> None:
    """jaxace: FlaxEmulator._jit_batch"""
    text = """
    class Emulator:
        def __init__(self, weights):
            self.weights = jnp.asarray(weights)
            self._prepare()

        def _prepare(self):
            self._run = jax.jit(jax.vmap(self.run))

        def run(self, x):
            return self.weights @ x
    """
    assert severities(text) == [("CX205", "warning")]
    assert codes(text.replace("jnp.asarray(weights)", "float(weights)")) == []
    # It isn't kept, or it is made again in each call.
    assert codes(text.replace("self._run =", "run =")) == []
    assert codes(text.replace("self._prepare()", "pass")) == []
    # jaxtronomy: ImageData.update_data jits it again.
    again = """
        def renew(self):
            self._run = jax.jit(self.run)
    """
    assert codes(text + again) == []


INHERITED = """
class Base:
    @partial(jax.jit, static_argnums=0)
    def apply(self, x):
        return x * self.table

class Linear(Base):
    def set(self, table):
        self.table = table
"""


def test_attributes_of_a_subclass_that_inherits_a_jitted_method() -> None:
    """desilike: BaseSystematicTemplateMultipoles._apply"""
    assert severities(INHERITED) == [("CX205", "error")]
    made = INHERITED.replace("def set", "def __init__")
    assert codes(made) == []
    made = made.replace("self.table = table", "self.table = jnp.asarray(table)")
    assert severities(made) == [("CX205", "warning")]
    own = "\n    def apply(self, x):\n        return x\n"
    assert codes(INHERITED + own) == []


def test_an_attribute_that_is_assigned_where_a_jitted_method_is_scanned() -> None:
    """desilike: MCLMCSampler._one_step"""
    text = """
    class Sampler:
        def __init__(self):
            self.algorithm = None

        @partial(jax.jit, static_argnums=0)
        def step(self, state, key):
            return self.algorithm(state, key), None

        def run(self, algorithm, state, keys):
            self.algorithm = algorithm
            return lax.scan(self.step, state, keys)
    """
    assert severities(text) == [("CX205", "error")]
    assert codes(text.replace("self.algorithm = algorithm", "pass")) == []


USED = """
def spread(values: Array, n: int):
    return values * n

class Model:
    def __init__(self, w, n, net):
        self.w = w
        self.n = n
        self.net = net
        START

    @partial(jax.jit, static_argnums=0)
    def predict(self, x):
        USE

    def helper(self, x: Array):
        return x
"""


@pytest.mark.parametrize(
    "use",
    [
        "return self.net.apply(self.w, x)",
        "w = self.w; return self.net.apply(w, x)",
        "return self.net.apply(self.w['net'], x)",
        "return spread(self.w, self.n)",
        "return spread(n=self.n, values=self.w)",
        "return self.helper(self.w)",
        "return jnp.concatenate([self.w, x])",
        "return x + self.w[None]",
        "return x + self.w[..., 0]",
        "return x + self.w.reshape(-1)",
        "return jax.random.split(self.w)",
    ],
)
def test_what_is_done_to_arrays_alone(use: str) -> None:
    """learned_optimization: NNAdam; jaxace: FlaxEmulator"""
    text = USED.replace("START", "pass").replace("USE", use)
    assert severities(text) == [("CX205", "warning")]
    assert codes(text.replace("self.w = w", "self.w = float(w)")) == []


@pytest.mark.parametrize(
    "use",
    [
        "return jnp.reshape(x, self.w)",
        "return jnp.sum(x, self.w)",
        "return jnp.moveaxis(x, self.w, self.n)",
        "return spread(x, self.w)",
        "return x + self.w[0]",
        "return x * self.w",
        "w = self.w; w = x; return self.net.apply(w, x)",
        "return self.net.apply(x, self.w)",
    ],
)
def test_what_is_done_to_numbers_too(use: str) -> None:
    assert codes(USED.replace("START", "pass").replace("USE", use)) == []


def test_a_parameter_that_is_used_as_an_array_and_stored() -> None:
    text = USED.replace("USE", "return x * self.w")
    assert codes(text.replace("START", "self.inverse = jnp.linalg.inv(w)")) == ["CX205"]
    assert codes(text.replace("START", "self.inverse = 1 / w")) == []
    assert codes(text.replace("START", "w = n; self.v = jnp.linalg.inv(w)")) == []


CLOSURE = """
def make_solve(matrix):
    factor = jax.scipy.linalg.cho_factor(matrix)

    def solve(b):
        return jax.scipy.linalg.cho_solve(factor, b)

    return solve

def inference(matrix, y):
    @functools.lru_cache(2)
    def solve(name):
        return make_solve(matrix[name])

    @functools.lru_cache(2)
    def solved(name):
        return solve(name)(y)

    return solve, solved
"""


def test_cached_functions_that_take_arrays_along() -> None:
    """neural-tangents: gp_inference"""
    assert severities(CLOSURE) == [("CX204", "warning")] * 2
    assert codes(CLOSURE.replace("jax.scipy", "scipy")) == []
    given = CLOSURE.replace("cho_solve(factor, b)", "cho_solve((matrix, True), b)")
    assert codes(given) == ["CX204"]  # only the value


@pytest.mark.parametrize(
    "returned",
    [
        "return inside",
        "return jax.jit(inside)",
        "fast = jax.jit(inside)\n    return fast",
        "return inside, n",
        "return lambda x: grid * x",
    ],
)
def test_a_cached_function_that_returns_a_function(returned: str) -> None:
    text = """
@functools.cache
def solver(n):
    grid = jnp.linspace(0, 1, n)

    def inside(x):
        return jnp.interp(x, grid, grid)

    RETURNED
""".replace("RETURNED", returned)
    assert severities(text) == [("CX204", "information")]
    assert codes(text.replace("jnp.linspace", "np.linspace")) == []
    own = text.replace("(x):", "(x, grid):").replace("lambda x:", "lambda x, grid:")
    assert codes(own) == []


def test_a_function_that_returns_arrays_for_arrays(tmp_path: Path) -> None:
    """kalman-jax: Likelihood.hyp"""
    (tmp_path / "utils.py").write_text(
        "import jax.numpy as jnp\n"
        "def inverse(x):\n"
        "    if x is None:\n"
        "        return x\n"
        "    x = abs(x)\n"
        "    return jnp.log(x)\n"
    )
    path = tmp_path / "model.py"
    text = (
        "import functools\nimport jax\nimport jax.numpy as jnp\n"
        "from utils import inverse\n"
        "class Likelihood:\n"
        "    def __init__(self, noise):\n"
        "        self.noise = inverse(jnp.asarray(noise))\n"
        "class Gaussian(Likelihood):\n"
        "    @functools.partial(jax.jit, static_argnums=0)\n"
        "    def value(self, x):\n"
        "        return x * self.noise\n"
    )
    path.write_text(text)
    assert [f.code for f in check_file(path, Settings()).findings] == ["CX205"]
    path.write_text(text.replace("jnp.asarray(noise)", "float(noise)"))
    assert not check_file(path, Settings()).findings


MAPPED = """
class Env:
    def __init__(self, properties):
        self.properties = properties
        self.axes = axes_of(properties)

    def step(self, state, properties):
        return state

    @partial(jax.jit, static_argnums=0)
    def steps(self, states):
        return jax.vmap(self.step, in_axes=(0, self.axes))(states, self.properties)
"""


def test_a_tree_that_is_mapped_over() -> None:
    """exciting-environments: CoreEnvironment.vmap_step"""
    assert severities(MAPPED) == [("CX205", "warning")]
    assert codes(MAPPED.replace("(0, self.axes)", "(0, None)")) == []


def test_an_attribute_that_a_method_gives_back() -> None:
    """rebayes: KalmanFilter.predict_state"""
    text = """
    class Filter:
        def __init__(self, matrix):
            self.matrix = matrix

        def matrix_of(self, t):
            if callable(self.matrix):
                return self.matrix(t)
            return self.matrix

        @partial(jax.jit, static_argnums=0)
        def predict(self, mean, t):
            A = self.matrix_of(t)
            return A @ mean
    """
    assert severities(text) == [("CX205", "warning")]
    assert codes(text.replace("A @ mean", "A * mean")) == []


def test_an_attribute_that_may_be_an_array_or_a_number() -> None:
    """rebayes: RebayesEKF.dynamics_covariance"""
    text = """
    Covariance = Union[float, Float[Array, "n"]]

    class Base:
        def __init__(self, covariance: Covariance):
            self.covariance = covariance

    class Filter(Base):
        @partial(jax.jit, static_argnums=0)
        def predict(self, x):
            return x * self.covariance
    """
    text = "from typing import Union\n" + textwrap.dedent(text)
    assert severities(text) == [("CX205", "warning")]
    assert codes(text.replace('Float[Array, "n"]]', "str]")) == []
    assert codes(text.replace("x * self.covariance", "x")) == []
    numbers = text.replace("= covariance", "= float(covariance)")
    assert codes(numbers) == []


def test_a_dictionary_of_parameters() -> None:
    """jaxace: FlaxEmulator.parameters"""
    text = """
    @dataclasses.dataclass
    class Emulator:
        net: object
        parameters: Optional[dict[str, object]]

        def __post_init__(self):
            self.fast = jax.jit(self.run)

        def run(self, x):
            return self.net.apply(self.parameters, x)
    """
    assert codes(text) == []
    open_ = "from typing import Any\n" + textwrap.dedent(text).replace(
        "object]", "Any]"
    )
    assert severities(open_) == [("CX205", "warning")]


def test_an_object_with_arrays_that_no_annotation_of_a_field_names() -> None:
    """jaxfun: TPMatricesDenseLUFactors.solve"""
    text = """
    @jax.tree_util.register_pytree_node_class
    class Factors:
        def __init__(self, lu: Array, shape: tuple[int, int]):
            self.lu = lu
            self.shape = shape

        def tree_flatten(self):
            return (self.lu,), self.shape

    class Solver:
        def __init__(self, factors: Factors):
            self.factors = factors

        @partial(jax.jit, static_argnums=0)
        def solve(self, b):
            return self.factors.solve(b)
    """
    assert severities(text) == [("CX205", "warning")]
    assert codes(text.replace("lu: Array", "lu: int")) == []


def test_attributes_that_a_helper_of_the_constructor_assigns() -> None:
    """hicosmo: FastIntegration.integrate"""
    text = """
    class Rule:
        def __init__(self, n):
            self.n = n
            self._prepare()

        def _prepare(self):
            self.nodes = {}
            self.nodes[8] = jnp.linspace(0, 1, 8)

        @partial(jax.jit, static_argnums=0)
        def integrate(self, x):
            return x * self.nodes[self.n]
    """
    assert severities(text) == [("CX205", "warning")]
    assert codes(text.replace("jnp.linspace(0, 1, 8)", "8")) == []


def test_an_object_of_a_pytree_whose_method_reads_arrays() -> None:
    """slimpletic: SolverScan.integrate"""
    text = """
    @jax.tree_util.register_pytree_node_class
    class System:
        def __init__(self, weights):
            self.weights = weights

        def value(self, x):
            return self.weights @ x

        def tree_flatten(self):
            return (self.weights,), None

    class Solver:
        def __init__(self, system: System):
            self.system = system

        @partial(jax.jit, static_argnums=0)
        def integrate(self, x):
            return self.system.value(x)
    """
    assert severities(text) == [("CX205", "warning")]
    assert codes(text.replace("self.weights @ x", "self.weights * x")) == []


def test_a_cached_method_that_returns_a_function() -> None:
    text = """
    class Process(eqx.Module):
        x: Array

        @functools.lru_cache
        def solver(self, n):
            grid = jnp.linspace(0, 1, n)
            return lambda x: grid * x
    """
    assert severities(text) == [("CX204", "warning")]  # the object is the key
    plain = text.replace("(eqx.Module)", "")
    assert severities(plain) == [("CX204", "information")]


@pytest.mark.parametrize(
    "flatten",
    [
        "lambda obj: obj._flatten()",
        "Cosmology._flatten",
        "lambda c: ((c.h, c.n), None)",
    ],
)
def test_a_registered_pytree_with_a_static_self(flatten: str) -> None:
    """hmfast: Cosmology.sigma_m"""
    text = """
    class Cosmology:
        def __init__(self, h, n, emulator):
            self.h, self.n = h, n
            self.emulator = emulator

        def _flatten(self):
            children = (self.h, self.n)
            return children, self.emulator

        @partial(jax.jit, static_argnums=0)
        def growth(self, z):
            return z * self.h

    jax.tree_util.register_pytree_node(Cosmology, FLATTEN, rebuilt)
    """.replace("FLATTEN", flatten)
    assert severities(text) == [("CX205", "warning")]
    assert codes(text.replace("z * self.h", "self.emulator(z)")) == []
    assert codes(text.replace("self.h, self.n = h, n", "self.h, self.n = 1, 2")) == []


@pytest.mark.parametrize("read", ["super().reset()", "(lambda: parent.reset())()"])
def test_arrays_that_are_read_through_super(read: str) -> None:
    """minimax: PopPLRManager.reset"""
    text = """
    class Manager:
        def __init__(self, size):
            self.size = size
            self.scores = jnp.full(size, -jnp.inf)

        def reset(self):
            return Buffer(self.scores)

    class Population(Manager):
        @partial(jax.jit, static_argnums=0)
        def reset(self):
            parent = super()
            return READ
    """.replace("READ", read)
    assert severities(text) == [("CX205", "warning")]
    assert codes(text.replace("Buffer(self.scores)", "Buffer(self.size)")) == []


def test_a_kept_function_that_a_kept_function_calls() -> None:
    """opax: PendulumReward.predict"""
    text = """
    class Reward:
        def __init__(self):
            self.low = None
            self._make()

        def _make(self):
            self.rescale = jax.jit(lambda action: rescale(action, self.low))

            def predict(obs, action):
                return cost(obs, self.rescale(action))

            self.predict = jax.jit(predict)

        def set_bounds(self, low):
            self.low = low
    """
    assert severities(text) == [("CX205", "error")] * 2
    assert codes(text.replace("self.low = low", "return low")) == []


def test_a_mapped_method_that_a_jitted_one_calls() -> None:
    """minimax: BatchEnv.step"""
    text = """
    class Batch:
        def __init__(self, size):
            self.size = size
            self.keys = jax.random.split(jax.random.key(0), size)
            self.step = jax.vmap(functools.partial(self._step, 1))

        def _step(self, scale, key):
            return self.keys[0], key, scale

        @partial(jax.jit, static_argnums=0)
        def run(self, keys):
            return self.step(keys)
    """
    assert severities(text) == [("CX205", "warning")]
    assert codes(text.replace("self.keys[0]", "self.size")) == []


def test_a_property_that_has_a_setter_too() -> None:
    """stadion: SDE._simulate_dynamical_system"""
    text = """
    class Dynamics:
        def __init__(self):
            self._size = None

        @property
        def size(self):
            return self._size

        @size.setter
        def size(self, value):
            self._size = value

        @partial(jax.jit, static_argnums=0)
        def simulate(self, key):
            return jax.random.normal(key, (self.size,))
    """
    assert severities(text) == [("CX205", "error")]
    assert codes(text.replace("(self.size,)", "(3,)")) == []


def test_a_lazy_property_that_has_a_setter_too() -> None:
    text = """
    class Process(eqx.Module):
        x: Array

        @property
        def factor(self):
            if self._factor is None:
                object.__setattr__(self, "_factor", jnp.linalg.cholesky(self.x))
            return self._factor

        @factor.setter
        def factor(self, value):
            object.__setattr__(self, "_factor", value)
    """
    assert "CX101" in codes(text)


def test_a_part_of_the_tuple_that_a_method_returns() -> None:
    """jaxatari: PongRenderer.render"""
    text = """
    class Utilities:
        def load(self, names):
            colours = {name: number for number, name in enumerate(names)}
            return jnp.zeros((3, 3)), colours

    class Renderer:
        def __init__(self, names):
            self.utilities = Utilities()
            self.background, self.colours = self.utilities.load(names)

        @partial(jax.jit, static_argnums=0)
        def render(self, state):
            return state + self.background
    """
    assert severities(text) == [("CX205", "warning")]
    number = "state + self.colours['red']"
    assert codes(text.replace("state + self.background", number)) == []


def test_a_part_of_a_tuple_with_a_star() -> None:
    """jaxampler: Beta._logpdf_x"""
    text = """
    def cast(*given):
        return shape_of(*given), *(jnp.asarray(one) for one in given)

    class Beta:
        def __init__(self, a, b):
            self.shape, self.a, self.b = cast(a, b)

        @partial(jax.jit, static_argnums=0)
        def density(self, x):
            return density(x, self.b)
    """
    assert severities(text) == [("CX205", "warning")]
    assert codes(text.replace("density(x, self.b)", "x.reshape(self.shape)")) == []


def test_a_cached_function_with_an_array_or_none_in_it() -> None:
    """spectraxgk: _cached_hermitian_projector"""
    text = """
    @functools.lru_cache
    def projector(n):
        if n > 1:
            negative = jnp.arange(n - 1, 0, -1)
        else:
            negative = None

        def project(x):
            return x if negative is None else x[negative]

        return project
    """
    assert severities(text) == [("CX204", "information")]
    assert codes(text.replace("jnp.arange", "np.arange")) == []


def test_an_object_with_a_field_that_may_be_an_array() -> None:
    """rebayes: Rebayes.predict_state"""
    text = """
    class Parameters(NamedTuple):
        emission: Callable
        covariance: float | Array

    class Filter:
        def __init__(self, parameters: Parameters):
            self.parameters = parameters

        @partial(jax.jit, static_argnums=0)
        def predict(self, cov):
            return cov + self.parameters.covariance
    """
    assert severities(text) == [("CX205", "warning")]
    function = "self.parameters.emission(cov)"
    assert codes(text.replace("cov + self.parameters.covariance", function)) == []


PARTS = """
@dataclasses.dataclass(frozen=True)
class Grid:
    eps: jax.Array
    size: int

@dataclasses.dataclass(frozen=True)
class Plan:
    grid: Grid
    dt: float

class Simulation:
    def __init__(self, plan: Plan):
        self.plan = plan
        self.run = jax.jit(self.advance)

    def advance(self, x):
        return READ
"""


@pytest.mark.parametrize(
    "read",
    [
        "x * self.plan.grid.eps",
        "self.scaled(x)\n\n    def scaled(self, x):\n        plan = self.plan\n"
        "        return plan.dt * x * plan.grid.eps",
        "self.scaled(x)\n\n    def scaled(self, x):\n        plan, grid = self.plan, "
        "self.plan.grid\n        return plan.dt * x * grid.eps",
    ],
)
def test_an_array_of_an_object_in_an_object(read: str) -> None:
    """beamz: DifferentiableSimulation._run"""
    assert severities(PARTS.replace("READ", read)) == [("CX205", "warning")]
    assert codes(PARTS.replace("READ", read.replace("eps", "size"))) == []
    assert codes(PARTS.replace("READ", read.replace("eps", "eps.shape"))) == []


def test_a_write_to_an_object_that_the_object_holds() -> None:
    """jax-am: energy_eqn.update, velocity_eqn.update"""
    text = """
    class Energy:
        def __init__(self, mesh, rho):
            self.step = Poisson(mesh)
            self.rho = 2

        @partial(jax.jit, static_argnums=0)
        def update(self, x, neighbours):
            self.step.mesh.neighbours = neighbours
            return solve(self.step, self.rho * x)
    """
    assert severities(text) == [("CX203", "error")]
    # A variable of flax, or of a library like it, has a place for it.
    assert codes(text.replace(".mesh.neighbours =", ".mesh.value =")) == []
    assert codes(text.replace("= neighbours", "= 3")) == ["cx203"]
    assert codes(text.replace("@partial(jax.jit, static_argnums=0)", "")) == []


def test_attributes_that_are_set_by_names_from_a_variable() -> None:
    """meent: RCWAJax.conv_solve_field"""
    text = """
    class Solver:
        @partial(jax.jit, static_argnums=(0, 1))
        def solve(self, order, **kwargs):
            [setattr(self, name, value) for name, value in kwargs.items()]
            return self.modes(order)
    """
    assert severities(text) == [("CX203", "warning")]
    assert codes(text.replace("setattr(self", "setattr(other")) == []
    assert codes(text.replace("@partial(jax.jit, static_argnums=(0, 1))", "")) == []


COMPILED = """
class Source:
    def __init__(self):
        self._compiled_cache = {}

    def compiled(self, bands):
        if bands in self._compiled_cache:
            return self._compiled_cache[bands]
        zero = jnp.array([band.zero for band in bands])

        def flux(phase):
            return phase / zero

        fast = jax.jit(flux)
        self._compiled_cache[bands] = fast
        return fast
"""


def test_a_dictionary_of_functions_with_arrays_in_them() -> None:
    """jax-bandflux: SALT3Source._get_compiled_bandflux"""
    assert severities(COMPILED) == [("CX202", "information")]
    assert codes(COMPILED.replace("jnp.array", "np.array")) == []
    assert codes(COMPILED.replace("phase / zero", "phase / len(bands)")) == []
    itself = COMPILED.replace("fast = jax.jit(flux)", "fast = flux")
    assert codes(itself) == ["cx202"]
    of_tree = COMPILED.replace(
        "class Source:", "@jax.tree_util.register_pytree_node_class\nclass Source:"
    )
    assert severities(of_tree) == [("CX202", "warning")]


def test_a_table_that_is_put_on_the_device() -> None:
    """jaxspec: runtime_table"""
    text = """
    def prepared(table) -> dict[str, jax.Array | int]:
        found = {name: jax.device_put(column) for name, column in table.items()}
        found["size"] = len(table)
        return found

    @functools.lru_cache(maxsize=1)
    def runtime_table() -> dict[str, jax.Array | int]:
        return prepared(loaded())
    """
    assert severities(text) == [("CX204", "warning")]
    assert codes(text.replace("jax.device_put", "np.asarray")) == []


OPTIONAL_JAX = """
    if HAS_JAX:
        try:
            import jax.numpy as xp
            from jax import jit
        except ImportError:
            HAS_JAX = False

    if not HAS_JAX:
        import numpy as xp

        def jit(function):
            return function

    @dataclasses.dataclass
    class Field:
        data: np.ndarray

        def __post_init__(self):
            self.values = xp.asarray(self.data)

            @jit
            def sample(index):
                return self.values[index]

            self.sample = sample
"""


def test_jax_that_may_not_be_installed() -> None:
    """JAXTrace: StructuredGridSampler, TimeSeriesField"""
    assert severities(OPTIONAL_JAX) == [("CX205", "warning")]
    function = OPTIONAL_JAX.replace("from jax import jit", "pass")
    assert codes(function) == []
    table = OPTIONAL_JAX.replace("import jax.numpy as xp", "pass")
    assert codes(table) == []
    otherwise = """
    if not HAS_JAX:
        import numpy as xp
    else:
        import jax.numpy as xp

    @functools.lru_cache
    def window(n):
        return xp.sin(xp.arange(n))
    """
    assert codes(otherwise) == ["CX204"]
    assert codes(otherwise.replace("jax.numpy", "cupy")) == []


def found_in(folder: Path, name: str, **files: str) -> list[str]:
    """The codes in one of several files that import each other."""
    head = "from functools import partial\nimport jax\nimport jax.numpy as jnp\n"
    head += "import flax.struct\nfrom jax import Array\nimport numpy as np\n"
    for file, text in files.items():
        (folder / f"{file}.py").write_text(head + textwrap.dedent(text))
    findings = check_file(folder / f"{name}.py", Settings()).findings
    return [finding.code for finding in findings]


AGENT = """
class Agent:
    def __init__(self):
        self.build()

    def replay(self, x):
        return self.loss(x)
"""
QUANTILES = """
from base import Agent

class Quantiles(Agent):
    def __init__(self, n):
        self.n = n
        super().__init__()

    def build(self):
        self.levels = jnp.linspace(0, 1, self.n)
        self.replay = jax.jit(self.replay)

    def loss(self, x):
        return x - self.levels
"""


def test_a_jitted_method_that_a_base_class_in_a_different_file_has(
    tmp_path: Path,
) -> None:
    """jax-baseline: C51._bulk_scan"""
    files = {"base": AGENT, "agent": QUANTILES}
    assert found_in(tmp_path, "agent", **files) == ["CX205"]
    files["agent"] = QUANTILES.replace("x - self.levels", "x - self.n")
    assert found_in(tmp_path, "agent", **files) == []
    called = QUANTILES.replace(
        "self.replay = jax.jit(self.replay)", "jax.jit(self.replay)(1.0)"
    )
    assert found_in(tmp_path, "agent", base=AGENT, agent=called) == []


LOCAL = """
class Energy:
    def __init__(self, volumes):
        self.volumes = jnp.asarray(volumes)
        self.compile()

    def compile(self):
        volumes = self.volumes

        def energy(x):
            return jnp.sum(x * volumes)

        self.gradient = jax.jit(jax.grad(energy))
"""


def test_a_local_variable_that_stands_for_an_array_of_the_object() -> None:
    """jax_petsc_nonlinear_energies: MPIDOFPartitionedEnergy._compile_jax"""
    assert severities(LOCAL) == [("CX205", "warning")]
    through = LOCAL.replace("jax.grad(energy)", "lambda x: 2 * energy(x)")
    assert severities(through) == [("CX205", "warning")]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("jnp.asarray(volumes)", "len(volumes)"),
        ("jnp.sum(x * volumes)", "jnp.sum(x) / volumes.shape[0]"),
        ("def energy(x):", "def energy(x, volumes):"),  # an argument
        ("volumes = self.volumes\n", "volumes = 3.0\n"),
        ("self.gradient = ", "gradient = "),
    ],
)
def test_other_local_variables_say_nothing(old: str, new: str) -> None:
    assert codes(LOCAL.replace(old, new)) == []


SAMPLER = """
class Sampler:
    def __init__(self, buffer, keys):
        self.buffer = buffer
        self.keys = keys

    @partial(jax.jit, static_argnames=["self"])
    def batch(self, ids):
        return {key: getattr(self.buffer, key)[ids] for key in self.keys}
"""


def test_a_traced_index_of_an_attribute_with_a_computed_name() -> None:
    """robojax: BufferSampler._get_batch_by_ids"""
    assert severities(SAMPLER) == [("CX205", "warning")]
    assert codes(SAMPLER.replace("[ids]", "")) == []
    assert codes(SAMPLER.replace('["self"]', '["self", "ids"]')) == []


MOMENTS = """
class Moments:
    def __init__(self, velocities):
        self.velocities = velocities

    @partial(jax.jit, static_argnums=0)
    def first(self, f):
        return jnp.tensordot(self.velocities.directions, f, axes=(-1, 0))

    @partial(jax.jit, static_argnums=0)
    def count(self, f):
        return f / self.velocities.q
"""


def test_an_array_in_an_object_of_an_unknown_class() -> None:
    """xlb: FirstMoment.jax_implementation"""
    assert severities(MOMENTS) == [("CX205", "warning")]  # not `count`
    assert codes(MOMENTS.replace("first(self, f)", "first(self, f, i)")) == ["CX205"]
    shape = MOMENTS.replace(
        "jnp.tensordot(self.velocities.directions, f, axes=(-1, 0))",
        "f.reshape(self.velocities.directions)",
    )
    assert codes(shape) == []


def test_the_class_of_the_object_says_that_it_is_a_numpy_array() -> None:
    known = """
    class Velocities:
        def __init__(self, directions):
            self.q = len(directions)
            self.directions = np.asarray(directions)
    """
    text = MOMENTS.replace("velocities):", "velocities: Velocities):")
    assert codes(textwrap.dedent(known) + text) == []
    arrays = known.replace("np.asarray", "jnp.asarray")
    assert codes(textwrap.dedent(arrays) + text) == ["CX205"]


PARAMETERS = """
@flax.struct.dataclass
class Parameters:
    steps: int = flax.struct.field(pytree_node=False, default=48)
"""
GRID = """
from parameters import Parameters

@flax.struct.dataclass
class GridParameters(Parameters):
    loads: Array = None
"""
WRAPPER = """
from parameters import Parameters

class Wrapper:
    def __init__(self, env, parameters: Parameters = None):
        self.env = env
        self.parameters = parameters if parameters is not None else env.defaults()

    @partial(jax.jit, static_argnums=(0,))
    def reset(self, key):
        return self.env.reset(key, self.parameters)
"""


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("", "", ["CX205"]),
        ("loads: Array", "loads: float", []),
        ("(Parameters)", "", []),
        ("    steps", "    scale: float = 1.0\n    steps", []),  # it has a leaf
    ],
)
def test_a_pytree_class_whose_subclasses_hold_arrays(
    old: str, new: str, found: list[str], tmp_path: Path
) -> None:
    """PowerZooJax: LogWrapper.reset"""
    (tmp_path / "__init__.py").write_text("")
    files = {"parameters": PARAMETERS, "grid": GRID, "wrapper": WRAPPER}
    files = {
        name: text.replace("from p", "from .p").replace(old, new)
        for name, text in files.items()
    }
    assert found_in(tmp_path, "wrapper", **files) == found


BANK = """
class Grid:
    def __init__(self, loads: Array):
        self.n = loads.size

class Bank:
    def __init__(self, bank):
        self.bank = tuple(bank)
        self.grid = Grid(self.bank[0])

    @partial(jax.jit, static_argnums=(0,))
    def reset(self, index):
        return jax.lax.switch(index, tuple(lambda _, p=p: p for p in self.bank), 0)
"""


def test_what_the_constructor_of_a_different_class_is_given() -> None:
    """PowerZooJax: the environment of benchmarks/ders"""
    assert severities(BANK) == [("CX205", "warning")]
    assert codes(BANK.replace("loads: Array", "loads: list")) == []
    base = BANK.replace("class Bank:", "class Bank(Grid):")
    base = base.replace(
        "self.grid = Grid(self.bank[0])", "super().__init__(self.bank[0])"
    )
    assert severities(base) == [("CX205", "warning")]


def test_a_jitted_function_that_a_cached_property_returns() -> None:
    """lsqfitgp: bart._pred"""
    text = """
    class Forest:
        def __init__(self, x):
            self.x = jnp.asarray(x)
            self.n = len(x)

        @functools.cached_property
        def predict(self):
            @jax.jit
            def predict(y):
                return self.x @ y

            return predict
    """
    assert severities(text) == [("CX205", "warning")]
    direct = text.replace("@jax.jit", "").replace(
        "return predict", "return jax.jit(predict)"
    )
    assert severities(direct) == [("CX205", "warning")]
    assert codes(text.replace("self.x @ y", "self.n * y")) == []
    assert codes(text.replace("functools.cached_property", "property")) == []


def test_a_table_that_is_read_back_and_not_returned() -> None:
    """xpcsjax: the model function of the nlsq adapter"""
    text = """
    def make(offsets):
        table = {}

        def model(data, scale):
            if id(data) in table:
                times = table[id(data)]
            else:
                times = jnp.asarray(data)
                table[id(data)] = times
            return scale * times.sum()

        return model
    """
    assert severities(text) == [("CX204", "information")]
    assert codes(text.replace("jnp.asarray", "np.asarray")) == []
    total = text.replace(
        "= times\n            return", "= table[0] + times\n            return"
    )
    assert codes(total) == []


WRITER = """
class Domain:
    def __init__(self, x):
        self.centers = jnp.asarray(x)
        self.n = len(x)

    def spacing(self):
        return self.centers[1:] - self.centers[:-1]

class Writer:
    domain: Domain

    def __init__(self, domain, n):
        self.domain = domain

    @partial(jax.jit, static_argnums=(0,))
    def slope(self, y):
        return (y[1:] - y[:-1]) / self.domain.spacing()
"""


def test_the_class_of_an_object_by_its_annotation() -> None:
    """JAXFLUIDS: HDF5Writer._compute_miscellaneous_jit"""
    assert severities(WRITER) == [("CX205", "warning")]
    twice = WRITER.replace("    domain: Domain\n", "").replace(
        "domain, n):\n        self.domain = domain",
        "domain: Domain, n):\n        if n:\n            self.domain = domain\n"
        "        else:\n            self.domain = domain",
    )
    assert severities(twice) == [("CX205", "warning")]
    assert codes(WRITER.replace("self.domain.spacing()", "self.domain.n")) == []
    assert codes(WRITER + "\nclass Empty(Domain):\n    def spacing(self): pass") == []
