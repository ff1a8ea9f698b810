"""The verdict on clouds whose faults are known, and on runs."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scenarios import normal_log_density

from steinflow.results.outcome import Outcome
from steinflow.results.verdict import judge

RNG = np.random.default_rng(0)
DRAWS = RNG.standard_normal((500, 4)).astype(np.float32)


def verdict(log_density, points, **arguments):
    points = jnp.asarray(points)
    values, scores = jax.vmap(jax.value_and_grad(log_density))(points)
    return judge(points, scores, values, **arguments)


def student(x, freedom=3.0):
    return -(freedom + len(x)) / 2 * jnp.log1p(x @ x / freedom)


def two_modes(x):
    return jnp.logaddexp(jnp.log(0.2) + normal_log_density(x, -5.0), jnp.log(0.8) + normal_log_density(x, 5.0))


def on_two_modes(share):
    """Right within each mode, as even as particles of SVGD, with this share on the left."""
    left = np.arange(len(DRAWS)) < share * len(DRAWS)
    points = np.where(left, -5, 5)[:, None] + DRAWS[:, :2]
    for mode, place in ((left, -5), (~left, 5)):
        whitening = np.linalg.inv(np.linalg.cholesky(np.cov(points[mode], rowvar=False)))
        points[mode] = (points[mode] - points[mode].mean(axis=0)) @ whitening.T + place
    return points.astype(np.float32)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_good(scale):
    found = verdict(lambda x: normal_log_density(x / scale), scale * DRAWS)
    assert found.level == "good", str(found)
    assert found.remedies == []
    assert "mode that no particle found" in str(found)
    assert 200 < found.metrics["draws"] < 1500, "500 independent draws are worth about 500"


FAULTS = {
    "collapsed": (normal_log_density, 0.3 * DRAWS, "bad", "collapsed", "more particles"),
    "narrow": (normal_log_density, 0.85 * DRAWS, "doubtful", "too little spread", "more particles"),
    "wide": (normal_log_density, 1.3 * DRAWS, "doubtful", "too wide", "more steps"),
    "far too wide": (normal_log_density, 3 * DRAWS, "bad", "too wide", "more steps"),
    "far": (normal_log_density, 0.1 * DRAWS + 30, "bad", "sds off", "more steps"),
    "off": (normal_log_density, DRAWS + 0.3, "doubtful", "0.28 sds off", "more steps"),
    "few": (normal_log_density, DRAWS[:12], "bad", "12 particles say little about the spread", "at least 20"),
    "heavy tails": (student, 1.25 * DRAWS, "doubtful", "tails are heavy", "result.check()"),
    "weights of modes": (two_modes, on_two_modes(0.6), "bad", "about 80% of the mass", "Annealed"),
    "an outlier": (
        student,
        np.r_[DRAWS, [[40.0, 0, 0, 0]]].astype(np.float32),
        "doubtful",
        "1 of 501 particles lie more than 7 sds",
        "closer",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults(name):
    log_density, points, level, reason, remedy = FAULTS[name]
    found = verdict(log_density, points)
    assert any(reason in line for line in found.reasons), str(found)
    assert any(remedy in line for line in found.remedies), str(found)
    assert found.level == level, str(found)


@pytest.mark.parametrize(
    ("log_density", "points"),
    [(two_modes, 0.3 * DRAWS[:, :2]), (student, 40 + 10 * DRAWS[:, :1])],
    ids=["between two modes", "far out in a tail"],
)
def test_scores_that_push_apart_are_not_too_little_spread(log_density, points):
    """Between modes, and where a tail falls ever more slowly, log p is convex: the dispersion is negative."""
    found = verdict(log_density, points)
    assert found.metrics["dispersion_min"] < -0.1
    assert found.level == "bad"
    assert any("push the particles apart" in reason for reason in found.reasons), str(found)
    assert not any("spread (" in reason or "collapsed" in reason for reason in found.reasons), str(found)


def test_negative_in_some_coordinates_is_no_collapse():
    """Narrow in three coordinates, between two modes in the fourth."""

    def log_density(x):
        return normal_log_density(x[:3]) + two_modes(x[3:])

    found = verdict(log_density, 0.3 * DRAWS)
    assert found.metrics["dispersion"] < 0.5
    assert found.metrics["dispersion_min"] < -0.1
    assert found.level == "bad"
    assert any("in some coordinates the scores push" in reason for reason in found.reasons), str(found)
    assert not any("collapsed" in reason for reason in found.reasons), str(found)


def test_modes_with_the_right_weights():
    assert verdict(two_modes, on_two_modes(0.2)).level == "good"


def test_fewer_particles_than_dimensions():
    found = verdict(normal_log_density, RNG.standard_normal((50, 100)).astype(np.float32))
    assert any("not all correlations" in reason for reason in found.reasons)
    assert found.level != "good"


@pytest.mark.parametrize(("num_particles", "collapsed"), [(3, False), (20, True)])
def test_fewer_particles_than_dimensions_may_have_less_spread(num_particles, collapsed):
    """They cannot follow all correlations: a dispersion of 0.4 is no collapse then."""
    points = RNG.standard_normal((num_particles, 4)).astype(np.float32)
    points = np.sqrt(0.4) * (points - points.mean(axis=0)) / points.std(axis=0)
    found = judge(jnp.asarray(points), jnp.asarray(-points), jnp.zeros(num_particles))
    assert any("collapsed" in reason for reason in found.reasons) == collapsed, str(found)


def test_one_particle():
    found = verdict(normal_log_density, DRAWS[:1])
    assert found.level == "doubtful"
    assert "point estimate" in found.reasons[0]


def test_weights_count():
    """Draws of a wide normal, weighted to the target, are as good as draws of it."""
    points = 1.5 * DRAWS[:, :2]
    weights = np.exp(-0.5 * np.sum(points**2 - points**2 / 1.5**2, axis=1))
    found = verdict(normal_log_density, points, weights=jnp.asarray(weights / weights.sum()))
    assert found.level == "good", str(found)
    assert verdict(normal_log_density, points).level == "bad"


def test_rising_spread_asks_for_steps():
    history = {"dispersion": np.linspace(0.1, 0.4, 20)}
    assert "not spread out yet" in str(verdict(normal_log_density, 0.3 * DRAWS, history=history))


def test_noise_of_minibatches_hides_the_mean():
    """The score of a minibatch is off for all particles alike: where it is noisy, that says nothing about the mean."""

    def judged(offset, **noise):
        return judge(jnp.asarray(DRAWS), jnp.asarray(-DRAWS + offset), jnp.zeros(500), **noise)

    assert judged(20).level == "bad"
    assert judged(20, batch_noise=0.05, score_noise=20.0).level == "good"
    assert judged(20, batch_noise=0.001, score_noise=0.01).level == "bad", "scores that are hardly noisy are believed"
    found, less = (judged(0.3, batch_noise=0.001, score_noise=noise).metrics["mean_error"] for noise in (0.0, 0.09))
    np.testing.assert_allclose(less, np.sqrt(found**2 - 0.09**2), err_msg="less what noise feigns")
    noisy = judged(20, batch_noise=0.4, score_noise=20.0, num_steps=1000)
    assert (noisy.level, "uncertain by about 0.4 sds" in noisy.reasons[0]) == ("doubtful", True)
    assert "15,000 more steps would bring that below 0.1" in noisy.reasons[0]


def test_overflow():
    found = judge(jnp.full((50, 2), 1e30), jnp.full((50, 2), 1e30), jnp.zeros(50))
    assert found.level == "bad"
    assert "overflow" in str(found)


@pytest.mark.parametrize("num_outliers", [1, 3])
def test_outliers_are_counted_among_all_particles(num_outliers):
    """An even sample of 1,024 of 3,000 particles would see every third."""
    points = RNG.standard_normal((3000, 1)).astype(np.float32)
    points[100 : 100 + num_outliers] = 40.0
    found = judge(jnp.asarray(points), jnp.asarray(-points), jnp.zeros(3000))
    assert any(f"{num_outliers} of 3000 particles lie more than 7 sds" in reason for reason in found.reasons), str(
        found
    )


def test_outliers_of_no_weight_do_not_count():
    points = np.r_[DRAWS, np.full((1, 4), 40, np.float32)]
    weights = np.r_[np.full(500, 1 / 500), 0]
    found = judge(jnp.asarray(points), jnp.asarray(-points), jnp.zeros(501), weights=jnp.asarray(weights))
    assert found.level == "good", str(found)


def test_of_runs(good_run, collapsed_run):
    """The default is believed, the paper's kernel in 30 dimensions is not; both say so in their summary."""
    assert good_run.verdict.level == "good"
    np.testing.assert_allclose(good_run.mean(), 0, atol=0.05)
    np.testing.assert_allclose(good_run.sd() ** 2, 1, atol=0.1)
    assert "verdict: good" in str(good_run.summary())
    assert collapsed_run.verdict.level == "bad"
    assert collapsed_run.outcome is Outcome.STEP_LIMIT, "collapsed is a finding, not how a run ends"
    assert np.max(collapsed_run.sd() ** 2) < 0.6
    assert "verdict: bad: the particles have collapsed" in str(collapsed_run.summary())


