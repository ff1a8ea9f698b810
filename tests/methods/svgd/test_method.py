import german
import jax
import jax.numpy as jnp
import naive
import numpy as np
import optax
import pytest
import scenarios
from scenarios import normal_log_density

import steinflow as sf

X0 = 2 + np.random.default_rng(0).normal(size=(8, 2)).astype(np.float32)


def numpy_algorithm_1(x, num_steps, step_size):
    """Algorithm 1 with the median bandwidth and AdaGrad on a standard normal, in double precision."""
    x, total = x.astype(float), np.zeros(x.shape)
    for _ in range(num_steps):
        h = naive.median_distance(x) ** 2 / np.log(len(x))
        phi, _u = naive.radial_loops(x, -x, lambda t: np.exp(-t), lambda t: -np.exp(-t), lambda t: np.exp(-t), h)
        total += phi**2
        x = x + step_size * phi / np.sqrt(total)
    return x


def test_paper_is_algorithm_1(dtype):
    result = sf.fit(
        normal_log_density, sf.SVGD.paper(0.2), particles=jnp.asarray(X0, dtype), num_steps=10, progress=False
    )
    assert result.particles.dtype == dtype
    np.testing.assert_allclose(result.particles, numpy_algorithm_1(X0, 10, 0.2), rtol=2e-4, atol=2e-4)


def test_one_plain_step_is_x_plus_epsilon_phi():
    result = sf.fit(
        normal_log_density,
        sf.SVGD(kernel=sf.kernels.RBF(), metric=sf.svgd.Euclidean(), optimizer=optax.sgd(0.3)),
        particles=X0,
        num_steps=1,
        progress=False,
    )
    expected = X0 + 0.3 * np.asarray(sf.stein_direction(jnp.asarray(X0), -jnp.asarray(X0), sf.kernels.RBF()))
    np.testing.assert_allclose(result.particles, expected, rtol=1e-5)


def test_kernels_are_accepted_by_fit():
    for kernel in [sf.kernels.IMQ() + 0.1 * sf.kernels.Linear(), lambda x, y: jnp.exp(-jnp.sum((x - y) ** 2))]:
        method = sf.SVGD(kernel=kernel, metric=sf.svgd.Euclidean(), optimizer=sf.svgd.adagrad(0.3))
        result = sf.fit(normal_log_density, method, particles=X0, num_steps=100, progress=False)
        assert np.abs(np.mean(result.particles, axis=0)).max() < 0.5


def test_coinciding_particles_move_as_one():
    """All equal: gradient ascent, and they stay together."""
    x0 = np.full((10, 3), 0.7, np.float32)
    result = sf.fit(normal_log_density, sf.SVGD.paper(0.1), particles=x0, num_steps=20, progress=False)
    alone = sf.fit(normal_log_density, sf.SVGD.paper(0.1), particles=x0[:1], num_steps=20, progress=False)
    np.testing.assert_allclose(result.particles, np.tile(alone.particles, (10, 1)), atol=1e-4)


@pytest.mark.parametrize(
    "method",
    [sf.SVGD(optimizer=optax.adam(0.1)), sf.SVGD(kernel=sf.kernels.RBF()), sf.SVGD.paper(), sf.SVGD.for_networks()],
)
def test_no_noise_that_nobody_asked_for(method):
    """Whoever chooses a part gets it without random moves: the key changes nothing."""
    first, second = (
        sf.fit(normal_log_density, method, particles=X0, num_steps=20, key=key, progress=False).particles
        for key in (0, 1)
    )
    np.testing.assert_array_equal(first, second)


def test_exploration_can_be_chosen_and_left_out():
    start = np.concatenate([X0, X0 + 0.1, X0 - 0.1])  # enough particles to explore
    chosen = sf.svgd.Microcanonical()
    default, again, without = (
        sf.fit(normal_log_density, method, particles=start, num_steps=500, key=1, progress=False).particles
        for method in (sf.SVGD(), sf.SVGD(exploration=chosen), sf.SVGD(exploration=None))
    )
    np.testing.assert_array_equal(default, again)
    assert np.any(np.abs(default - without) > 1e-3)
    assert sf.SVGD(kernel=sf.kernels.RBF(), exploration=chosen).exploration is chosen


