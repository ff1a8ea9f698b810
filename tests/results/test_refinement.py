"""What can be done with an answer afterwards: weights, thinning, a check by NUTS."""

import jax
import jax.numpy as jnp
import naive
import numpy as np
import pytest
import scipy
from known_results import result_at
from scenarios import normal_log_density

import steinflow as sf
from steinflow.methods.svgd.metrics import Cloud
from steinflow.results.refinement import stein_thinning, stein_weights
from steinflow.stein.bandwidths import Wide
from steinflow.stein.kernels import IMQ, Linear

RNG = np.random.default_rng(0)
DRAWS = RNG.standard_normal((200, 2)).astype(np.float32)


def test_weights_bring_mean_and_variance_back():
    """Particles that are too wide and off: weights give them the mean and the variance of the target."""
    result = result_at(1.5 * DRAWS + 0.3, normal_log_density)
    better = result.reweighted()
    assert result.weights is None
    np.testing.assert_allclose(jnp.sum(better.weights), 1, rtol=1e-5)
    assert jnp.all(better.weights >= 0)
    assert better.ksd < 0.3 * result.ksd
    np.testing.assert_allclose(better.mean(), 0, atol=0.05)
    np.testing.assert_allclose(better.sd() ** 2, 1, atol=0.1)
    assert np.max(np.abs(result.mean())) > 0.2
    assert np.min(result.sd() ** 2) > 1.8
    assert (result.verdict.level, better.verdict.level) == ("bad", "good")


def test_weights_are_the_minimum():
    """The conditions of Karush, Kuhn and Tucker, the answer of a general solver, and no dependence on units."""
    points = jnp.asarray(1.3 * DRAWS[:20] + 0.5)
    weights = stein_weights(points, -points)
    matrix = objective_matrix(points, -points)
    gradient = matrix @ weights
    used = weights > 1e-6
    assert 3 < np.sum(used) < 20, "some of the conditions are about weights of zero"
    np.testing.assert_allclose(gradient[used], weights @ gradient, rtol=1e-3)
    assert np.all(gradient[~used] > weights @ gradient * (1 - 1e-3))
    solved = scipy.optimize.minimize(
        lambda w: w @ matrix @ w,
        np.full(20, 1 / 20),
        jac=lambda w: 2 * matrix @ w,
        bounds=[(0, 1)] * 20,
        constraints={"type": "eq", "fun": lambda w: np.sum(w) - 1},
        method="SLSQP",
        options={"ftol": 1e-12},
    )
    np.testing.assert_allclose(weights, solved.x, atol=1e-3)
    scale, shift = 7.0, 3.0
    np.testing.assert_allclose(stein_weights(scale * points + shift, -points / scale), weights, atol=2e-3)


@jax.jit
def stein_kernel_of_the_cloud(points, scores):
    """By autodiff at every pair, in the coordinates of the cloud."""
    frame = Cloud().frame(points)
    u, t = frame.points(points), frame.scores(scores)
    return naive.stein_kernel(u, t, (IMQ(Wide()) + Linear()).adapt(u))


def objective_matrix(points, scores):
    """The Stein kernel, plus the term for even weights."""
    stein_kernel = np.asarray(stein_kernel_of_the_cloud(points, scores), float)
    return stein_kernel / np.mean(np.diagonal(stein_kernel)) + 0.01 * np.eye(len(points))


def test_weights_of_too_many():
    points = jnp.zeros((5001, 1))
    with pytest.raises(ValueError, match=r"at most 5000.*thinned"):
        stein_weights(points, points)


def test_thinning():
    """Fifty that were chosen are better than fifty at random, and have the moments of the target."""
    points = {"x": jnp.asarray(DRAWS), "y": 1 + jax.random.normal(jax.random.key(0), (200,))}
    result = result_at(points, lambda p: normal_log_density(p["x"]) - 0.5 * (p["y"] - 1) ** 2)
    thinned = result.thinned(50)
    assert len(thinned) == 50
    assert thinned.particles["x"].shape == (50, 2)
    assert thinned.ksd < np.mean([result._at(RNG.choice(200, 50, replace=False)).ksd for _ in range(5)])
    points = jnp.asarray(DRAWS)
    chosen = stein_thinning(points, -points, 60)
    np.testing.assert_allclose(points[chosen].mean(axis=0), 0, atol=0.05)
    np.testing.assert_allclose(points[chosen].var(axis=0), 1, atol=0.12)
    with pytest.raises(ValueError, match="between 1 and the 200"):
        result.thinned(201)


def test_first_point_of_thinning_is_the_best_alone():
    points = jnp.asarray(DRAWS[:30])
    chosen = stein_thinning(points, -points, 1)
    assert np.linalg.norm(points[chosen[0]]) <= np.sort(np.linalg.norm(points, axis=1))[3]


@pytest.mark.parametrize(("scale", "shift", "passed"), [(1.0, 0.0, True), (0.5, 0.0, False), (1.0, 0.6, False)])
def test_check(scale, shift, passed):
    points = scale * DRAWS + shift
    check = result_at(points, normal_log_density).check(key=1)
    assert check.passed == passed, str(check)
    assert str(check).startswith("passed" if passed else "failed")
    np.testing.assert_allclose(check.mean_drift, -points.mean(axis=0), atol=0.07)
    np.testing.assert_allclose(check.sd_ratio, scale * DRAWS.std(axis=0), atol=0.1)
    moved = np.asarray(check.moved.particles)
    np.testing.assert_allclose(moved.mean(axis=0), 0, atol=0.2)
    np.testing.assert_allclose(moved.var(axis=0), 1, atol=0.3)
    np.testing.assert_allclose(check.moved.scores, -moved, atol=1e-5)


@pytest.mark.slow
def test_check_of_constrained_and_loaded(tmp_path):
    """Drift is that of unconstrained coordinates; a result from disk needs its target."""
    target = sf.Density(lambda p: -p["rate"] + 2 * jnp.log(p["rate"]), constraints=sf.constraints.positive)
    quantiles = scipy.stats.gamma(3).ppf((np.arange(60) + 0.5) / 60)
    result = result_at({"rate": jnp.asarray(quantiles, jnp.float32)}, target)
    loaded = sf.load(result.save(tmp_path / "run.nc"))
    with pytest.raises(ValueError, match="does not hold its target"):
        loaded.check()
    check = loaded.check(10, target=target)
    assert check.moved.particles["rate"].shape == (60,)
    assert jnp.all(check.moved.particles["rate"] > 0)
    assert check.passed, str(check)
    with pytest.raises(ValueError, match="at least 2 moves"):
        loaded.check(1, target=target)
