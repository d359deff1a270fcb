"""Code of real packages that was reported and should not have been, told again."""

from pathlib import Path

import pytest

from cachax.lint import Settings
from cachax.lint._run import check_file

from linted import codes


def test_a_helper_that_constructors_of_subclasses_call_makes_the_object() -> None:
    """jax-galsim: Bounds._parse_args"""
    text = """
    @jax.tree_util.register_pytree_node_class
    class Bounds:
        def _parse(self, x):
            if self.x is None:
                self.x = jnp.array(x)
            return self.x

        def tree_flatten(self):
            return (self.x,), None

    @jax.tree_util.register_pytree_node_class
    class BoundsD(Bounds):
        def __init__(self, x):
            self._parse(x)
    """
    assert codes(text) == []


def test_a_function_that_returns_arrays_only_if_asked_to() -> None:
    """jax-galsim: akima_interp_coeffs(..., use_jax=False) under lru_cache"""
    text = """
    def coefficients(x, use_jax=True):
        if use_jax:
            return jnp.asarray(x)
        return np.asarray(x)

    @functools.lru_cache
    def table(n):
        return coefficients(n, use_jax=False)
    """
    assert codes(text) == []


def test_a_callback_runs_outside_of_the_trace() -> None:
    text = """
    class Foo:
        @partial(jax.jit, static_argnums=0)
        def f(self, x):
            def log(value):
                self.last = value

            jax.debug.callback(log, x)
            return x
    """
    assert codes(text) == []
    assert codes(text.replace("jax.debug.callback", "call")) == ["CX203"]


def test_a_helper_may_serve_constructors_of_other_files() -> None:
    text = """
    class Foo(eqx.Module):
        w: Array

        def _build(self, w):
            self.w = w
    """
    assert codes(text) == ["cx203"]
    assert codes(text.replace("_build", "build")) == ["CX203"]


def test_a_size_and_a_mesh_are_not_arrays() -> None:
    text = """
    class Foo(eqx.Module):
        w: Array

        @cached_property
        def n(self):
            return 2 * self.w.size

        @cached_property
        def mesh(self) -> jax.sharding.Mesh:
            return make(self.n)
    """
    assert codes(text) == []


def test_a_moving_average_is_not_a_cache() -> None:
    """netket: VMC_SR.compute_loss_and_update"""
    text = """
    @chex.dataclass
    class Driver:
        average: Array | None = None

        def update(self, x):
            old = self.average
            if old is not None and old.n == 0:
                old = None
            self.average = jnp.mean(x)
            return x
    """
    assert codes(text) == []


def test_lazy_state_of_a_driver_is_not_a_cache() -> None:
    """netket: ProgressBarCallback.on_run_start"""
    text = """
    @chex.dataclass
    class Callback:
        step: object = None

        def on_start(self, driver):
            if self.step is None:
                self.step = driver.step_count
    """
    assert codes(text) == []


def test_a_lazy_list_of_flags_read_in_a_jitted_method() -> None:
    """herculens: MPMassModel.has_mass"""
    text = """
    class Model:
        @property
        def has_mass(self):
            if not hasattr(self, "_has_mass"):
                self._has_mass = [not isinstance(m, Zero) for m in self.models]
            return self._has_mass

        @partial(jax.jit, static_argnums=0)
        def use(self, x):
            return x if self.has_mass[0] else 0
    """
    assert codes(text) == ["cx203"]


def test_a_distribution_of_tensorflow_probability_is_not_a_pytree() -> None:
    """liesel: MultivariateNormalDegenerate"""
    text = """
    from tensorflow_probability.substrates.jax import distributions as tfd

    class Normal(tfd.Distribution):
        @cached_property
        def eig(self):
            return jnp.linalg.eigh(self.x)
    """
    assert codes(text) == []
    auto = text.replace("tfd.Distribution", "tfd.AutoCompositeTensorDistribution")
    assert codes(auto) == ["CX101"]


def test_a_property_that_puts_its_state_in_order() -> None:
    """tensorflow-probability: Distribution.parameters"""
    text = """
    @chex.dataclass
    class Distribution:
        @property
        def parameters(self):
            self._parameters = {k: v for k, v in self.raw.items()}
            return self._parameters
    """
    assert codes(text) == ["cx203"]


