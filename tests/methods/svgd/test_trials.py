"""Trials: weights of known models, what is held out, what members get, and what a run does with it."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import steinflow as sf
from steinflow.methods.svgd import trials
from steinflow.methods.svgd.trials import Peak, Trial, fitted_rows, held_out_rows, weights_of

RNG = np.random.default_rng(0)
NUM_ROWS = 40


def log_prior(params):
    return -0.5 * jnp.sum(params**2)


def log_likelihood(params, rows):
    return -0.5 * (rows["y"] - rows["x"] @ params) ** 2


def posterior(y=None, num_rows=NUM_ROWS, **options):
    x = RNG.normal(size=(num_rows, 3)).astype(np.float32)
    y = x.sum(axis=1) if y is None else y
    data = {"x": x, "y": np.asarray(y, np.float32)}
    return sf.Posterior(log_prior, log_likelihood, data, prior=lambda key: jax.random.normal(key, (3,)), **options)


@pytest.fixture(scope="module")
def target():
    return sf.flatten(posterior(), jnp.ones((4, 3)))[0]


def test_counted_scores_are_those_of_rows_and_priors_that_count_so_often(target):
    points, counts = jnp.asarray(RNG.normal(size=(3, 3)), jnp.float32), jnp.asarray([1.0, 3.0, 0.5])
    priors = jnp.asarray([1.0, 2.0, 16.0])
    rows, weights = target.data.values, jnp.asarray(RNG.integers(0, 3, NUM_ROWS), jnp.float32)
    found = jax.jit(lambda: target.counted_scores(points, counts, priors, rows, weights))()
    for score, point, count, prior in zip(found, points, counts, priors, strict=True):
        residuals = np.asarray(rows["y"] - rows["x"] @ point)
        expected = -prior * point + count * (np.asarray(weights) * residuals) @ np.asarray(rows["x"])
        np.testing.assert_allclose(score, expected, rtol=2e-4, atol=1e-4)


def test_a_fifth_of_the_rows_is_held_out_and_comes_back(target):
    rows, weights = fitted_rows(target, jnp.asarray(0), all_rows=True, held_out=jnp.asarray(True))
    apart = np.asarray(weights) == 0
    assert apart.sum() == NUM_ROWS // 5
    np.testing.assert_array_equal(held_out_rows(target)["y"], np.asarray(rows["y"])[apart])
    _, weights = fitted_rows(target, jnp.asarray(0), all_rows=True, held_out=jnp.asarray(False))
    np.testing.assert_array_equal(weights, 1.0)


def test_minibatches_leave_out_the_same_rows():
    target, _ = sf.flatten(posterior(np.arange(NUM_ROWS), batch_size=10), jnp.ones((4, 3)))
    seen = [fitted_rows(target, jnp.asarray(t), all_rows=False, held_out=jnp.asarray(True)) for t in range(4)]
    numbers = np.concatenate([np.asarray(rows["y"])[np.asarray(weights) > 0] for rows, weights in seen])
    assert sorted(numbers) == [row for row in range(NUM_ROWS) if row % 5 != 4]  # an epoch, each once


def test_many_rows_hold_out_no_more_than_a_thousand(monkeypatch, target):
    monkeypatch.setattr(trials, "_MOST_HELD_OUT", 4)
    assert len(held_out_rows(target)["y"]) == 4


def test_weights_of_models():
    """Equal models share; a hundred rows that are sure decide; ten that differ among themselves decide little."""
    key, rows = jax.random.key(0), RNG.normal(size=100)
    np.testing.assert_allclose(weights_of(jnp.stack([rows, rows]), key=key), 0.5, rtol=1e-5)
    assert weights_of(jnp.stack([rows, rows + 0.2]), key=key)[1] > 0.99
    noisy = jnp.asarray(3 * RNG.normal(size=10))
    few = weights_of(jnp.stack([jnp.zeros(10), noisy - noisy.mean() + 0.2]), key=key)
    assert 0.3 < few[1] < 0.8
    # By hand, with draws of NumPy and a grid: the mean of the best mixtures over Dirichlet weights.
    pair, grid = RNG.normal(size=(2, 12)), np.linspace(0, 1, 201)
    mixtures = np.log(grid[:, None] * np.exp(pair[0]) + (1 - grid[:, None]) * np.exp(pair[1]))
    expected = np.mean(grid[np.argmax(mixtures @ RNG.dirichlet(np.ones(12), 5_000).T, axis=0)])
    np.testing.assert_allclose(weights_of(jnp.asarray(pair), key=key)[0], expected, atol=0.06)


def test_members_share_kinds_by_their_weights(target, monkeypatch):
    monkeypatch.setattr(trials, "weights_of", lambda log_likelihoods, key: jnp.asarray([0.2, 0.1, 0.3, 0.4]))
    trial = Trial.start(target, jnp.zeros((10, 3))).decided(key=jax.random.key(0))
    assert trial.members() == {"stay": 2, "rows once": 1, "rows three times": 3, "narrow prior": 4}
    # In turn they were 1, 2, 3, 1, ...: one keeps the 1, three their 2, and all their 3.
    np.testing.assert_array_equal(trial.kinds, [1, 2, 3, 0, 2, 3, 0, 2, 3, 3])
    np.testing.assert_array_equal(trial.stay, trial.kinds == 0)
    np.testing.assert_array_equal(trial.row_counts, [1, 3, 1, 1, 3, 1, 1, 3, 1, 1])
    np.testing.assert_array_equal(trial.prior_counts, [1, 1, 16, 1, 1, 16, 1, 1, 16, 16])


@pytest.mark.parametrize("seed", range(5))
def test_kinds_are_shared_out_with_few_changes(seed):
    rng = np.random.default_rng(seed)
    kinds, wanted = rng.integers(0, 4, 12), np.bincount(rng.integers(0, 4, 12), minlength=4)
    found = np.asarray(jax.jit(trials._shared_out)(jnp.asarray(wanted), jnp.asarray(kinds)))
    np.testing.assert_array_equal(np.bincount(found, minlength=4), wanted)
    assert np.sum(found == kinds) == np.sum(np.minimum(wanted, np.bincount(kinds, minlength=4)))


def test_a_kind_far_behind_the_best_gets_no_member(target):
    """It predicts two rows of eight far better, and the others far worse; without these it would get some."""
    even = jnp.full(8, -1.0)
    uneven = even.at[:2].set(3.0).at[2:].set(-2.5)
    trial = Trial.start(target, jnp.zeros((10, 3)))
    trial = dataclasses.replace(trial, num_judged=jnp.ones(4), likelihoods=jnp.stack([even, uneven, even, even]))
    assert trial.decided(key=jax.random.key(0)).members()["rows once"] > 0
    worse = jnp.stack([even, uneven - 1.0, even, even])
    decided = dataclasses.replace(trial, likelihoods=worse).decided(key=jax.random.key(0))
    assert decided.members()["rows once"] == 0


def test_members_try_all_kinds_in_turn(target):
    assert Trial.start(target, jnp.zeros((5, 3))).kinds.tolist() == [1, 2, 3, 1, 2]


@pytest.mark.slow
def test_what_is_judged_is_the_mean_likelihood(target):
    points = [jnp.asarray(RNG.normal(size=(4, 3)), jnp.float32) for _ in range(2)]
    trial = Trial.start(target, points[0]).judged(target, points[0], moved=jnp.asarray(False))
    for networks in points:
        trial = trial.judged(target, networks, moved=jnp.asarray(True))
    rows = held_out_rows(target)
    one, other = points
    kinds = one, jnp.concatenate([one[::3], other[::3]]), jnp.stack([one[1], other[1]]), jnp.stack([one[2], other[2]])
    for number, networks in enumerate(kinds):
        expected = np.mean([np.exp(log_likelihood(point, rows)) for point in networks], axis=0)
        np.testing.assert_allclose(np.exp(trial.likelihoods[number]) / trial.num_judged[number], expected, rtol=1e-4)


@pytest.mark.slow
def test_of_networks_that_are_not_numbers_nobody_gets_one(target):
    networks = jnp.zeros((4, 3)).at[1].set(jnp.nan)
    trial = Trial.start(target, networks).judged(target, networks, moved=jnp.asarray(True))
    assert trial.decided(key=jax.random.key(0)).members()["rows three times"] == 0


def test_the_peak_of_a_climb(target):
    """The best of three looks, of every member by itself."""
    rows = held_out_rows(target)
    looks = [jnp.asarray(RNG.normal(size=(4, 3)), jnp.float32) for _ in range(3)]
    looks[1] = looks[1].at[0].set(jnp.nan)
    peak = Peak.start(looks[0])
    for number, networks in enumerate(looks):
        peak = peak.after(target, networks, jnp.asarray(10 * number))
    values = np.nan_to_num([[np.mean(log_likelihood(x, rows)) for x in networks] for networks in looks], nan=-np.inf)
    best = np.argmax(values, axis=0)
    np.testing.assert_array_equal(peak.steps, 10 * best)
    np.testing.assert_allclose(peak.likelihoods, np.max(values, axis=0), rtol=1e-5)
    np.testing.assert_array_equal(peak.networks, np.stack(looks)[best, np.arange(4)])


def test_no_trial_without_rows_in_memory():
    density, start = sf.flatten(lambda x: -0.5 * jnp.sum(x**2), jnp.ones((4, 3)))
    assert Trial.start(density, start) is None


@pytest.mark.slow
def test_members_stay_cold_where_the_likelihood_is_too_wide():
    """Numbers without noise, which the likelihood takes for noise of sd 1: rows should count more often."""
    result = sf.fit(posterior(), sf.Ensemble(), num_particles=10, num_steps=600, key=0, progress=False)
    found = result.info["members"]
    assert sum(found.values()) == 10
    assert found["rows once"] + found["narrow prior"] < 5


def test_who_stays_does_not_move(monkeypatch):
    monkeypatch.setattr(trials, "weights_of", lambda log_likelihoods, key: jnp.asarray([0.3, 0.3, 0.4, 0.0]))
    target = posterior(num_rows=NUM_ROWS + 10)  # compiled by itself, with these weights
    result = sf.fit(target, sf.Ensemble(), num_particles=10, num_steps=600, key=0, progress=False)
    states, stayed = np.asarray(result.particles).reshape(10, -1, 3), np.asarray(result.state.trial.stay)
    assert stayed.sum() == 3
    assert np.all(states[stayed].std(axis=1) < 1e-5)
    assert np.all(states[~stayed].std(axis=1) > 0.01)


@pytest.mark.slow
def test_where_members_arrive_in_the_end_all_rows_count(monkeypatch):
    """The rows held out want the same weights, and more of the first: the mode of all rows is known in closed form."""
    monkeypatch.setattr(trials, "weights_of", lambda log_likelihoods, key: jnp.asarray([1.0, 0.0, 0.0, 0.0]))
    num_rows = NUM_ROWS + 5  # compiled by itself, with these weights
    x = RNG.normal(size=(num_rows, 3))
    apart = np.arange(num_rows) % 5 == 4
    y = x.sum(axis=1) + 2 * np.where(apart, x[:, 0], 0)
    target = sf.Posterior(log_prior, log_likelihood, jax.tree.map(np.float32, {"x": x, "y": y}))
    start = jnp.asarray(RNG.normal(size=(10, 3)), jnp.float32)
    result = sf.fit(target, sf.Ensemble(), particles=start, num_steps=4000, progress=False)
    mode, without = (np.linalg.solve(a.T @ a + np.eye(3), a.T @ b) for a, b in ((x, y), (x[~apart], y[~apart])))
    assert np.max(np.abs(mode - without)) > 0.3
    assert result.info["members"]["stay"] == 10
    late = np.asarray(result.state.trial.peak.steps) == 600  # those who were still getting better at the end
    np.testing.assert_allclose(result.state.arrived[late], np.broadcast_to(mode, (10, 3))[late], atol=0.1)
    np.testing.assert_array_equal(result.particles.reshape(10, -1, 3)[:, -1], result.state.arrived)


def test_who_stays_arrives_in_as_many_steps_as_were_best(monkeypatch):
    """Rows held out contradict the others: members stop early, and the second climb stops there too."""
    monkeypatch.setattr(trials, "weights_of", lambda log_likelihoods, key: jnp.asarray([1.0, 0.0, 0.0, 0.0]))
    num_rows = NUM_ROWS + 10
    x = RNG.normal(size=(num_rows, 3))
    y = 3 * x.sum(axis=1) * np.where(np.arange(num_rows) % 5 == 4, -1, 1)
    target = sf.Posterior(log_prior, log_likelihood, jax.tree.map(np.float32, {"x": x, "y": y}))
    start = jnp.asarray(RNG.normal(size=(10, 3)), jnp.float32) - 2.0
    result = sf.fit(target, sf.Ensemble(), particles=start, num_steps=600, progress=False)
    peak = result.state.trial.peak
    assert np.all(peak.steps < 90)
    np.testing.assert_array_less(np.asarray(result.state.arrived), 2.5)  # the mode is at 3
    np.testing.assert_allclose(result.state.arrived, peak.networks, atol=0.1)  # of a few rows less
