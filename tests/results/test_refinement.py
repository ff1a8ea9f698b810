"""What can be done with an answer afterwards: weights, thinning, a check by NUTS."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scenarios import normal_log_density

import steinflow as sf
from steinflow.results.refinement import stein_thinning, stein_weights
from steinflow.stein import operators

RNG = np.random.default_rng(0)
DRAWS = RNG.standard_normal((200, 2)).astype(np.float32)


def result_at(points, log_density=normal_log_density):
    """A result whose particles stand here: that of a method that does not move."""
    return sf.fit(log_density, sf.SVGD.paper(1e-9), particles=points, num_steps=1, progress=False)


def objective(weights, points):
    scores = -points
    return float(operators.ksd_squared(points, scores, sf.IMQ(), weights=jnp.asarray(weights, jnp.float32)))


def test_weights_bring_mean_and_variance_back():
    """Particles that are too wide and off: weights give them the mean and the variance of the target."""
    result = result_at(1.5 * DRAWS + 0.3)
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
    """No move towards another point of the simplex makes it smaller."""
    points = jnp.asarray(1.3 * DRAWS[:20] + 0.5)
    weights = stein_weights(points, -points)
    uniform = np.full(20, 1 / 20)
    assert objective(weights, points) < objective(uniform, points)
    scale, shift = 7.0, 3.0  # and they do not depend on units
    np.testing.assert_allclose(stein_weights(scale * points + shift, -points / scale), weights, atol=2e-3)


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
    check = result_at(points).checked(key=1)
    assert check.passed == passed, str(check)
    assert str(check).startswith("passed" if passed else "failed")
    np.testing.assert_allclose(check.mean_drift, -points.mean(axis=0), atol=0.07)
    np.testing.assert_allclose(check.sd_ratio, scale * DRAWS.std(axis=0), atol=0.1)
    moved = np.asarray(check.moved.particles)
    np.testing.assert_allclose(moved.mean(axis=0), 0, atol=0.2)
    np.testing.assert_allclose(moved.var(axis=0), 1, atol=0.3)
    np.testing.assert_allclose(check.moved.scores, -moved, atol=1e-5)


def test_check_of_constrained_and_loaded(tmp_path):
    """Drift is that of unconstrained coordinates; a result from disk needs its target."""
    target = sf.Density(lambda p: -p["rate"] + 2 * jnp.log(p["rate"]), constraints=sf.constraints.positive)
    start = {"rate": jnp.exp(jax.random.normal(jax.random.key(0), (60,)))}
    result = sf.fit(target, particles=start, num_steps=300, progress=False)
    loaded = sf.load(result.save(tmp_path / "run.nc"))
    with pytest.raises(ValueError, match="does not hold its target"):
        loaded.checked()
    check = loaded.checked(10, target=target)
    assert check.moved.particles["rate"].shape == (60,)
    assert jnp.all(check.moved.particles["rate"] > 0)
    assert check.passed, str(check)
    with pytest.raises(ValueError, match="at least 2 moves"):
        loaded.checked(1, target=target)