def test_methods_of_a_mutable_pytree_may_change_it() -> None:
    """jax-galsim: PhotonArray; equinox: State.set"""
    text = """
    @jax.tree_util.register_pytree_node_class
    class Photons:
        def scale(self, factor):
            self.flux = self.flux * factor
    """
    assert codes(text) == []


def test_an_entry_of_a_state_is_not_a_cache() -> None:
    """brax: scramble_times"""
    text = """
    def scramble(state, x):
        if "time" in state.info:
            state.info["time"] = jnp.where(x, 0.0, 1.0)
        return state
    """
    assert codes(text) == []


def test_a_variable_of_nnx_is_written_to_in_place() -> None:
    """flax: MultiHeadAttention.__call__"""
    text = """
    class Attention(nnx.Module):
        def __call__(self, x):
            if self.cached_key is None:
                raise ValueError
            self.cached_key[...] = jnp.sin(x)
            self.index["i"] = jnp.sin(x)
            return x
    """
    assert codes(text) == []
    assert codes(text.replace("nnx.Module", "eqx.Module")) == []


def test_a_method_that_assigns_and_jits_again() -> None:
    """jaxtronomy: ImageData.update_data"""
    text = """
    class Data:
        def __init__(self, data):
            self.data = data
            self.loss = jax.jit(self._loss)

        def update(self, data):
            self.data = data
            self.loss = jax.jit(self._loss)

        def _loss(self, x):
            return x - self.data
    """
    assert codes(text) == []


def test_a_helper_that_the_constructor_of_a_base_class_calls(tmp_path: Path) -> None:
    """soromox: ISupport._set_params"""
    base = """
import equinox as eqx
import jax

class Robot(eqx.Module):
    length: jax.Array

    def __init__(self, params):
        self._set_params(params)

    def _set_params(self, params):
        self.length = params.length
"""
    robot = """
import jax
import jax.numpy as jnp
from base import Robot

class Support(Robot):
    radius: jax.Array

    def _set_params(self, params):
        super()._set_params(params)
        self.radius = jnp.asarray(params.radius)
"""
    other = base.replace("self._set_params(params)", "self.length = params.length")
    for name, text, expected in [("a", base, []), ("b", other, ["CX203"])]:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "base.py").write_text(text)
        path = folder / "robot.py"
        path.write_text(robot)
        assert [f.code for f in check_file(path, Settings()).findings] == expected


def test_a_cached_property_of_static_data_in_tree_flatten() -> None:
    """nova: Clebsch.axes"""
    text = """
    @jax.tree_util.register_pytree_node_class
    @dataclasses.dataclass
    class Field:
        steps: tuple
        x: Array

        @cached_property
        def axes(self):
            return tuple(i for i, step in enumerate(self.steps) if step is not None)

        @cached_property
        def ndim(self):
            return len(self.axes)

        def tree_flatten(self):
            return (self.x,), (self.steps, self.axes, self.ndim)

        @classmethod
        def tree_unflatten(cls, static, children):
            return cls(static[0], *children)
    """
    assert codes(text) == []
    # With what is not static in it, or as a leaf, it is reported.
    assert codes(text.replace("len(self.axes)", "len(self.x)")) == ["CX207"]
    assert codes(text.replace("x,), (self.steps", "x, self.ndim), (self.steps")) == [
        *("CX207", "CX207"),
    ]
    assert codes(text.replace("len(self.axes)", "len(vars(self))")) == ["CX207"]


def test_what_a_subclass_sets_up_before_it_is_traced() -> None:
    """netket: TensorDiscreteHilbert._setup, HomogeneousHilbert._hilbert_index"""
    text = """
    class Space:
        @partial(jax.jit, static_argnums=0)
        def states(self, numbers):
            return self.numbers_to_states(numbers)

        def numbers_to_states(self, numbers):
            raise NotImplementedError

    class Product(Space):
        def __init__(self, parts):
            self.parts = parts
            self.sizes = None

        def set_up(self):
            if self.sizes is None:
                self.sizes = [part.size for part in self.parts]
                self.strides = accumulate(self.sizes)

        def numbers_to_states(self, numbers):
            self.set_up()
            return split(numbers, self.strides)
    """
    assert codes(text) == []


def test_a_property_with_a_setter_that_a_loop_is_given() -> None:
    """jax-galsim: PhotonArray.dxdz"""
    text = """
    @jax.tree_util.register_pytree_node_class
    class Photons:
        def __init__(self, x, slope):
            self._x = x
            self.slope = slope

        @property
        def slope(self):
            return self._slope

        @slope.setter
        def slope(self, value):
            self._slope = value

        def tree_flatten(self):
            return (self._x, self._slope), None

        def with_slope(self, has, slope):
            self.slope = jax.lax.cond(has, use, keep, self.slope, slope)
            return self
    """
    assert "CX203" not in codes(text)


