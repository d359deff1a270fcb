"""The laws, as small programs: each is run, and shown if it fails.

In each of them `obj` is a new copy of the user's object, and `{p}` the property.
"""

from dataclasses import dataclass

LAWS = {
    1: "Once",
    2: "Never stale",
    3: "Correct derivatives",
    4: "Correct batches",
    5: "No tracer escapes",
    6: "Invisible",
    7: "Compiled once",
    8: "Nothing retained",
    9: "Honest failure",
}


@dataclass(frozen=True)
class Trial:
    """A program that fails if a law does not hold."""

    law: int
    title: str
    program: str
    baseline: str = ""
    """The same without a cache. If that fails, the law can't be checked."""
    of_trees: bool = True
    """Whether JAX has to know the class."""
    is_cause: bool = False
    """Whether others would fail for the same reason, and are not run."""

    @property
    def name(self) -> str:
        return f"{self.law}. {LAWS[self.law]}, {self.title}"


ITSELF = Trial(
    9,
    "a body that raises",
    """
try:
    obj.{p}
except Exception:
    pass
assert not cachax.is_cached(obj, "{p}"), "a value was kept"
""",
    of_trees=False,
)

GLOBAL = Trial(
    2,
    "a global changes",
    """
scope = inspect.unwrap(type(obj).{p}.func).__globals__
with cachax.verify():
    obj.{p}
    scope["{name}"] = testing.altered(scope["{name}"])
    obj.{p}
""",
    of_trees=False,
)
AFRESH = "    type(obj).{p}.func.clear_cache()\n"
"""After a global has changed: a jitted body has the old one in its program."""

_TAKEN = "jax.jit(lambda o: None)(obj)"
"""Fails if a leaf is not an array: a function in a module of equinox."""

_ONCE = 'assert runs == [1], f"the body ran {{sum(runs)}} times"'

