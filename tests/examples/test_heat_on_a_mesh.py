"""Heat on a mesh: against sparse matrices in SciPy, and what is known of the sphere."""

import re
from collections.abc import Callable

import numpy as np
import pytest
import scipy.sparse
from scipy.sparse.linalg import spsolve
from scipy.spatial import ConvexHull

from played import Played, played

Folders = pytest.TempPathFactory
Run = Callable[[np.ndarray, float], np.ndarray]

VALUES = "by_hand_value, functools_value, our_value = [call() for call in calls]"
"""What the three ways of a step give."""


@pytest.fixture(scope="module")
def coarse(tmp_path_factory: Folders) -> Played:
    folder = tmp_path_factory.mktemp("coarse")
    return played("heat_on_a_mesh", folder, VALUES, recorded=True, N=8)


@pytest.fixture(scope="module")
def fine(tmp_path_factory: Folders) -> Played:
    return played("heat_on_a_mesh", tmp_path_factory.mktemp("fine"), N=16)


def triangles(result: Played) -> tuple[np.ndarray, np.ndarray]:
    """The lobed shell: where its vertices are, and its triangles."""
    on_sphere = result.arrays["points"]
    x, y, _ = on_sphere.T
    longitude, from_pole = np.arctan2(y, x), np.hypot(x, y)
    radius = 4 * (1 + 0.4 * from_pole**3 * np.cos(3 * longitude))
    return radius[:, None] * on_sphere, ConvexHull(on_sphere).simplices