def test_a_variable_of_nnx_around_an_array() -> None:
    """easydel: Gemma3TextModel.default_frequencies"""
    text = """
    class ModuleCache(nnx.Cache):
        pass

    class Model(nnx.Module):
        @cached_property
        def frequencies(self):
            return ModuleCache(jnp.arange(3))
    """
    assert codes(text) == ["cx102"]
    assert codes(text.replace("nnx.Cache", "object")) == ["CX102"]


def test_a_copy_that_is_changed_and_returned() -> None:
    """diffopt: KeyGenerator.with_newkey"""
    text = """
    @jax.tree_util.register_pytree_node_class
    class Keys:
        def __init__(self, key):
            self.key = key

        @jax.jit
        def next(self):
            self.key = jax.random.split(self.key)[0]
            return self

        def tree_flatten(self):
            return (self.key,), None
    """
    assert codes(text) == []
    assert codes(text.replace("return self\n", "return self, self.key\n")) == []
    assert codes(text.replace("return self\n", "return self.key\n")) == ["CX203"]
    static = text.replace("@jax.jit", "@partial(jax.jit, static_argnums=0)")
    assert "CX203" in codes(static)


def test_a_field_that_is_replaced_together_with_its_sources() -> None:
    """jaxnasium: Transition.bootstrap_n"""
    text = """
    class Steps(eqx.Module):
        done: Array
        count: Array | None = None

        def replace(self, **values):
            return dataclasses.replace(self, **values)

    def collapse(steps: Steps):
        last = jnp.argmax(steps.done)
        return steps.replace(done=steps.done[last], count=last)
    """
    assert codes(text) == []
    assert codes(text.replace("done=steps.done[last], ", "")) == ["CX208"]


def test_a_table_that_is_filled_outside_of_the_trace() -> None:
    """asdex: SparsityPattern._block_indices; neural-tangents: get_pos_emb_L"""
    text = """
    @jax.tree_util.register_pytree_node_class
    class Pattern:
        def __init__(self, rows):
            self.rows = rows
            self._blocks = {}

        def block(self, key):
            if key not in self._blocks:
                with jax.ensure_compile_time_eval():
                    self._blocks[key] = jnp.asarray(self.rows)
            return self._blocks[key]
    """
    assert codes(text) == []
    inside = text.replace("jax.ensure_compile_time_eval()", "jax.named_scope('a')")
    assert codes(inside) == ["CX202"]
    cached = """
    @functools.lru_cache(1)
    def table(n):
        with jax.core.eval_context():
            return jnp.arange(n)
    """
    assert codes(cached) == []
    assert codes(cached.replace("core.eval_context", "named_scope")) == ["CX204"]


def test_a_default_that_is_computed_outside_of_the_trace() -> None:
    """opax: BayesianDynamicsModel.predict"""
    text = """
    class Model:
        def __init__(self):
            self.index = jnp.zeros(1)
            self._make()

        def _make(self):
            def predict(x, index=self.index):
                return x[index]

            self.predict = jax.jit(predict)

        def set_index(self, index):
            self.index = index
    """
    assert codes(text) == []
    assert codes(text.replace("x[index]", "x[self.index]")) == ["CX205"]


def test_a_pytree_of_which_no_array_is_read() -> None:
    """opax: GPDynamicsModel.predict_with_uncertainty"""
    text = """
    @jax.tree_util.register_pytree_node_class
    class Process:
        def __init__(self, n):
            self.n = n
            self.state = jnp.zeros(n)

        def predict(self, x, state):
            return x @ state / self.n

        def tree_flatten(self):
            return (self.state,), self.n

    class Dynamics:
        def __init__(self, n):
            self.model = Process(n)
            self.predict = jax.jit(lambda x, state: self.model.predict(x, state))
    """
    assert codes(text) == []
    assert codes(text.replace("x @ state", "x @ self.state")) == ["CX205"]


