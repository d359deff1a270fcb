"""A robot arm: against rotations in SciPy, difference quotients, plane geometry."""

import re

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from played import Played, played

Folders = pytest.TempPathFactory
LOOK_INSIDE = """
def ends(angles):
    return replace(home, angles=angles).frames[1:, :3, 3]
angles, derivative = path.angles, jax.vmap(jax.jacobian(ends))(path.angles)
by_hand_torques, functools_torques, our_torques = [call() for call in calls]
"""
"""What the script has in objects, and what JAX differentiates in its process."""


@pytest.fixture(scope="module")
def result(tmp_path_factory: Folders) -> Played:
    return played("rigid_body", tmp_path_factory.mktemp("result"), LOOK_INSIDE, N=60)


def chain(links: np.ndarray, angles: np.ndarray) -> tuple[np.ndarray, list[Rotation]]:
    """Walks along the arm: where it comes by at each joint and at the tip, and how the
    frame there is turned."""
    place, turned = np.zeros((len(angles), 3)), Rotation.identity(len(angles))
    places, turns = [], []
    for number, (length, offset, cosine, sine) in enumerate(links.T):
        turned = turned * Rotation.from_euler("x", np.arctan2(sine, cosine))
        place = place + turned.apply([length, 0, 0])
        if number < 7:
            turned = turned * Rotation.from_euler("z", angles[:, number, None])
        place = place + turned.apply([0, 0, offset])
        places.append(place)
        turns.append(turned)
    return np.stack(places, axis=1), turns


def quotients(links: np.ndarray, angles: np.ndarray, h: float = 1e-6) -> np.ndarray:
    """How the end of each link moves with each angle: (pose, link, joint, 3)."""
    columns = []
    for step in h * np.eye(7):
        further, back = (chain(links, angles + s)[0][:, 1:] for s in (step, -step))
        columns.append((further - back) / (2 * h))
    return np.stack(columns, axis=2)


def test_the_frames_are_those_of_rotations(result: Played) -> None:
    """Eight products of matrices: round-off of some 1e-15."""
    places, turns = chain(result.arrays["links"], result.arrays["angles"])
    np.testing.assert_allclose(result.arrays["frames"][..., :3, 3], places, atol=1e-13)
    matrices = np.stack([turned.as_matrix() for turned in turns], axis=1)
    np.testing.assert_allclose(
        result.arrays["frames"][..., :3, :3], matrices, atol=1e-13
    )


def test_the_tip_is_on_the_curve_and_the_tool_down(result: Played) -> None:
    """Newton's steps end at round-off of some 1e-15."""
    places, turns = chain(result.arrays["links"], result.arrays["angles"])
    np.testing.assert_allclose(places[:, -1], result.arrays["curve"], atol=1e-13)
    down = np.broadcast_to([0, 0, -1], (60, 3))
    np.testing.assert_allclose(turns[-1].apply([0, 0, 1]), down, atol=1e-13)


def test_the_jacobians_are_difference_quotients(result: Played) -> None:
    """Central ones with h = 1e-6: 1e-16 / h of round-off, h² of curvature."""
    expected = quotients(result.arrays["links"], result.arrays["angles"])
    np.testing.assert_allclose(result.arrays["jacobians"], expected, atol=2e-9)


def test_the_jacobians_are_those_of_jax(result: Played) -> None:
    expected = np.swapaxes(result.arrays["derivative"], -1, -2)
    np.testing.assert_allclose(result.arrays["jacobians"], expected, atol=1e-13)


def test_the_energy_is_that_of_the_heights(result: Played) -> None:
    heights = chain(result.arrays["links"], result.arrays["angles"])[0][:, 1:, 2]
    expected = 9.81 * np.sum(heights * [1, 4, 1, 3, 2, 1, 2], axis=1)
    np.testing.assert_allclose(result.arrays["joules"], expected, rtol=1e-13)


