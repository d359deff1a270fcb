"""What a call of a known function gives: a JAX array, a tree of them, neither."""

import enum
import re


class Kind(enum.Enum):
    """What is known of a value."""

    ARRAY = "a JAX array"
    TREE = "a tuple, list or other tree that holds JAX arrays"
    OTHER = "not a JAX array"
    UNKNOWN = "unknown"

    @property
    def has_arrays(self) -> bool:
        return self in (Kind.ARRAY, Kind.TREE)


_DTYPES = (
    r"float\w*|b?float\d+\w*|u?int\d+|u?int|int_|complex\d*|complex_|bool_?|double"
    r"|single|csingle|cdouble|generic|number|integer|floating|inexact|character|object_"
)
_QUESTIONS = (
    r"shape|ndim|size|dtype|issubdtype|isdtype|finfo|iinfo|result_type|promote_types|can_cast"
    r"|isscalar|iscomplexobj|isrealobj|broadcast_shapes|save|savez|vectorize|ufunc"
    r"|frompyfunc|printoptions|set_printoptions|get_printoptions|array_repr|array_str"
)
_TUPLES = (
    r"meshgrid|split|array_split|[hvd]split|unstack|nonzero|unique\w*|broadcast_arrays"
    r"|histogram\w*|ix_|tril_indices\w*|triu_indices\w*|mask_indices|diag_indices\w*"
    r"|linalg\.(svd|eigh?|qr|slogdet|lstsq)|divmod|frexp|modf|gradient|unravel_index"
)

# Full names of functions, as they are imported in public. The first that fits counts.
_CALLS: list[tuple[str, Kind]] = [
    (rf"jax\.numpy\.({_QUESTIONS})", Kind.OTHER),
    (rf"jax\.numpy\.({_DTYPES})", Kind.UNKNOWN),
    (rf"jax\.numpy\.({_TUPLES})", Kind.TREE),
    (r"jax\.numpy\.(where|atleast_\dd|asarray|array)", Kind.ARRAY),
    (r"jax\.numpy\.(linalg|fft)\.\w+", Kind.ARRAY),
    (r"jax\.numpy\.[a-z]\w*", Kind.ARRAY),
    (r"jax\.lax\.(scan|while_loop|fori_loop|cond|switch|map|top_k)", Kind.TREE),
    (r"jax\.lax\.linalg\.(cholesky|triangular_solve)", Kind.ARRAY),
    (r"jax\.lax\.linalg\.\w+", Kind.TREE),
    (
        r"jax\.lax\.(broadcast_shapes|conv_dimension_numbers|padtype_to_pads)",
        Kind.OTHER,
    ),
    (r"jax\.lax\.(stop_gradient|optimization_barrier)", Kind.UNKNOWN),
    (
        r"jax\.lax\.(custom_\w+|associative_scan|reduce|sort|psum|pmean|p\w+)",
        Kind.UNKNOWN,
    ),
    (r"jax\.lax\.(axis_size|create_token|after_all|infeed|outfeed)", Kind.UNKNOWN),
    (r"jax\.lax\.[a-z]\w*", Kind.ARRAY),
    (r"jax\.random\.(key_impl|default_prng_impl)", Kind.OTHER),
    (r"jax\.random\.[a-zP]\w*", Kind.ARRAY),
    (
        r"jax\.scipy\.linalg\.(cho_factor|lu|lu_factor|eigh?|svd|qr|schur|polar)",
        Kind.TREE,
    ),
    (r"jax\.scipy\.(linalg|special|fft|signal|ndimage)\.[a-z]\w*", Kind.ARRAY),
    (r"jax\.scipy\.stats\.(\w+\.)?[a-z]\w*", Kind.ARRAY),
    (r"jax\.nn\.initializers\..*", Kind.OTHER),
    (r"jax\.nn\.[a-z]\w*", Kind.ARRAY),
    (r"jax\.image\.[a-z]\w*", Kind.ARRAY),
    (r"jax\.ops\.segment_\w+", Kind.ARRAY),
    (r"jax\.device_put", Kind.TREE),
    (r"jax\.(device_get|eval_shape|make_jaxpr|devices|\w*device_count)", Kind.OTHER),
    (r"jax\.(jit|vmap|pmap|grad|value_and_grad|jacfwd|jacrev|hessian)", Kind.OTHER),
    (
        r"jax\.(checkpoint|remat|custom_jvp|custom_vjp|linearize|ShapeDtypeStruct)",
        Kind.OTHER,
    ),
    (r"jax\.(tree|tree_util)\.(structure|tree_structure|all|tree_all)", Kind.OTHER),
    (
        r"(numpy|scipy|math|operator|itertools|collections|string|re|os|pathlib)\..*",
        Kind.OTHER,
    ),
    (
        r"int|float|complex|bool|str|bytes|len|range|slice|hash|id|repr|ascii|type|ord|chr"
        r"|isinstance|issubclass|callable|hasattr|frozenset|set|bytearray|object|print",
        Kind.OTHER,
    ),
    (r"functools\.partial", Kind.OTHER),
    (r"flax\.nnx\.(Param|Variable|BatchStat|Cache|Intermediate)", Kind.ARRAY),
]