def test_leaves_that_are_put_into_their_structure_on_first_use() -> None:
    """haiku: FlatMap._to_mapping"""
    text = """
    class Flat:
        def __init__(self, leaves, structure):
            self.leaves = leaves
            self.structure = structure
            self._mapping = None

        def mapping(self):
            if self._mapping is None:
                self._mapping = jax.tree.unflatten(self.structure, self.leaves)
            return self._mapping

    jax.tree_util.register_pytree_node(Flat, lambda f: (f.leaves, f.structure), make)
    """
    assert codes(text) == []
    computed = text.replace("(self.structure, self.leaves)", "(jnp.sin, self.leaves)")
    assert codes(computed.replace("jax.tree.unflatten", "jax.tree.map")) == ["CX101"]


def test_a_cached_function_that_a_partial_jit_makes() -> None:
    """tpu-inference: _get_decode_core"""
    text = """
    @functools.lru_cache
    def decode_core():
        return functools.partial(jax.jit, static_argnames="n")(_decode)
    """
    assert codes(text) == []
    assert codes(text.replace("(_decode)", "(_decode)(1)")) == ["CX204"]


def test_an_array_of_which_a_method_asks_only_whether_it_is_there() -> None:
    """levanter: CausalLmDataset._create_lm_example"""
    text = """
    class Dataset:
        def __init__(self, key: jax.Array | None = None):
            self.key = key

        @partial(jax.jit, static_argnums=0)
        def example(self, tokens, key):
            assert self.key is not None
            return jax.random.permutation(key, tokens)
    """
    assert codes(text) == []
    assert codes(text.replace("(key, tokens)", "(self.key, tokens)")) == ["CX205"]
    asked = text.replace("self.key is not None", "isinstance(self.key, jax.Array)")
    assert codes(asked) == []


def test_an_attribute_that_a_constructor_from_elsewhere_assigns() -> None:
    """deeperwin: Stateful.infer_class_state"""
    text = """
    class Stateful:
        def __init__(self):
            self._names = ()

        def _add_names(self, names):
            self._names += tuple(names)

    def stateful(cls):
        def constructor(self):
            Stateful.__init__(self)
            Stateful._add_names(self, cls.__annotations__)

        setattr(cls, "__init__", constructor)
        return cls

    class Optimizer(Stateful):
        def __init__(self):
            super().__init__()
            self.step = jax.jit(self.one_step)

        def one_step(self, x):
            return {name: x for name in self._names}
    """
    assert codes(text) == []
    assert codes(text.replace('setattr(cls, "__init__"', "setattr(cls, f")) == ["CX205"]
    assigned = 'setattr(cls, "__init__", constructor)'
    assert codes(text.replace(assigned, "cls.__init__ = constructor")) == []


def test_a_value_that_a_traced_method_takes_away_again() -> None:
    """deeperwin: Optimizer._step"""
    text = """
    class Optimizer:
        @partial(jax.jit, static_argnums=0)
        def step(self, x, damping):
            self.estimator.damping = damping
            x = self.estimator.apply(x)
            self.estimator.damping = None
            return x
    """
    assert codes(text) == []
    kept = text.replace("            self.estimator.damping = None\n", "")
    assert codes(kept) == ["CX203"]


def test_a_record_of_settings_in_a_traced_method() -> None:
    """jcm: Model._run_from_state"""
    text = """
    class Model:
        @partial(jax.jit, static_argnums=(0, 2))
        def run(self, state, steps):
            settings = described(self.physics, steps)
            if self.traced is None:
                self.traced = settings
            return state
    """
    assert codes(text) == ["cx203"]
    assert codes(text.replace("(self.physics, steps)", "(state)")) == ["CX203"]
    assert codes(text.replace("static_argnums=(0, 2)", "static_argnums=2")) == ["CX203"]
    rest = text.replace("state, steps)", "state, *steps)").replace("(0, 2)", "0")
    assert codes(rest) == ["CX203"]


def test_an_object_that_makes_static_fields_of_an_array() -> None:
    """pymdp: Agent.policies"""
    text = """
    class Policies(eqx.Module):
        table: tuple = eqx.field(static=True)

        def __init__(self, policies):
            if isinstance(policies, tuple):
                self.table = policies
            else:
                self.table = as_tuples(policies.tolist())

    class Agent(eqx.Module):
        policies: Policies = eqx.field(static=True)

        def __init__(self, policies):
            self.policies = Policies(jnp.array(policies))
    """
    assert codes(text) == []
    held = text.replace("tuple = eqx.field(static=True)", "tuple")
    assert codes(held) == ["CX206"]


