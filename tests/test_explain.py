"""What `explain` says about one call."""

from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cachax

from models import Process


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Sized(Process):
    @cachax.cached_property
    def size(self) -> int:
        return len(self.x)

    @cachax.cached_property
    def distinct(self) -> Any:
        return jnp.asarray(np.unique(np.asarray(self.x)))


def sized() -> Sized:
    return Sized(jnp.arange(4.0), jnp.ones(4))


def process() -> Process:
    return Process(jnp.arange(4.0), jnp.ones(4))


def property_of(explanation: Any, name: str) -> Any:
    (found,) = (p for p in explanation.properties if p.name.endswith(f".{name}"))
    return found


def predict(p: Process, q: Any) -> Any:
    return q * jnp.sum(p.weights)


def test_a_carrying_function_cold_and_warm() -> None:
    def predict(p: Process, q: Any) -> Any:
        return q * jnp.sum(p.weights)

    use, one = cachax.jit(predict), sized()
    explanation = cachax.explain(use, one, 2.0)
    assert float(explanation.result) == float(predict(one, 2.0))
    weights = property_of(explanation, "weights")
    assert (weights.argument, weights.status) == ("p", "computed now, passed in")
    assert weights.where.function == "predict"
    assert weights.seconds > 0
    assert weights.bytes == 16
    assert property_of(explanation, "factor").status == "computed now"
    assert property_of(explanation, "size").status == "not used"
    traced = [e.why for e in explanation.programs if e.what.value == "traced"]
    assert traced == ["to determine which values it uses", "first call"]
    for _ in range(3):
        explanation = cachax.explain(use, one, 3.0)
        assert property_of(explanation, "weights").status == "already cached, passed in"
        assert property_of(explanation, "factor").status == "already cached, not used"
        assert explanation.programs == []


def test_a_plain_jitted_function() -> None:
    use = jax.jit(predict)
    for _ in range(2):  # the second time, JAX does not trace it
        explanation = cachax.explain(use, process(), 2.0)
        weights = property_of(explanation, "weights")
        assert weights.status == "computed inside the program"
        assert (
            weights.why == "`jax.jit` of predict drops cached values: use `cachax.jit`"
        )


def test_a_plain_function() -> None:
    one = process()
    assert (
        property_of(cachax.explain(predict, one, 2.0), "weights").status
        == "computed now"
    )
    explanation = cachax.explain(predict, one, 2.0)
    assert property_of(explanation, "weights").status == "already cached"


def test_a_static_result_and_a_body_for_the_host() -> None:
    use = cachax.jit(lambda p: jnp.zeros(p.size) + jnp.sum(p.distinct))
    explanation = cachax.explain(use, sized())
    assert property_of(explanation, "size").why.startswith(
        "static result: a constant of"
    )
    assert property_of(explanation, "distinct").why == "its body needs concrete values"


def test_a_rebuilt_object() -> None:
    one = process()
    one.factor  # noqa: B018
    explanation = cachax.explain(cachax.jit(predict), replace(one, y=2 * one.y), 1.0)
    assert property_of(explanation, "factor").status == "found for the same arrays"
    assert property_of(explanation, "weights").status == "computed now, passed in"


def test_objects_made_inside_and_returned() -> None:
    def grown(p: Process) -> Process:
        return cachax.warm(Process(p.x + 1, p.y), "weights")

    explanation = cachax.explain(cachax.jit(grown), process())
    assert property_of(explanation, "weights").status == "not used"
    assert [e.name for e in explanation.made_inside] == [
        "Process.factor",
        "Process.weights",
    ]
    assert {e.name for e in explanation.returned} == {
        "Process.factor",
        "Process.weights",
    }


def test_where_the_objects_are() -> None:
    def total(ps: Any, *, last: Any) -> Any:
        return sum(p.weights.sum() for p in ps) + last["p"].size

    explanation = cachax.explain(
        cachax.jit(total), [process(), process()], last={"p": sized()}
    )
    assert {p.argument for p in explanation.properties} == {
        "ps[0]",
        "ps[1]",
        "last['p']",
    }
    assert all(
        p.status == "computed now, passed in"
        for p in explanation.properties
        if p.name == "Process.weights" and p.argument != "last['p']"
    )


@pytest.mark.parametrize("jit", [cachax.jit, jax.jit, lambda f: f])
def test_a_method_is_explained_with_its_object(jit: Any) -> None:
    class Predicting(Sized):
        predict = jit(lambda self, q: self.weights @ self.x * q)

    jax.tree_util.register_dataclass(Predicting, ["x", "y"], [])
    one = Predicting(jnp.arange(4.0), jnp.ones(4))
    explanation = cachax.explain(one.predict, 2.0)
    assert property_of(explanation, "weights").argument == "self"
    assert property_of(explanation, "weights").status != "not used"
    assert explanation.result == one.predict(2.0)


