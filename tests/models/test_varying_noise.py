"""Noise that depends on the row: densities and moments beside SciPy's, units, and models that learn it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import steinflow as sf
from steinflow.models.varying_noise import location_and_log_scale

RNG = np.random.default_rng(0)
OUTPUTS = RNG.normal(size=(6, 2))
FAMILIES = {
    "normal": (sf.models.VaryingGaussian(), stats.norm(OUTPUTS[:, 0], np.exp(OUTPUTS[:, 1]))),
    "Student t": (sf.models.VaryingStudentT(5.0), stats.t(5.0, OUTPUTS[:, 0], np.exp(OUTPUTS[:, 1]))),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_density_and_moments_are_scipys(name, x64):
    family, expected = FAMILIES[name]
    y = RNG.normal(size=6)

    @jax.jit
    def found(outputs, encoded, y, key):
        draws = jax.vmap(lambda key: family.sample(key, outputs, None))(jax.random.split(key, 20_000))
        density, forecasts = family.log_density(outputs, encoded, None), family.forecasts(outputs, y, None)
        return density, family.mean(outputs), family.variance(outputs, None), forecasts, draws

    density, mean, variance, forecasts, draws = found(OUTPUTS, family.encode(y), y, jax.random.key(0))
    np.testing.assert_allclose(density, expected.logpdf(y), rtol=1e-10)
    np.testing.assert_allclose(mean, expected.mean())
    np.testing.assert_allclose(variance, expected.var(), rtol=1e-10)
    np.testing.assert_allclose(forecasts[:, 0], expected.cdf(y), rtol=1e-8)
    ranks = expected.cdf(np.asarray(draws))
    np.testing.assert_allclose(ranks.mean(axis=0), 0.5, atol=0.01)
    np.testing.assert_allclose(ranks.std(axis=0), 1 / np.sqrt(12), rtol=0.02)


@pytest.mark.parametrize("name", FAMILIES)
def test_other_units_shift_and_scale_the_distribution(name, x64):
    family, _ = FAMILIES[name]
    outputs, y = jnp.asarray(OUTPUTS), jnp.asarray(RNG.normal(size=6))
    in_units = family.in_units(outputs, jnp.asarray(3.0), jnp.asarray(2.0))
    found = family.log_density(in_units, 3 + 2 * y, None)
    np.testing.assert_allclose(found, family.log_density(outputs, y, None) - np.log(2), rtol=1e-10)


def test_who_climbs_does_not_explain_errors_away_by_noise():
    """The gradient of the location is that of rows with weights e^f2, relative to their mean; not through them."""
    family, y = sf.models.VaryingGaussian(), RNG.normal(size=6)
    found = jax.grad(lambda outputs: jnp.sum(family.climbed_log_density(outputs, jnp.asarray(y), None)))(OUTPUTS)
    scale, z = np.exp(OUTPUTS[:, 1]), (y - OUTPUTS[:, 0]) / np.exp(OUTPUTS[:, 1])
    weights = scale / scale.mean()
    np.testing.assert_allclose(found, np.column_stack([weights * z / scale, weights * (z**2 - 1)]), rtol=1e-4)


def test_absurd_log_scales_are_bounded():
    location, log_scale = location_and_log_scale(np.array([[0.0, 1e9], [1.0, -1e9]]))
    np.testing.assert_array_equal(location, [0, 1])
    assert np.all(np.abs(log_scale) < 10)
    with pytest.raises(ValueError, match="more than 2"):
        sf.models.VaryingStudentT(2.0)


@pytest.mark.slow
def test_a_linear_model_of_mean_and_noise():
    """Against the maximum of the likelihood, whose errors are those of Fisher's information: X'WX for both parts."""
    x = RNG.normal(size=400)
    sd = np.exp(-1 + 0.5 * x)
    y = 2 * x + sd * RNG.normal(size=400)
    model = sf.models.GeneralizedLinear(x[:, None], y, sf.models.VaryingGaussian())
    result = sf.fit(model, num_steps=500, key=0, progress=False)
    mean, log_scale = np.moveaxis(np.asarray(result.particles["w"]), -1, 0)
    X1 = np.column_stack([x, np.ones(400)])
    errors = [np.sqrt(np.diag(np.linalg.inv(X1.T @ (X1 * weights[:, None])))) for weights in (sd**-2, 2 + 0 * sd)]
    for found, truth, error in zip((mean, log_scale), ([2, 0], [0.5, -1]), errors, strict=True):
        np.testing.assert_array_less(np.abs(found.mean(axis=0) - truth), 4 * error)
        np.testing.assert_allclose(found.std(axis=0), error, rtol=0.3)
    parts = sf.models.uncertainty(model, result.particles, [[0.0], [2.0]])
    np.testing.assert_allclose(parts.aleatoric, np.exp([-1, 0]), rtol=0.2)
    np.testing.assert_allclose(parts.total**2, parts.epistemic**2 + parts.aleatoric**2, rtol=1e-4)
