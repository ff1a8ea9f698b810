"""Support points: those of least energy distance."""

import numpy as np
from scipy.spatial.distance import cdist, pdist

from steinflow.methods.svgd.support import support_points, support_points_of_all

RNG = np.random.default_rng(0)
STATES = RNG.standard_normal((2000, 3)).astype(np.float32)


def energy_distance(points, states):
    """Up to what does not depend on the points."""
    return 2 * cdist(points, states).mean() - 2 * pdist(points).sum() / len(points) ** 2


def test_support_points_have_less_energy_distance_than_any_draws():
    found = np.asarray(support_points(STATES[:50], STATES))
    draws = [STATES[RNG.choice(2000, 50)] for _ in range(100)]
    assert energy_distance(found, STATES) < min(energy_distance(each, STATES) for each in draws) - 1e-3


def test_support_points_are_those_of_many_steps_of_mak_and_joseph():
    def step(x):
        pull, push = 1 / np.maximum(cdist(x, STATES), 1e-6), 1 / (cdist(x, x) + np.diag(np.full(len(x), np.inf)))
        away = len(STATES) / len(x) * (push.sum(axis=1, keepdims=True) * x - push @ x)
        return (away + pull @ STATES) / pull.sum(axis=1, keepdims=True)

    start = x = STATES[:50]
    for _ in range(100):
        x = step(x)
    found, gain = support_points(start, STATES), energy_distance(start, STATES) - energy_distance(x, STATES)
    assert energy_distance(found, STATES) < energy_distance(x, STATES) + 0.03 * gain


def test_one_support_point_is_the_geometric_median():
    """The point of least total distance."""
    found = np.asarray(support_points(STATES[:1], STATES))[0]
    away = (found - STATES) / np.linalg.norm(found - STATES, axis=1, keepdims=True)
    np.testing.assert_allclose(away.sum(axis=0) / len(STATES), 0.0, atol=1e-3)


def test_points_that_coincide_are_no_trouble():
    found = np.asarray(support_points(np.tile(STATES[:1], (5, 1)), np.tile(STATES[:1], (40, 1))))
    np.testing.assert_allclose(found, np.tile(STATES[:1], (5, 1)), atol=1e-3)


def test_points_of_many_sets_are_nearly_those_of_each_alone():
    """They see a quarter of the states."""
    sets = [STATES[:2000], 3 + 2 * STATES[::-1][:1990]]
    found = support_points_of_all([states[:50] for states in sets], sets)
    for states, points in zip(sets, found, strict=True):
        start, alone = (energy_distance(each, states) for each in (states[:50], support_points(states[:50], states)))
        assert energy_distance(points, states) < alone + 0.1 * (start - alone)


def test_very_many_points_stay_where_they_are():
    points = RNG.standard_normal((1500, 2))
    np.testing.assert_array_equal(support_points(points, STATES[:, :2]), points)
    np.testing.assert_array_equal(support_points_of_all([points], [STATES[:, :2]])[0], points)
