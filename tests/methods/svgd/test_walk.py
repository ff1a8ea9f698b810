import jax
import jax.numpy as jnp
import numpy as np
import pytest
from walks import walked

from steinflow.methods.svgd.metrics import Frame
from steinflow.methods.svgd.walk import suited

RNG = np.random.default_rng()


def some_covariance(dim):
    rows = RNG.standard_normal((3 * dim, dim)) * RNG.uniform(0.3, 3.0, dim)
    return rows.T @ rows / len(rows)


def some_frame(dim):
    factor = np.linalg.cholesky(some_covariance(dim))
    return Frame(*(jnp.asarray(part) for part in (RNG.standard_normal(dim), factor, np.linalg.inv(factor))))


def matrices(num_particles, dim):
    """A covariance of condition 10^4 and a cloud ten times too wide, with fewer particles than dimensions or more."""
    axes = np.linalg.qr(RNG.standard_normal((dim, dim)))[0]
    root = axes * np.logspace(-1, 1, dim)
    return root @ root.T, 10 * RNG.standard_normal((num_particles, dim)) @ root.T


@pytest.mark.parametrize("num_particles", [20, 60])
def test_on_a_gaussian_the_metric_of_the_walk_is_its_covariance(num_particles):
    """But for a factor, and not to within chance: scores are linear in positions, of which there are enough."""
    covariance, start = matrices(num_particles, 30)
    precision = jnp.asarray(np.linalg.inv(covariance), jnp.float32)
    _, walk = walked(lambda x: -x @ precision, jnp.asarray(start, jnp.float32), 500, warming=True)
    factor = np.asarray(walk.frame.factor, float)
    ratios = np.linalg.eigvals(np.linalg.solve(covariance, factor @ factor.T)).real
    np.testing.assert_allclose(ratios, np.median(ratios), rtol=0.05)  # positions alone: a third
    np.testing.assert_allclose(np.mean(ratios), 1.0, rtol=0.2)
    np.testing.assert_allclose(walk.frame.inverse @ walk.frame.factor, np.eye(30), atol=1e-3)
    assert np.all(np.abs(np.triu(factor, 1)) < 1e-6 * np.abs(factor).max())


def test_positions_and_scores_vary_alike_in_suited_coordinates(x64):
    frame, spread, steepness = some_frame(6), some_covariance(6), some_covariance(6)
    alike, steep, found = suited(frame, jnp.asarray(spread), jnp.asarray(steepness))
    change = np.asarray(frame.inverse @ found.factor)  # of new coordinates to old ones
    np.testing.assert_allclose(change @ alike @ change.T, spread, atol=1e-10)
    np.testing.assert_allclose(change.T @ steepness @ change, steep, atol=1e-10)
    ratio = np.trace(steep) / np.trace(alike)
    np.testing.assert_allclose(steep, ratio * alike, atol=1e-8)
    np.testing.assert_allclose(np.mean(np.diag(alike)), 1.0)
    np.testing.assert_allclose(found.factor @ found.inverse, np.eye(6), atol=1e-10)
    np.testing.assert_allclose(np.triu(found.factor, 1), 0.0, atol=1e-10)
    assert np.all(np.diag(found.factor) > 0)


def test_of_variances_those_of_positions_become_one(x64):
    spread, steepness, scale = (RNG.uniform(0.1, 10.0, 5) for _ in range(3))
    frame = Frame(jnp.zeros(5), jnp.asarray(scale), jnp.asarray(1 / scale))
    ones, steep, found = suited(frame, jnp.asarray(spread), jnp.asarray(steepness))
    np.testing.assert_array_equal(ones, 1.0)
    np.testing.assert_allclose(steep, steepness * spread)
    np.testing.assert_allclose(found.factor, scale * np.sqrt(spread))
    np.testing.assert_allclose(found.factor * found.inverse, 1.0)


@pytest.mark.parametrize("spread", [np.diag([1.0, -1.0]), np.full((2, 2), np.nan), np.array([1.0, np.inf])])
def test_coordinates_stay_where_no_better_are_known(spread):
    one = jnp.eye(2) if spread.ndim == 2 else jnp.ones(2)
    frame = Frame(jnp.zeros(2), one, one)
    found = suited(frame, jnp.asarray(spread, jnp.float32), one)
    assert jax.tree.all(jax.tree.map(np.array_equal, found[2], frame))


def test_a_few_huge_scores_do_not_say_how_steep_it_is():
    """One particle of a hundred in a narrow neck, where scores are ten thousand times as long."""
    start = jnp.asarray(RNG.standard_normal((100, 3)), jnp.float32)

    def score(x):
        return jnp.where(jnp.arange(100)[:, None] == 0, -1e4 * x, -x)

    _, walk = walked(score, start, 100, warming=True)
    sds = np.linalg.norm(walk.frame.factor, axis=1)
    assert np.all((sds > 0.7) & (sds < 1.4))