def test_of_minibatches(good_run):
    """What `fit` says about the noise of minibatches comes to the verdict."""
    assert "batch_noise" not in good_run.info
    noisy = dataclasses.replace(good_run, info={**good_run.info, "batch_noise": 0.7})
    assert "minibatches leave the mean uncertain by about 0.7 sds" in str(noisy.verdict)


def test_non_finite():
    values = jnp.zeros(500).at[:1].set(jnp.nan)
    found = judge(jnp.asarray(DRAWS), jnp.asarray(-DRAWS), values)
    assert found.reasons == ["the log density or its score is not finite at 1 of 500 particles"]
    assert judge(jnp.asarray(DRAWS), jnp.asarray(-DRAWS), jnp.full(500, jnp.nan)).level == "good", "scores alone"


RIGHT = {
    "mixing": 1.02,
    "modes": 1,
    "labels_switch": 0.0,
    "drift": 0.0,
    "blocked": 0.0,
    "lost": 0.0,
    "mean_error": 0.01,
    "sd_error": 0.01,
    "tail": 0.4,
    "tail_of": 1,
    "dispersion": 1.0,
    "dispersion_min": 0.95,
    "dispersion_min_error": 0.02,
    "dispersion_max": 1.05,
    "dispersion_max_error": 0.02,
}