def test_a_run_ends_when_it_knows_enough():
    """As much as 10,000 draws would tell; a run that is interrupted before settles with what it has."""
    start = 3 + np.random.default_rng(0).standard_normal((100, 2)).astype(np.float32)
    result = sf.fit(normal_log_density, particles=start, progress=False)
    assert result.outcome is sf.Outcome.SETTLED
    steps, taken = result.info["steps"], result.info["num_steps"]
    assert 0 < steps["remembered"] < steps["explored"] < taken
    assert result.info["gradients"] == 100 * taken
    assert f"{steps['remembered']} remembered; {100 * taken:,} gradients" in str(result.summary())
    assert "further steps would add nothing" in result.ending.message
    assert 150 <= result.info["num_steps"] < 400
    assert result.info["trajectory"]["mean_error"] < 0.01
    np.testing.assert_allclose(result.mean(), 0.0, atol=0.02)
    np.testing.assert_allclose(result.sd(), 1.0, rtol=0.02)

    stopped = sf.fit(
        normal_log_density, particles=start, stop=lambda history: history["step"][-1] >= 140, progress=False
    )
    assert stopped.outcome is sf.Outcome.STOPPED
    np.testing.assert_allclose(stopped.mean(), 0.0, atol=0.1)
    np.testing.assert_allclose(stopped.sd(), 1.0, rtol=0.1)


def test_what_the_steps_have_seen_is_what_a_look_would_find():
    """Watching takes no scores of its own; a run that records something does, in the same places."""
    start = 3 + np.random.default_rng(0).standard_normal((20, 3)).astype(np.float32)
    settings = {"particles": start, "num_steps": 100, "record_every": 10, "progress": False}
    seen = sf.fit(normal_log_density, **settings).history
    looked = sf.fit(normal_log_density, record={"first": lambda x: x[0]}, **settings).history
    assert list(seen["step"]) == list(looked["step"])
    assert len(seen["step"]) == 10
    for name in ("ksd", "dispersion", "dispersion_error", "mean_error", "finite"):
        np.testing.assert_allclose(seen[name], looked[name], rtol=1e-4, atol=1e-5, err_msg=name)


def moments(particles, mean, sd):
    """Error of the mean in sds, root mean square, and the smallest and largest ratio of the sds."""
    ratio = np.std(particles, axis=0) / sd
    return np.sqrt(np.mean(((np.mean(particles, axis=0) - mean) / sd) ** 2)), ratio.min(), ratio.max()


def rotated(dim, condition, scale=1.0, distance=0.0):
    """A Gaussian with variances spread evenly on a log scale, its mean and its sds."""
    rng = np.random.default_rng(0)
    sds = scale * np.logspace(0, -0.5 * np.log10(condition), dim)
    rotation = np.linalg.qr(rng.standard_normal((dim, dim)))[0]
    mean, covariance = distance * scale * rng.standard_normal(dim), (rotation * sds**2) @ rotation.T
    return scenarios.gaussian(mean, covariance), mean, np.sqrt(np.diag(covariance))


@pytest.mark.parametrize(
    ("dim", "condition", "scale", "distance", "start_scale"),
    [
        pytest.param(20, 1e3, 1.0, 0.0, 1.0, marks=pytest.mark.slow),
        pytest.param(100, 1e4, 1.0, 0.0, 1.0, marks=pytest.mark.slow),
        pytest.param(20, 1e2, 1e-3, 0.0, 1.0, marks=pytest.mark.slow),  # a cloud a thousand times too wide
        pytest.param(20, 1e2, 1e3, 3.0, 1.0, marks=pytest.mark.slow),  # and a thousand times too narrow
        pytest.param(20, 1e2, 1.0, 1e3, 1e-3, marks=pytest.mark.slow),  # far away and narrow
    ],
)
def test_gaussians_of_any_scale_and_condition(dim, condition, scale, distance, start_scale):
    target, mean, sd = rotated(dim, condition, scale, distance)
    start = (start_scale * np.random.default_rng(1).standard_normal((100, dim))).astype(np.float32)
    error, low, high = moments(sf.fit(target, particles=start, progress=False).particles, mean, sd)
    assert error < 0.05
    assert low > 0.95
    assert high < 1.05