# What makes arrays of what is in brackets: `jnp.r_[x, y]`.
_OF_BRACKETS = {
    **dict.fromkeys(("jax.numpy.r_", "jax.numpy.c_", "jax.numpy.mgrid"), Kind.ARRAY),
    "jax.numpy.ogrid": Kind.TREE,
}

# What a function made by one of these returns: `jax.vmap(f)(x)`.
_MADE_BY = re.compile(
    r"jax\.(jit|vmap|pmap|grad|value_and_grad|jacfwd|jacrev|hessian|jacobian)"
    r"|equinox\.filter_(jit|vmap|grad|value_and_grad|jacfwd|jacrev)"
    r"|flax\.nnx\.(jit|vmap|grad|value_and_grad)"
)

# Functions that give back what they are given, as far as arrays are concerned.
SAME_AS_ARGUMENT = re.compile(
    r"jax\.lax\.(stop_gradient|optimization_barrier)|jax\.block_until_ready|abs|round"
    r"|copy\.(copy|deepcopy)"
)
COLLECTIONS = {"tuple", "list", "dict", "sorted", "reversed"}

# An attribute of anything that has an array's interface.
ATTRIBUTES_OF_NO_ARRAY = {
    *("shape", "ndim", "dtype", "itemsize", "nbytes", "sharding", "weak_type", "aval"),
    *("__class__", "__name__", "__doc__", "__dict__", "__module__"),
}
ATTRIBUTES_OF_ARRAYS = {"T", "mT", "real", "imag", "at", "value", "raw_value"}
METHODS_WITHOUT_ARRAY = {"item", "tolist", "devices", "is_deleted", "tobytes"}
METHODS_OF_ARRAYS = {
    *("all", "any", "argmax", "argmin", "argsort", "astype", "choose", "clip"),
    *("compress", "conj", "conjugate", "copy", "cumprod", "cumsum", "diagonal", "dot"),
    *("flatten", "max", "mean", "min", "prod", "ravel", "repeat", "reshape", "round"),
    *("sort", "squeeze", "std", "sum", "swapaxes", "take", "trace", "transpose"),
    *("set", "add", "subtract", "multiply", "mul", "divide", "div", "power", "apply"),
    *("var", "view", "get", "block_until_ready", "get_value"),
}
UPDATES = {
    *("set", "add", "subtract", "multiply", "mul", "divide", "div", "power", "min"),
    *("max", "apply"),
}

_ALIASES = [
    (re.compile(r"flax\.experimental\.nnx\b"), "flax.nnx"),
    (re.compile(r"jax\._src\.numpy\.\w+(?=\.)"), "jax.numpy"),
    (re.compile(r"jax\._src\.(random|nn|lax)\b(\.\w+(?=\.\w))?"), r"jax.\1"),
]


def public_name(name: str) -> str:
    """The name a user would import it under.

    >>> public_name("jax._src.numpy.reductions.sum")
    'jax.numpy.sum'
    """
    for pattern, public in _ALIASES:
        name = pattern.sub(public, name, count=1)
    return name


def kind_of_call(name: str) -> Kind:
    """What a call of the function with this full name gives.

    >>> kind_of_call("jax.numpy.sum").value, kind_of_call("jax.numpy.finfo").value
    ('a JAX array', 'not a JAX array')
    """
    name = public_name(name)
    for pattern, kind in _COMPILED:
        if pattern.fullmatch(name):
            return kind
    return Kind.UNKNOWN


def kind_of_brackets(name: str) -> Kind:
    """What brackets after this full name give.

    >>> kind_of_brackets("jax.numpy.c_").value, kind_of_brackets("jax.numpy.s_").value
    ('a JAX array', 'unknown')
    """
    return _OF_BRACKETS.get(public_name(name), Kind.UNKNOWN)


def makes_array_functions(name: str) -> bool:
    """What it makes returns arrays only: `jax.vmap(f)`, `jax.grad(f)`."""
    return _MADE_BY.fullmatch(public_name(name)) is not None


_COMPILED = [(re.compile(pattern), kind) for pattern, kind in _CALLS]
