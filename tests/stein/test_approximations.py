"""Random estimates of the Stein direction: right on average, with an error that falls as m^(-1/2)."""

import equinox as eqx
import jax
import jax.numpy as jnp
import naive
import numpy as np
import pytest
from compiled import stein_direction
from scenarios import gaussian

import steinflow as sf
from steinflow.stein import approximations
from steinflow.stein.approximations import RandomFeatures, Subsample

DRAWS = 1000


@pytest.fixture(scope="module")
def cloud():
    keys = jax.random.split(jax.random.key(0))
    particles = jax.random.normal(keys[0], (150, 3)) * jnp.array([0.5, 1.0, 2.0]) + 1.0
    return particles, 0.7 - particles + 0.3 * jax.random.normal(keys[1], particles.shape)


@eqx.filter_jit
def errors_of_draws(approximations, cloud, kernel):
    """The errors of many draws of each approximation, in one compilation."""
    exact, keys = sf.stein_direction(*cloud, kernel), jax.random.split(jax.random.key(1), DRAWS)
    return [jax.vmap(lambda key, a=a: a.direction(*cloud, kernel, key=key))(keys) - exact for a in approximations]


@eqx.filter_jit
def drawn(approximation, particles, scores, kernel, key):
    return approximation.direction(particles, scores, kernel, key=key)


def rms(values):
    return float(np.sqrt(np.mean(np.asarray(values) ** 2)))


@pytest.mark.parametrize(
    ("kind", "kernel"),
    [
        (Subsample, sf.kernels.RBF()),
        pytest.param(Subsample, sf.kernels.IMQ(), marks=pytest.mark.slow),
        pytest.param(Subsample, sf.SVGD(approximation=Subsample(2)).kernel, marks=pytest.mark.slow),
        pytest.param(RandomFeatures, sf.kernels.RBF(), marks=pytest.mark.slow),
        (RandomFeatures, sf.kernels.IMQ()),
        pytest.param(RandomFeatures, sf.SVGD(approximation=RandomFeatures(2)).kernel, marks=pytest.mark.slow),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_unbiased_and_error_falls(kind, kernel, cloud):
    errors = {}
    for m, differences in zip((8, 32), errors_of_draws([kind(8), kind(32)], cloud, kernel), strict=True):
        errors[m] = rms(differences)
        # The mean over draws is off by a few of its standard errors, no more: errors of all particles go together.
        assert rms(np.mean(differences, axis=0)) < 2.5 * errors[m] / np.sqrt(DRAWS)
    expected = 2.0
    if kind is Subsample:  # drawn without replacement: the error is zero for m = n
        expected *= np.sqrt((1 - 8 / 150) / (1 - 32 / 150))
    assert errors[8] / errors[32] == pytest.approx(expected, rel=0.08)


def test_features_match_their_definition(cloud):
    """One draw against a kernel that is the mean of cosines at the same frequencies, by autodiff."""
    particles, scores = cloud
    key, rbf = jax.random.key(2), sf.kernels.RBF(bandwidth=3.0)
    frequencies = rbf.frequencies(particles, 5, key=key)

    def kernel(x, y):
        return jnp.mean(jnp.cos(frequencies @ (x - y)))

    direction = drawn(RandomFeatures(10), particles, scores, rbf, key)
    np.testing.assert_allclose(direction, stein_direction(particles, scores, kernel), rtol=1e-4, atol=1e-5)


def test_blocks_of_features_match_their_definition(dtype):
    """More rows than a block holds, against the sum over all particles in NumPy, in both precisions."""
    particles = jax.random.normal(jax.random.key(0), (approximations._BLOCK_ROWS + 52, 2), dtype)
    key, rbf = jax.random.key(1), sf.kernels.RBF(bandwidth=2.0)
    direction = drawn(RandomFeatures(16), particles, -particles, rbf, key)
    assert direction.dtype == dtype

    rows = [0, 1, 1000, 1050, 1100, -2, -1]  # of both blocks
    x, w = np.asarray(particles, float), np.asarray(rbf.frequencies(particles, 8, key=key), float)
    angles = (x[None] - x[rows, None]) @ w.T
    attraction = np.einsum("ijl,jd->id", np.cos(angles), -x)
    repulsion = np.einsum("ijl,ld->id", -np.sin(angles), w)
    expected = (attraction + repulsion) / (len(x) * len(w))
    naive.assert_equal_to_rounding(np.asarray(direction)[rows], expected, dtype)


def test_terms_without_pairs_stay_exact(cloud):
    """The linear kernel, and the mean score of a centred one, whatever the subset."""
    particles, scores = cloud
    linear = drawn(Subsample(2), particles, scores, sf.kernels.Linear(), jax.random.key(0))
    np.testing.assert_array_equal(linear, stein_direction(particles, scores, sf.kernels.Linear()))
    kernel = sf.kernels.Centered(sf.kernels.IMQ())
    centred = drawn(Subsample(2), particles, scores, kernel, jax.random.key(0))
    np.testing.assert_allclose(np.mean(centred, axis=0), np.mean(scores, axis=0), atol=1e-6)
    assert rms(centred - stein_direction(particles, scores, kernel)) > 1e-3


def test_subsample_of_all_is_exact(cloud):
    for m in (150, 1000):
        direction = drawn(Subsample(m), *cloud, sf.kernels.IMQ(), jax.random.key(0))
        np.testing.assert_array_equal(direction, stein_direction(*cloud, sf.kernels.IMQ()))


MEAN, SD = np.array([1.0, -2.0]), np.array([0.5, 2.0])


def fit(approximation):
    start = jax.random.normal(jax.random.key(0), (200, 2))
    method = sf.SVGD(approximation=approximation)
    return sf.fit(gaussian(MEAN, np.diag(SD**2)), method, particles=start, num_steps=400, progress=False)


@pytest.fixture(scope="module")
def exact():
    return fit(None)


@pytest.mark.parametrize(
    "approximation",
    [Subsample(100), pytest.param(RandomFeatures(128), marks=pytest.mark.slow)],
    ids=["subsample", "features"],
)
def test_posterior_keeps_mean_and_spread(approximation, exact):
    """What is saved in time must not be paid for in spread: the dispersion of the particles stays what it was."""
    result = fit(approximation)
    np.testing.assert_allclose(result.mean(), MEAN, atol=0.2 * SD.min())
    np.testing.assert_allclose(result.sd(), exact.sd(), rtol=0.1)
    np.testing.assert_allclose(result.dispersion, exact.dispersion, atol=0.15)


def test_settings_are_checked(cloud):
    with pytest.raises(ValueError, match="at least one particle; got 0"):
        Subsample(0)
    with pytest.raises(ValueError, match="even number of features"):
        RandomFeatures(7)
    for kernel, name in [(lambda x, y: x @ y, "Function"), (sf.SVGD().kernel, "Multiquadric")]:
        with pytest.raises(
            TypeError,
            match=rf"as sf\.kernels\.RBF and sf\.kernels\.IMQ do; {name} does not.*Use sf\.svgd\.Subsample\(m\)",
        ):
            RandomFeatures(8).direction(*cloud, kernel, key=jax.random.key(0))
