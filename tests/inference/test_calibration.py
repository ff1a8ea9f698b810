"""Simulation-based calibration from end to end."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import steinflow as sf

METHOD = sf.SVGD(exploration=None)


def posterior(y, prior_sd=1.0):
    """A normal mean with unit noise."""
    return sf.Posterior(
        lambda mean: -0.5 * (mean / prior_sd) ** 2,
        lambda mean, rows: -0.5 * (rows - mean) ** 2,
        y,
        prior=jax.random.normal,
    )


def simulate(mean, key):
    return mean + jax.random.normal(key, (3,))


def test_a_posterior_with_its_simulator_is_calibrated():
    found = sf.calibrate(
        posterior(jnp.zeros(3)),
        METHOD,
        simulate=simulate,
        number=100,
        num_particles=50,
        num_steps=200,
        progress=False,
    )
    assert found.passed
    np.testing.assert_allclose(found.contractions, 0.75, atol=0.1)
    np.testing.assert_allclose(found.z_scores.std(), 1, atol=0.25)
    assert set(found.posteriors.levels) <= {"good", "doubtful"}


@pytest.mark.slow
def test_a_wrong_prior_is_found():
    found = sf.calibrate(
        lambda y: posterior(y, prior_sd=0.3),
        prior=jax.random.normal,
        simulate=simulate,
        number=200,
        progress=False,
    )
    assert found.failing == ["x"]
    assert "too narrow" in found.verdict


@pytest.mark.slow
@pytest.mark.parametrize("sign", [1, -1])
def test_a_numpyro_model_needs_nothing_else(standard_promotion, sign):
    import numpyro
    import numpyro.distributions as dist

    def model(X, y=None):
        w = numpyro.sample("w", dist.Normal(0, 1).expand([2]).to_event(1))
        intercept = numpyro.sample("intercept", dist.Normal(0, 1))
        with numpyro.plate("rows", len(X)):
            numpyro.sample("y", dist.Poisson(jnp.exp(0.5 * X @ w + intercept)), obs=y)

    X = jax.random.normal(jax.random.key(0), (30, 2))
    target = sf.from_numpyro(model, X, y=jnp.zeros(30, int))
    if sign == 1:
        found = sf.calibrate(target, number=200, progress=False)
        assert found.passed
        assert found.names == ["intercept", "w[0]", "w[1]"]
    else:
        broken = sf.from_numpyro(model, -X, y=jnp.zeros(30, int))
        found = sf.calibrate(
            broken.given, prior=target.sample_prior, simulate=target.simulate, number=100, progress=False
        )
        assert {"w[0]", "w[1]"} <= set(found.failing)


def test_where_nothing_can_be_simulated():
    with pytest.raises(ValueError, match="simulate its data"):
        sf.calibrate(posterior(jnp.zeros(3)), METHOD, number=20)
    with pytest.raises(ValueError, match="pass prior="):
        sf.calibrate(posterior)
    with pytest.raises(ValueError, match="at least 20"):
        sf.calibrate(posterior, number=3)
    with pytest.raises(ValueError, match="cannot take other data"):
        sf.calibrate(sf.Density(lambda x: -(x**2), prior=jax.random.normal), simulate=simulate)


@pytest.mark.slow
def test_the_collapsed_spread_of_svgd_as_published_is_found():
    dim = 20
    target = sf.Posterior(
        lambda x: -0.5 * jnp.sum(x**2),
        lambda x, rows: -0.5 * jnp.sum((rows - x) ** 2, axis=1),
        jnp.zeros((1, dim)),
        prior=lambda key: jax.random.normal(key, (dim,)),
    )
    found = sf.calibrate(
        target,
        sf.SVGD.paper(),
        simulate=lambda x, key: (x + jax.random.normal(key, (dim,)))[None],
        number=100,
        num_particles=20,
        num_steps=500,
        progress=False,
    )
    assert len(found.failing) > dim / 2
    assert "too narrow" in found.verdict
    assert "inference fails" in found.verdict
