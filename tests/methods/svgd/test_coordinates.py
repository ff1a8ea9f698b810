import jax
import jax.numpy as jnp
import numpy as np
import pytest
from walks import walked

from steinflow.methods.svgd.coordinates import Fixed, LowRank, Whole, spanned, suited
from steinflow.methods.svgd.frames import Frame, frame_of
from steinflow.methods.svgd.metrics import Cloud, Euclidean

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


@pytest.mark.parametrize("spread", [np.diag([1.0, -1.0]), np.full((2, 2), np.nan)])
def test_coordinates_stay_where_no_better_are_known(spread):
    one = jnp.eye(2)
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


def chain_of_neighbours(dim):
    """The covariance of a random walk of which every position is observed, its scales a thousandfold apart."""
    precision = 202.0 * np.eye(dim) - 100.0 * (np.eye(dim, k=1) + np.eye(dim, k=-1))
    scales = np.logspace(-1.5, 1.5, dim)
    return scales[:, None] * np.linalg.inv(precision) * scales, precision / scales[:, None] / scales


@pytest.fixture(scope="module")
def low_rank():
    dim, num_particles = 600, 50
    covariance, precision = chain_of_neighbours(dim)
    root = np.linalg.cholesky(covariance).astype(np.float32)
    states = (RNG.standard_normal((8, num_particles, dim)) @ root.T + 1.0).astype(np.float32)
    known = LowRank.unknown(states[0]).begun(frame_of(jnp.zeros(dim), jnp.asarray(np.var(states[0], axis=0))))

    @jax.jit
    def learned(known):
        slope = jnp.asarray(-precision, jnp.float32)
        known, _ = jax.lax.scan(lambda known, x: (known.after(x, (x - 1.0) @ slope), None), known, jnp.asarray(states))
        return spanned(known.frame, known.positions, known.slopes)

    return covariance, learned(known)


def test_coordinates_of_low_rank_are_coordinates(low_rank):
    covariance, frame = low_rank
    one = jnp.eye(len(frame.center))
    factor, inverse = np.asarray(frame.moves(one)).T, np.asarray(frame.points(frame.center + one)).T
    np.testing.assert_allclose(factor @ inverse, one, atol=1e-4)
    np.testing.assert_allclose(frame.scores(one), factor, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.sum(factor**2, axis=1), frame.variances, rtol=1e-3)
    assert np.all(np.abs(frame.center - 1.0) < 6 * np.sqrt(np.diag(covariance) / 400))


def test_a_few_hundred_states_know_the_directions_that_matter(low_rank):
    """Of a chain of correlated neighbours: scales alone leave a condition of about 280."""
    covariance, frame = low_rank
    sds = np.sqrt(np.diag(covariance))
    inverse = np.asarray(frame.points(frame.center + jnp.eye(len(sds)))).T
    scaled, stretched = covariance / sds[:, None] / sds, inverse @ covariance @ inverse.T
    condition, by_scales = (np.linalg.cond(each) for each in (stretched, scaled))
    assert by_scales > 200 > 60 > condition
    np.testing.assert_allclose(np.trace(stretched) / len(sds), 1.0, rtol=0.15)


def test_beyond_the_largest_matrix_coordinates_are_of_low_rank():
    particles = jnp.zeros((5, 20))
    assert isinstance(Cloud().coordinates(particles), Whole)
    assert isinstance(Cloud(max_dim=19).coordinates(particles), LowRank)
    assert isinstance(Euclidean().coordinates(particles), Fixed)
