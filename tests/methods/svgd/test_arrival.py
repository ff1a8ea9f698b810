import jax
import jax.numpy as jnp
import numpy as np
import pytest

import steinflow as sf
from steinflow.methods.svgd.arrival import Footing, astray, has_arrived, homes, shortened


@pytest.mark.parametrize("shared", [0.0, 100.0])
def test_scores_are_shortened_to_ten_radii_of_the_cloud(shared):
    """Around their median: what all have in common stays."""
    own = jax.random.normal(jax.random.key(0), (99, 4)) * jnp.logspace(-2, 4, 99)[:, None]
    own -= jnp.median(own, axis=0)
    lengths, before = (np.linalg.norm(rows, axis=1) for rows in (shortened(own + shared) - shared, own))
    np.testing.assert_allclose(lengths, np.minimum(before, 20.0), rtol=1e-2)


def test_a_cloud_has_arrived_where_mean_and_spread_are_about_right():
    u = jax.random.normal(jax.random.key(0), (200, 5))
    u = (u - u.mean(axis=0)) / u.std(axis=0)
    assert bool(has_arrived(u, -u))
    for scores in (
        -(u + 0.5),  # half an sd off
        -0.5 * u,  # too narrow
        -2.0 * u,  # too wide
        (-u).at[:, 0].set(0.0),  # a direction in which nothing holds the particles
        (-u).at[0].set(1000.0),  # somebody is far off
    ):
        assert not bool(has_arrived(u, scores))


def test_few_particles_have_arrived_whatever_the_correlations():
    """Twenty in a hundred dimensions know no correlation; these make their scores ten times as long."""
    rng, dim = np.random.default_rng(3), 100
    covariance = 0.99 ** np.abs(np.subtract.outer(np.arange(dim), np.arange(dim)))
    x = rng.standard_normal((20, dim)) @ np.linalg.cholesky(covariance).T
    sds = x.std(axis=0)
    u, scores = (x - x.mean(axis=0)) / sds, -np.linalg.solve(covariance, x.T).T * sds

    def arrived(u, scores):
        return bool(has_arrived(jnp.asarray(u, jnp.float32), jnp.asarray(scores, jnp.float32)))

    assert np.sqrt(np.mean(scores**2)) > 5
    assert arrived(u, scores)
    assert not arrived(u, 4 * scores)  # twice as wide as the target
    assert not arrived(u, scores + np.sqrt(np.mean(scores**2)))  # beside it
    lost = np.where(np.arange(20)[:, None] == 0, 1000 * scores, scores)
    assert not arrived(u, lost)


def test_who_is_lost_takes_the_position_of_one_at_home():
    log_densities = jnp.array([-1.0, -2.0, -500.0, -3.0, -900.0, 0.0])
    home = np.asarray(homes(astray(log_densities, 3)))
    assert set(home[[2, 4]]) <= {0, 1, 3, 5}
    np.testing.assert_array_equal(home[[0, 1, 3, 5]], [0, 1, 3, 5])


@pytest.mark.parametrize(
    "log_densities",
    [
        jnp.full(5, jnp.nan),  # a target that knows only its scores
        jnp.array([0.0, -10.0, -20.0, -25.0]),  # a mode ten times as wide in each of ten dimensions is at -23
    ],
)
def test_nobody_else_moves(log_densities):
    np.testing.assert_array_equal(homes(astray(log_densities, 10)), np.arange(len(log_densities)))


@pytest.mark.parametrize("key", [0, *(pytest.param(key, marks=pytest.mark.slow) for key in (1, 2))])
def test_a_regression_on_unscaled_data_from_stans_start(key):
    """Years that are not centred, a free noise scale: condition 10^11 at the mode."""
    rng = np.random.default_rng(0)
    years = np.arange(1952, 2014, dtype=np.float32)
    y = (9.3 + 0.02 * (years - 1983) + 1.1 * rng.standard_normal(len(years))).astype(np.float32)

    def log_density(params):
        residuals = (y - params["intercept"] - params["slope"] * years) / params["sigma"]
        return -0.5 * jnp.sum(residuals**2) - len(years) * jnp.log(params["sigma"])

    target = sf.Density(log_density, constraints={"intercept": None, "slope": None, "sigma": sf.constraints.positive})
    start = jax.random.uniform(jax.random.key(key), (100, 3), minval=-2.0, maxval=2.0)
    particles = {"intercept": start[:, 0], "slope": start[:, 1], "sigma": jnp.exp(start[:, 2])}
    result = sf.fit(target, particles=particles, key=key, progress=False)

    design = np.column_stack([np.ones(len(years)), years.astype(float)])
    exact, squares, *_ = np.linalg.lstsq(design, y.astype(float), rcond=None)
    # With flat priors the coefficients are Student t with n - 3 degrees of freedom.
    sds = np.sqrt(squares / (len(years) - 5) * np.diag(np.linalg.inv(design.T @ design)))
    for name, mean, sd in zip(("intercept", "slope"), exact, sds, strict=True):
        values = np.asarray(result.particles[name], float)
        assert abs(values.mean() - mean) < 0.1 * sd
        assert abs(values.std() / sd - 1) < 0.1
    assert result.verdict.level == "good"