@pytest.mark.parametrize(("num_particles", "dim"), [(20, 40), pytest.param(50, 45, marks=pytest.mark.slow)])
def test_gaussians_are_exact_with_few_particles(num_particles, dim):
    """Fewer than dimensions, or hardly more: some directions of the cloud have no spread, or next to none."""
    target, mean, sd = rotated(dim, 1e2)
    for key in range(3):
        start = np.random.default_rng(key).standard_normal((num_particles, dim)).astype(np.float32)
        result = sf.fit(target, particles=start, key=key, progress=False)
        error, low, high = moments(result.particles, mean, sd)
        assert result.verdict.level == "good"
        assert error < 0.005
        assert 0.99 < low < high < 1.01


@pytest.mark.slow
def test_short_runs_explore():
    """The flow alone leaves sds of up to 1.16 times the truth after as many steps."""
    for key in range(3):
        result = sf.fit(german.model(), num_particles=100, num_steps=200, key=key, progress=False)
        error, ratio = german.errors(result)
        assert result.info["steps"]["remembered"] > 0
        assert np.sqrt(np.mean(error**2)) < 0.02
        assert 0.97 < ratio.min() < ratio.max() < 1.03


@pytest.mark.slow
def test_short_runs_that_do_not_arrive_soon_flow_to_the_end():
    """Far away and narrow: half of the run is not enough to arrive, but all of it is."""
    target, mean, sd = rotated(10, 1e2, distance=300.0)
    start = (1e-3 * np.random.default_rng(1).standard_normal((100, 10))).astype(np.float32)
    result = sf.fit(target, particles=start, num_steps=200, progress=False)
    error, low, high = moments(result.particles, mean, sd)
    assert "trajectory" not in result.info
    assert result.verdict.level == "good"
    assert error < 0.01
    assert 0.97 < low < high < 1.03


@pytest.mark.slow
def test_minibatches_move_the_cloud_and_keep_its_shape():
    rng = np.random.default_rng(0)
    features = rng.standard_normal((10_000, 5))
    labels = np.where(rng.random(10_000) < 1 / (1 + np.exp(-features @ rng.standard_normal(5))), 1.0, -1.0)
    data = {"x": jnp.asarray(features), "y": jnp.asarray(labels)}

    def log_likelihood(weights, rows):
        return jax.nn.log_sigmoid(rows["y"] * (rows["x"] @ weights))

    def posterior(batch_size):
        return sf.Posterior(
            lambda w: -0.5 * w @ w, log_likelihood, data, batch_size, prior=lambda key: jax.random.normal(key, (5,))
        )

    whole = sf.fit(posterior(None), progress=False)
    parts = sf.fit(posterior(100), num_steps=3000, progress=False)
    error, low, high = moments(parts.particles, whole.mean(), whole.sd())
    assert error < 0.5  # 3000 batches hold 30 times the data; their noise alone is 0.2 sd
    assert low > 0.85
    assert high < 1.15


@pytest.mark.slow
def test_affine_equivariance():
    """Whatever the units of the parameters, the same particles come out in those units."""
    start = np.random.default_rng(1).standard_normal((50, 3))
    units = np.array([[1e-3, 0.0, 0.0], [2.0, 40.0, 0.0], [0.0, 3.0, 1e3]])

    def log_density(x):
        return -jnp.sum(jnp.log1p(x**2)) - 0.1 * (x[0] - x[1] ** 2) ** 2 - 0.01 * x @ x

    inverse, flow = np.linalg.inv(units), sf.SVGD(exploration=None)
    with jax.enable_x64(True):
        plain = sf.fit(log_density, flow, particles=start, num_steps=100, progress=False)
        scaled = sf.fit(
            lambda y: log_density(inverse @ y), flow, particles=start @ units.T, num_steps=100, progress=False
        )
        # Up to the shrinkage of the correlations, which is (d / 10n)^2 = 4e-5 here.
        np.testing.assert_allclose(np.asarray(scaled.particles) @ inverse.T, plain.particles, atol=0.02)
