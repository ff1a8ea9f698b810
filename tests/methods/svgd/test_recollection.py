import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from steinflow.methods.svgd.recollection import beyond_chance, drift_of, lost_chains
from tests.helpers.trajectories import DIM, NUM, frame_around, remembered


def test_moments_are_those_of_all_states(gaussian):
    states, scores, mean, covariance = gaussian
    frame = frame_around(mean, covariance)
    moments = remembered(states, scores, frame).recalled().moments(controlled=False)
    rows = np.asarray(frame.points(states.reshape(-1, DIM)), float)
    np.testing.assert_allclose(moments.mean, rows.mean(axis=0), atol=1e-4)
    np.testing.assert_allclose(moments.sd, rows.std(axis=0), rtol=1e-4)
    # Independent states: the errors are the usual ones.
    np.testing.assert_allclose(moments.mean_error, len(rows) ** -0.5, rtol=0.4)
    np.testing.assert_allclose(moments.sd_error, (2 * len(rows)) ** -0.5, rtol=0.5)


def test_control_variates_are_exact_on_gaussians(gaussian):
    """In the true coordinates nothing is left to chance; in others, less than without them."""
    states, scores, mean, covariance = gaussian
    exact = remembered(states, scores, frame_around(mean + 1, covariance)).recalled().moments()
    shift = np.asarray(frame_around(mean + 1, covariance).points(jnp.asarray(mean, jnp.float32)))
    np.testing.assert_allclose(exact.mean, shift, atol=1e-4)
    np.testing.assert_allclose(exact.sd, 1.0, rtol=1e-4)
    rough = remembered(states, scores, frame_around(mean, np.diag(np.diag(covariance)))).recalled()
    assert np.all(rough.moments().mean_error < rough.moments(controlled=False).mean_error)


def test_a_control_that_is_off_by_more_than_chance_is_not_trusted(gaussian):
    """Scores of a target a tenth narrower in one coordinate, as long steps leave it: the spread stays what it is."""
    states, scores, mean, covariance = gaussian
    frame = frame_around(mean, covariance)
    rng = np.random.default_rng(2)
    pulls = np.asarray(frame.scores(scores)) + np.array([1.5, 0, 0]) * rng.standard_normal(scores.shape)
    points = np.asarray(frame.points(states))
    pulls[..., 0] -= 0.3 * points[..., 0]
    found = remembered(states, jnp.asarray(pulls @ frame.inverse, jnp.float32), frame).recalled()
    plain, controlled = found.moments(controlled=False), found.moments()
    assert found.dispersion()[0][0] - 1 > 3 * found.dispersion()[1][0]
    assert abs(controlled.sd[0] / plain.sd[0] - 1) < 0.01
    np.testing.assert_allclose(controlled.sd[1:], 1.0, rtol=1e-3)  # those that are not off are exact, as ever