def test_particles_that_arrive_at_a_mode_without_mass_come_home():
    """A mode at 30 whose mass is e^-60 of the other's."""

    def log_density(x):
        other = -0.5 * jnp.sum((x - 30.0) ** 2) - 60.0
        return jnp.logaddexp(-0.5 * jnp.sum(x**2), other)

    start = jnp.where(jnp.arange(100)[:, None] < 40, 30.0, 0.0) + jax.random.normal(jax.random.key(0), (100, 2))
    result = sf.fit(log_density, particles=start, num_steps=500, key=0, progress=False)
    np.testing.assert_allclose(result.mean(), 0.0, atol=0.1)
    np.testing.assert_allclose(result.sd(), 1.0, rtol=0.1)


@pytest.mark.parametrize("key", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_density_that_ends_at_an_edge(key):
    """Uniform between two edges, exponential beyond a third: no slope says where they are."""

    def log_density(x):
        inside = (jnp.abs(x[0]) < 1) & (x[1] > 0)
        return jnp.where(inside, -x[1], -jnp.inf)

    start = jnp.abs(jax.random.normal(jax.random.key(100 + key), (100, 2)))  # a third of them is outside
    result = sf.fit(log_density, particles=start, key=key, progress=False)
    np.testing.assert_allclose(result.mean(), [0.0, 1.0], atol=0.1)
    np.testing.assert_allclose(result.sd()[0], 3**-0.5, rtol=0.03)
    np.testing.assert_allclose(result.sd()[1], 1.0, rtol=0.1)
    assert np.all(np.isfinite(result.log_densities))  # nobody settles outside
    assert result.verdict.level == "doubtful"
    assert "ends at an edge" in str(result.verdict)
    assert "constraints=" in str(result.verdict)


@pytest.mark.slow
@pytest.mark.parametrize("key", range(3))
@pytest.mark.parametrize("shape", ["half of a Gaussian", "simplex"])
def test_other_edges(shape, key):
    """A Gaussian of positive numbers, whose scores inside are those of the whole; a simplex, with a slanting edge."""
    if shape == "simplex":
        mean, sd = 1 / 4, (3 / 80) ** 0.5
        start = jax.random.dirichlet(jax.random.key(100 + key), jnp.ones(4), (100,))[:, :3]
    else:
        mean, sd = (2 / np.pi) ** 0.5, (1 - 2 / np.pi) ** 0.5
        start = jnp.abs(jax.random.normal(jax.random.key(100 + key), (100, 5)))

    def log_density(x):
        inside = jnp.all(x > 0) & ((shape != "simplex") | (jnp.sum(x) < 1))
        return jnp.where(inside, 0.0 if shape == "simplex" else -0.5 * (x @ x), -jnp.inf)

    result = sf.fit(log_density, particles=start, key=key, num_steps=1000, progress=False)
    np.testing.assert_allclose(result.mean(), mean, atol=0.1 * sd)
    np.testing.assert_allclose(result.sd(), sd, rtol=0.06)
    assert result.verdict.level == "doubtful"


def test_who_steps_off_comes_back_and_who_was_never_there_comes_closer():
    start, unknown = jnp.zeros((3, 2)), jnp.full((3, 2), jnp.nan)
    footing = Footing.unknown(start).after(start + 1, unknown.at[:2].set(5.0), jnp.array([-1.0, -2.0, -jnp.inf]))
    footing = footing.after(start + 2, unknown.at[0].set(6.0), jnp.array([-3.0, -jnp.inf, -jnp.inf]))
    np.testing.assert_array_equal(footing.particles[:, 0], [2.0, 1.0, 2.0])
    footing = footing.after(start + jnp.array([[2.0], [1.0], [6.0]]), unknown, jnp.full(3, -jnp.inf))
    np.testing.assert_array_equal(footing.particles[:, 0], [2.0, 1.0, 4.0])
    nowhere = Footing.unknown(start).after(start + 1, unknown, jnp.full(3, -jnp.inf))
    np.testing.assert_array_equal(nowhere.particles, start + 1)
    np.testing.assert_array_equal(footing.scores[:, 0], [6.0, 5.0, np.nan])
    np.testing.assert_array_equal(footing.log_densities, [-3.0, -2.0, np.nan])


def test_who_never_found_the_target_goes_to_where_others_are():
    found = homes(astray(jnp.array([-1.0, jnp.nan, -2.0, -1e3]), 2))
    np.testing.assert_array_equal(found[jnp.array([0, 2])], [0, 2])
    assert set(np.asarray(found)[[1, 3]]) <= {0, 2}
    np.testing.assert_array_equal(homes(astray(jnp.full(4, jnp.nan), 2)), np.arange(4))  # only scores are known