def test_of_particles_that_explored():
    """Their way knows more than they: mean and spread are judged by it."""
    assert verdict(normal_log_density, DRAWS, trajectory=RIGHT).level == "good"
    chance = {**RIGHT, "dispersion_min": 0.3, "dispersion_min_error": 0.3}
    assert verdict(normal_log_density, DRAWS, trajectory=chance).level == "good"
    # By themselves these particles would be called collapsed, and these two groups of unequal mass.
    assert verdict(normal_log_density, 0.3 * DRAWS, trajectory=RIGHT).level == "good"
    groups = DRAWS + 20 * (np.arange(500) < 150)[:, None]
    assert verdict(normal_log_density, groups).level == "bad"
    assert verdict(normal_log_density, groups, trajectory=RIGHT).level == "good"


@pytest.mark.parametrize(
    ("findings", "level", "reason"),
    [
        ({"mixing": 1.22}, "doubtful", "the exploring particles disagree (R-hat 1.2)"),
        ({"mixing": 1.3}, "bad", "R-hat 1.3"),
        ({"modes": 3}, "doubtful", "the particles found 3 modes"),
        ({"modes": 2, "labels_switch": 1.0}, "doubtful", "labels switched"),
        ({"drift": 0.3}, "doubtful", "still moving: a mean moved by 0.3 sds"),
        ({"drift": 0.7}, "bad", "still moving"),
        ({"lost": 0.2}, "doubtful", "20% of the particles stayed in a region without mass"),
        ({"lost": 0.6}, "bad", "are not counted"),
        ({"blocked": 0.1, "mean_error": 1.0, "dispersion_min": 0.1}, "doubtful", "10.0% of the moves led beyond it"),
        ({"mean_error": 0.2}, "doubtful", "0.2 sds off"),
        ({"mean_error": 2.0}, "bad", "2 sds off"),
        ({"sd_error": 0.08}, "doubtful", "only to about 8%"),
        ({"tail": 0.8}, "doubtful", "number 1 of a particle has a tail so long"),
        ({"dispersion_min": 0.6}, "doubtful", "too little spread"),
        ({"dispersion": 0.2, "dispersion_min": 0.1}, "bad", "collapsed"),
    ],
)
def test_of_particles_that_explored_in_vain(findings, level, reason):
    found = verdict(normal_log_density, DRAWS, trajectory=RIGHT | findings)
    assert found.level == level
    assert reason in str(found)
