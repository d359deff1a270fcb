"""The cosmology of the examples, beside adaptive quadrature and closed forms.

The table has steps of 0.0024 in redshift, where Simpson's rule is good to 1e-13. The
series for curvature leaves out q^6/13!, which is below 1e-12 for all universes that the
fit allows. So a distance modulus, a number of about 40, is good to 1e-10.
"""

import re

import numpy as np
import pytest
from scipy.integrate import quad

from played import Played, played

LIGHT = 299792.458
STEP = np.array([1e-4, 1e-4, 1e-2])


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Played:
    folder = tmp_path_factory.mktemp("cosmology")
    result = played("cosmology", folder, N=16)
    assert (folder / "cosmology.png").read_bytes().startswith(b"\x89PNG")
    return result


def luminosity_distance(p: np.ndarray, z: float) -> float:
    """By quadrature, and by the textbook's three cases of curvature."""
    matter, vacuum, hubble = map(float, p)
    curvature = 1 - matter - vacuum

    def integrand(x: float) -> float:
        return (matter * (1 + x) ** 3 + curvature * (1 + x) ** 2 + vacuum) ** -0.5

    chi, _ = quad(integrand, 0, z, epsabs=0, epsrel=1e-13)
    root = abs(curvature) ** 0.5
    if curvature > 0:
        chi = np.sinh(root * chi) / root
    elif curvature < 0:
        chi = np.sin(root * chi) / root
    return LIGHT / hubble * (1 + z) * chi


def modulus(p: np.ndarray, z: float) -> float:
    return 5 * np.log10(luminosity_distance(p, z)) + 25


def slopes(p: np.ndarray, z: float) -> np.ndarray:
    """Of the modulus, by central differences of the quadrature."""
    shifts = np.diag(STEP)
    rises = [modulus(p + shift, z) - modulus(p - shift, z) for shift in shifts]
    return np.array(rises) / (2 * STEP)


@pytest.fixture(scope="module")
def weighted(example: Played) -> tuple[np.ndarray, np.ndarray]:
    """Residuals of the fit in units of their errors, and how they change with p."""
    p, z, sigma, observed = (example.arrays[k] for k in ("p", "z", "sigma", "observed"))
    residual = (observed - [modulus(p, each) for each in z]) / sigma
    return residual, -np.array([slopes(p, each) for each in z]) / sigma[:, None]


def test_modulus_of_the_fit_is_that_of_quadrature(example):
    expected = modulus(example.arrays["p"], 0.5)
    np.testing.assert_allclose(example.arrays["value"], expected, rtol=0, atol=1e-10)


def test_derivative_by_matter_density_is_a_difference_of_quadratures(example):
    """On the warm object. A difference over 1e-4 is good to 1e-8."""
    expected, _, _ = slopes(example.arrays["p"], 0.5)
    np.testing.assert_allclose(example.arrays["slope"], expected, rtol=0, atol=1e-7)
    assert f"d mu / d Omega_m {example.arrays['slope']}" in example.printed


def test_distances_with_matter_only_are_those_of_einstein_and_de_sitter(example):
    """D_L = 2 c / H0 (1 + z) (1 - 1 / sqrt(1 + z))."""
    z, hubble = example.arrays["grid"], example.arrays["p"][2]
    distance = 2 * LIGHT / hubble * (1 + z) * (1 - (1 + z) ** -0.5)
    expected = 5 * np.log10(distance) + 25
    np.testing.assert_allclose(example.arrays["heavy"], expected, rtol=0, atol=1e-10)


def test_each_universe_has_its_own_distances(example):
    """Open ones and closed ones, at every redshift of the plot."""
    draws, grid, moduli = (example.arrays[k] for k in ("draws", "grid", "moduli"))
    assert draws.shape == (3, 16)
    curvature = 1 - draws[0] - draws[1]
    assert curvature.min() < -0.01 < 0.01 < curvature.max()
    expected = [[modulus(p, z) for p in draws.T] for z in grid]
    np.testing.assert_allclose(moduli, expected, rtol=0, atol=1e-10)


def test_the_fit_is_at_the_least_chi_square(example, weighted):
    """A further step of Gauss-Newton is far below the errors."""
    residual, slope = weighted
    step = np.linalg.lstsq(slope, residual, rcond=None)[0]
    error = np.sqrt(np.diag(example.arrays["covariance"]))
    assert np.all(np.abs(step) < 1e-3 * error)
    assert 800 < np.sum(residual**2) < 1200  # 997 is expected, give or take 45


def test_the_errors_are_those_of_the_fisher_matrix(example, weighted):
    _, slope = weighted
    fisher = slope.T @ slope
    scale = np.sqrt(np.diag(np.linalg.inv(fisher)))
    difference = example.arrays["covariance"] - np.linalg.inv(fisher)
    assert np.abs(difference / np.outer(scale, scale)).max() < 1e-4
    from_truth = example.arrays["p"] - example.arrays["truth"]
    assert from_truth @ fisher @ from_truth < 11.3  # in 99 of 100 such fits


def test_a_different_hubble_constant_keeps_the_table(example):
    kept = "Cosmology.table: already cached, passed in"
    assert example.printed.count(kept) == 1


def test_the_tables_of_all_universes_are_computed_once(example):
    [line] = re.findall(r"^Cosmology.table of each .*$", example.printed, re.MULTILINE)
    _, computed, _, size, reused, inline, _ = re.split(r" {2,}", line)
    assert (computed, reused, inline) == ("1", "59", "-")
    assert size == f"{16 * 1025 * 8 / 1000:.1f} kB"


def test_the_three_versions_agree(example):
    """By hand, functools and cachax, on the distance of the first supernova."""
    answers, draws, z = (example.arrays[k] for k in ("answers", "draws", "z"))
    expected = [luminosity_distance(p, z[0]) for p in draws.T]
    assert answers.shape == (3, 16)
    for answer in answers:
        np.testing.assert_allclose(answer, expected, rtol=1e-10)
    assert re.findall(r"16 distances, ([a-z ]+?) +[\d,]+ µs", example.printed) == [
        "by hand",
        "functools",
        "cachax",
    ]