def test_the_values_of_a_batch() -> None:
    batch = Process(jnp.ones((3, 4)), jnp.ones((3, 4)))
    total = cachax.jit(cachax.vmap(lambda p: p.weights.sum()))
    for status in ("computed now, passed in", "already cached, passed in"):
        explanation = cachax.explain(total, batch)
        assert property_of(explanation, "weights of each").status == status
        assert property_of(explanation, "weights").status == "not used"
        assert property_of(explanation, "weights").where is None


def test_how_it_reads() -> None:
    def predict(p: Process, q: float) -> Any:  # no other test has compiled it
        return q * jnp.sum(p.weights)

    predict.__qualname__ = "predict"
    text = str(cachax.explain(cachax.jit(predict), process(), 2.0))
    first, second, third, *_ = text.splitlines()
    assert (first, second) == ("predict", "  p")
    assert third.startswith("    Process.factor: computed now, ")
    assert "read at models.py:" in text
    assert "predict compiled" in text
    assert "first call" in text
    assert all(len(line) <= 100 for line in text.splitlines())
    explanation = cachax.explain(jax.jit(predict), process(), 2.0)
    assert "-> `jax.jit` of predict drops cached values: use `cachax.jit`" in str(
        explanation
    )
    assert "computed inside the program" in explanation._repr_html_()
    assert explanation.to_dict()["properties"][0]["name"] == "Process.factor"


# Functions that were called before


def test_values_under_grad_of_a_function_that_was_called_before() -> None:
    @cachax.jit
    def slope(p: Process) -> Any:
        return jax.grad(lambda p: p.weights.sum())(p).x

    one = process()
    for _ in range(2):
        weights = property_of(cachax.explain(slope, one), "weights")
        assert weights.status == "computed inside the program"
        assert weights.why == "differentiated with respect to its object"


def test_a_static_argument_of_a_function_that_was_called_before() -> None:
    scaled = jax.jit(lambda p, how: p.weights.sum(), static_argnums=1)
    for _ in range(2):
        weights = property_of(cachax.explain(scaled, process(), "sum"), "weights")
        assert weights.status == "computed inside the program"


def test_filter_jit_that_was_called_before() -> None:
    class Scaled(eqx.Module):
        x: jax.Array
        scale: Any

        @cachax.cached_property
        def mean(self) -> Any:
            return self.scale(self.x).mean()

        @cachax.lift(eqx.filter_jit)
        def twice(self) -> Any:
            return 2 * self.mean

    use = eqx.filter_jit(lambda s: s.mean)
    one = Scaled(jnp.ones(3), jnp.sin)
    for _ in range(2):
        mean = property_of(cachax.explain(use, one), "mean")
        assert mean.status == "computed inside the program"
        assert mean.why.endswith(
            "use `cachax.jit` or `cachax.lift(equinox.filter_jit)`"
        )
    mean = property_of(cachax.explain(one.twice), "mean")
    assert (mean.argument, mean.status) == ("self", "computed now, passed in")


def test_explaining_a_function_again_does_not_run_it_again() -> None:
    runs = []

    @cachax.jit
    def noted(p: Process) -> Any:
        jax.debug.callback(lambda: runs.append(1))
        return jax.grad(lambda p: p.weights.sum())(p).x

    one = process()
    for number in (1, 2, 3):
        cachax.explain(noted, one)
        jax.effects_barrier()
        assert len(runs) == number


# Other values


def test_the_values_of_a_cached_method() -> None:
    class Sample(eqx.Module):
        x: jax.Array

        @cachax.cached_method
        def moment(self, n: int) -> Any:
            return jnp.mean(self.x**n)

    use, one = cachax.jit(lambda s: s.moment(2)), Sample(jnp.ones(3))
    for status in ("computed now, passed in", "already cached, passed in"):
        assert property_of(cachax.explain(use, one), "moment(2)").status == status


def test_objects_that_are_not_arguments() -> None:
    one = process()
    explanation = cachax.explain(lambda: one.factor.sum())
    assert "objects that aren't arguments" in str(explanation)
    assert "Process.factor: computed now, read at test_explain.py:" in str(explanation)
    explanation = cachax.explain(lambda: one.factor.sum())
    assert "Process.factor: already cached, read at test_explain.py:" in str(
        explanation
    )


def test_nothing_to_explain() -> None:
    explanation = cachax.explain(lambda x: x, 1.0)
    assert "no argument has cached properties" in str(explanation)


def test_the_result_of_a_call_is_not_a_function() -> None:
    with pytest.raises(cachax.UsageError, match=r"write `cachax.explain\(f, x\)`"):
        cachax.explain(predict(process(), 2.0))
