"""The Gaussian process of the examples, beside SciPy's arithmetic.

The covariance here is the general Matérn formula with a Bessel function, and the
likelihood is that of `scipy.stats`. The condition number is 440 at this size, and
solutions agree to about 1e-13; a tolerance of 1e-9 leaves room for a different BLAS.
"""

import re

import numpy as np
import pytest
from scipy.linalg import cho_factor, cho_solve
from scipy.spatial.distance import cdist
from scipy.special import gamma, kv
from scipy.stats import multivariate_normal

from played import Played, played

NU = 1.5
CLOSE = {"rtol": 1e-9, "atol": 1e-9}


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Played:
    folder = tmp_path_factory.mktemp("gaussian_process")
    result = played("gaussian_process", folder, N=96)
    assert (folder / "gaussian_process.png").read_bytes().startswith(b"\x89PNG")
    return result


def matern(a: np.ndarray, b: np.ndarray, theta: np.ndarray) -> np.ndarray:
    length, amplitude, _ = theta
    r = np.sqrt(2 * NU) * cdist(a[:, None], b[:, None]) / length
    r = np.maximum(r, 1e-9)  # kv(0) is infinite, and the product has a limit
    return amplitude**2 * 2 ** (1 - NU) / gamma(NU) * r**NU * kv(NU, r)


def covariance(x: np.ndarray, theta: np.ndarray) -> np.ndarray:
    return matern(x, x, theta) + theta[2] ** 2 * np.eye(len(x))


def log_likelihood(example: Played, theta: np.ndarray, y: np.ndarray) -> float:
    cov = covariance(example.arrays["x"], theta)
    return multivariate_normal(cov=cov).logpdf(y)


def hessian(function, at: np.ndarray, step: float) -> np.ndarray:
    """Second derivatives by central differences."""

    def at_corner(i, j, a, b):
        return function(at + step * (a * np.eye(len(at))[i] + b * np.eye(len(at))[j]))

    def entry(i, j):
        same = at_corner(i, j, 1, 1) + at_corner(i, j, -1, -1)
        other = at_corner(i, j, 1, -1) + at_corner(i, j, -1, 1)
        return (same - other) / (4 * step**2)

    return np.array([[entry(i, j) for j in range(3)] for i in range(3)])


def row(example: Played, name: str) -> list[str]:
    """The columns of a line of the report."""
    [line] = re.findall(rf"^{re.escape(name)} .*$", example.printed, re.MULTILINE)
    return re.split(r" {2,}", line)


def test_the_fit_has_as_many_readings_as_asked(example):
    assert len(example.arrays["x"]) == len(example.arrays["y"]) == 96
    assert len(example.arrays["lost"]) == 12


def test_predictions_are_those_of_scipy(example):
    """Mean and 95% band of the fitted process, at every hour."""
    x, y, hours, theta = (example.arrays[k] for k in ("x", "y", "hours", "theta"))
    factor = cho_factor(covariance(x, theta), lower=True)
    cross = matern(x, hours, theta)
    variance = theta[1] ** 2 - np.sum(cross * cho_solve(factor, cross), axis=0)
    np.testing.assert_allclose(example.arrays["alpha"], cho_solve(factor, y), **CLOSE)
    np.testing.assert_allclose(
        example.arrays["mean"], cross.T @ cho_solve(factor, y), **CLOSE
    )
    np.testing.assert_allclose(example.arrays["band"], 1.96 * variance**0.5, **CLOSE)


def test_the_likelihood_is_that_of_scipy(example):
    expected = log_likelihood(example, example.arrays["theta"], example.arrays["y"])
    np.testing.assert_allclose(example.arrays["value"], expected, rtol=1e-10)
    assert f"log likelihood {example.arrays['value']}" in example.printed


def test_the_fit_is_at_a_maximum_of_scipys_likelihood(example):
    """The slopes by central differences are zero, the curvature is positive."""
    theta, y = example.arrays["theta"], example.arrays["y"]
    for log_step in 1e-3 * np.eye(3):
        up, down = (
            log_likelihood(example, theta * np.exp(sign * log_step), y)
            for sign in (1, -1)
        )
        # BFGS stops when the gradient is below 1e-5; the differences are good to 2e-5.
        assert abs(up - down) / 2e-3 < 1e-4
    assert np.all(np.linalg.eigvalsh(example.arrays["curvature"]) > 1)
    for other in (example.arrays["truth"], np.array([0.5, 0.5, 0.5])):
        assert log_likelihood(example, other, y) < example.arrays["value"]


def test_second_derivatives_are_those_of_finite_differences(example):
    """Of the gradient that the fit was led by. The differences are good to 2e-6."""
    theta, y = example.arrays["theta"], example.arrays["y"]
    expected = -hessian(
        lambda log_theta: log_likelihood(example, np.exp(log_theta), y),
        np.log(theta),
        step=2e-3,
    )
    np.testing.assert_allclose(
        example.arrays["curvature"], expected, atol=1e-5 * np.abs(expected).max()
    )
    error = theta * np.diag(np.linalg.inv(expected)) ** 0.5
    np.testing.assert_allclose(example.arrays["error"], error, rtol=1e-3)


def test_the_gradient_of_the_warm_process_is_minus_alpha(example):
    """The likelihood is quadratic in y, so a central difference is exact."""
    y, theta, alpha = (example.arrays[k] for k in ("y", "theta", "alpha"))
    for i in (0, 17, 95):
        up, down = (
            log_likelihood(example, theta, y + step * np.eye(len(y))[i])
            for step in (0.5, -0.5)
        )
        np.testing.assert_allclose(up - down, -alpha[i], rtol=1e-8, atol=1e-10)
    [largest] = re.findall(r"\|dL/dy \+ alpha\| (\S+)", example.printed)
    assert float(largest) < 1e-11


def test_the_lost_readings_are_where_the_process_expects_them(example):
    """Not one is three standard deviations away, with the noise of a reading."""
    times, drawn, lost, hours, mean, band, theta = (
        example.arrays[k]
        for k in ("times", "drawn", "lost", "hours", "mean", "band", "theta")
    )
    at = times[lost]
    spread = np.hypot(np.interp(at, hours, band) / 1.96, theta[2])
    assert np.all(np.abs(drawn[lost] - np.interp(at, hours, mean)) < 3 * spread)


def test_factor_and_alpha_are_computed_once_for_all_predictions(example):
    # In the first of the sixty calls that use it, alpha is computed.
    for name, times in (("Process.factor", "60"), ("Process.alpha", "59")):
        _, computed, _, _, reused, inline, _ = row(example, name)
        assert (computed, reused, inline) == ("1", times, "-")
    for name in ("Process.mean", "Process.deviation"):
        _, calls, _, compiled, _ = row(example, name)
        assert (calls, compiled) == ("60", "1")


def test_corrected_readings_keep_the_factor(example):
    assert "Process.factor: found for the same arrays" in example.printed
    assert "Process.alpha: computed now, passed in" in example.printed


def test_the_three_versions_agree(example):
    """By hand, functools and cachax, on the mean of a day."""
    answers, mean = example.arrays["answers"], example.arrays["mean"]
    assert answers.shape == (3, 24)
    for answer in answers:
        np.testing.assert_allclose(answer, mean[:24], rtol=1e-11, atol=1e-11)
    assert re.findall(r"the mean of a day, ([a-z ]+?) +[\d,]+ µs", example.printed) == [
        "by hand",
        "functools",
        "cachax",
    ]