def test_what_all_chains_share_is_part_of_the_error(gaussian):
    """Each step has a batch, whose error of curvature all chains see: their scatter does not show it."""
    states, scores, mean, covariance = gaussian
    frame = frame_around(mean, covariance)
    off, blind, told = np.array([0.5, 0.0, 0.0]), [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        pulls = np.asarray(frame.scores(scores)) * (1 + off * rng.standard_normal((len(states), 1, 1)))
        memory = remembered(states, jnp.asarray(pulls @ frame.inverse, jnp.float32), frame)
        blind.append(memory.recalled().moments())
        told.append(memory.recalled(noisy=True).moments())
        _, error = memory.recalled(noisy=True).dispersion()
        assert 0.5 < error[0] / (0.5 / len(states) ** 0.5) < 1.5
    errors, claimed = (
        [np.sqrt(np.mean([number(each) ** 2 for each in found])) for found in (blind, told)]
        for number in (lambda each: each.sd[0] - 1, lambda each: each.sd_error[0])
    )
    assert errors[0] > 1.3 * claimed[0]
    assert 0.5 < errors[1] / claimed[1] < 1.1
    assert errors[1] < errors[0]
    for each in told:  # the other coordinates are as exact as ever, but for the chance in what is shared there
        np.testing.assert_allclose(each.sd[1:], 1.0, rtol=0.01)


def test_correlations_are_exact_on_gaussians(gaussian):
    """In the true coordinates nothing is correlated, whatever 2,000 states say; without scores these are believed."""
    states, scores, mean, covariance = gaussian
    frame = frame_around(mean, covariance)
    np.testing.assert_allclose(remembered(states, scores, frame).recalled().correlations(), np.eye(DIM), atol=1e-4)
    silent = remembered(states, jnp.zeros_like(scores), frame).recalled()
    rows = np.asarray(frame.points(states.reshape(-1, DIM)), float)
    np.testing.assert_allclose(silent.correlations(), np.corrcoef(rows, rowvar=False), atol=1e-4)
    root = np.linalg.cholesky(np.array([[1, 0.1, 0.0], [0.1, 1, 0.2], [0.0, 0.2, 1]]))
    near = frame_around(mean, covariance)
    tilted = (states - mean) @ near.inverse.T @ root.T.astype(np.float32)  # correlated in the coordinates of the walk
    found = remembered(mean + tilted @ near.factor.T, -tilted @ np.linalg.inv(root @ root.T) @ near.inverse, near)
    plain = np.corrcoef(np.asarray(tilted, float).reshape(-1, DIM), rowvar=False)
    error = np.abs(found.recalled().correlations() - root @ root.T).max()
    assert error < 0.5 * np.abs(plain - root @ root.T).max()


def test_half_of_a_gaussian_is_not_taken_for_all_of_it(gaussian):
    """Its states and scores lie on the same line. Where the density ends at an edge, only the states are believed."""
    states, scores, mean, covariance = gaussian
    whole = remembered(states, scores, frame_around(mean, covariance)).recalled()
    half = dataclasses.replace(whole, blocked=0.1)
    for found, believed in zip(half.moments(), whole.moments(controlled=False), strict=True):
        np.testing.assert_array_equal(found, believed)
    rows = np.asarray(whole.frame.points(states.reshape(-1, DIM)), float)
    np.testing.assert_allclose(half.correlations(), np.corrcoef(rows, rowvar=False), atol=1e-4)


def test_mixing_is_r_hat(gaussian):
    states, scores, mean, covariance = gaussian
    frame = frame_around(mean, covariance)
    assert 1.0 <= remembered(states, scores, frame).recalled().mixing() < 1.05
    apart = states.at[:, : NUM // 2].add(100.0)
    assert remembered(apart, scores, frame).recalled().mixing() > 5


def test_the_identities_of_stein_hold_on_the_target_and_nowhere_else(gaussian):
    states, scores, mean, covariance = gaussian
    frame = frame_around(mean, covariance)
    for found, error, right in (
        (*remembered(states, scores, frame).recalled().pull(), 0.0),
        (*remembered(states, scores, frame).recalled().dispersion(), 1.0),
    ):
        assert np.all(np.abs(found - right) < 4 * error)
    moved = remembered(states + 1.0, scores, frame).recalled()  # where the scores are those of another place
    wide = remembered(2 * states, scores, frame).recalled()
    np.testing.assert_allclose(moved.pull()[0], 0.0, atol=0.1)  # these alone do not see it,
    assert moved.findings(moved.moments())["dispersion"] == pytest.approx(1.0, abs=0.05)
    assert wide.findings(wide.moments())["dispersion"] == pytest.approx(2.0, rel=0.1)  # but a wider cloud they do
    pushed = remembered(states, scores + 1.0, frame).recalled()
    assert pushed.findings(pushed.moments())["mean_error"] > 0.5


def test_enough_is_what_ten_thousand_draws_know(gaussian):
    states, scores, mean, covariance = gaussian
    exact = frame_around(mean, covariance)
    assert not remembered(states, scores, exact).recalled().enough  # 40 steps are too few to say
    twice = jnp.concatenate([states, states]), jnp.concatenate([scores, scores])
    assert remembered(*twice, exact).recalled().enough  # control variates make a Gaussian exact
    assert not remembered(twice[0], jnp.zeros_like(twice[1]), exact).recalled().enough  # without them it is 2,000 draws
    apart = twice[0].at[:, : NUM // 2].add(100.0)
    assert not remembered(apart, twice[1], exact).recalled().enough


def test_chains_that_move_together_are_on_their_way():
    """A mean that moves by a sd in the course of the run moves by half of one between the halves."""
    rng, stayed, late = np.random.default_rng(2), np.ones((40, NUM), np.float32), np.arange(40) >= 20
    for _ in range(5):
        still = rng.standard_normal((40, NUM, 200)).astype(np.float32)
        assert drift_of(still, stayed, late) == 0.0
    still[..., 7] += np.linspace(0, 1, 40)[:, None]
    assert drift_of(still, stayed, late) == pytest.approx(0.5, abs=0.1)
    np.testing.assert_allclose(drift_of(still, stayed, late, jnp), drift_of(still, stayed, late), rtol=1e-5)
    assert drift_of(still[:1], stayed[:1], late[-1:]) == 0.0


@pytest.mark.parametrize("num_chains", [10, 20, 100])
def test_chance_goes_as_far_as_students_t(num_chains):
    assert beyond_chance(num_chains) == pytest.approx(scipy.stats.t.isf(5e-6, num_chains - 1), rel=0.02)


def test_chains_without_mass_are_lost():
    """Chains of one target have the same mass, whether they stay in a wide part of it or in a narrow one."""
    rng, dim = np.random.default_rng(1), 20
    widths = np.exp(rng.uniform(-1, 1, 50))
    variances = np.tile(widths[:, None] ** 2, (1, dim)) * rng.uniform(0.8, 1.25, (50, dim))
    log_densities = -dim * np.log(widths) - dim / 2 + rng.standard_normal(50)
    assert not np.any(lost_chains(log_densities, variances))
    log_densities[:5] -= 30.0
    np.testing.assert_array_equal(lost_chains(log_densities, variances), np.arange(50) < 5)
    assert not np.any(lost_chains(np.full(50, np.nan), variances))  # a target that knows its scores alone


def test_lost_chains_do_not_count(gaussian):
    states, scores, mean, covariance = gaussian
    frame = frame_around(mean, covariance)
    right = remembered(states, scores, frame).recalled()
    far = states.at[:, :3].add(20.0)
    low = jnp.where(jnp.arange(NUM) < 3, -50.0, 0.0)
    found = remembered(far, scores, frame, log_densities=low).recalled()
    assert found.lost == 3
    assert found.states.shape == states.shape  # as many, so that every particle represents as many of them
    assert np.all(found.states.mean(axis=(0, 1)) < mean + 1)
    np.testing.assert_allclose(found.points, right.points[3:], rtol=1e-6)
    assert found.findings(found.moments())["lost"] == pytest.approx(3 / NUM)
    assert found.mixing() < 1.05


@pytest.mark.parametrize(
    ("left", "right", "switched"),
    [([-3.0, 3.0, 0.0], [3.0, -3.0, 0.0], True), ([-3.0, 3.0, 0.0], [3.0, 3.0, 0.0], False)],
)
def test_switched_labels_have_a_name(left, right, switched):
    """Half of the chains are at one mode, half at another of the same mass."""
    rng = np.random.default_rng(4)
    centers = np.where(np.arange(NUM)[:, None] < NUM // 2, np.asarray(left), np.asarray(right))
    noise = 0.3 * rng.standard_normal((80, NUM, DIM))
    states = jnp.asarray(centers + noise, jnp.float32)
    log_densities = jnp.asarray(-0.5 * np.sum((noise / 0.3) ** 2, axis=2), jnp.float32)
    recalled = remembered(states, jnp.zeros_like(states), frame_around(np.zeros(DIM), np.eye(DIM))).recalled()
    recalled = dataclasses.replace(recalled, path=recalled.path._replace(log_densities=np.asarray(log_densities)))
    assert recalled.modes is not None
    assert recalled.modes.count == 2
    assert recalled.labels_switch() == switched
    assert recalled.findings(recalled.moments())["labels_switch"] == float(switched)


def test_means_of_modes_that_chains_seldom_leave_are_made_precise_by_control_functionals():
    """Of 50 chains that each stayed in a mode, 0.4 of them in that of weight 1/3; errors are those of the chains."""
    rng = np.random.default_rng(11)
    left = rng.permutation(NUM) < 0.4 * NUM
    states = rng.standard_normal((40, NUM, 1)) + np.where(left, -2.0, 2.0)[:, None]
    scores = -states + 2 * np.tanh(2 * states + 0.5 * np.log(2))
    frame = frame_around(np.zeros(1), np.eye(1))
    # Log densities are not known, and so no modes are told apart.
    states, scores = (jnp.asarray(each, jnp.float32) for each in (states, scores))
    recalled = remembered(states, scores, frame, log_densities=jnp.full(NUM, jnp.nan)).recalled()
    plain, best = recalled.moments(), recalled.best_moments
    assert abs(plain.mean[0] - 2 / 3) > 0.1
    np.testing.assert_allclose(best.mean, 2 / 3, atol=0.02)
    assert best.mean_error[0] < 0.02 < plain.mean_error[0]