def areas(points: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """A third of each triangle for each of its vertices, by Heron's formula."""
    lengths = np.stack([np.linalg.norm(e, axis=1) for e in sides(points, faces)])
    half = lengths.sum(0) / 2
    area = np.sqrt(half * np.prod(half - lengths, axis=0))
    return np.bincount(faces.ravel(), np.repeat(area / 3, 3), len(points))


def sides(points: np.ndarray, faces: np.ndarray) -> list[np.ndarray]:
    ends = [(1, 2), (2, 0), (0, 1)]
    return [points[faces[:, j]] - points[faces[:, i]] for i, j in ends]


def laplacian(points: np.ndarray, faces: np.ndarray) -> scipy.sparse.csc_array:
    """Edge by edge: half the cotangents of the angles that face it."""
    n = len(points)
    total = scipy.sparse.csc_array((n, n))
    for k in range(3):
        i, j = faces[:, (k + 1) % 3], faces[:, (k + 2) % 3]
        to_i, to_j = points[i] - points[faces[:, k]], points[j] - points[faces[:, k]]
        cosine = np.sum(to_i * to_j, 1)
        cosine /= np.linalg.norm(to_i, axis=1) * np.linalg.norm(to_j, axis=1)
        weight = 0.5 / np.tan(np.arccos(cosine))
        ends = np.r_[i, j, i, j], np.r_[j, i, i, j]
        total += scipy.sparse.csc_array(
            (np.r_[-weight, -weight, weight, weight], ends), shape=(n, n)
        )
    return total


@pytest.fixture(scope="module")
def run(coarse: Played) -> Run:
    """The same warm-up, with sparse matrices."""
    mesh = triangles(coarse)
    mass, stiffness = scipy.sparse.diags_array(areas(*mesh)), laplacian(*mesh)

    def temperatures(heater: np.ndarray, diffusivity: float) -> np.ndarray:
        u, all_u = 0 * heater, []
        for number in range(50):
            heat = u + 0.1 * heater if number < 25 else u
            u = spsolve((mass + 0.1 * diffusivity * stiffness).tocsc(), mass @ heat)
            all_u.append(u)
        return np.array(all_u)

    return temperatures


def number(pattern: str, printed: str) -> float:
    found = re.search(pattern, printed)
    assert found is not None, printed
    return float(found[1])


def test_each_step_is_that_of_sparse_matrices(coarse: Played, run: Run) -> None:
    """Round-off: the condition of the system is below 1e3, and there are 50 steps."""
    heater = coarse.arrays["powers"] @ coarse.arrays["spots"]
    np.testing.assert_allclose(coarse.arrays["u"], run(heater, 1.1), rtol=1e-11)


def test_no_other_powers_leave_it_more_even(coarse: Played, run: Run) -> None:
    responses = np.stack([run(spot, 1.1)[-1] for spot in coarse.arrays["spots"]])
    target = np.full(responses.shape[1], 20.0)
    powers = np.linalg.lstsq(responses.T, target)[0]
    np.testing.assert_allclose(coarse.arrays["powers"], powers, rtol=1e-9)


def test_all_the_heat_is_there(fine: Played) -> None:
    """No boundary: it grows as long as the heaters are on, then stays what it is."""
    area = areas(*triangles(fine))
    supplied = 0.1 * np.minimum(np.arange(1, 51), 25)
    heater = fine.arrays["powers"] @ fine.arrays["spots"]
    expected = supplied * (area @ heater)
    np.testing.assert_allclose(fine.arrays["u"] @ area, expected, rtol=1e-12)


def test_the_rate_converges_to_that_of_the_sphere(coarse: Played, fine: Played) -> None:
    """Of second order: half the mesh size, a quarter of the error. So the extrapolation
    to size zero is 6 up to the fourth order, of (1/8)^4 = 2e-4."""
    rough, better = float(coarse.arrays["rate"]), float(fine.arrays["rate"])
    assert (6 - rough) / (6 - better) == pytest.approx(4, abs=0.2)
    assert (4 * better - rough) / 3 == pytest.approx(6, abs=1e-3)


def test_a_harmonic_warms_and_decays_as_on_the_sphere(fine: Played) -> None:
    """With a step of Euler's, a' = (a + τ q) / (1 + 6 τ κ), and the rate is known up to
    0.0123 / 6 = 0.2 %, so that 25 steps of decay are up to 25 * 0.2 % * 0.66 / 1.66."""
    x, y, _ = fine.arrays["points"].T
    amplitude = fine.arrays["mode"] / np.sum((x * y) ** 2)
    factor = 1 / (1 + 6 * 0.1 * 1.1)
    warming = 0.1 * np.cumsum(factor ** np.arange(1, 26))
    np.testing.assert_allclose(amplitude[:25], warming, rtol=5e-3)
    decay = warming[-1] * factor ** np.arange(1, 26)
    np.testing.assert_allclose(amplitude[25:], decay, rtol=0.025)


def test_the_gradient_is_a_difference_quotient(coarse: Played, run: Run) -> None:
    """Printed with six digits; the quotient is of second order in 1e-4."""
    heater = coarse.arrays["powers"] @ coarse.arrays["spots"]
    more, less = (run(heater, 1.1 + h)[-1].std() for h in (1e-4, -1e-4))
    slope = number(r"d std / d κ = (\S+);", coarse.printed)
    assert slope == pytest.approx((more - less) / 2e-4, abs=1e-6)


def test_the_steepest_edge_is_a_side_of_a_triangle(coarse: Played) -> None:
    points, faces = triangles(coarse)
    end = coarse.arrays["u"][-1][:, None]
    lengths = [np.linalg.norm(side, axis=1) for side in sides(points, faces)]
    rises = [abs(rise[:, 0]) for rise in sides(end, faces)]
    steepest = number(r"steepest (\S+) K/cm", coarse.printed)
    assert steepest == pytest.approx(np.max(np.divide(rises, lengths)), abs=5.1e-4)


def test_a_different_heater_keeps_the_factorisation(fine: Played) -> None:
    for name in ("Shell.matrices", "Shell.factor"):
        assert f"{name}: already cached, passed in" in fine.printed


def test_there_are_two_factorisations_for_two_shapes(coarse: Played) -> None:
    """Nine shells: the sphere, and those with lobes, which differ in the heater. The
    edges are read on one of them."""
    counts = coarse.computed
    assert counts["Shell.factor"] == counts["Shell.matrices"] == 2
    assert counts["Shell.edges"] == 1


def test_all_three_versions_agree(coarse: Played) -> None:
    by_hand, functools, ours = (
        coarse.arrays[f"{name}_value"] for name in ("by_hand", "functools", "our")
    )
    np.testing.assert_array_equal(ours, by_hand)
    np.testing.assert_allclose(functools, ours, rtol=1e-11)