TRIALS = (
    Trial(
        2,
        "read twice",
        """
with cachax.verify():
    obj.{p}
    obj.{p}
""",
        of_trees=False,
        is_cause=True,
    ),
    Trial(
        6,
        "the fields after a read",
        """
before = testing.fields(obj)
obj.{p}
testing.check_same(testing.fields(obj), before)
""",
        of_trees=False,
        is_cause=True,
    ),
    Trial(
        2,
        "rebuilt by JAX",
        """
rebuilt = jax.tree.map(lambda x: x, obj)
testing.check_same(rebuilt.{p}, testing.cold(obj).{p})
""",
        is_cause=True,
    ),
    Trial(
        2,
        "inside jit",
        """
inside = cachax.jit(lambda o: testing.arrays(o.{p}))(obj)
testing.check_same(inside, testing.arrays(testing.cold(obj).{p}))
""",
        _TAKEN,
    ),
    Trial(
        1,
        "read, then jit",
        f"""
with testing.computations(obj, "{{p}}") as runs:
    obj.{{p}}
    cachax.jit(lambda o: testing.arrays(o.{{p}}))(obj)
{_ONCE}
""",
        _TAKEN,
    ),
    Trial(
        1,
        "jit, then read",
        f"""
with testing.computations(obj, "{{p}}") as runs:
    cachax.jit(lambda o: testing.arrays(o.{{p}}))(obj)
    obj.{{p}}
{_ONCE}
""",
        _TAKEN,
    ),
    Trial(
        1,
        "from several threads",
        f"""
with testing.computations(obj, "{{p}}") as runs:
    with ThreadPoolExecutor(4) as pool:
        values = [*pool.map(lambda _: obj.{{p}}, range(8))]
{_ONCE}
for value in values:
    testing.check_same(value, values[0])
""",
        of_trees=False,
    ),
    Trial(
        2,
        "one field replaced",
        """
obj.{p}
for other in testing.variants(obj):
    testing.check_same(other.{p}, testing.cold(other).{p})
""",
        "for other in testing.variants(obj):\n    testing.cold(other).{p}",
        of_trees=False,
    ),
    Trial(
        2,
        "a field assigned",
        """
obj.{p}
for name in testing.assigning(obj):
    testing.check_same(obj.{p}, testing.cold(obj).{p})
""",
        "for name in testing.assigning(obj):\n    testing.cold(obj).{p}",
        of_trees=False,
    ),
    Trial(
        2,
        "a copy",
        """
obj.{p}
testing.check_same(copy.copy(obj).{p}, testing.cold(obj).{p})
""",
        "type(obj).{p}.func(copy.copy(obj))",
        of_trees=False,
    ),
    Trial(
        2,
        "pickled",
        """
value = obj.{p}
testing.check_same(pickle.loads(pickle.dumps(obj)).{p}, value)
""",
        "type(obj).{p}.func(pickle.loads(pickle.dumps(obj)))",
        of_trees=False,
    ),
    Trial(
        3,
        "grad, cold and warm",
        """
body = type(obj).{p}.func
expected = testing.gradient(lambda o: testing.total(body(o)), testing.cold(obj))
fun = lambda o: testing.total(o.{p})
testing.check_same(testing.gradient(fun, obj), expected)
obj.{p}
testing.check_same(testing.gradient(fun, obj), expected)
""",
        """
body = type(obj).{p}.func
testing.gradient(lambda o: testing.total(body(o)), obj)
""",
    ),
    Trial(
        3,
        "grad inside jit",
        """
body = type(obj).{p}.func
expected = testing.gradient(lambda o: testing.total(body(o)), testing.cold(obj))
fun = cachax.jit(lambda o: testing.gradient(lambda o: testing.total(o.{p}), o))
testing.check_same(fun(obj), expected)
""",
        """
body = type(obj).{p}.func
jax.jit(lambda o: testing.gradient(lambda o: testing.total(body(o)), o))(obj)
""",
    ),
    Trial(
        4,
        "vmap",
        """
other = testing.altered(obj)
one_by_one = [testing.arrays(testing.cold(o).{p}) for o in (obj, other)]
batch = jax.tree.map(lambda *x: jnp.stack(x), obj, other)
fun = lambda o: testing.arrays(o.{p})
for vmap in (jax.vmap, cachax.vmap, cachax.vmap):
    expected = jax.tree.map(lambda *x: jnp.stack(x), *one_by_one)
    testing.check_same(vmap(fun)(batch), expected)
""",
        """
body = type(obj).{p}.func
other = testing.altered(obj)
[testing.arrays(body(testing.cold(o))) for o in (obj, other)]
batch = jax.tree.map(lambda *x: jnp.stack(x), obj, other)
jax.vmap(lambda o: testing.arrays(body(o)))(batch)
""",
    ),
    Trial(
        4,
        "carried by a scan",
        """
step = lambda o, _: (o, testing.arrays(o.{p}))
_, seen = jax.lax.scan(step, obj, None, length=2)
for i in range(2):
    expected = testing.arrays(testing.cold(obj).{p})
    testing.check_same([x[i] for x in seen], expected)
""",
        """
body = type(obj).{p}.func
jax.lax.scan(lambda o, _: (o, testing.arrays(body(o))), obj, None, length=2)
""",
    ),
    Trial(
        5,
        "first read in jit",
        """
with jax.checking_leaks():
    jax.jit(lambda o: testing.arrays(o.{p}))(obj)
""",
        "jax.eval_shape(lambda o: testing.arrays(type(obj).{p}.func(o)), obj)",
    ),
    Trial(
        5,
        "first read in a loop",
        """
with jax.checking_leaks():
    jax.lax.scan(lambda c, _: (c, testing.arrays(obj.{p})), 0, None, length=2)
""",
        of_trees=False,
    ),
    Trial(
        6,
        "warm or cold",
        """
before = testing.looks(obj)
obj.{p}
testing.check_same(testing.looks(obj), before)
""",
        of_trees=False,
    ),
    Trial(
        7,
        "for a second object",
        """
traces = []
fun = cachax.jit(lambda o: (traces.append(1), testing.arrays(o.{p}))[1])
fun(obj)
first = len(traces)
fun(obj)
fun(testing.cold(obj))
assert len(traces) == first, "traced again, for an object that is alike"
""",
        """
traces = []
fun = jax.jit(lambda o: traces.append(1))
fun(obj)
fun(testing.cold(obj))
assert len(traces) == 1, "plain jax.jit traces twice, for objects that are alike"
""",
    ),
    Trial(
        8,
        "when the object goes",
        """
ref = weakref.ref(obj)
obj.{p}
cachax.jit(lambda o: testing.arrays(o.{p}))(obj)
del obj
if ref() is not None:
    gc.collect()
assert ref() is None, "something still holds the object"
""",
        f"""
{_TAKEN}
ref = weakref.ref(obj)
type(obj).{{p}}.func(obj)
del obj
if ref() is not None:
    gc.collect()
assert ref() is None, "something holds the object, cached or not"
""",
    ),
)
"""What is most often the cause of all other failures comes first."""