def test_the_torques_are_the_slope_of_the_energy(result: Played) -> None:
    """A quotient of energies of up to 100 J has 100 J * 1e-16 / h of round-off."""
    upward = quotients(result.arrays["links"], result.arrays["angles"])[..., 2]
    expected = 9.81 * np.einsum("k,nki->ni", [1, 4, 1, 3, 2, 1, 2], upward)
    np.testing.assert_allclose(result.arrays["holding"], expected, atol=1e-7)
    np.testing.assert_allclose(
        result.arrays["slope"], result.arrays["holding"], atol=1e-12
    )


def test_the_torques_at_home_are_masses_times_levers(result: Played) -> None:
    """There the arm is in a plane: elbow and wrist bend it, the rest is sines and
    cosines. Positive angles of joint 2 lower it, those of 4 and 6 lift it."""
    shoulder = np.array([0, 0.33])

    def along(tilt: float) -> np.ndarray:
        return np.array([np.sin(tilt), np.cos(tilt)])

    upper, fore, hand = -0.4, -0.4 + 2.2, -0.4 + 2.2 - 1.8
    out = np.pi / 2
    elbow = shoulder + 0.32 * along(upper)
    bent = elbow + 0.08 * along(upper + out)
    wrist = bent - 0.08 * along(fore + out) + 0.38 * along(fore)
    flange = wrist + 0.09 * along(hand + out)
    tip = flange - 0.2 * along(hand)
    x = np.array([shoulder, elbow, bent, wrist, wrist, flange, tip])[:, 0]
    mass = np.array([1, 4, 1, 3, 2, 1, 2])
    lever_2, lever_4, lever_6 = x - shoulder[0], x[2:] - bent[0], x[4:] - wrist[0]
    expected = 9.81 * np.array(
        [-mass @ lever_2, mass[2:] @ lever_4, mass[4:] @ lever_6]
    )
    found = re.search(r"torques at home: \[(.*)\]", result.printed)
    assert found is not None
    printed = np.array(found[1].split(), float)
    np.testing.assert_allclose(printed[[1, 3, 5]], expected, atol=0.051)
    np.testing.assert_array_equal(printed[[0, 2, 4, 6]], 0)


def test_the_mass_matrix_is_that_of_the_kinetic_energy(result: Played) -> None:
    """Masses that move with the speed of a difference quotient, and seven motors."""
    matrices = result.arrays["matrices"]
    speed = np.random.default_rng(0).normal(size=7)
    velocity = np.einsum(
        "nkia,i->nka", quotients(result.arrays["links"], result.arrays["angles"]), speed
    )
    moving = np.sum(velocity**2, axis=-1) @ [1, 4, 1, 3, 2, 1, 2]
    expected = (moving + 0.1 * speed @ speed) / 2
    found = np.einsum("i,nij,j->n", speed, matrices, speed) / 2
    np.testing.assert_allclose(found, expected, rtol=1e-7)


def test_the_mass_matrix_is_symmetric_and_positive(result: Played) -> None:
    """A motor alone has 0.1 kg m², and masses only add to that."""
    matrices = result.arrays["matrices"]
    np.testing.assert_allclose(matrices, np.swapaxes(matrices, 1, 2), atol=1e-15)
    assert np.linalg.eigvalsh(matrices).min() >= 0.1 - 1e-14


@pytest.mark.parametrize("name", ["frames", "jacobians"])
def test_what_is_derived_is_computed_once_for_the_path(
    result: Played, name: str
) -> None:
    found = re.search(rf"Arm.{name} of each +(\d+) ", result.printed)
    assert found is not None
    assert found[1] == "1"


def test_other_masses_keep_the_jacobians(result: Played) -> None:
    assert "Arm.jacobians: found for the same arrays, passed in" in result.printed


def test_all_three_versions_agree(result: Played) -> None:
    by_hand, functools, ours = (
        result.arrays[f"{name}_torques"] for name in ("by_hand", "functools", "our")
    )
    np.testing.assert_allclose(ours, by_hand, atol=1e-13)
    np.testing.assert_allclose(ours, functools, atol=1e-13)
