import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from walks import walked

import steinflow as sf
from steinflow.methods.svgd.exploration import Microcanonical, _turned, _unit
from steinflow.methods.svgd.metrics import Cloud
from steinflow.methods.svgd.walk import Walk

EFFECTS = jnp.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = jnp.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def eight_schools(x):
    """Not centred: far out in tau the density stays high while its volume vanishes."""
    mean, log_tau, schools = x[0], x[1], x[2:]
    residuals = (EFFECTS - mean - jnp.exp(log_tau) * schools) / ERRORS
    prior = -0.5 * (mean / 5) ** 2 - jnp.log1p(jnp.exp(2 * log_tau) / 25) + log_tau - 0.5 * jnp.sum(schools**2)
    return prior - 0.5 * jnp.sum(residuals**2)


@pytest.mark.slow
def test_turns_are_those_of_blackjax():
    integrators = pytest.importorskip("blackjax.mcmc.integrators")
    keys = jax.random.split(jax.random.key(0), 3)
    directions = _unit(jax.random.normal(keys[0], (50, 5)))
    scores = jax.random.normal(keys[1], (50, 5)) * jnp.exp(3 * jax.random.normal(keys[2], (50, 1)))
    update = jax.vmap(integrators.esh_dynamics_momentum_update_one_step(), in_axes=(0, 0, None, None))
    with jax.numpy_dtype_promotion("standard"):
        expected, _, energy = update(directions, scores, 0.7, 0.5)
    turned, gained = _turned(directions, scores, jnp.zeros((50, 0)), jnp.asarray(0.7))
    np.testing.assert_allclose(turned, expected, atol=1e-6)
    np.testing.assert_allclose(gained, energy, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dim", [1, pytest.param(2, marks=pytest.mark.slow), 5])
def test_moves_keep_a_gaussian(dim):
    """Also where there are fewer dimensions than a direction needs to turn."""
    start = jax.random.normal(jax.random.key(0), (4000, dim))
    points, walk = walked(lambda x: -x, start, 100)
    np.testing.assert_allclose(np.mean(points, axis=0), 0.0, atol=0.06)
    np.testing.assert_allclose(np.std(points, axis=0), 1.0, rtol=0.05)
    assert np.mean(np.sum(points * start, axis=1)) < 0.3 * dim  # and forget where they were
    assert 0.2 < walk.state.shared_size < 3
    np.testing.assert_array_equal(walk.state.own_sizes, 1.0)  # a Gaussian is as curved everywhere


def test_no_score_throws_a_particle_far():
    """However steep the target, a move is no longer than its step."""
    start = jax.random.normal(jax.random.key(0), (100, 4))
    _, walk = walked(lambda x: -1e12 * x, start, 1)
    moves = walk.ahead(Microcanonical(), start, key=jax.random.key(2)) - start
    lengths = np.linalg.norm(moves @ walk.frame.inverse.T, axis=1)
    np.testing.assert_allclose(lengths, walk.state.sizes[:, 0], rtol=1e-3)


def test_who_cannot_go_on_turns_round():
    """Beyond |x| = 2 the score is not finite: particles stay inside, and the rest moves on."""

    def score(x):
        return jnp.where(jnp.abs(x) < 2, -x, jnp.nan)

    start = jax.random.uniform(jax.random.key(0), (500, 1), minval=-1.9, maxval=1.9)
    points, walk = walked(score, start, 200)
    assert np.all(np.abs(points) < 2)
    assert np.all(np.isfinite(walk.scores))
    # A normal cut off at 2 has an sd of 0.88.
    np.testing.assert_allclose(np.std(points), 0.88, rtol=0.08)


def test_nobody_is_at_an_edge_too_seldom():
    """Uniform between two edges: who turns round counts there as long as its way to the edge and back would take."""

    def score(x):
        return jnp.where(jnp.abs(x) < 1, 0.0, jnp.nan)

    start = jax.random.uniform(jax.random.key(0), (20_000, 1), minval=-1.0, maxval=1.0)
    points, walk = walked(score, start, 100)
    times = walk.durations(Microcanonical())
    np.testing.assert_allclose(np.sum(times * points[:, 0] ** 2) / np.sum(times), 1 / 3, rtol=0.02)


def test_steps_are_shorter_where_the_target_is_much_more_curved():
    """Half of the particles are in a narrow part, a hundred times more curved: its width wants a tenth of the step."""
    narrow = jnp.arange(200)[:, None] < 100
    start = jnp.where(narrow, 0.1, 1.0) * jax.random.normal(jax.random.key(0), (200, 4))
    _, walk = walked(lambda x: -x * jnp.where(narrow, 100.0, 1.0).astype(x.dtype), start, 50)
    sizes = np.asarray(walk.state.sizes)[:, 0]
    # Typical is a curvature of 10: steps are shorter by sqrt(4 * 10 / 100) in the one part, and no longer in the other.
    np.testing.assert_allclose(sizes[:100].mean() / sizes[100:], 0.4**0.5, rtol=0.03)
    np.testing.assert_array_equal(walk.durations(Microcanonical()), sizes)


@pytest.mark.slow
def test_what_a_particle_sees_counts_as_long_as_it_stays():
    """A density with a narrow peak, 30 times as curved as its surroundings, from which steps are shorter: by time."""

    def log_density(x):
        return jnp.logaddexp(-0.5 * jnp.sum(x**2), jnp.log(0.5) + 3 * jnp.log(6.0) - 18 * jnp.sum(x**2))

    def inside(x):
        return (jnp.sum(x**2, axis=1) < 0.25).astype(x.dtype)

    exploration, score = Microcanonical(), jax.jit(jax.vmap(jax.grad(log_density)))
    points = jax.random.normal(jax.random.key(0), (2000, 3))
    points = jnp.where(jnp.arange(2000)[:, None] % 3 == 0, points / 6, points)  # its mass is a third
    walk = Walk.start(exploration, points, Cloud(), num_steps=1000, key=jax.random.key(1))
    walk = walk.begun(Cloud().frame(points))

    def step(carry, k):
        x, walk = carry
        keys = jax.random.split(jax.random.fold_in(jax.random.key(2), k))
        ahead = jnp.where(k == 0, x, walk.ahead(exploration, x, key=keys[0]))
        warming, both = jnp.asarray(False), (keys[0], keys[1])
        x, walk = walk.step(exploration, x, ahead, score(ahead), warming=warming, keys=both)
        time = walk.durations(exploration)
        return (x, walk), (jnp.mean(inside(x)), jnp.sum(time * inside(x)) / jnp.sum(time))

    _, (shares, by_time) = jax.jit(lambda: jax.lax.scan(step, (points, walk), jnp.arange(400)))()
    draws = jax.random.normal(jax.random.key(3), (100_000, 3))
    truth = 2 / 3 * np.mean(inside(draws)) + 1 / 3 * np.mean(inside(draws / 6))
    assert abs(np.mean(by_time[200:]) / truth - 1) < 0.04
    assert np.mean(shares[200:]) > 1.1 * truth  # steps alone see it more often than it is there


@pytest.mark.slow
@pytest.mark.parametrize("num_steps", [1000, 3000])
def test_the_tail_of_eight_schools(num_steps):
    """One particle decides much of the sd of tau; the trajectory knows it. 40,000 draws of NUTS: 0.79 and 1.187."""
    start = jax.random.normal(jax.random.key(0), (100, 10)).at[:3, 1].set(7.0)  # three with tau = 1,100
    for key in range(3):
        result = sf.fit(eight_schools, particles=start, num_steps=num_steps, key=key, progress=False)
        log_tau = np.asarray(result.particles[:, 1], float)
        assert abs(log_tau.mean() - 0.79) < 0.05 * 1.187
        assert abs(log_tau.std() / 1.187 - 1) < 0.08
        assert log_tau.max() < 4


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [None, 500])
def test_a_start_hundreds_of_sds_wide(batch_size):
    """Linear regression from prior draws: 20,000 rows with little noise leave a ridge in (weights, noise)."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20_000, 4)).astype(np.float32)
    y = X @ [0.4, 0.3, 0.2, 0.1] + 0.05 * rng.standard_normal(len(X))
    model = sf.models.LinearRegression(X, y, batch_size=batch_size, standardize=False)
    result = sf.fit(model, num_particles=100, num_steps=1000, key=0, progress=False)
    weights, log_gamma = np.asarray(result.particles["w"]), np.asarray(result.particles["log_gamma"])
    H = np.column_stack([X, np.ones(len(X))])
    exact, residuals, *_ = np.linalg.lstsq(H, y, rcond=None)
    sd = np.sqrt(residuals / len(X) * np.diag(np.linalg.inv(H.T @ H)))
    assert np.all(np.abs(weights.mean(axis=0) - exact) < (0.05 if batch_size is None else 1.0) * sd)
    assert np.all(np.abs(weights.std(axis=0) / sd - 1) < 0.05)
    assert abs(log_gamma.std() / np.sqrt(2 / len(X)) - 1) < 0.15


def test_one_particle_climbs_without_noise():
    start = jnp.array([[3.0]])
    first, second = (
        sf.fit(lambda x: -jnp.sum(x**2), particles=start, num_steps=50, key=key, progress=False).particles
        for key in (0, 1)
    )
    np.testing.assert_array_equal(first, second)


@pytest.mark.slow
def test_scales_that_all_else_depends_on():
    """100 rows on 150 features: the precisions of weights and noise by quadrature, the weights being integrated out.

    With four times the error of energy, that of the noise was 0.15 sds too small on average over these keys.
    """
    rng = np.random.default_rng(3)
    X = rng.standard_normal((100, 150))
    y = X[:, :5] @ [3.0, -2.0, 1.5, 1.0, 1.0] + rng.standard_normal(100)
    model = sf.models.LinearRegression(X, y, intercept=False)
    X, y = (np.asarray(model.data.values[name], float) for name in ("X", "y"))
    variances, axes = np.linalg.eigh(X @ X.T)
    squares = (axes.T @ y) ** 2
    log_alpha, log_gamma = np.meshgrid(np.linspace(2, 8, 121), np.linspace(0, 6, 121), indexing="ij")
    total = np.exp(-log_alpha)[..., None] * variances + np.exp(-log_gamma)[..., None]
    log_density = -0.5 * np.sum(np.log(total) + squares / total, axis=-1)
    log_density += log_alpha - 0.01 * np.exp(log_alpha) + log_gamma - 0.1 * np.exp(log_gamma)
    weights = np.exp(log_density - log_density.max())

    runs = [sf.fit(model, num_particles=100, num_steps=1000, key=key, progress=False) for key in range(3)]
    for name, grid in (("log_alpha", log_alpha), ("log_gamma", log_gamma)):
        mean = np.average(grid, weights=weights)
        sd = np.sqrt(np.average((grid - mean) ** 2, weights=weights))
        found = np.stack([np.asarray(run.particles[name], float) for run in runs])
        assert abs(found.mean() - mean) < 0.1 * sd
        np.testing.assert_allclose(found.std(axis=1).mean(), sd, rtol=0.08)


def test_an_unstable_step_is_not_made():
    """Across a valley a thousand times narrower than the step: who made it would be far out, and stay there."""
    exploration = sf.svgd.Microcanonical()
    state = exploration.init(jnp.zeros((2, 4)), num_steps=100, key=jax.random.key(0))
    state = dataclasses.replace(state, directions=jnp.eye(4)[jnp.array([0, 1])], shared_size=jnp.asarray(1.0))
    precision = jnp.asarray([1e6, 1.0, 1.0, 1.0])
    start, possible = 1e-3 * jnp.eye(4)[jnp.array([0, 1])], jnp.ones((2, 1), bool)
    moves = exploration.moves(-precision * start, state, key=jax.random.key(1))
    there = start + moves
    after, made = exploration.step(
        moves,
        -precision * start,
        -precision * there,
        possible,
        state,
        warming=jnp.asarray(False),
        key=jax.random.key(1),
    )
    np.testing.assert_array_equal(made[:, 0], [False, True])
    np.testing.assert_array_equal(after.turned[:, 0], [True, False])
    assert after.directions[0, 0] < -0.9