def test_a_ref_of_a_pallas_kernel_is_written_to() -> None:
    """tokamax: flash_attention_kernel"""
    text = """
    from jax.experimental import pallas as pl

    def kernel(x_ref, out_ref):
        for i in range(2):
            out_ref.at[i].set(x_ref[i])
    """
    assert codes(text) == []
    array = "out_ref = jnp.zeros(2)\n        for i in"
    assert codes(text.replace("for i in", array)) == ["CX401"]
    assert codes(text.replace("from jax.experimental import pallas as pl", "")) == [
        "CX401"
    ]


def test_attributes_that_are_set_by_names_where_one_call_is_traced() -> None:
    """meent: RCWAJax.conv_solve"""
    text = """
    class Solver:
        def solve(self, **kwargs):
            [setattr(self, name, value) for name, value in kwargs.items()]
            return self.modes()

        def solve_all(self, ucells):
            return jax.pmap(self.solve)(ucells)
    """
    assert codes(text) == ["cx203"]


def test_a_helper_of_the_base_that_the_constructor_reaches_through_a_subclass() -> None:
    """jax-baseline: SAC.setup_model"""
    text = """
    class Base:
        def __init__(self):
            self.setup_model()

        def setup_model(self):
            pass

        def setup_entropy(self):
            self.automatic = True

    class Actor(Base):
        def setup_model(self):
            self.setup_entropy()
            self.step = jax.jit(self.step)

        def step(self, x):
            return x if self.automatic else 2 * x
    """
    assert codes(text) == []
    later = text.replace("            self.setup_entropy()\n", "")
    assert codes(later) == ["CX205"]


def test_a_variable_with_the_name_of_the_object_in_the_body_of_a_loop() -> None:
    """JAxtar: SearchResult.pop_full"""
    text = """
    @chex.dataclass
    class Search:
        queue: Array

        def pop(search):
            def body(state):
                search, key = state
                search.queue = search.queue[1:]
                return search, key

            return jax.lax.while_loop(lambda state: state[1] > 0, body, (search, 3))
    """
    assert codes(text) == []
    closed_over = text.replace("search, key = state", "_, key = state")
    assert codes(closed_over) == ["CX203"]


def test_a_field_that_random_numbers_go_into() -> None:
    """jax-dna: DiffTRe.initialize. A cached property can't compute it."""
    text = """
    @chex.dataclass(frozen=True)
    class Estimator:
        weights: Array
        _energies: Array | None = None

        def initialize(self, key):
            key, split = jax.random.split(key)
            energies = simulate(self.weights, split)
            return self.replace(_energies=energies)
    """
    assert codes(text) == []
    assert codes(text.replace("self.weights, split", "self.weights")) == ["CX208"]


AGENT = """
class Agent:
    def __init__(self, params):
        self.state = params

    def act(self, x, params=None):
        if params is None:
            params = self.state
        return params * x

    def plan(self, x, params=None):
        return self.act(x, params=params)

    @partial(jax.jit, static_argnums=(0,))
    def loss(self, params, x):
        return self.plan(x, params).sum()

    def train(self, params):
        self.state = params
"""


def test_an_attribute_that_stands_in_for_an_argument_that_is_given() -> None:
    """gcbfplus: GCBFPlus.get_b_u_qp"""
    assert codes(AGENT) == []
    partial = AGENT.replace(
        "self.plan(x, params)", "partial(self.plan, params=params)(x)"
    )
    assert codes(partial) == []
    short = "params = self.state if params is None else params"
    inline = AGENT.replace("if params is None:\n            params = self.state", short)
    assert codes(inline) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("self.plan(x, params)", "self.plan(x)"),
        ("self.plan(x, params)", "jax.vmap(self.plan)(x)"),
        ("self.plan(x, params)", "self.plan(x, None)"),
        ("loss(self, params, x)", "loss(self, x, params=None)"),
    ],
)
def test_an_argument_that_may_not_be_given(old: str, new: str) -> None:
    assert "CX205" in codes(AGENT.replace(old, new))


def test_the_functions_of_a_train_state() -> None:
    """gcbfplus: GCBFPlus.update_inner"""
    text = """
    class Agent:
        def __init__(self, state):
            self.state = state

        @partial(jax.jit, static_argnums=(0,))
        def loss(self, params, x):
            return self.state.apply_fn(params, x).sum()

        def train(self, state):
            self.state = state
    """
    assert codes(text) == []
    assert codes(text.replace("apply_fn(params, x)", "params")) == ["CX205"]
